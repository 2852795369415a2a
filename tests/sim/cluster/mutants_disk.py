"""Known mistakes in what a node makes of its machine: of a disk that fails, and of a clock that is set."""

from typing import Any

from coordinator.core.cluster_node.node import ClusterNode
from coordinator.core.events import DiskFailed, Ticked
from coordinator.core.node import Node
from coordinator.runtime.disk.files import explained
from coordinator.runtime.disk.log_files import LogFiles
from coordinator.runtime.disk.segment_files import SegmentFiles

Patches = list[tuple[Any, str, Any]]


def trusts_what_it_reads() -> Patches:
    """A start syncs the end of a log that it has read, which the kernel may take for written, and writes nothing."""

    def sync_again(log: SegmentFiles, tail: Any) -> None:
        path = log._segment_path(tail.base_offset)
        with explained("sync the end of", path):
            descriptor = log._files.open(path)
            try:
                log._files.sync(descriptor)
            finally:
                log._files.close(descriptor)

    return [(SegmentFiles, "_write_again", sync_again)]


def missing_log_is_empty() -> Patches:
    """A log that is not there is one that was never made."""
    return [(LogFiles, "missing", lambda logs: frozenset())]


def outlives_its_disk() -> Patches:
    """A node whose disk has failed goes on, and syncs again what it was syncing."""
    rightly = ClusterNode._take
    return [(ClusterNode, "_take", lambda node, event: None if isinstance(event, DiskFailed) else rightly(node, event))]


def counts_the_time_of_day() -> Patches:
    """What members have not said for long is counted by the clock that somebody may set."""
    rightly = Node.step

    def step(node: Node, event: Any, now_ms: int) -> Any:
        return rightly(node, event, event.wall_ms - node._clock.wall_offset_ms if isinstance(event, Ticked) else now_ms)

    return [(Node, "step", step)]
