"""Standbys held to a full replay: what one has replayed is what the committed records below its end make.

A leader that began with its standby is held to the same when it begins to serve: its state is that of its whole log.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.replica.replica import Leader
from tests.sim.cluster.disk import Record
from tests.sim.log.state import ViolationError

if TYPE_CHECKING:
    from tests.sim.cluster.checker import ClusterChecker
    from tests.sim.cluster.process import ClusterProcess

LOOK_EVERY: Final = 20
"""A standby is looked at whenever it has grown by so many records: each look is a replay."""


class StandbyCheck:
    """The standbys of all nodes, and the leaders that were standbys before."""

    def __init__(self, checker: "ClusterChecker") -> None:
        self._checker = checker
        self._looked_at: dict[tuple[int, int, int], int] = {}
        """By node, life and shard: the end at which its standby was looked at last."""
        self._leading: dict[tuple[int, int, int], int] = {}
        """By node, life and shard that is loaded over its standby: the leader epoch."""
        self._reference: dict[int, Journal] = {}
        """By shard: committed records, replayed as far as was asked for last."""

    def stepped(self, process: "ClusterProcess") -> None:
        """Hold the standbys of a node to what is committed."""
        replication = process.node.replication
        if replication is None:
            return
        standbys = replication.coordinator.standbys
        for shard in standbys.shards:
            end, key = standbys.end(shard), (process.number, process.life, shard)
            if end is None:
                continue
            replica, committed = replication.replicas[shard], self._checker.committed[shard]
            if end > len(committed) or end > replica.high_watermark:
                why = f"{process.name} has replayed shard {shard} to {end} of {len(committed)} committed, {replica}"
                raise ViolationError("StandbyIsCommitted", why)
            if isinstance(replica.role, Leader):
                self._leading[key] = replica.leader_epoch
            seen = self._looked_at.get(key, 0)
            if seen <= end < seen + LOOK_EVERY:
                continue
            self._looked_at[key] = end
            self._checker.coverage["standby looks"] += 1
            self._same(process, shard, standbys.state(shard), self._committed_state(shard, end), "standby", end)

    def performed(self, process: "ClusterProcess") -> None:
        """Hold a leader that has taken its standby to its whole log, once it serves."""
        replication = process.node.replication
        for key, leader_epoch in list(self._leading.items()):
            shard = key[2]
            if key[0] != process.number or replication is None:
                continue
            replica = replication.replicas[shard]
            is_over = key[1] != process.life or not isinstance(replica.role, Leader)
            if is_over or replica.leader_epoch != leader_epoch:
                del self._leading[key]
            elif replication.coordinator.is_loaded(shard) and shard not in process.refused:
                del self._leading[key]
                self._checker.coverage["standby takeovers"] += 1
                log = process.disk.log(shard)
                records = [*self._checker.committed[shard][: log.base], *log.records]
                state = replication.coordinator.hard_state(shard)
                self._same(process, shard, state, _replayed(Journal(shard), records).state, "leader", log.end)

    def forget(self, shard: int) -> None:
        """Forget what was committed of a shard: some of it is not any more."""
        self._reference.pop(shard, None)

    def _committed_state(self, shard: int, end: int) -> ShardState:
        reference = self._reference.get(shard)
        if reference is None or reference.log_end_offset > end:
            reference = self._reference[shard] = Journal(shard)
        return _replayed(reference, self._checker.committed[shard][reference.log_end_offset : end]).state

    def _same(
        self, process: "ClusterProcess", shard: int, found: ShardState | None, wanted: ShardState, of: str, end: int
    ) -> None:
        if found != wanted:
            why = f"the {of} of shard {shard} at {end} on {process.name} is not the replay of its log"
            raise ViolationError("StandbyIsReplay", why)


def _replayed(journal: Journal, records: Iterable[Record]) -> Journal:
    """Replay more records."""
    journal.take_batch(journal.log_end_offset, tuple(data for _, data in records))
    return journal
