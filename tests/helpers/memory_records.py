"""The rows kafka-python reads from a record set: the oracle that decoders are compared with.

In two things kafka-python reads a record otherwise than Kafka's own client (`DefaultRecord.readFrom` and `ByteUtils`),
and the oracle follows Kafka: the attributes of a record are one byte, which kafka-python reads as a number of any
length, and of a number's tenth byte only the bits of a 64-bit number count, where kafka-python keeps them all.
"""

import struct
from typing import Any

from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import decode_varint

from spark_kcoord.fetch.decoding.codecs import Decompressor

_LOG_OVERHEAD = struct.Struct(">qi")
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT = DefaultRecordBatch.ATTRIBUTES_OFFSET
_HEADER_BYTES = DefaultRecordBatch.HEADER_STRUCT.size

OracleRow = tuple[int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]


def _number(buffer: bytearray, position: int) -> tuple[int, int]:
    """Return the number at the position, of 64 bits as Kafka's own are, and the position after it."""
    number, after = decode_varint(buffer, position)
    raw = (number << 1 if number >= 0 else ~(number << 1)) & (1 << 64) - 1
    return raw >> 1 ^ -(raw & 1), after


class _BatchAsKafkaReads(DefaultRecordBatch):
    def _read_msg(self) -> Any:
        _, attributes_at = _number(self._buffer, self._pos)
        self._buffer[attributes_at] = 0
        return super()._read_msg(_number)


def plain_batches(record_set: bytes) -> list[DefaultRecordBatch]:
    """Return kafka-python's batches of a record set, decompressed: its own codecs need modules of their own."""
    batches = []
    position = 0
    while position + _LOG_OVERHEAD.size <= len(record_set):
        _offset, length = _LOG_OVERHEAD.unpack_from(record_set, position)
        batch = bytearray(record_set[position : position + _LOG_OVERHEAD.size + length])
        if len(batch) < _LOG_OVERHEAD.size + length:
            break
        position += len(batch)
        (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
        codec = attributes & DefaultRecordBatch.CODEC_MASK
        if codec:
            batch[_HEADER_BYTES:] = Decompressor().decompress(codec, memoryview(bytes(batch[_HEADER_BYTES:])))
            _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes & ~DefaultRecordBatch.CODEC_MASK)
        batches.append(_BatchAsKafkaReads(bytes(batch)))
    return batches


def oracle_rows(record_set: bytes) -> list[OracleRow]:
    """Return (offset, timestamp in ms, its type, key, value, headers or None) of all but control records."""
    return [
        (it.offset, it.timestamp, it.timestamp_type, it.key, it.value, it.headers or None)
        for batch in plain_batches(record_set)
        if not batch.is_control_batch
        for it in batch
    ]


def decoded_rows(rows: Any) -> list[OracleRow]:
    """Return the rows of a decoded batch with headers in the oracle's shape."""
    times = rows.column("timestamp").cast("int64").to_pylist()
    return [
        (
            row["offset"],
            time // 1000,
            row["timestampType"],
            row["key"],
            row["value"],
            None if row["headers"] is None else [(it["key"], it["value"]) for it in row["headers"]],
        )
        for row, time in zip(rows.drop_columns(["timestamp"]).to_pylist(), times, strict=True)
    ]
