"""From a raw record set, as a broker sends it, to an Arrow record batch, as Spark takes it.

``decode`` is the seam: one pure function over bytes, which a native decoder can replace. Here kafka-python
reads the records. A record set begins before the offset asked for and may end in the middle of a batch: both
ends are trimmed. Batches of control records, and under ``read_committed`` those of aborted transactions,
yield no rows but move ``next_offset``, as compacted holes do; so a reader always gets past them.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cramjam
import google_crc32c
import pyarrow as pa
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch

from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.codecs import decompress

__all__ = ["AbortedTransaction", "DecodedBatch", "arrow_schema", "decode", "end_of"]

_LOG_OVERHEAD: Final = struct.Struct(">qi")
_HEADER: Final = DefaultRecordBatch.HEADER_STRUCT
_ATTRIBUTES: Final = struct.Struct(">h")
_ATTRIBUTES_AT: Final = DefaultRecordBatch.ATTRIBUTES_OFFSET
_MAGIC_AT: Final = 16
_MAGIC: Final = 2
_CODEC_MASK: Final = DefaultRecordBatch.CODEC_MASK
_NO_PRODUCER: Final = -1
_CONTROL_ABORT: Final = 0
_CONTROL_KEY: Final = struct.Struct(">hh")
_DECODED_BYTES: Final = 16 << 20

_HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_FIELDS: Final = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
)
_SCHEMA: Final = pa.schema(_FIELDS)
_SCHEMA_WITH_HEADERS: Final = pa.schema((*_FIELDS, pa.field("headers", _HEADERS)))


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """A producer's aborted transaction that begins at ``first_offset`` and ends at its next abort marker."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """Rows, and the offset to go on from; ``next_offset`` is past everything looked at, rows or none."""

    rows: pa.RecordBatch
    next_offset: int


@dataclass(frozen=True, slots=True)
class _Batch:
    data: memoryview
    base_offset: int
    next_offset: int
    attributes: int
    crc: int
    producer_id: int

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & DefaultRecordBatch.CONTROL_MASK)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & DefaultRecordBatch.TRANSACTIONAL_MASK)


def arrow_schema(*, with_headers: bool) -> pa.Schema:
    """Return the schema of decoded rows: exactly the one Spark derives from the source's columns."""
    return _SCHEMA_WITH_HEADERS if with_headers else _SCHEMA


def end_of(record_set: bytes | memoryview, where: str) -> int | None:
    """Return the offset after the last complete batch of a record set, or None when it holds none."""
    end = None
    for batch in _batches(memoryview(record_set), where):
        end = batch.next_offset
    return end


def decode(
    record_set: bytes | memoryview,
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    with_headers: bool,
    aborted: Sequence[AbortedTransaction] | None = None,
    check_crcs: bool = True,
    max_bytes: int = _DECODED_BYTES,
) -> DecodedBatch:
    """Decode the records of [start, end), stopping at a batch's end once ``max_bytes`` of keys and values are
    held.

    ``aborted`` are the aborted transactions the broker named with this record set (None: read uncommitted).
    Call again with ``start=next_offset`` until ``next_offset`` reaches ``end`` or ``end_of(record_set)``. A
    record set without a complete batch gives no rows and ``next_offset == start``. Raises KcoordError for a
    checksum that does not match, a batch that cannot be read, and message formats 0 and 1.
    """
    where = f"topic '{topic}' partition {partition}"
    columns = _Columns(with_headers=with_headers)
    visible = _VisibleBatches(aborted, where)
    next_offset = start
    for batch in _batches(memoryview(record_set), where):
        is_past = batch.next_offset <= start
        if is_past and aborted is None:
            continue
        if columns.size >= max_bytes and not is_past:
            break
        if batch.base_offset >= end:
            next_offset = max(next_offset, end)
            break
        if check_crcs and not is_past:
            _check_crc(batch, where)
        if visible.shows(batch) and not is_past:
            for record in _records(batch, where):
                if start <= record.offset < end:
                    columns.append(record)
        next_offset = max(next_offset, batch.next_offset)
    return DecodedBatch(columns.to_arrow(topic, partition, where), next_offset)


def _batches(data: memoryview, where: str) -> Iterator[_Batch]:
    position = 0
    while position + _LOG_OVERHEAD.size <= len(data):
        base_offset, length = _LOG_OVERHEAD.unpack_from(data, position)
        size = _LOG_OVERHEAD.size + length
        if position + size > len(data) and length > 0:
            return
        if size > _MAGIC_AT and data[position + _MAGIC_AT] < _MAGIC:
            raise KcoordError(
                f"{where}: the batch at offset {base_offset} has message format "
                f"{data[position + _MAGIC_AT]}, from before Kafka 0.11, which is not supported. Copy "
                "the topic with a newer producer."
            )
        if size < _HEADER.size or data[position + _MAGIC_AT] != _MAGIC:
            raise KcoordError(f"{where}: the batch at offset {base_offset} is damaged: its header cannot be read.")
        fields = _HEADER.unpack_from(data, position)
        yield _Batch(
            data=data[position : position + size],
            base_offset=base_offset,
            next_offset=base_offset + fields[6] + 1,
            attributes=fields[5],
            crc=fields[4],
            producer_id=fields[9],
        )
        position += size


