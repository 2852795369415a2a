"""Builds Kafka record batches byte by byte as a broker would send them, for tests of decoding and fetching."""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import cramjam
import google_crc32c
from kafka.record.memory_records import MemoryRecordsBuilder

HEADER_BYTES = 61
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_BASE_OFFSET = struct.Struct(">q")
_ATTRIBUTES = struct.Struct(">h")
_LAST_DELTA = struct.Struct(">i")
_MAX_TIMESTAMP = struct.Struct(">q")

LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


@dataclass(frozen=True)
class Row:
    """One record: a Kafka timestamp in ms, key, value and headers."""

    key: bytes | None = None
    value: bytes | None = None
    timestamp: int = 1_000
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def _xerial_snappy(data: bytes) -> bytes:
    blocks = [data[at : at + 64] for at in range(0, len(data), 64)]
    framed = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(_LENGTH.pack(len(b)) + b for b in framed)


COMPRESS: Mapping[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, bytes),
    "gzip": (1, lambda data: bytes(cramjam.gzip.compress(data))),
    "snappy": (2, _xerial_snappy),
    "raw snappy": (2, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "lz4": (3, lambda data: bytes(cramjam.lz4.compress(data))),
    "zstd": (4, lambda data: bytes(cramjam.zstd.compress(data))),
}


def record_batch(
    rows: Iterable[Row] | Mapping[int, Row],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    codec: str = "none",
    flags: int = 0,
    producer_id: int = -1,
    append_time: int | None = None,
) -> bytes:
    """Return one batch; a mapping gives rows their offsets, which leaves holes as compaction does."""
    placed = dict(rows) if isinstance(rows, Mapping) else {base_offset + i: row for i, row in enumerate(rows)}
    is_of_producer = producer_id >= 0
    builder = MemoryRecordsBuilder(
        2,
        0,
        1 << 24,
        producer_id=producer_id,
        producer_epoch=0 if is_of_producer else -1,
        base_sequence=0 if is_of_producer else -1,
    )
    at = base_offset
    for offset, row in placed.items():
        builder.skip(offset - at)
        builder.append(row.timestamp, row.key, row.value, row.headers)
        at = offset + 1
    builder.close()
    plain = bytes(builder.buffer())
    number, compress = COMPRESS[codec]
    batch = bytearray(plain[:HEADER_BYTES]) + compress(plain[HEADER_BYTES:])
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LENGTH.pack_into(batch, 8, len(batch) - 12)
    if append_time is not None:
        flags |= LOG_APPEND_TIME
        _MAX_TIMESTAMP.pack_into(batch, 35, append_time)
    _ATTRIBUTES.pack_into(batch, 21, number | flags)
    if last_offset is not None:
        _LAST_DELTA.pack_into(batch, 23, last_offset - base_offset)
    _CRC.pack_into(batch, 17, google_crc32c.value(bytes(batch[21:])))
    return bytes(batch)


def end_marker(offset: int, producer_id: int, *, is_abort: bool) -> bytes:
    """Return the control batch that ends a producer's transaction."""
    key = struct.pack(">hh", 0, 0 if is_abort else 1)
    row = Row(key=key, value=struct.pack(">hi", 0, 0))
    return record_batch([row], base_offset=offset, flags=TRANSACTIONAL | CONTROL, producer_id=producer_id)
