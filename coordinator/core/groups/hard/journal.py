"""A shard's hard state and the one way to change it: a record, encoded for the log and replayed at once.

State is therefore ahead of the disk, and everything that is said waits (see `gates`). There are no rollbacks: when
the disk fails, the node stops and the shard is loaded again from what is durable.
"""

from collections.abc import Iterable, Iterator, Sequence

from coordinator.core.effects import Append
from coordinator.core.groups.hard.life_records import LeaderBegan, LogOpened
from coordinator.core.groups.hard.pieces import LARGE_BYTES, in_pieces
from coordinator.core.groups.hard.records import Record, UnreadableRecordError, decode_record, encode_record
from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.snapshot import GrowingSnapshot, Piece
from coordinator.core.groups.hard.state import ShardState
from coordinator.protocol.parts import LogPosition

NO_EPOCH = 0
"""The leader epoch of a log in which nobody has led yet."""

EPOCHS_LEFT_OUT = 2**36
"""After an unclean election owner epochs go on above offsets by so much for each leader epoch up to it, so that each
leader since finds by itself whether they do already. It is far more than what one leader can have granted, with the
room that is left when members show that a log went back (`gone_back`, twice 2**32 each time)."""

_RECORDS_AT_ONCE = 100

RECORD_WEIGHT = 256
"""So many bytes of long records take as long to replay as there being one record more."""


