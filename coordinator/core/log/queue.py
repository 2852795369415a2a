"""The records that wait to be written: natural batching, decided without a clock or a thread.

A group is everything that arrived while the group before it was being synced, as at most one batch a shard,
so that only the last frame of a log can be torn. Holds the rules that offsets continue and that what is cut is not
written any more, and the limit on memory. A log has a number, under which everything about it is reported: it changes
whenever the log is cut or replaced.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from coordinator.core.log.entry import MAX_BATCH_BYTES, Batch, batch_bytes
from coordinator.core.log.leader_epochs import LeaderEpochs, Marks


class QueueFullError(Exception):
    """More records wait to be written than the limit allows."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    leader_epoch: int
    records: tuple[bytes, ...]
    size: int


@dataclass(slots=True)
class _Shard:
    waiting: deque[_Waiting]
    next_write: int
    end_offset: int
    leader_epoch: int
    epochs: LeaderEpochs
    number: int
    is_open: bool = True


class AppendQueue:
    """Appends in the order they came, cut into groups. Not thread-safe: its owner holds a lock."""

    def __init__(self, max_pending_bytes: int) -> None:
        self._max_pending_bytes = max_pending_bytes
        self._shards: dict[int, _Shard] = {}
        self._waiting: dict[int, None] = {}  # the shards with something to write, oldest first
        self._pending_bytes = 0
        self._taken_bytes = 0

    @property
    def pending_bytes(self) -> int:
        """Return the bytes added and not yet reported as finished, framing included."""
        return self._pending_bytes

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def open_shard(self, shard: int, end_offset: int, leader_epoch: int, *, marks: Marks = (), number: int = 0) -> None:
        """Say where the shard's log ends and which epochs are in it; nothing of it may be waiting."""
        if shard in self._waiting:
            raise ValueError(f"shard {shard} still has records to write")
        epochs = LeaderEpochs(marks)
        self._shards[shard] = _Shard(deque(), end_offset, end_offset, leader_epoch, epochs, number)

    def close_shard(self, shard: int) -> None:
        """Take no more appends for the shard until it is opened again; what waits stays."""
        state = self._shards.get(shard)
        if state is not None:
            state.is_open = False

    def forget_shard(self, shard: int) -> None:
        """Take no more appends for the shard until it is opened again, and write nothing more of what waits."""
        state = self._shards.pop(shard, None)
        if state is not None:
            self._pending_bytes -= sum(waiting.size for waiting in state.waiting)
            self._waiting.pop(shard, None)

    def has(self, shard: int) -> bool:
        """Tell whether something of the shard is waiting."""
        return shard in self._waiting

    def is_open(self, shard: int) -> bool:
        """Tell whether the shard takes appends."""
        state = self._shards.get(shard)
        return state is not None and state.is_open

    def end_offset(self, shard: int) -> int:
        """Return the end of the shard's log, what waits included; ValueError when the shard is not open."""
        return self._opened(shard).end_offset

    def number(self, shard: int) -> int:
        """Return the number of the shard's log, also of one that takes no more appends; 0 of one never opened."""
        state = self._shards.get(shard)
        return 0 if state is None else state.number

    def renumber(self, shard: int, number: int) -> None:
        """Give the log another number; ValueError when the shard is not open."""
        self._opened(shard).number = number

    def epochs(self, shard: int) -> LeaderEpochs:
        """Return the epochs of the shard's log, what waits included; ValueError when the shard is not open."""
        return self._opened(shard).epochs

    def add(self, shard: int, base_offset: int, leader_epoch: int, records: Sequence[bytes]) -> None:
        """Add records; what is too long for a frame becomes several, which a crash may part.

        Raises ValueError when they do not continue the log or one of them alone is too long for a frame, and
        QueueFullError when too much waits already: what is decided at once may be long, and passes the limit once.
        """
        state = self._opened(shard)
        end = state.end_offset
        if base_offset != end or leader_epoch < state.leader_epoch or not records:
            _refuse(shard, end, state.leader_epoch, base_offset, leader_epoch, records)
        size = batch_bytes(records)
        pieces = [tuple(records)] if size <= MAX_BATCH_BYTES else _cut(records)
        if self._pending_bytes > self._max_pending_bytes:
            raise QueueFullError(f"{self._pending_bytes} bytes wait, more than {self._max_pending_bytes}")
        state.waiting.extend(_Waiting(leader_epoch, piece, batch_bytes(piece)) for piece in pieces)
        state.end_offset = end + len(records)
        if leader_epoch != state.leader_epoch or state.epochs.is_empty:
            state.epochs.note(leader_epoch, end)
            state.leader_epoch = leader_epoch
        self._waiting[shard] = None
        self._pending_bytes += size

    def add_all(self, shard: int, batches: Sequence[Batch]) -> None:
        """Add batches that follow one another: all or, raising as `add` does, none."""
        state = self._opened(shard)
        end, epoch = state.end_offset, state.leader_epoch
        for batch in batches:
            if batch.base_offset != end or batch.leader_epoch < epoch or not batch.records:
                _refuse(shard, end, epoch, batch.base_offset, batch.leader_epoch, batch.records)
            if batch_bytes(batch.records) > MAX_BATCH_BYTES:
                _cut(batch.records)
            end, epoch = batch.end, batch.leader_epoch
        for batch in batches:
            self.add(shard, batch.base_offset, batch.leader_epoch, batch.records)

    def cut(self, shard: int, end: int, number: int) -> int:
        """Forget what waits at and above `end`, where the log goes on under a number; returns the last epoch then left.

        What was taken already is not held back. ValueError for a cut that takes nothing away, or of a shard that is not
        open.
        """
        state = self._opened(shard)
        if end >= state.end_offset:
            raise ValueError(f"shard {shard}: a cut to {end}, but the log ends at {state.end_offset}")
        kept: deque[_Waiting] = deque()
        base, before = state.next_write, sum(waiting.size for waiting in state.waiting)
        for waiting in state.waiting:
            records = waiting.records[: max(0, end - base)]
            if records:
                kept.append(_Waiting(waiting.leader_epoch, records, batch_bytes(records)))
            base += len(waiting.records)
        self._pending_bytes -= before - sum(waiting.size for waiting in kept)
        state.waiting = kept
        if not kept:
            self._waiting.pop(shard, None)
        state.next_write = min(state.next_write, end)
        state.end_offset = end
        state.epochs.cut(end)
        state.leader_epoch = state.epochs.last
        state.number = number
        return state.leader_epoch

    def take_group(self) -> dict[int, Batch]:
        """Take the next group: of each shard one batch, of one leader epoch and fitting a frame."""
        group: dict[int, Batch] = {}
        waiting, self._waiting = self._waiting, {}
        for shard in waiting:
            state = self._shards[shard]
            first = state.waiting.popleft()
            records, size = list(first.records), first.size
            while (
                state.waiting
                and state.waiting[0].leader_epoch == first.leader_epoch
                and size + state.waiting[0].size <= MAX_BATCH_BYTES
            ):
                following = state.waiting.popleft()
                records.extend(following.records)
                size += following.size
            group[shard] = Batch(state.next_write, first.leader_epoch, tuple(records))
            state.next_write += len(records)
            self._taken_bytes += size
            if state.waiting:
                self._waiting[shard] = None
        return group

    def finish(self) -> None:
        """Count what was taken as written."""
        self._pending_bytes -= self._taken_bytes
        self._taken_bytes = 0

    def _opened(self, shard: int) -> _Shard:
        state = self._shards.get(shard)
        if state is None or not state.is_open:
            raise ValueError(f"shard {shard} has not been recovered")
        return state


