"""Standbys: the state of shards that a node follows, replayed from committed records as they come.

A standby serves nobody: it has hard state alone, and nobody asks it anything. It makes snapshots of its own, so that
the log of a follower is bounded as its leader's is. When the node begins to lead the shard, what has been replayed is
passed over in the load. Committed records are never cut, so a standby is right for as long as its log is the same one.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from coordinator.core.events import StandbyFed
from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.groups.shard import Shard
from coordinator.core.groups.soft.remains import Remains

Piece: TypeAlias = tuple[bool, int, Sequence[bytes]]
"""Records that were read: whether of the snapshot, with the end of that, or else with the first record's offset."""


class Standbys:
    """The standbys of one node; `make` makes a shard without any state."""

    __slots__ = ("_make", "_remains", "_whole", "shards")

    def __init__(self, make: Sequence[Callable[[], Shard]], remains: Remains) -> None:
        self._make = make
        self._remains = remains
        self.shards: dict[int, Shard] = {}
        """Each shard that is followed and of which something was replayed."""
        self._whole: set[int] = set()
        """Those of them that are the state as of the end of what was replayed: no part of a snapshot is missing."""

    def end(self, index: int) -> int | None:
        """Return the end of what a standby stands for, None where there is none, or not yet."""
        return self.shards[index].desk.journal.log_end_offset if index in self._whole else None

    def state(self, index: int) -> ShardState | None:
        """Return the state of a standby, to look at; None where there is none, or not yet."""
        return self.shards[index].desk.journal.state if index in self._whole else None

    def feed(self, fed: StandbyFed) -> None:
        """Replay committed records; raises UnreadableRecordError, after which the standby is to be dropped."""
        index = fed.shard
        journal = self._of(index).desk.journal
        if fed.is_snapshot:
            journal.take_snapshot(fed.offset, fed.records)
        else:
            journal.take_batch(fed.offset, fed.records)
        if fed.is_complete:
            self._whole.add(index)
        journal.leader_epoch = fed.leader_epoch

    def keep(self, index: int, journal: Journal) -> None:
        """Go on with the state of a shard that was led here until now, all of which is committed."""
        journal.abandon_snapshot()
        self._of(index).desk.journal = journal
        self._whole.add(index)

    def _of(self, index: int) -> Shard:
        shard = self.shards.get(index)
        if shard is None:
            shard = self.shards[index] = self._make[index]()
        return shard

    def drop(self, index: int) -> None:
        """Forget a standby: its log is another one, or gone, or a bug has left it half done."""
        self._whole.discard(index)
        shard = self.shards.pop(index, None)
        if shard is not None:
            shard.leave(self._remains)

    def take(self, index: int, pieces: Iterable[Piece]) -> tuple[Shard, Iterable[Piece]]:
        """Return what a load of a log begins with, and what is left to replay then.

        That is the standby, unless it stands for less than the snapshot there or for more than there is.
        """
        end = self.end(index)
        if end is None:
            self.drop(index)
            return self._make[index](), pieces
        pieces = list(pieces)
        covers = [offset if is_snapshot else offset + len(records) for is_snapshot, offset, records in pieces]
        begins = max((offset for is_snapshot, offset, _ in pieces if is_snapshot), default=0)
        if not begins <= end <= max(covers, default=0):
            self.drop(index)
            return self._make[index](), pieces
        self._whole.discard(index)
        standby = self.shards.pop(index)
        standby.desk.journal.abandon_snapshot()
        rest = [
            (False, max(offset, end), records[max(0, end - offset) :])
            for (is_snapshot, offset, records), its_end in zip(pieces, covers, strict=True)
            if not is_snapshot and its_end > end
        ]
        return standby, rest
