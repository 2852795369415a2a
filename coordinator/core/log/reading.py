"""Records out of the middle of a log that is being written, for replicas that lag.

Only what is durable is looked at, so every frame is whole. Frames before the wanted offset are passed over by their
headers; each frame that is handed on is checked against its CRC-32C. Knows nothing of files: a segment is given as a
function that reads some of its bytes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from coordinator.core.log.entry import (
    MIN_FRAME_BYTES,
    Batch,
    CorruptLogError,
    batch_bytes,
    decode_records,
    is_intact,
    read_header,
)

_BLOCK_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class ReadableSegment:
    """A segment's durable bytes: `read` takes a position and a length, and gives fewer bytes at the end."""

    path_hint: str
    base_offset: int
    size: int
    read: Callable[[int, int], bytes]


def read_batches(
    segments: Sequence[ReadableSegment], from_offset: int, end_offset: int, most_bytes: int
) -> tuple[Batch, ...]:
    """Return records from an offset on, which is not below the first segment: about so many bytes, and at least one.

    `end_offset` is the end of what is durable. Raises CorruptLogError for a segment that does not hold what it has to.
    """
    batches: list[Batch] = []
    offset, left = from_offset, most_bytes
    for segment, following in pairwise([*segments, None]):
        assert segment is not None, "only the last one is followed by none"
        end = end_offset if following is None else following.base_offset
        if end <= offset:
            continue
        for batch in _from(segment, offset, end):
            taken = _first_bytes(batch, left, at_least=0 if batches else 1)
            if not taken.records:
                return tuple(batches)
            batches.append(taken)
            offset, left = taken.end, left - batch_bytes(taken.records)
            if left <= 0 or taken.end < batch.end:
                return tuple(batches)
    return tuple(batches)


def _from(segment: ReadableSegment, wanted: int, end: int) -> Iterable[Batch]:
    """Yield the records of a segment from `wanted` to `end`, batch by batch."""
    offset, position, block, block_at = segment.base_offset, 0, b"", 0
    while offset < end:
        if position + MIN_FRAME_BYTES > block_at + len(block):
            block, block_at = segment.read(position, min(_BLOCK_BYTES, segment.size - position)), position
        header = read_header(block, position - block_at)
        if not header.is_plausible or header.base_offset != offset or not header.count:
            why = f"no frame of log offset {offset} begins there"
            raise CorruptLogError(segment.path_hint, position, offset, why)
        following = offset + header.count
        if following > wanted:
            frame = segment.read(position, min(header.frame_bytes, segment.size - position))
            if not is_intact(frame, 0, header):
                raise CorruptLogError(segment.path_hint, position, offset, "its CRC-32C does not match")
            try:
                records = decode_records(frame, 0, header)
            except ValueError as error:
                raise CorruptLogError(segment.path_hint, position, offset, str(error)) from error
            first = max(0, wanted - offset)
            yield Batch(offset + first, header.leader_epoch, records[first : end - offset])
        offset, position = following, position + header.frame_bytes


def _first_bytes(batch: Batch, most_bytes: int, *, at_least: int) -> Batch:
    """Return the first records of a batch that take so many bytes, and at least so many records."""
    taken, size = 0, 0
    for record in batch.records:
        size += batch_bytes((record,))
        if taken >= at_least and size > most_bytes:
            break
        taken += 1
    return batch if taken == len(batch.records) else Batch(batch.base_offset, batch.leader_epoch, batch.records[:taken])