def _check_crc(batch: _Batch, where: str) -> None:
    found = google_crc32c.value(bytes(batch.data[_ATTRIBUTES_AT:]))
    if found != batch.crc:
        raise KcoordError(
            f"{where}: the batch at offset {batch.base_offset} is damaged: its checksum is {found:#010x} but "
            f"it says {batch.crc:#010x}. Read around it, or set 'kafka.check.crcs' to false to try without the check."
        )


class _VisibleBatches:
    """Says which batches a reader sees, batch after batch from the start of a record set."""

    def __init__(self, aborted: Sequence[AbortedTransaction] | None, where: str) -> None:
        self._is_read_committed = aborted is not None
        self._coming = deque(sorted(aborted or (), key=lambda transaction: transaction.first_offset))
        self._aborted_producers: set[int] = set()
        self._where = where

    def shows(self, batch: _Batch) -> bool:
        """Return whether the batch's records are for the reader; each batch must be given once, in order."""
        if self._is_read_committed and batch.producer_id != _NO_PRODUCER:
            while self._coming and self._coming[0].first_offset < batch.next_offset:
                self._aborted_producers.add(self._coming.popleft().producer_id)
            if batch.is_control and self._is_abort_marker(batch):
                self._aborted_producers.discard(batch.producer_id)
            elif batch.is_transactional and batch.producer_id in self._aborted_producers:
                return False
        return not batch.is_control

    def _is_abort_marker(self, batch: _Batch) -> bool:
        for record in _records(batch, self._where):
            if record.key is not None and len(record.key) >= _CONTROL_KEY.size:
                return bool(_CONTROL_KEY.unpack_from(record.key)[1] == _CONTROL_ABORT)
        return False


def _records(batch: _Batch, where: str) -> Iterator[Any]:
    """Yield kafka-python's records of one batch, decompressed first by our own codecs."""
    try:
        codec = batch.attributes & _CODEC_MASK
        plain: memoryview | bytearray = batch.data
        if codec:
            plain = bytearray(batch.data[: _HEADER.size])
            plain += decompress(codec, batch.data[_HEADER.size :])
            _ATTRIBUTES.pack_into(plain, _ATTRIBUTES_AT, batch.attributes & ~_CODEC_MASK)
        yield from DefaultRecordBatch(plain)
    except (CorruptRecordError, ValueError, IndexError, struct.error, cramjam.DecompressionError) as error:
        raise KcoordError(
            f"{where}: the batch at offset {batch.base_offset} cannot be read ({type(error).__name__}: {error})."
        ) from error


class _Columns:
    """The rows read so far, column by column."""

    def __init__(self, *, with_headers: bool) -> None:
        self.size = 0
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._timestamp_types: list[int] = []
        self._headers: list[list[tuple[str, bytes | None]] | None] | None = [] if with_headers else None

    def append(self, record: Any) -> None:
        key, value = record.key, record.value
        self.size += (len(key) if key else 0) + (len(value) if value else 0)
        self._keys.append(key)
        self._values.append(value)
        self._offsets.append(record.offset)
        self._timestamps.append(record.timestamp)
        self._timestamp_types.append(record.timestamp_type)
        if self._headers is not None:
            self._headers.append(record.headers or None)

    def to_arrow(self, topic: str, partition: int, where: str) -> pa.RecordBatch:
        rows = len(self._offsets)
        arrays: list[pa.Array[Any]] = [
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            pa.repeat(pa.scalar(topic, pa.string()), rows),
            pa.repeat(pa.scalar(partition, pa.int32()), rows),
            pa.array(self._offsets, pa.int64()),
            self._microseconds(where),
            pa.array(self._timestamp_types, pa.int32()),
        ]
        if self._headers is not None:
            arrays.append(pa.array(self._headers, _HEADERS))
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(with_headers=self._headers is not None))

    def _microseconds(self, where: str) -> pa.Array[Any]:
        milliseconds = pa.array(self._timestamps, pa.timestamp("ms", tz="UTC"))
        try:
            return milliseconds.cast(pa.timestamp("us", tz="UTC"))
        except pa.ArrowInvalid as error:
            raise KcoordError(
                f"{where}: a record from offset {self._offsets[0]} on has a timestamp Spark cannot hold "
                f"({max(self._timestamps, key=abs)} ms since 1970). It was written so; correct the producer."
            ) from error
