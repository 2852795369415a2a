"""One frame of a shard's log: the bytes of one batch, and the errors that reading them can end in.

A group write appends exactly one frame and is synced before the next one starts, so of all frames of a log
only the last can be incomplete. Knows nothing of files; a record is opaque bytes. Format 1, big-endian:

    length u32 | crc32c u32 | format u8 | base_offset u64 | leader_epoch u32 | count u32
    | records | padding | end mark u8

`length` counts the bytes after the CRC, which covers exactly those. `records` is a msgpack array of bin. Zero
padding makes a frame a multiple of 8 bytes, so a frame's first 8 bytes never straddle two disk sectors; the
end mark (0xE0 plus the number of padding bytes) is never zero, so a frame that was written whole differs from
one that lost its end to zero-filled space. `length`, `crc32c` and `format` keep their place in every future
format.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import google_crc32c
import msgspec

FORMAT = 0xC1  # high nibble: ours; low nibble: format 1. msgpack never uses this byte.
ALIGNMENT = 8
PREFIX_BYTES = 8
MAX_FRAME_BYTES = 8 * 1024 * 1024
MAX_OFFSET = 2**48 - 1
MAX_LEADER_EPOCH = 2**32 - 1

_HEADER = struct.Struct(">IIBQII")
_BODY = struct.Struct(">BQII")
_END_MARK = 0xE0
_RECORD_OVERHEAD = 5  # the longest msgpack bin header
_FRAME_OVERHEAD = _HEADER.size + 5 + ALIGNMENT  # header, the longest array header, padding and end mark
MIN_FRAME_BYTES = 32  # the frame of no records

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[bytes, ...])


class StorageError(Exception):
    """Anything that keeps a shard's log from being used; its text is written for the operator."""


class CorruptLogError(StorageError):
    """Stored bytes are not what was written, and no crash explains it: the shard must not be served.

    A copy that was made file by file while its node wrote looks the same, and lacks as much.
    """

    def __init__(self, path_hint: str, position: int, offset: int | None, why: str) -> None:
        self.path_hint = path_hint
        self.position = position
        self.offset = offset
        self.why = why
        where = f"{path_hint} at byte {position}"
        if offset is not None:
            where += f" (log offset {offset})"
        super().__init__(
            f"{where} is damaged: {why}. Acknowledged commits may be missing from it, so the node does not "
            "start. Check the disk, then restore this data directory from a copy, or move it away to begin "
            "an empty one. Or this is a copy that was made file by file while its node ran: take one of the stopped "
            "node"
        )


class UnknownFormatError(StorageError):
    """Stored bytes are intact but of a format this release does not know; nothing of them is skipped."""

    def __init__(self, path_hint: str, position: int, found: int, known: int) -> None:
        self.path_hint = path_hint
        self.position = position
        self.found = found
        super().__init__(
            f"{path_hint} at byte {position} has format {found}, this release reads format {known}: it was "
            "written by another release. Start the release that wrote it, or a newer one"
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """Records as laid in the log: consecutive offsets from `base_offset`, all of one leader epoch."""

    base_offset: int
    leader_epoch: int
    records: tuple[bytes, ...]

    @property
    def end(self) -> int:
        """Return the offset after the last record (exclusive end)."""
        return self.base_offset + len(self.records)


def batch_bytes(records: Sequence[bytes]) -> int:
    """Return the most bytes that `records` can take in a frame."""
    return sum(map(len, records)) + _RECORD_OVERHEAD * len(records)


MAX_BATCH_BYTES = MAX_FRAME_BYTES - _FRAME_OVERHEAD
"""The most `batch_bytes` that the records of one frame may have."""


def encode_batch(batch: Batch) -> bytes:
    """Encode `batch` as one frame.

    A batch of no records encodes the seal that ends a segment. Raises ValueError when an offset or epoch is
    out of range or the frame would pass `MAX_FRAME_BYTES`; the size is checked before the frame is built.
    """
    if not (batch.base_offset >= 0 and batch.end <= MAX_OFFSET and 0 <= batch.leader_epoch <= MAX_LEADER_EPOCH):
        raise ValueError(f"offset {batch.base_offset} or leader epoch {batch.leader_epoch} is out of range")
    if batch_bytes(batch.records) > MAX_BATCH_BYTES:
        raise ValueError(f"a batch of {len(batch.records)} records passes the frame limit of {MAX_FRAME_BYTES} bytes")
    records = _encoder.encode(batch.records)
    padding = -(_HEADER.size + len(records) + 1) % ALIGNMENT
    body = b"".join(
        (
            _BODY.pack(FORMAT, batch.base_offset, batch.leader_epoch, len(batch.records)),
            records,
            bytes(padding),
            bytes((_END_MARK + padding,)),
        )
    )
    return struct.pack(">II", len(body), google_crc32c.value(body)) + body


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """The fixed part of a frame, read but not yet believed: nothing here is checked against the CRC."""

    frame_bytes: int
    crc32c: int
    format: int
    base_offset: int
    leader_epoch: int
    count: int

    @property
    def is_plausible(self) -> bool:
        """True if `encode_batch` could have written the length (checked before allocating anything)."""
        return MIN_FRAME_BYTES <= self.frame_bytes <= MAX_FRAME_BYTES and self.frame_bytes % ALIGNMENT == 0


def read_header(data: bytes, position: int) -> FrameHeader:
    """Read the header at `position`; bytes past the end of `data` count as zero, like unwritten space."""
    raw = data[position : position + _HEADER.size].ljust(_HEADER.size, b"\0")
    length, crc32c, found, base_offset, leader_epoch, count = _HEADER.unpack(raw)
    return FrameHeader(PREFIX_BYTES + length, crc32c, found, base_offset, leader_epoch, count)


def is_intact(data: bytes, position: int, header: FrameHeader) -> bool:
    """Tell whether the whole frame of `header` lies in `data` and agrees with its CRC, whatever its format."""
    end = position + header.frame_bytes
    if not header.is_plausible or end > len(data):
        return False
    return bool(google_crc32c.value(data[position + PREFIX_BYTES : end]) == header.crc32c)


def decode_records(data: bytes, position: int, header: FrameHeader) -> tuple[bytes, ...]:
    """Decode the records of an intact frame of format 1.

    Raises ValueError when they are not what the header says: intact bytes that were never written by
    `encode_batch`.
    """
    end = position + header.frame_bytes
    padding = data[end - 1] - _END_MARK
    if not 0 <= padding < ALIGNMENT:
        raise ValueError("its end mark is wrong")
    try:
        records = _decoder.decode(data[position + _HEADER.size : end - 1 - padding])
    except msgspec.DecodeError as error:
        raise ValueError(f"its records cannot be decoded: {error}") from error
    if len(records) != header.count:
        raise ValueError(f"it holds {len(records)} records but its header says {header.count}")
    return records