def _refuse(
    shard: int, end: int, last_epoch: int, base_offset: int, leader_epoch: int, records: Sequence[bytes]
) -> NoReturn:
    """Raise ValueError, saying why records do not continue a log of this end and last epoch."""
    if base_offset != end:
        raise ValueError(f"shard {shard}: append at offset {base_offset}, but the log ends at {end}")
    if leader_epoch < last_epoch:
        raise ValueError(f"shard {shard}: leader epoch {leader_epoch} is smaller than {last_epoch}")
    assert not records, "the append continues the log"
    raise ValueError(f"shard {shard}: an append carries at least one record")


def _cut(records: Sequence[bytes]) -> list[tuple[bytes, ...]]:
    """Cut records into pieces that each fit a frame."""
    pieces: list[tuple[bytes, ...]] = []
    piece: list[bytes] = []
    size = 0
    for record in records:
        more = batch_bytes((record,))
        if more > MAX_BATCH_BYTES:
            raise ValueError(f"a record of {len(record)} bytes passes the limit of a frame, {MAX_BATCH_BYTES}")
        if size + more > MAX_BATCH_BYTES:
            pieces.append(tuple(piece))
            piece, size = [], 0
        piece.append(record)
        size += more
    pieces.append(tuple(piece))
    return pieces
