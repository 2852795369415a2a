"""The rule that turns stored segments back into a log.

It joins segments and snapshot: it accepts exactly the states that a crash can leave (see `segment`) and raises for
every other. What is read is handed on piece by piece, so that a log of any length takes the memory of one segment.
Knows nothing of files or threads.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from coordinator.core.log.entry import Batch, CorruptLogError
from coordinator.core.log.segment import is_blank, scan_segment


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
