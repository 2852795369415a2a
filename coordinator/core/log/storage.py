"""The port that keeps shard logs, and the pure rule that turns stored segments back into a log.

`DiskPort` is what the rest of the node may ask of a disk; the real one and the fake pass one contract suite.
`recover_log` joins segments and snapshot: it accepts exactly the states that a crash can leave
(see `segment`) and raises for every other. What is read is handed on piece by piece, so that a log of any length
takes the memory of one segment. Knows nothing of files or threads.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.core.log.entry import Batch, CorruptLogError
from coordinator.core.log.segment import is_blank, scan_segment


@dataclass(frozen=True, slots=True)
class RecoveredShard:
    """A shard as found once all of it was handed on; its snapshot ends at 0 when it has none."""

    snapshot_end: int
    log_end_offset: int
    leader_epoch: int
    notices: tuple[str, ...]


class LogSink(Protocol):
    """Takes a shard in while it is read: the pieces of its snapshot in their order, then the batches after it.

    An error that it raises ends the reading.
    """

    def take_snapshot(self, end_offset: int, records: Sequence[bytes]) -> None:
        """Take a piece of the snapshot of the log up to `end_offset`."""
        ...

    def take_batch(self, base_offset: int, records: Sequence[bytes]) -> None:
        """Take records of the log, the first of them at `base_offset`, where what was taken before ends."""
        ...


class DiskPort(Protocol):
    """Keeps the logs of a fixed number of shards.

    Completion is reported through two callables given when the port is made: `on_durable(shard, end_offset)`,
    after everything below `end_offset` is on stable storage, and `on_failure(message)`, once, after which
    nothing more is written or reported durable. Both may be called from another thread and must not block.

    Not promised: that every `append` gets a call of its own (ends are cumulative), that calls of different
    shards keep an order, or that a snapshot is written before a later append.
    """

    def recover(self, shard: int, sink: LogSink | None = None) -> RecoveredShard:
        """Read a shard into `sink`; required before its first append. Blocks; waits for its appends under way.

        Cuts a torn tail off and says so in the notices. Raises StorageError when the log must not be served, which may
        show after most of it was handed on. What there is of a snapshot that is not whole is given up.
        """
        ...

    def append(self, shard: int, base_offset: int, leader_epoch: int, records: Sequence[bytes]) -> None:
        """Take records for the log without blocking; a crash may part what is longer than a frame.

        Raises ValueError for offsets that do not continue the log, a leader epoch that goes back or a record that
        fits no frame (a bug of the caller), StorageError after a failure, and StorageError, failing, when more is
        waiting than the limit allows.
        """
        ...

    def write_snapshot(
        self,
        shard: int,
        end_offset: int,
        leader_epoch: int,
        records: Sequence[bytes],
        *,
        index: int = 0,
        is_last: bool = True,
    ) -> None:
        """Take a piece of a snapshot of the shard at `end_offset` without blocking.

        It is written once the log is durable up to `end_offset`. After the last piece the snapshot counts, and what it
        replaces is let go; until then nothing of it does. Piece 0 begins a snapshot and gives up one that is not
        whole; a piece of one that was given up is let go. Raises ValueError for a piece that does not continue what
        there is.
        """
        ...

    @property
    def pending_bytes(self) -> int:
        """Return the bytes of appended records that are not yet durable."""
        ...

    def close(self) -> None:
        """Make durable what was appended, report it, and release everything. Again: does nothing."""
        ...


@dataclass(frozen=True, slots=True)
class SegmentBytes:
    """One stored segment: the offset in its name, its content, and what to call it in errors."""

    path_hint: str
    base_offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Tail:
    """The last frame of a segment as it was read, at `position`."""

    base_offset: int
    position: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """A log as found, and where its writer goes on: in the segment `active_base`, at byte `active_bytes`."""

    log_end_offset: int
    leader_epoch: int
    active_base: int
    active_bytes: int
    cut_bytes: int
    tails: tuple[Tail, ...]
    """The ends of the last two segments, to be written again and synced before what was read is relied on:
    they may be in the cache only, and a sync that failed before the restart does not fail twice."""
    surplus_base: int | None
    """A segment made by a roll that did not finish; it holds nothing and is to be deleted."""


def recover_log(
    directory_hint: str,
    snapshot_end: int | None,
    segments: Iterable[SegmentBytes],
    take: Callable[[Batch], None],
) -> RecoveredLog:
    """Join `segments`, given by rising base offset and without those wholly below the snapshot, into one log.

    `take` gets the batches, or the parts of them, from the end of the snapshot on. At most two segments are held at a
    time. A sealed segment has a successor, one that is not sealed has none
    (or only a blank one: the roll was under way). Raises CorruptLogError for a gap, an overlap, a missing
    first or last segment, a log that ends before its snapshot, and damage in any segment.
    """
    start = snapshot_end or 0
    source = iter(segments)
    segment = next(source, None)
    if segment is None:
        raise CorruptLogError(directory_hint, 0, start, "its segments are missing")
    if segment.base_offset > start:
        why = "the log before it is missing" + (" and there is no snapshot" if snapshot_end is None else "")
        raise CorruptLogError(segment.path_hint, 0, start, f"{why}: it starts at log offset {segment.base_offset}")
    tails: list[Tail] = []
    leader_epoch, surplus = 0, None
    while True:
        if not segment.data:
            raise CorruptLogError(segment.path_hint, 0, segment.base_offset, "the file is empty; a segment never is")
        successor = next(source, None)
        scan = scan_segment(
            segment.data,
            path_hint=segment.path_hint,
            base_offset=segment.base_offset,
            leader_epoch=leader_epoch,
            may_be_torn=successor is None or is_blank(successor.data),
            wanted_from=start,
        )
        for batch in scan.batches:
            take(_after(batch, start))
        leader_epoch = scan.leader_epoch
        position, offset = scan.valid_bytes, scan.end_offset
        tails.append(Tail(segment.base_offset, scan.last_frame, segment.data[scan.last_frame : position]))
        if successor is None:
            if scan.is_sealed:
                why = "the segment is sealed, but the one after it is missing"
                raise CorruptLogError(segment.path_hint, position, offset, why)
            break
        if successor.base_offset != offset:
            kind = "a gap" if successor.base_offset > offset else "an overlap"
            why = f"the segment starts at log offset {successor.base_offset}, {kind}: {offset} was next"
            raise CorruptLogError(successor.path_hint, 0, offset, why)
        if not scan.is_sealed:
            if not is_blank(successor.data) or next(source, None) is not None:
                why = "the segment is not sealed, but others follow it"
                raise CorruptLogError(segment.path_hint, position, offset, why)
            surplus = successor.base_offset
            break
        segment = successor
    if offset < start:
        why = f"the log ends there, but its snapshot was made of the log up to {start}"
        raise CorruptLogError(segment.path_hint, position, offset, why)
    return RecoveredLog(
        log_end_offset=offset,
        leader_epoch=leader_epoch,
        active_base=segment.base_offset,
        active_bytes=position,
        cut_bytes=scan.cut_bytes,
        tails=tuple(tails[-2:]),
        surplus_base=surplus,
    )


def _after(batch: Batch, start: int) -> Batch:
    """Return the part of `batch` at or after `start`, which lies before its end."""
    if batch.base_offset >= start:
        return batch
    return Batch(start, batch.leader_epoch, batch.records[start - batch.base_offset :])
