"""The shards' logs on a file system: the data directory, the files of each log, and the thread that writes them."""

from coordinator.runtime.disk.disk import ClusterDisk, Disk

__all__ = ["ClusterDisk", "Disk"]
