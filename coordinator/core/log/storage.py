"""The port that keeps shard logs, and the pure rule that turns stored segments back into a log.

`DiskPort` is what the rest of the node may ask of a disk; the real one and the fake pass one contract suite.
`recover_log` joins segments and snapshot: it accepts exactly the states that a crash can leave
(see `segment`) and raises for every other. Knows nothing of files or threads.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.core.log.entry import Batch, CorruptLogError
from coordinator.core.log.segment import is_blank, scan_segment
from coordinator.core.log.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class RecoveredShard:
    """A shard as loaded: replay `snapshot`, then `batches`, which start where it ends (else at 0)."""

    snapshot: Snapshot | None
    batches: tuple[Batch, ...]
    log_end_offset: int
    leader_epoch: int
    notices: tuple[str, ...]


class DiskPort(Protocol):
    """Keeps the logs of a fixed number of shards.

    Completion is reported through two callables given when the port is made: `on_durable(shard, end_offset)`,
    after everything below `end_offset` is on stable storage, and `on_failure(message)`, once, after which
    nothing more is written or reported durable. Both may be called from another thread and must not block.

    Not promised: that every `append` gets a call of its own (ends are cumulative), that calls of different
    shards keep an order, or that a snapshot is written before a later append.
    """

    def recover(self, shard: int) -> RecoveredShard:
        """Load a shard; required before its first append. Blocks; waits for appends of the shard under way.

        Cuts a torn tail off and says so in the notices. Raises StorageError when the log must not be served.
        """
        ...

    def append(self, shard: int, base_offset: int, leader_epoch: int, records: Sequence[bytes]) -> None:
        """Take records for the log without blocking; a crash may part what is longer than a frame.

        Raises ValueError for offsets that do not continue the log, a leader epoch that goes back or a record that
        fits no frame (a bug of the caller), StorageError after a failure, and StorageError, failing, when more is
        waiting than the limit allows.
        """
        ...

    def write_snapshot(self, shard: int, end_offset: int, leader_epoch: int, records: Sequence[bytes]) -> None:
        """Take a snapshot of the shard at `end_offset` without blocking; then let go of what it replaces.

        It is written once the log is durable up to `end_offset`; a newer one takes the place of one not
        begun.
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

    batches: tuple[Batch, ...]
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


def recover_log(directory_hint: str, snapshot: Snapshot | None, segments: Iterable[SegmentBytes]) -> RecoveredLog:
    """Join `segments`, given by rising base offset and without those wholly below the snapshot, into one log.

    At most two segments are held at a time. A sealed segment has a successor, one that is not sealed has none
    (or only a blank one: the roll was under way). Raises CorruptLogError for a gap, an overlap, a missing
    first or last segment, a log that ends before its snapshot, and damage in any segment.
    """
    start = 0 if snapshot is None else snapshot.end_offset
    source = iter(segments)
    segment = next(source, None)
    if segment is None:
        raise CorruptLogError(directory_hint, 0, start, "its segments are missing")
    if segment.base_offset > start:
        why = "the log before it is missing" + (" and there is no snapshot" if snapshot is None else "")
        raise CorruptLogError(segment.path_hint, 0, start, f"{why}: it starts at log offset {segment.base_offset}")
    batches: list[Batch] = []
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
        )
        batches.extend(kept for batch in scan.batches if (kept := _after(batch, start)) is not None)
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
    if snapshot is not None:
        leader_epoch = max(leader_epoch, snapshot.leader_epoch)
    return RecoveredLog(
        batches=tuple(batches),
        log_end_offset=offset,
        leader_epoch=leader_epoch,
        active_base=segment.base_offset,
        active_bytes=position,
        cut_bytes=scan.cut_bytes,
        tails=tuple(tails[-2:]),
        surplus_base=surplus,
    )


def _after(batch: Batch, start: int) -> Batch | None:
    """Return the part of `batch` at or after `start`."""
    if batch.base_offset >= start:
        return batch
    if batch.end <= start:
        return None
    return Batch(start, batch.leader_epoch, batch.records[start - batch.base_offset :])