class Journal:
    """The state of one shard, the end of its log, and the records that are not handed out yet.

    Weights say how long a replay takes: the bytes of the records, and RECORD_WEIGHT for each.
    """

    __slots__ = (
        "_growing",
        "_pending",
        "_tail_begin",
        "_weight",
        "_weight_at_begin",
        "incarnation",
        "leader_epoch",
        "log_end_offset",
        "shard",
        "snapshot_weight",
        "state",
    )

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.state = ShardState()
        self.incarnation = ""
        self.leader_epoch = NO_EPOCH
        """The epoch in which this node leads the shard, and in which records are appended; after a load, the log's."""
        self.log_end_offset = 0
        self.snapshot_weight = 0
        """The weight of the last snapshot."""
        self._weight = 0
        self._weight_at_begin = 0
        self._tail_begin = 0
        self._pending: list[bytes] = []
        self._growing: GrowingSnapshot | None = None

    @property
    def tail_records(self) -> int:
        """The number of records after the begin of the last snapshot."""
        return self.log_end_offset - self._tail_begin

    @property
    def tail_weight(self) -> int:
        """Their weight, as far as they were handed out."""
        return self._weight - self._weight_at_begin

    def take_snapshot(self, end_offset: int, records: Sequence[bytes]) -> None:
        """Replay a piece of a snapshot; raises UnreadableRecordError when a record is odd."""
        state = self.state
        try:
            for data in records:
                replay(state, decode_record(data), None)
        except UnreadableRecordError as error:
            raise self._unreadable(f"its snapshot at offset {end_offset}", error) from error
        self.log_end_offset = self._tail_begin = end_offset
        self.snapshot_weight += weight_of(records)

    def take_batch(self, base_offset: int, records: Sequence[bytes]) -> None:
        """Replay records of the log; raises UnreadableRecordError when one is odd or something is missing before it."""
        try:
            if base_offset > self.log_end_offset:
                raise UnreadableRecordError(  # noqa: TRY301 - told like the others
                    f"the next batch begins at offset {base_offset}; records are missing, restore the shard from a "
                    "backup"
                )
            state = self.state
            for offset, data in enumerate(records[self.log_end_offset - base_offset :], self.log_end_offset):
                record = decode_record(data)
                if self._growing is not None:
                    self._growing.before_change(record.group_id)
                replay(state, record, offset)
                self.log_end_offset = offset + 1
        except UnreadableRecordError as error:
            raise self._unreadable(f"offset {self.log_end_offset}", error) from error
        self._weight += weight_of(records)

    def loading(self, pieces: Iterable[tuple[bool, int, Sequence[bytes]]]) -> Iterator[int]:
        """Replay what was read of a shard, and yield the bytes of each few records once they are replayed.

        A piece says whether it is of the snapshot, with the end of that, or of the log, with its first record's offset.
        """
        for is_snapshot, offset, records in pieces:
            for begin in range(0, len(records), _RECORDS_AT_ONCE):
                some = records[begin : begin + _RECORDS_AT_ONCE]
                if is_snapshot:
                    self.take_snapshot(offset, some)
                else:
                    self.take_batch(offset + begin, some)
                yield sum(map(len, some))

    def _unreadable(self, where: str, error: UnreadableRecordError) -> UnreadableRecordError:
        return UnreadableRecordError(f"shard {self.shard} cannot be loaded at {where}: {error}")

    @property
    def next_epoch(self) -> int:
        """The end of the log, counted as owner epochs are: that of what the next record grants."""
        return self.log_end_offset + self.state.epochs_ahead

    def decide(self, *records: Record) -> None:
        """Make records part of the log to be written, and of the state; a large one as several."""
        for record in records:
            if self._growing is not None:
                self._growing.before_change(record.group_id)
            data = encode_record(record)
            if len(data) > LARGE_BYTES:
                for piece, its_data in in_pieces(record, data):
                    self._put(piece, its_data)
                continue
            replay(self.state, record, self.log_end_offset)
            self._pending.append(data)
            self.log_end_offset += 1

    def _put(self, record: Record, data: bytes) -> None:
        replay(self.state, record, self.log_end_offset)
        self._pending.append(data)
        self.log_end_offset += 1

    def begin_epoch(self, leader_epoch: int, node: int, wall_ms: int) -> None:
        """Lead in an epoch from here on, with a record of it as its first."""
        assert leader_epoch > self.leader_epoch, "leader epochs only grow"
        assert not self._pending, "what was decided in the epoch before has been handed out, or is dropped"
        self.leader_epoch = leader_epoch
        self.decide(LeaderBegan(leader_epoch, node, wall_ms))

    def go_on(self, leader_epoch: int, base_offset: int, began: bytes) -> None:
        """Lead in the next epoch too, after the record of it, which is appended already."""
        assert leader_epoch > self.leader_epoch, "leader epochs only grow"
        assert not self._pending, "what was decided in the epoch before has been handed out"
        assert self.log_end_offset == base_offset, "the replica knows of all that was appended"
        self.leader_epoch = leader_epoch
        self.take_batch(base_offset, (began,))

    def open(self, incarnation: str, unclean_epoch: int = 0) -> None:
        """Go on with the log after its load, as nobody has done before under this name.

        After an unclean election the log may lack records that members were told of. Owner epochs go on above all that
        those can have granted, and what a member shows of them is beyond the end of the life before.
        """
        self.incarnation = incarnation
        ahead = max(self.state.epochs_ahead, unclean_epoch * EPOCHS_LEFT_OUT)
        self.decide(LogOpened(incarnation, self.next_epoch, ahead))

    @property
    def position(self) -> LogPosition:
        """The position of the log, for those who are to remember it."""
        return LogPosition(self.incarnation, self.next_epoch)

    def take_append(self) -> Append | None:
        """Return the records decided since the last call, as one batch, or None when there are none."""
        if not self._pending:
            return None
        records = tuple(self._pending)
        self._pending.clear()
        self._weight += weight_of(records)
        return Append(self.shard, self.log_end_offset - len(records), self.leader_epoch, records)

    def begin_snapshot(self) -> None:
        """Begin a snapshot as of the log's end."""
        assert self._growing is None, "one snapshot of a shard is made at a time"
        self._growing = GrowingSnapshot(self.state, self.log_end_offset)
        self._tail_begin = self.log_end_offset
        self._weight_at_begin = self._weight
        self.snapshot_weight = 0

    def grow_snapshot(self, most_bytes: int, piece_bytes: int) -> Piece | None:
        """Encode about so many bytes more of the snapshot that was begun; return a piece once it is full, or the last.

        A piece is full with about `piece_bytes`.
        """
        assert self._growing is not None, "a snapshot is begun before it grows"
        piece = self._growing.grow(most_bytes, piece_bytes)
        if piece is None:
            return None
        self.snapshot_weight += weight_of(piece.records)
        if piece.is_last:
            self._growing = None
        return piece

    def abandon_snapshot(self) -> None:
        """Drop the snapshot that was begun."""
        self._growing = None


class MarkingJournal(Journal):
    """A journal that notes about which groups something is decided, for whoever looks at what has changed."""

    __slots__ = ("_changed",)

    def __init__(self, shard: int) -> None:
        super().__init__(shard)
        self._changed: set[str] = set()

    def decide(self, *records: Record) -> None:
        """Decide records as any journal does, and note their groups."""
        for record in records:
            self._changed.add(record.group_id)
        super().decide(*records)

    def take_changed(self) -> set[str]:
        """Return the groups that were noted since the last call."""
        changed = self._changed
        if changed:
            self._changed = set()
        return changed


def weight_of(records: Sequence[bytes]) -> int:
    """Return how long a replay of records takes, in bytes of large ones."""
    return sum(map(len, records)) + RECORD_WEIGHT * len(records)
