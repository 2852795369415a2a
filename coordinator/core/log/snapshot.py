"""A snapshot of one shard: records that rebuild its hard state at `end_offset`, in pieces that are checked one by one.

It bounds recovery and lets older segments go. Knows nothing of what the records mean or where the pieces are kept. A
snapshot has no largest size: it is written and read a piece at a time, and a piece bears all it takes to tell that it
belongs where it is found. The pieces get their name together, once the last one is durable, so anything odd about them
is damage, never a torn write. Format 2, big-endian, pieces back to back:

    "kcsnap" | crc32c u32 (over the rest of the piece) | format u16 | length u32 | end_offset u64 | leader_epoch u32
    | index u32 | is_last u8 | records

`length` counts the bytes of `records`, a msgpack array of bin; the pieces are numbered from 0.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import google_crc32c
import msgspec

from coordinator.core.log.entry import MAX_FRAME_BYTES, CorruptLogError, UnknownFormatError, batch_bytes

FORMAT: Final = 2
MAX_PIECE_BYTES: Final = 2 * MAX_FRAME_BYTES
"""The most bytes of records that a piece may have: one record more than it was to have."""

_MAGIC = b"kcsnap"
_PREFIX = struct.Struct(">6sI")
_HEADER = struct.Struct(">HIQIIB")
HEADER_BYTES: Final = _PREFIX.size + _HEADER.size
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[bytes, ...])


@dataclass(frozen=True, slots=True)
class SnapshotPiece:
    """A piece of the hard state of a shard after all records below `end_offset`, as records to replay."""

    end_offset: int
    leader_epoch: int
    records: tuple[bytes, ...]
    index: int = 0
    is_last: bool = True


def encode_piece(piece: SnapshotPiece) -> bytes:
    """Encode a piece; raises ValueError when it would pass `MAX_PIECE_BYTES`, before building it."""
    size = batch_bytes(piece.records)
    if size > MAX_PIECE_BYTES:
        raise ValueError(f"a piece of a snapshot of {size} bytes passes the limit of {MAX_PIECE_BYTES}")
    records = _encoder.encode(piece.records)
    header = _HEADER.pack(FORMAT, len(records), piece.end_offset, piece.leader_epoch, piece.index, piece.is_last)
    crc32c = google_crc32c.extend(google_crc32c.value(header), records)
    return b"".join((_PREFIX.pack(_MAGIC, crc32c), header, records))


def read_pieces(read: Callable[[int, int], bytes], size: int, *, path_hint: str) -> Iterator[SnapshotPiece]:
    """Yield the pieces of a snapshot, one in memory at a time; `read` takes a position and a number of bytes.

    Raises CorruptLogError, or UnknownFormatError when a piece is intact but of another format. A damaged snapshot is
    never passed over for an older one: the segments below it may be gone.
    """
    position, index = 0, 0
    first: SnapshotPiece | None = None
    while True:
        piece, position_after = read_piece(read, position, size, path_hint)
        if first is None:
            first = piece
        if piece.index != index:
            raise CorruptLogError(path_hint, position, None, f"piece {index} was next, but this is piece {piece.index}")
        if (piece.end_offset, piece.leader_epoch) != (first.end_offset, first.leader_epoch):
            raise CorruptLogError(path_hint, position, None, f"piece {index} is of another snapshot than the first")
        yield piece
        position = position_after
        if piece.is_last:
            break
        index += 1
    if position != size:
        raise CorruptLogError(path_hint, position, None, "bytes follow the last piece of the snapshot")


def begins_piece(read: Callable[[int, int], bytes], position: int) -> bool:
    """Tell whether a piece seems to begin at a position, which somebody else has named."""
    return read(position, len(_MAGIC)) == _MAGIC


def read_piece(
    read: Callable[[int, int], bytes], position: int, size: int, path_hint: str
) -> tuple[SnapshotPiece, int]:
    """Read the piece at a position; returns the position after it as well. Raises as `read_pieces` does."""
    left = size - position
    head = read(position, min(HEADER_BYTES, left))
    if len(head) < HEADER_BYTES:
        raise CorruptLogError(path_hint, position, None, "the snapshot ends before its last piece")
    magic, crc32c = _PREFIX.unpack_from(head)
    if magic != _MAGIC:
        raise CorruptLogError(path_hint, position, None, "no piece of a snapshot begins there")
    found, length, end_offset, leader_epoch, index, is_last = _HEADER.unpack_from(head, _PREFIX.size)
    if length > min(MAX_PIECE_BYTES, left - HEADER_BYTES):
        why = f"a piece claims {length} bytes of records, and {left - HEADER_BYTES} follow"
        raise CorruptLogError(path_hint, position, None, why)
    body = read(position + HEADER_BYTES, length)
    if google_crc32c.extend(google_crc32c.value(head[_PREFIX.size :]), body) != crc32c:
        raise CorruptLogError(path_hint, position, None, "the CRC-32C of a piece of the snapshot does not match")
    if found != FORMAT:
        raise UnknownFormatError(path_hint, position, found, FORMAT)
    try:
        records = _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise CorruptLogError(path_hint, position, None, f"its records cannot be decoded: {error}") from error
    return SnapshotPiece(end_offset, leader_epoch, records, index, bool(is_last)), position + HEADER_BYTES + length
