"""Messages of formats 0 and 1, from before Kafka 0.11, to Arrow; kafka-python reads the fields of each.

A message is a record, or a wrapper: its value is a compressed set of messages and its offset that of the last of them.
A wrapper of format 0 has their offsets as they are, one of format 1 counts them so that the last one comes out as its
own; the log cleaner leaves holes in both. A broker that stamps (log-append time) stamps the wrapper alone. Messages
have no headers, and those of format 0 no time: as in Java's consumer, -1 stands for it and for its type.

Nothing that a message says of its own size is believed: kafka-python takes what it finds, so lengths, offsets and
checksums are compared here. Which messages there are, and the batches among them, is for ``mixed_sets.py`` to say.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from kafka.record.legacy_records import LegacyRecord, LegacyRecordBatch

from spark_kcoord.fetch.decoding import record_set as sets
from spark_kcoord.fetch.decoding.codecs import Decompressor
from spark_kcoord.fetch.decoding.columns import arrow_schema, partition_column, topic_column
from spark_kcoord.fetch.decoding.old_lz4 import with_right_checksum
from spark_kcoord.fetch.decoding.record_set import DecodedBatch

__all__ = ["OldMessage", "decode_messages", "is_old_at", "message_at"]

_PREFIX: Final = struct.Struct(">qi")
_HEADER: Final = struct.Struct(">IBB")
_MAGIC_AT: Final = 16
"""The place of the magic, the first byte that the checksum covers."""
_ATTRIBUTES_AT: Final = 17
_KEY_AT: Final = (LegacyRecordBatch.KEY_OFFSET_V0, LegacyRecordBatch.KEY_OFFSET_V1)
_LENGTH: Final = struct.Struct(">i")
_SMALLEST: Final = 26
_LARGEST_OFFSET: Final = (1 << 63) - 2

_LZ4: Final = 3
"""The last codec of these formats."""
_NONE: Final = -1
"""The time of a record that has none, and the type of such a time."""
_LARGEST_MS: Final = ((1 << 63) - 1) // 1000

_NESTED: Final = "its compressed set holds more than plain messages of formats 0 and 1"
_EMPTY: Final = "its compressed set is empty"


class OldMessage(NamedTuple):
    """One whole message and what its first fields tell; ``offset`` is the last one's where it wraps several."""

    data: memoryview
    offset: int
    crc: int
    magic: int
    codec: int

    @property
    def next_offset(self) -> int:
        """Return the offset after the message."""
        return self.offset + 1


def is_old_at(data: memoryview, position: int) -> bool:
    """Say whether a message of format 0 or 1 begins at ``position``, whole or cut short after its magic."""
    return len(data) > position + _MAGIC_AT and data[position + _MAGIC_AT] <= 1


def message_at(data: memoryview, position: int, where: str) -> OldMessage | None:
    """Return the message at ``position``, where ``is_old_at`` says that one is; None if it is cut short.

    Raises KcoordError for bytes that cannot be a message.
    """
    offset, length = _PREFIX.unpack_from(data, position)
    size = _PREFIX.size + length
    if length > 0 and position + size > len(data):
        return None
    if size < _SMALLEST or not 0 <= offset <= _LARGEST_OFFSET:
        raise sets.damaged_header(where, offset)
    crc, magic, attributes = _HEADER.unpack_from(data, position + _PREFIX.size)
    return OldMessage(data[position : position + size], offset, crc, magic, attributes & sets.CODEC_MASK)


