"""Reads one segment: a file's bytes in, batches and a verdict on how they end out.

A segment is frames back to back from position 0, in zero-filled space made before them. The verdict separates
what a crash can leave (torn: never acknowledged, cut off) from what it cannot (damage: the shard is refused).

What a crash can leave. One frame is in flight at a time, in space that held zeros, and a disk writes whole
512-byte sectors; so a torn frame is the last thing in the log and has either lost its end (a process killed
or a file cut short) or has whole sectors of zeros in it (the disk wrote some sectors and not others). It
follows, for one fault at a time:

* A change in any frame but the last is always detected: intact frames follow it.
* A change of bits in the last frame is detected, although it may look like a torn write at first sight: all
  its sectors are there. This holds for its length field too, since the frame must end at the last byte that
  is not zero.
* **Not detected**, because they look exactly like a write that never happened: the last frames erased to
  zeros or cut off; and a change in a last frame that has lost its end mark or whose records hold an aligned
  sector of zeros.
"""

from dataclasses import dataclass

import google_crc32c

from coordinator.core.log.entry import (
    ALIGNMENT,
    FORMAT,
    MIN_FRAME_BYTES,
    PREFIX_BYTES,
    Batch,
    CorruptLogError,
    FrameHeader,
    UnknownFormatError,
    decode_records,
    is_intact,
    read_header,
)

SECTOR_BYTES = 512

# The format byte and the two highest bytes of base_offset, which MAX_OFFSET keeps at zero.
_FRAME_CLUE = bytes((FORMAT, 0, 0))


@dataclass(frozen=True, slots=True)
class SegmentScan:
    """The content of a segment: its batches, where they end, and whether the segment was sealed by a roll.

    The last frame, seal or not, is `[last_frame, valid_bytes)`; empty in a segment without frames.
    """

    batches: tuple[Batch, ...]
    end_offset: int
    leader_epoch: int
    last_frame: int
    valid_bytes: int
    cut_bytes: int
    is_sealed: bool


def is_blank(data: bytes) -> bool:
    """Tell whether `data` is zero-filled space only."""
    return not data.strip(b"\0")


def scan_segment(
    data: bytes,
    *,
    path_hint: str,
    base_offset: int,
    leader_epoch: int = 0,
    may_be_torn: bool,
    wanted_from: int = 0,
) -> SegmentScan:
    """Read the frames of a segment that starts at `base_offset`.

    Records of frames that end at or before `wanted_from` are checked but not decoded, and not in the answer.
    `leader_epoch` is the last one of the segment before. `may_be_torn` says that no frame of the log follows
    this segment; `cut_bytes` of the answer are then those of a torn frame, to be cut off before the next
    write. Raises CorruptLogError as the module says, and UnknownFormatError for an intact frame of another
    format.
    """
    used = len(data.rstrip(b"\0"))
    batches: list[Batch] = []
    position, last_frame, offset, sealed = 0, 0, base_offset, False
    while position < used:
        header = read_header(data, position)
        if not is_intact(data, position, header):
            _check_torn(data, position, used, header, offset, path_hint, may_be_torn=may_be_torn and not sealed)
            break
        if header.format != FORMAT:
            raise UnknownFormatError(path_hint, position, header.format, FORMAT)
        why = None
        if sealed:
            why = "a frame follows the seal of the segment"
        elif header.base_offset != offset:
            kind = "a gap" if header.base_offset > offset else "an overlap"
            why = f"the frame starts at log offset {header.base_offset}, {kind}: {offset} was next"
        elif header.leader_epoch < leader_epoch:
            why = f"its leader epoch {header.leader_epoch} is smaller than {leader_epoch} before it"
        if why is not None:
            raise CorruptLogError(path_hint, position, offset, why)
        end_offset = offset + header.count
        if header.count == 0:
            sealed = True
        elif end_offset > wanted_from:
            try:
                batches.append(Batch(offset, header.leader_epoch, decode_records(data, position, header)))
            except ValueError as error:
                raise CorruptLogError(path_hint, position, offset, str(error)) from error
        last_frame, position = position, position + header.frame_bytes
        offset, leader_epoch = end_offset, header.leader_epoch
    cut_bytes = max(used - position, 0)
    return SegmentScan(tuple(batches), offset, leader_epoch, last_frame, position, cut_bytes, sealed)


def _check_torn(
    data: bytes,
    position: int,
    used: int,
    header: FrameHeader,
    offset: int,
    path_hint: str,
    *,
    may_be_torn: bool,
) -> None:
    """Return when a crash explains the invalid frame at `position`; otherwise raise CorruptLogError."""
    follower = _find_frame_after(data, position, used, offset)
    if follower is not None:
        why = f"its frame is invalid, but the intact frame at byte {follower} shows that it was acknowledged"
    elif not may_be_torn:
        why = "its frame is invalid, and it is not the last of the log"
    else:
        damage = _find_damage(data, position, used, header)
        if damage is None:
            return
        why = f"{damage}, which a crash in the middle of a write does not explain"
    raise CorruptLogError(path_hint, position, offset, why)


def _find_damage(data: bytes, position: int, used: int, header: FrameHeader) -> str | None:
    """Say what is wrong with the last, invalid frame if all of it was once written; None when it is torn."""
    first_sector_end = position - position % SECTOR_BYTES + SECTOR_BYTES
    if is_blank(data[position:first_sector_end]):
        return None  # the header's sector was never written
    if (
        used - position >= MIN_FRAME_BYTES
        and google_crc32c.value(data[position + PREFIX_BYTES : used]) == header.crc32c
    ):
        return "its length field is wrong"
    if not header.is_plausible:
        return f"it claims an impossible length of {header.frame_bytes} bytes"
    end = position + header.frame_bytes
    if used > end:
        return f"its frame is invalid and other bytes follow it at {end}"
    if used < end:
        return None  # its end mark was never written
    if any(is_blank(data[at : min(at + SECTOR_BYTES, end)]) for at in range(first_sector_end, end, SECTOR_BYTES)):
        return None  # the disk wrote the sectors in another order and did not finish
    return "its CRC-32C does not match although all of it was written"


def _find_frame_after(data: bytes, position: int, used: int, offset: int) -> int | None:
    """Find an intact frame of a higher offset after `position`."""
    clue = data.find(_FRAME_CLUE, position + PREFIX_BYTES + 1, used)
    while clue != -1:
        start = clue - PREFIX_BYTES
        if start % ALIGNMENT == 0:
            header = read_header(data, start)
            if header.base_offset > offset and is_intact(data, start, header):
                return start
        clue = data.find(_FRAME_CLUE, clue + 1, used)
    return None
