"""Known mistakes in what a node makes of a disk that fails."""

from typing import Any

from coordinator.core.cluster_node.node import ClusterNode
from coordinator.core.events import DiskFailed
from coordinator.runtime.disk.segment_files import SegmentFiles

Patches = list[tuple[Any, str, Any]]


def trusts_what_it_reads() -> Patches:
    """A start syncs the end of a log that it has read, which the kernel may take for written, and writes nothing."""

    def sync_again(log: SegmentFiles, tail: Any) -> None:
        descriptor = log._files.open(log._segment_path(tail.base_offset))
        log._files.sync(descriptor)
        log._files.close(descriptor)

    return [(SegmentFiles, "_write_again", sync_again)]


def outlives_its_disk() -> Patches:
    """A node whose disk has failed goes on, and syncs again what it was syncing."""
    rightly = ClusterNode._take
    return [(ClusterNode, "_take", lambda node, event: None if isinstance(event, DiskFailed) else rightly(node, event))]
