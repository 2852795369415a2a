"""All that waits to be done to the logs of a node, and the rules of what may be asked of a log in which state.

A log is closed until it is opened. From when the last piece of a replacing snapshot has come until that is in place,
the log is closed as well. What is asked is refused at once, with ValueError, where it does not fit what was asked
before; so whoever performs it meets no surprise but those of the disk. Changes of a log come before all appends that
are still waiting: of those no more are left than the change leaves in place. Knows neither files nor threads.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from coordinator.core.log.entry import Batch
from coordinator.core.log.queue import AppendQueue
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.log.snapshot_queue import SnapshotQueue
from coordinator.core.log.storage import OpenedLog


@dataclass(frozen=True, slots=True)
class CutLog:
    """Take what is at or above `end` from the files, if there is any; the record before it has `last_epoch`."""

    shard: int
    end: int
    last_epoch: int
    log_number: int


@dataclass(frozen=True, slots=True)
class CloseLog:
    """Close what is open of a log's files, and forget snapshots that are not whole."""

    shard: int


@dataclass(frozen=True, slots=True)
class MoveAside:
    """Have a log no longer in its place, but aside, with the wall time."""

    shard: int
    aside_ms: int


@dataclass(frozen=True, slots=True)
class ForgetIncoming:
    """Delete what has come of a snapshot that was to replace the log."""

    shard: int


Change: TypeAlias = CutLog | CloseLog | MoveAside | ForgetIncoming


@dataclass(frozen=True, slots=True)
class Work:
    """The next things to be done, in this order; `numbers` and `snapshot_numbers` are those to be reported."""

    changes: tuple[Change, ...]
    group: Mapping[int, Batch]
    pieces: Mapping[int, SnapshotPiece]
    incoming: Mapping[int, SnapshotPiece]
    numbers: Mapping[int, int]
    snapshot_numbers: Mapping[int, int]

    @property
    def shards(self) -> set[int]:
        """Return the shards that something is done to."""
        return {*self.group, *self.pieces, *self.incoming, *(change.shard for change in self.changes)}


