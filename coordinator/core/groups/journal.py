"""A shard's hard state and the one way to change it: a record, encoded for the log and replayed at once.

State is therefore ahead of the disk, and everything that is said waits (see `parking`). There are no rollbacks: when
the disk fails, the node stops and the shard is loaded again from what is durable.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coordinator.core.effects import Append
from coordinator.core.groups.life_records import LogOpened
from coordinator.core.groups.records import Record, UnreadableRecordError, decode_record, encode_record
from coordinator.core.groups.replay import replay
from coordinator.core.groups.snapshot import GrowingSnapshot
from coordinator.core.groups.state import ShardState
from coordinator.protocol.parts import LogPosition

LEADER_EPOCH = 0
"""The leader epoch of a shard with one replica."""


class Snapshot(NamedTuple):
    """The encoded records that rebuild the whole state as of an offset."""

    end_offset: int
    records: tuple[bytes, ...]


class Journal:
    """The state of one shard, the end of its log, and the records that are not handed out yet."""

    __slots__ = ("_growing", "_pending", "incarnation", "log_end_offset", "shard", "state")

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.state = ShardState()
        self.incarnation = ""
        self.log_end_offset = 0
        self._pending: list[bytes] = []
        self._growing: GrowingSnapshot | None = None

    def load(
        self,
        snapshot: Sequence[bytes] | None,
        snapshot_end: int,
        batches: Iterable[tuple[int, Sequence[bytes]]],
    ) -> None:
        """Replay a snapshot and the records after it; raises UnreadableRecordError when something is missing or odd."""
        try:
            for data in snapshot or ():
                replay(self.state, decode_record(data), None)
            self.log_end_offset = snapshot_end
            for base_offset, records in batches:
                self._load_batch(base_offset, records)
        except UnreadableRecordError as error:
            raise UnreadableRecordError(
                f"shard {self.shard} cannot be loaded at offset {self.log_end_offset}: {error}"
            ) from error

    def _load_batch(self, base_offset: int, records: Sequence[bytes]) -> None:
        if base_offset > self.log_end_offset:
            raise UnreadableRecordError(
                f"the next batch begins at offset {base_offset}; records are missing, restore the shard from a backup"
            )
        for offset, data in enumerate(records, base_offset):
            if offset == self.log_end_offset:
                replay(self.state, decode_record(data), offset)
                self.log_end_offset += 1

    @property
    def next_epoch(self) -> int:
        """The end of the log, counted as owner epochs are: that of what the next record grants."""
        return self.log_end_offset + self.state.epochs_ahead

    def decide(self, *records: Record) -> None:
        """Make records part of the log to be written, and of the state."""
        for record in records:
            if self._growing is not None:
                self._growing.before_change(record.group_id)
            replay(self.state, record, self.log_end_offset)
            self._pending.append(encode_record(record))
            self.log_end_offset += 1

    def open(self, incarnation: str) -> None:
        """Go on with the log after its load, as nobody has done before under this name."""
        self.incarnation = incarnation
        self.decide(LogOpened(incarnation, self.next_epoch, self.state.epochs_ahead))

    @property
    def position(self) -> LogPosition:
        """How far the log has come, for those who are to remember it."""
        return LogPosition(self.incarnation, self.next_epoch)

    def take_append(self) -> Append | None:
        """Return the records decided since the last call, as one batch, or None when there are none."""
        if not self._pending:
            return None
        records = tuple(self._pending)
        self._pending.clear()
        return Append(self.shard, self.log_end_offset - len(records), LEADER_EPOCH, records)

    def begin_snapshot(self) -> None:
        """Begin a snapshot as of the log's end."""
        assert self._growing is None, "one snapshot of a shard is made at a time"
        self._growing = GrowingSnapshot(self.state, self.log_end_offset)

    def grow_snapshot(self, most_bytes: int) -> Snapshot | None:
        """Encode about so many bytes more of the snapshot that was begun, and return it once it is done."""
        assert self._growing is not None, "a snapshot is begun before it grows"
        end_offset, records = self._growing.end_offset, self._growing.grow(most_bytes)
        if records is None:
            return None
        self._growing = None
        return Snapshot(end_offset, records)
