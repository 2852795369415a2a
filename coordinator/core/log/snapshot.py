"""A snapshot of one shard: records that rebuild its hard state at `end_offset`, as one checked blob.

It bounds recovery and lets older segments go. Knows nothing of what the records mean or where the blob is
kept; the blob is written whole or not at all, so anything odd about it is damage, never a torn write. Format
1, big-endian:

    "kcsnap" | crc32c u32 (over everything after it) | format u16 | end_offset u64 | leader_epoch u32
    | count u32 | records

`records` is a msgpack array of bin, to the end of the blob.
"""

import struct
from dataclasses import dataclass

import google_crc32c
import msgspec

from coordinator.core.log.entry import CorruptLogError, UnknownFormatError, batch_bytes

FORMAT = 1
MAX_SNAPSHOT_BYTES = 1024 * 1024 * 1024

_MAGIC = b"kcsnap"
_PREFIX = struct.Struct(">6sI")
_HEADER = struct.Struct(">HQII")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[bytes, ...])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The hard state of a shard after all records below `end_offset`, as records to replay."""

    end_offset: int
    leader_epoch: int
    records: tuple[bytes, ...]


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encode `snapshot`; raises ValueError when it would pass `MAX_SNAPSHOT_BYTES`, before building it."""
    size = batch_bytes(snapshot.records)
    if size > MAX_SNAPSHOT_BYTES:
        raise ValueError(f"a snapshot of {size} bytes passes the limit of {MAX_SNAPSHOT_BYTES}")
    header = _HEADER.pack(FORMAT, snapshot.end_offset, snapshot.leader_epoch, len(snapshot.records))
    body = header + _encoder.encode(snapshot.records)
    return _PREFIX.pack(_MAGIC, google_crc32c.value(body)) + body


def decode_snapshot(data: bytes, *, path_hint: str) -> Snapshot:
    """Decode a snapshot; raises CorruptLogError, or UnknownFormatError when intact but of another format.

    A damaged snapshot is never passed over for an older one: the segments below it may be gone.
    """
    if len(data) < _PREFIX.size + _HEADER.size:
        raise CorruptLogError(path_hint, len(data), None, f"a snapshot of {len(data)} bytes cannot be whole")
    magic, crc32c = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise CorruptLogError(path_hint, 0, None, "it does not start like a snapshot")
    if google_crc32c.value(data[_PREFIX.size :]) != crc32c:
        raise CorruptLogError(path_hint, _PREFIX.size, None, "the CRC-32C of the snapshot does not match")
    found, end_offset, leader_epoch, count = _HEADER.unpack_from(data, _PREFIX.size)
    if found != FORMAT:
        raise UnknownFormatError(path_hint, _PREFIX.size, found, FORMAT)
    start = _PREFIX.size + _HEADER.size
    try:
        records = _decoder.decode(data[start:])
    except msgspec.DecodeError as error:
        raise CorruptLogError(path_hint, start, None, f"its records cannot be decoded: {error}") from error
    if len(records) != count:
        raise CorruptLogError(path_hint, start, None, f"it holds {len(records)} records but its header says {count}")
    return Snapshot(end_offset, leader_epoch, records)
