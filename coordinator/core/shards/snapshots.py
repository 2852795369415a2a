"""The times at which snapshots of shards are made: which is due, which grows, which piece is on its way to the disk.

One shard's snapshot grows at a time, a slice a step. Its pieces go to the disk one by one, each only after the one
before it was written, so that a snapshot of any size takes the memory of a piece. A snapshot is due when a start would
have to replay too much after the last one: more than a fixed weight, and more than half of what the snapshot itself
weighs. So a start takes little longer than reading the state, and snapshots write no more than twice what the log does.

Nobody waits for a snapshot, so it rests between two slices: whoever is served meanwhile notices little of it, also
where the nodes of a cluster share a machine, which all make theirs at once as they have the same log. Where more are
due it rests the less, so that none of them is late for good.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from coordinator.core.effects import WriteSnapshot
from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.shard import Shard
from coordinator.core.limits import Limits

REST_MS: Final = 10
"""The rest between two slices of one snapshot, where no other is due. A slice takes some two milliseconds."""


class Snapshots:
    """The snapshots of all shards of a node, each of the shard that is in its place in the list just then.

    Of a shard that has a standby they are the standby's.
    """

    def __init__(self, limits: Limits, shards: Sequence[Shard], standbys: Mapping[int, Shard]) -> None:
        self._limits = limits
        self._shards = shards
        self._standbys = standbys
        self.due: deque[int] = deque()
        """The shards whose snapshots are due; the first one's grows."""
        self._is_due = [False] * len(shards)
        self._is_growing = False
        self._rests_until_ms = 0
        self._under_way: tuple[int, bool] | None = None
        """The end offset of the piece that is on its way to the disk, and whether it is the last."""
        self.held: WriteSnapshot | None = None
        """That piece, until the records that it stands for are committed: a snapshot is never of what may be cut."""

    def look_at(self, shard: int) -> bool:
        """Take note of what was written to a shard's log; True when its snapshot is due since then."""
        if self._is_due[shard]:
            return False
        journal, limits = self._journal(shard), self._limits
        enough = max(limits.snapshot_interval_bytes, journal.snapshot_weight // 2)
        if journal.tail_weight >= enough or journal.tail_records >= limits.snapshot_interval_records:
            self._is_due[shard] = True
            self.due.append(shard)
        return self._is_due[shard]

    @property
    def next_at_ms(self) -> int | None:
        """The time from which on a step can make a snapshot grow; None while a piece is written, or none is due."""
        return self._rests_until_ms if self.due and self._under_way is None else None

    def next_shard(self, now_ms: int) -> int | None:
        """Return the shard whose snapshot a step can make grow now."""
        at_ms = self.next_at_ms
        return self.due[0] if at_ms is not None and at_ms <= now_ms else None

    def grow(self, now_ms: int) -> None:
        """Encode the next slice for `next_shard`, and hold a piece once that is full."""
        shard = self.due[0]
        self._rests_until_ms = now_ms + REST_MS // len(self.due)
        journal = self._journal(shard)
        if not self._is_growing:
            self._is_growing = True
            journal.begin_snapshot()
        piece = journal.grow_snapshot(self._limits.slice_bytes, self._limits.snapshot_piece_bytes)
        if piece is None:
            return
        self._under_way = (piece.end_offset, piece.is_last)
        epoch = journal.leader_epoch
        self.held = WriteSnapshot(shard, piece.end_offset, epoch, piece.records, piece.index, piece.is_last)

    def take_held(self, high_watermark: int) -> WriteSnapshot | None:
        """Return the piece that is held if its shard is committed to where it was made of."""
        held = self.held
        if held is None or held.end_offset > high_watermark:
            return None
        self.held = None
        return held

    def piece_written(self, shard: int, end_offset: int, *, is_whole: bool) -> None:
        """Take note that the piece under way is on disk.

        A piece of a shard that was thrown away meanwhile is not it, also when the next snapshot grows already.
        """
        if not self.due or self.due[0] != shard or self._under_way != (end_offset, is_whole):
            return
        self._under_way = None
        if is_whole:
            self.forget(shard)

    def abandon(self, shard: int) -> None:
        """Give up the snapshot that grows; another is due when as much has been written again."""
        self._journal(shard).abandon_snapshot()
        self.forget(shard)

    def forget(self, shard: int) -> None:
        """Make no snapshot of a shard until one is due again; what there is of one counts for nothing any more."""
        if not self._is_due[shard]:
            return
        if self.due[0] == shard:
            self._is_growing = False
            self._under_way = self.held = None
        self.due.remove(shard)
        self._is_due[shard] = False

    def _journal(self, shard: int) -> Journal:
        return self._standbys.get(shard, self._shards[shard]).desk.journal
