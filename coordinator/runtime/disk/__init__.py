"""The shards' logs on a file system: the data directory, the files of each log, and the thread that writes them."""

from coordinator.runtime.disk.disk import ClusterDisk, Disk
from coordinator.runtime.disk.log_files import most_open_files

__all__ = ["ClusterDisk", "Disk", "most_open_files"]
