"""Standbys kept up with the replicas of a node: which effect of a replica begins, goes on with, or ends one.

A shard has a standby while it is followed, and keeps it while nobody leads it. One that is replaced by its leader's
snapshot begins anew with that. To lead ends the feed and leaves the standby to the load.
"""

from collections.abc import Callable

from coordinator.core import events
from coordinator.core.cluster_node.effects import ReadLog, ReadSnapshot
from coordinator.core.cluster_node.events import LogRead, SnapshotRead
from coordinator.core.cluster_node.standby.feeds import SHORT_PAUSE_MS, StandbyFeeds
from coordinator.core.effects import WakeAt
from coordinator.core.node import Node
from coordinator.core.replica import effects as wanted
from coordinator.core.replica.replicas import Replicas


class StandbyKeeping:
    """The standbys of a node; `coordinate` has its coordinator take in an event."""

    def __init__(
        self, coordinator: Node, replicas: Replicas, most_bytes: int, coordinate: Callable[[events.Event], None]
    ) -> None:
        self._coordinator = coordinator
        self._replicas = replicas
        self._coordinate = coordinate
        self._feeds = StandbyFeeds(coordinator.slice_bytes, most_bytes, lambda shard: replicas[shard].log)

    def note(self, effect: wanted.AskFetch | wanted.AppendBatches | wanted.TruncateLog | wanted.CommittedTo) -> None:
        """Take note of what a replica that follows wants done."""
        shard = effect.shard
        match effect:
            case wanted.AskFetch():
                end = self._coordinator.standbys.end(shard)
                self._feeds.begin(shard, effect.leader_epoch, self._replicas[shard].high_watermark, end)
            case wanted.AppendBatches():
                self._feeds.appended(shard, effect.batches)
            case wanted.TruncateLog():
                self._feeds.cut(shard, effect.end)
            case wanted.CommittedTo():
                self._feeds.committed_to(shard, effect.high_watermark)

    def lead(self, shard: int) -> None:
        """Feed a standby no more: its shard is led here, and loaded."""
        self._feeds.end(shard)

    def drop(self, shard: int) -> None:
        """Forget a standby: its log is being replaced, or is to go."""
        self._feeds.end(shard)
        self._coordinate(events.StandbyDropped(shard))

    def was_read(self, event: LogRead | SnapshotRead, now_ms: int) -> WakeAt:
        """Take what was read of a log for a standby."""
        self._feeds.was_read(event)
        return WakeAt(now_ms + SHORT_PAUSE_MS)

    def go_on(self, now_ms: int) -> list[ReadLog | ReadSnapshot | WakeAt]:
        """Have standbys replay some of what is committed; a bug ends that for its shard, which is followed on."""
        wanted: list[ReadLog | ReadSnapshot | WakeAt] = []
        for fed in self._feeds.next():
            if isinstance(fed, ReadLog | ReadSnapshot):
                wanted.append(fed)
                continue
            self._coordinate(fed)
            if isinstance(fed, events.StandbyFed) and fed.shard not in self._coordinator.standbys.shards:
                self._feeds.failed(fed.shard)
        if self._feeds.is_behind:
            wanted.append(WakeAt(now_ms + self._feeds.pause_ms))
        return wanted