class LogRequests:
    """The things that were asked of the logs and are not done. Not thread-safe: its owner holds a lock."""

    def __init__(self, max_pending_bytes: int) -> None:
        self.queue = AppendQueue(max_pending_bytes)
        self._snapshots = SnapshotQueue()
        self._incoming = SnapshotQueue()
        self._changes: deque[Change] = deque()
        self._starts: dict[int, int] = {}
        self._snapshot_numbers: dict[int, int] = {}
        self._replacing: dict[int, int] = {}
        """The numbers of the logs that are being replaced, until they are."""

    def __bool__(self) -> bool:
        return self.is_waiting(())

    def is_waiting(self, held: Collection[int]) -> bool:
        """Tell whether there is something to be done, besides changes of logs that are `held`."""
        waits = self.queue or self._snapshots or self._incoming
        return bool(waits or any(change.shard not in held for change in self._changes))

    # ---- open and closed ---------------------------------------------------------------------------------------------

    def open_log(self, shard: int, log: OpenedLog) -> None:
        """Take appends from now on to a log that is as it was found."""
        last = log.epochs[-1][0] if log.epochs else 0
        self.queue.open_shard(shard, log.end, last, marks=log.epochs, number=log.number)
        self._starts[shard] = log.start
        self._replacing.pop(shard, None)

    def opened(self, shard: int) -> OpenedLog | None:
        """Return the image of a log that takes appends, with what waits; None for one that does not."""
        if not self.queue.is_open(shard):
            return None
        marks = self.queue.epochs(shard).marks
        return OpenedLog(self._starts[shard], self.queue.end_offset(shard), marks, self.queue.number(shard))

    def close_log(self, shard: int) -> None:
        """Take nothing more for a log; appends that wait are still to be written, snapshots are given up."""
        self.queue.close_shard(shard)
        self._give_up_snapshots(shard)

    def is_idle(self, shard: int) -> bool:
        """Tell whether nothing waits to be done to a log."""
        return not (
            self.queue.has(shard) or shard in self._replacing or self._incoming.has(shard) or self.is_changing(shard)
        )

    def is_changing(self, shard: int) -> bool:
        """Tell whether a log is not what is in its files: a change of them waits."""
        return any(change.shard == shard for change in self._changes)

    # ---- asked for ---------------------------------------------------------------------------------------------------

    def append_batches(self, shard: int, log_number: int, batches: Sequence[Batch]) -> None:
        """Add all of a leader's batches to the log with this number or, raising as `AppendQueue.add` does, none."""
        self._refuse_closed(shard)
        number = self.queue.number(shard)
        if number != log_number:
            raise ValueError(f"shard {shard}: batches for the log with number {log_number}, but it has {number}")
        self.queue.add_all(shard, batches)

    def write_snapshot(self, shard: int, piece: SnapshotPiece) -> None:
        """Have a piece of a snapshot wait, under the epoch of the last record that it stands for."""
        if piece.end_offset > self.queue.end_offset(shard):
            raise ValueError(f"shard {shard}: snapshot at {piece.end_offset}, past the end of the log")
        epoch = self.queue.epochs(shard).before(piece.end_offset)
        if piece.leader_epoch < epoch:
            raise ValueError(f"shard {shard}: snapshot made in leader epoch {piece.leader_epoch} of records of {epoch}")
        kept = SnapshotPiece(piece.end_offset, epoch, piece.records, piece.index, piece.is_last)
        self._snapshots.add(shard, kept)
        if piece.index == 0:
            self._snapshot_numbers[shard] = self.queue.number(shard)

    def truncate(self, shard: int, end: int, log_number: int) -> None:
        """Have a log cut, and go on at `end` under a number."""
        self._refuse_closed(shard)
        start = self._starts[shard]
        if end < start:
            raise ValueError(f"shard {shard}: a cut to {end}, but a snapshot stands for all below {start}")
        if self._snapshots.reaches_above(shard, end):
            raise ValueError(f"shard {shard}: a cut to {end}, below the end of a snapshot that is being written")
        last_epoch = self.queue.cut(shard, end, log_number)
        self._changes.append(CutLog(shard, end, last_epoch, log_number))

    def install(self, shard: int, log_number: int, piece: SnapshotPiece) -> None:
        """Have a piece of a replacing snapshot wait; with the last one the log is closed until it is replaced."""
        self._refuse_closed(shard)
        if not self._incoming.add(shard, piece) or not piece.is_last:
            return
        self._give_up_snapshots(shard)
        self.queue.forget_shard(shard)
        self._replacing[shard] = log_number

    def give_up_install(self, shard: int) -> None:
        """Forget the pieces of a replacing snapshot that is not whole."""
        if shard not in self._replacing and self._incoming.is_begun(shard):
            self._incoming.give_up(shard)
            self._changes.append(ForgetIncoming(shard))

    def drop(self, shard: int, aside_ms: int | None) -> None:
        """Have a log closed or, with a wall time, moved aside; a replacement under way is given up."""
        self._give_up_snapshots(shard)
        self._incoming.give_up(shard)
        self._replacing.pop(shard, None)
        if aside_ms is None:
            self.queue.close_shard(shard)
            self._changes.append(CloseLog(shard))
        else:
            self.queue.forget_shard(shard)
            self._starts.pop(shard, None)
            self._changes.append(MoveAside(shard, aside_ms))

    # ---- taken to be done --------------------------------------------------------------------------------------------

    def take(self, durable_end_of: Callable[[int], int], held: Collection[int] = ()) -> Work:
        """Take changes, the next group, and a piece of each snapshot whose records are durable."""
        changes, group = self.take_changes(held), self.queue.take_group()
        numbers = {shard: self.queue.number(shard) for shard in group}
        pieces, snapshot_numbers = self.take_pieces(durable_end_of)
        return Work(changes, group, pieces, self.take_incoming(), numbers, snapshot_numbers)

    def take_changes(self, held: Collection[int] = ()) -> tuple[Change, ...]:
        """Take the changes of logs, to be made before anything else that is taken with them or later.

        Those of logs that are `held` are left; of these nothing else waits.
        """
        if not self._changes:
            return ()
        changes = tuple(change for change in self._changes if change.shard not in held)
        self._changes = deque(change for change in self._changes if change.shard in held)
        return changes

    def take_pieces(self, durable_end_of: Callable[[int], int]) -> tuple[dict[int, SnapshotPiece], dict[int, int]]:
        """Take a piece of each snapshot whose records are durable, and the number to report each under."""
        pieces = self._snapshots.take(durable_end_of)
        return pieces, {shard: self._snapshot_numbers[shard] for shard in pieces}

    def take_incoming(self) -> dict[int, SnapshotPiece]:
        """Take a piece of each snapshot that is to replace a log."""
        return self._incoming.take_first()

    def snapshot_written(self, shard: int, end_offset: int) -> None:
        """Take note that a whole snapshot stands for the records below its end."""
        if self._starts.get(shard, end_offset) < end_offset:
            self._starts[shard] = end_offset
            if self.queue.is_open(shard):
                self.queue.epochs(shard).start_at(end_offset)

    def installed(self, shard: int, end_offset: int, last_epoch: int) -> int | None:
        """Open a log that a snapshot has replaced, and return its number; None when it was dropped meanwhile."""
        number = self._replacing.get(shard)
        if number is not None:
            self.open_log(shard, OpenedLog(end_offset, end_offset, ((last_epoch, end_offset - 1),), number))
        return number

    def _refuse_closed(self, shard: int) -> None:
        if not self.queue.is_open(shard):
            raise ValueError(f"shard {shard} has not been recovered")

    def _give_up_snapshots(self, shard: int) -> None:
        self._snapshots.give_up(shard)
        self._snapshot_numbers.pop(shard, None)