class _Record(NamedTuple):
    """A record with its offset in the log and the time that counts."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None


@dataclass(slots=True)
class _Rows:
    """The fields of the records of the range."""

    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    milliseconds: list[int] = field(default_factory=list)
    time_types: list[int] = field(default_factory=list)
    held_bytes: int = 0

    def append(self, record: _Record) -> None:
        """Hold one more."""
        self.keys.append(record.key)
        self.values.append(record.value)
        self.offsets.append(record.offset)
        self.milliseconds.append(record.timestamp)
        self.time_types.append(record.timestamp_type)
        self.held_bytes += len(record.key or b"") + len(record.value or b"")

    def to_arrow(self, topic: str, partition: int, columns: Sequence[str], where: str) -> pa.RecordBatch:
        """Return the columns wanted."""
        schema = arrow_schema(columns)
        count = len(self.offsets)
        arrays: list[pa.Array[Any]] = []
        kind: Any
        for name, kind in zip(schema.names, schema.types, strict=True):
            match name:
                case "key":
                    arrays.append(_strings(self.keys))
                case "value":
                    arrays.append(_strings(self.values))
                case "topic":
                    arrays.append(topic_column(topic, count, where))
                case "partition":
                    arrays.append(partition_column(partition, count))
                case "offset":
                    arrays.append(_numbers(kind, self.offsets, np.int64))
                case "timestamp":
                    arrays.append(_numbers(kind, [time * 1000 for time in self.milliseconds], np.int64))
                case "timestampType":
                    arrays.append(_numbers(kind, self.time_types, np.int32))
                case _:
                    arrays.append(pa.nulls(count, kind))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


# pa.array of lists would load pandas, where it is installed, which takes longer than most tasks.
def _numbers(kind: Any, numbers: list[int], of: Any) -> pa.Array[Any]:
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(np.array(numbers, of).data)])


def _strings(strings: list[bytes | None]) -> pa.Array[Any]:
    is_valid = np.array([string is not None for string in strings], np.bool_)
    ends = np.zeros(len(strings) + 1, np.int32)
    np.cumsum([len(string or b"") for string in strings], out=ends[1:])
    valid = None if is_valid.all() else pa.py_buffer(np.packbits(is_valid, bitorder="little").tobytes())
    plain = pa.py_buffer(b"".join(string or b"" for string in strings))
    return pa.Array.from_buffers(pa.binary(), len(strings), [valid, pa.py_buffer(ends.data), plain])


def decode_messages(
    messages: Iterable[OldMessage],
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    columns: Sequence[str],
    check_crcs: bool,
    max_bytes: int,
) -> DecodedBatch:
    """Decode the records of [start, end) of messages that follow each other, as ``decode.decode`` says."""
    where = f"topic '{topic}' partition {partition}"
    decompressor = Decompressor()
    rows = _Rows()
    has_time = "timestamp" in columns
    next_offset = start
    for message in messages:
        if message.next_offset <= start:
            continue
        if next_offset >= end or rows.held_bytes >= max_bytes or len(rows.offsets) >= sets.MAX_ROWS:
            break
        if not message.codec and message.offset >= end:
            next_offset = max(next_offset, end)
            break
        for record in _records(message, decompressor, where, check_crcs=check_crcs):
            if start <= record.offset < end:
                if has_time and not -_LARGEST_MS <= record.timestamp <= _LARGEST_MS:
                    raise sets.unrepresentable_time(where, record.offset, record.timestamp)
                rows.append(record)
        next_offset = max(next_offset, message.next_offset)
    return DecodedBatch(rows.to_arrow(topic, partition, columns, where), next_offset)


def _records(message: OldMessage, decompressor: Decompressor, where: str, *, check_crcs: bool) -> Iterator[_Record]:
    """Yield the record that the message is, or those that it wraps."""
    outer = _read(message, where, message.offset, check_crcs=check_crcs)
    time_type = _NONE if outer.timestamp_type is None else outer.timestamp_type
    if not message.codec:
        yield _placed(outer, message, message.offset, time_type, outer.timestamp)
        return
    inner = _unwrapped(message, outer.value, decompressor, where)
    base = message.offset - inner[-1].offset if message.magic else 0
    for one in inner:
        offset = base + one.offset
        if base < 0 or offset > message.offset:
            raise sets.unreadable(where, message.offset, sets.OUTSIDE)
        record = _read(one, where, offset, check_crcs=check_crcs)
        is_stamped = time_type == LegacyRecordBatch.LOG_APPEND_TIME
        yield _placed(record, one, offset, time_type, outer.timestamp if is_stamped else record.timestamp)


def _placed(record: LegacyRecord, message: OldMessage, offset: int, time_type: int, timestamp: int | None) -> _Record:
    if not message.magic or timestamp is None:
        return _Record(offset, _NONE, _NONE, record.key, record.value)
    return _Record(offset, timestamp, time_type, record.key, record.value)


def _unwrapped(
    message: OldMessage, value: bytes | None, decompressor: Decompressor, where: str
) -> Sequence[OldMessage]:
    """Return the messages of a wrapper; they hold until the next one is decompressed."""
    packed = memoryview(value or b"")
    if message.codec > _LZ4:
        why = f"compression codec {message.codec} is unknown in format {message.magic}"
        raise sets.unreadable(where, message.offset, why)
    if message.codec == _LZ4 and not message.magic:
        packed = with_right_checksum(packed)
    try:
        plain = decompressor.decompress(message.codec, packed)
    except ValueError as error:
        raise sets.unreadable(where, message.offset, str(error)) from error
    inner: list[OldMessage] = []
    position = 0
    while position < len(plain):
        if not is_old_at(plain, position):
            raise sets.unreadable(where, message.offset, _NESTED)
        one = message_at(plain, position, where)
        if one is None:
            raise sets.unreadable(where, message.offset, sets.CUT)
        if one.codec:
            raise sets.unreadable(where, message.offset, _NESTED)
        inner.append(one)
        position += len(one.data)
    if not inner:
        raise sets.unreadable(where, message.offset, _EMPTY)
    return inner


def _read(message: OldMessage, where: str, offset: int, *, check_crcs: bool) -> LegacyRecord:
    """Return a message's fields, the value of a wrapper still compressed; ``offset`` is the one to name it by."""
    data = message.data
    if check_crcs:
        found = zlib.crc32(data[_MAGIC_AT:])
        if found != message.crc:
            raise sets.wrong_checksum(where, offset, found, message.crc)
    if message.codec:
        # kafka-python would decompress it, without a limit and by libraries that executors do not have.
        bare = bytearray(data)
        bare[_ATTRIBUTES_AT] &= ~sets.CODEC_MASK
        data = memoryview(bare)
    try:
        (record,) = LegacyRecordBatch(data, message.magic)
    except struct.error:
        raise sets.unreadable(where, offset, sets.CUT) from None
    value_at = len(data) - len(record.value or b"")
    key_at = value_at - _LENGTH.size - len(record.key or b"")
    is_filled = key_at == (_KEY_AT[message.magic] + _LENGTH.size)
    if not (is_filled and _is_length(data, key_at, record.key) and _is_length(data, value_at, record.value)):
        raise sets.unreadable(where, offset, sets.CUT)
    return record


def _is_length(data: memoryview, at: int, found: bytes | None) -> bool:
    """Say whether the length before ``at`` is that of what was found there."""
    (length,) = _LENGTH.unpack_from(data, at - _LENGTH.size)
    return bool(length == (-1 if found is None else len(found)))
