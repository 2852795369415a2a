"""The decoder for installs without the compiled one: NumPy finds all fields at once, pyarrow gathers the bytes.

Only the steps from record to record are taken one by one in Python; every field is then read from all records
of the chosen batches together. Bytes are bounded as in the compiled decoder: each number is compared with the end
of its record before it is used. `record_set.py` says which batches are visible and what the errors are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kcoord.fetch.decoding import record_set as sets
from spark_kcoord.fetch.decoding.codecs import Decompressor
from spark_kcoord.fetch.decoding.columns import arrow_schema, header_keys, partition_column, topic_column
from spark_kcoord.fetch.decoding.record_set import AbortedTransaction, Batch, DecodedBatch, RecordSetEnd
from spark_kcoord.fetch.records.plain import records

__all__ = ["decode", "end_of", "records"]

_Integers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]

_INT_BYTES: Final = 5
_LONG_BYTES: Final = 10
_SMALLEST_HEADER: Final = 2
_MANY_BATCHES: Final = 128
"""From so many on a step of NumPy is faster than as many steps of Python."""
_LARGEST_BUFFER: Final = (1 << 31) - 1
_LARGEST_MS: Final = ((1 << 63) - 1) // 1000


def end_of(record_set: bytes | memoryview, where: str) -> RecordSetEnd | None:
    """Return where the whole batches end, or None; see ``spark_kcoord.fetch.decoding.decode.end_of``."""
    end = None
    for batch in sets.batches(memoryview(record_set), where):
        end = RecordSetEnd(batch.next_offset, batch.leader_epoch)
    return end


def decode(
    record_set: bytes | memoryview,
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    columns: Sequence[str],
    aborted: Sequence[AbortedTransaction] | None = None,
    check_crcs: bool = True,
    max_bytes: int = sets.DECODED_BYTES,
) -> DecodedBatch:
    """Decode the records of [start, end); see ``spark_kcoord.fetch.decoding.decode.decode``."""
    where = f"topic '{topic}' partition {partition}"
    schema = arrow_schema(columns)
    chosen = _choose(memoryview(record_set), start, end, aborted, where, check_crcs=check_crcs, max_bytes=max_bytes)
    rows = _Rows.read(chosen, start, end, where)
    arrays = [_column(name, rows, topic, partition, where) for name in schema.names]
    return DecodedBatch(pa.RecordBatch.from_arrays(arrays, schema=schema), chosen.next_offset)


@dataclass(slots=True)
class _Chosen:
    """The batches to decode: ``plain`` has their records, batch ``i`` in [begins[i], ends[i])."""

    next_offset: int
    plain: bytes = b""
    batches: list[Batch] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


def _choose(
    data: memoryview,
    start: int,
    end: int,
    aborted: Sequence[AbortedTransaction] | None,
    where: str,
    *,
    check_crcs: bool,
    max_bytes: int,
) -> _Chosen:
    """Walk the batches, check them, and return the visible ones of the range without compression."""
    visible = sets.VisibleBatches(aborted, where)
    decompressor = Decompressor()
    chosen = _Chosen(start)
    parts: list[memoryview | bytes] = []
    is_compressed = False
    plain_bytes = held_bytes = held_records = 0
    for batch in sets.batches(data, where):
        is_past = batch.next_offset <= start
        if not is_past:
            if held_bytes >= max_bytes or held_records >= sets.MAX_ROWS:
                break
            if batch.base_offset >= end:
                chosen.next_offset = max(chosen.next_offset, end)
                break
            if check_crcs:
                sets.check_crc(data, batch, where)
        if _is_shown(batch, visible, data, decompressor, where) and not is_past:
            plain = _plain(batch, data, decompressor, where)
            if batch.record_count * sets.SMALLEST_RECORD > len(plain):
                raise sets.unreadable(where, batch.base_offset, sets.CUT)
            if plain_bytes and plain_bytes + len(plain) > _LARGEST_BUFFER:
                break
            is_compressed = is_compressed or bool(batch.attributes & sets.CODEC_MASK)
            parts.append(bytes(plain) if batch.attributes & sets.CODEC_MASK else plain)
            chosen.batches.append(batch)
            chosen.begins.append(plain_bytes)
            plain_bytes += len(plain)
            chosen.ends.append(plain_bytes)
            held_bytes += len(plain) - batch.record_count * sets.SMALLEST_RECORD
            held_records += batch.record_count
        chosen.next_offset = max(chosen.next_offset, batch.next_offset)
    if is_compressed or len(data) > _LARGEST_BUFFER:
        chosen.plain = b"".join(parts)
    else:
        chosen.plain = bytes(data.obj) if isinstance(data.obj, bytes) and len(data.obj) == len(data) else bytes(data)
        chosen.begins = [batch.position + sets.HEADER_BYTES for batch in chosen.batches]
        chosen.ends = [batch.position + batch.size for batch in chosen.batches]
    return chosen


def _is_shown(
    batch: Batch, visible: sets.VisibleBatches, data: memoryview, decompressor: Decompressor, where: str
) -> bool:
    if not batch.attributes & (sets.CONTROL | sets.TRANSACTIONAL):
        return True
    return visible.shows(
        batch.attributes,
        batch.producer_id,
        batch.base_offset,
        batch.next_offset,
        lambda: bytes(_plain(batch, data, decompressor, where)),
    )


def _plain(batch: Batch, data: memoryview, decompressor: Decompressor, where: str) -> memoryview:
    records = data[batch.position + sets.HEADER_BYTES : batch.position + batch.size]
    codec = batch.attributes & sets.CODEC_MASK
    if not codec or (not batch.record_count and not len(records)):
        return records
    try:
        return decompressor.decompress(codec, records)
    except ValueError as error:
        raise sets.unreadable(where, batch.base_offset, str(error)) from error


class _BadRecordError(Exception):
    """Record ``index`` of those looked at makes no sense."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index
        self.why = why


class _Bytes(NamedTuple):
    """The places of byte strings in the plain bytes, in ascending order; a negative length is a null."""

    at: _Integers
    length: _Integers


@dataclass(slots=True)
class _Rows:
    """The fields of all records of the range."""

    plain: bytes
    offset: _Integers
    base_time: _Integers
    time_delta: _Integers
    is_append_time: _Mask
    key: _Bytes
    value: _Bytes
    header_count: _Integers
    header_key: _Bytes
    header_value: _Bytes

    @staticmethod
    def read(chosen: _Chosen, start: int, end: int, where: str) -> _Rows:
        """Read every record of the chosen batches and keep those of [start, end)."""
        counts = np.array([batch.record_count for batch in chosen.batches], np.int64)
        starts, ends = _record_bounds(chosen, where)
        try:
            fields = _Fields.read(np.frombuffer(chosen.plain, np.uint8), starts, ends)
            last_delta = np.repeat([batch.last_offset_delta for batch in chosen.batches], counts)
            _expect((fields.offset_delta >= 0) & (fields.offset_delta <= last_delta), sets.OUTSIDE)
        except _BadRecordError as error:
            index = int(np.searchsorted(np.cumsum(counts), error.index, side="right"))
            raise sets.unreadable(where, chosen.batches[index].base_offset, error.why) from None
        offset = np.repeat(_of_batches(chosen, "base_offset"), counts) + fields.offset_delta
        is_wanted = (offset >= start) & (offset < end)
        is_wanted_header = np.repeat(is_wanted, fields.header_count)
        is_append_time = np.repeat((_of_batches(chosen, "attributes") & sets.LOG_APPEND_TIME) != 0, counts)[is_wanted]
        base_time = np.where(
            is_append_time,
            np.repeat(_of_batches(chosen, "max_timestamp"), counts)[is_wanted],
            np.repeat(_of_batches(chosen, "base_timestamp"), counts)[is_wanted],
        )
        return _Rows(
            plain=chosen.plain,
            offset=offset[is_wanted],
            base_time=base_time,
            time_delta=np.where(is_append_time, 0, fields.time_delta[is_wanted]),
            is_append_time=is_append_time,
            key=_Bytes(fields.key.at[is_wanted], fields.key.length[is_wanted]),
            value=_Bytes(fields.value.at[is_wanted], fields.value.length[is_wanted]),
            header_count=fields.header_count[is_wanted],
            header_key=_Bytes(fields.header_key.at[is_wanted_header], fields.header_key.length[is_wanted_header]),
            header_value=_Bytes(fields.header_value.at[is_wanted_header], fields.header_value.length[is_wanted_header]),
        )


def _of_batches(chosen: _Chosen, name: str) -> _Integers:
    return np.array([getattr(batch, name) for batch in chosen.batches], np.int64)


def _record_bounds(chosen: _Chosen, where: str) -> tuple[_Integers, _Integers]:
    """Return where each record starts and ends, by going from length to length.

    While many batches have a next record all of those are passed together, then the rest one by one.
    """
    counts = _of_batches(chosen, "record_count")
    first = np.cumsum(counts) - counts
    starts = np.empty(int(counts.sum()), np.int64)
    at, done = _step_together(chosen, counts, first, starts)
    for index in np.flatnonzero(counts > done).tolist():
        passed, at[index] = _step_alone(chosen.plain, int(at[index]), int(counts[index]) - done)
        begin = int(first[index]) + done
        starts[begin : begin + len(passed)] = passed
    for batch, position, end in zip(chosen.batches, at.tolist(), chosen.ends, strict=True):
        if position != end:
            raise sets.unreadable(where, batch.base_offset, sets.CUT if position > end else sets.REST)
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    has_records = counts > 0
    ends[(first + counts - 1)[has_records]] = np.array(chosen.ends, np.int64)[has_records]
    return starts, ends


def _step_together(chosen: _Chosen, counts: _Integers, first: _Integers, starts: _Integers) -> tuple[_Integers, int]:
    """Return where each batch is after how many records; none are passed where a length is bad."""
    begins = np.array(chosen.begins, np.int64)
    ends = np.array(chosen.ends, np.int64)
    data = np.frombuffer(chosen.plain, np.uint8)
    at = begins.copy()
    done = 0
    active = np.flatnonzero(counts)
    try:
        while active.size >= _MANY_BATCHES:
            position = at[active]
            starts[first[active] + done] = position
            length, after = _varints(data, position, ends[active], _INT_BYTES)
            at[active] = after + np.maximum(length, 0)
            done += 1
            active = active[counts[active] > done]
    except _BadRecordError:
        return begins, 0
    return at, done


def _step_alone(plain: bytes, position: int, count: int) -> tuple[list[int], int]:
    """Return the starts of the next ``count`` records and where the last ends, just past all bytes if one is cut."""
    starts: list[int] = []
    append = starts.append
    try:
        for _ in range(count):
            append(position)
            byte = plain[position]
            if byte < 0x80:
                position += 1 + (byte >> 1)
                continue
            raw = byte & 0x7F
            shift = 7
            while True:
                position += 1
                byte = plain[position]
                raw |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            position += 1 + (raw >> 1)
    except IndexError:
        starts[-1] = position = len(plain) + 1  # a length may be of more digits than an array's numbers have
    return starts, min(position, len(plain) + 1)


@dataclass(slots=True)
class _Fields:
    """The fields of records as they were written, all arrays of one entry a record but those of headers."""

    time_delta: _Integers
    offset_delta: _Integers
    key: _Bytes
    value: _Bytes
    header_count: _Integers
    header_key: _Bytes
    header_value: _Bytes

    @staticmethod
    def read(data: npt.NDArray[np.uint8], starts: _Integers, ends: _Integers) -> _Fields:
        """Read all records; raises _BadRecordError."""
        length, at = _varints(data, starts, ends, _INT_BYTES)
        _expect((length > 0) & (at + length == ends), sets.CUT)
        time_delta, at = _varints(data, at + 1, ends, _LONG_BYTES)
        offset_delta, at = _varints(data, at, ends, _INT_BYTES)
        key, at = _byte_strings(data, at, ends)
        value, at = _byte_strings(data, at, ends)
        header_count, at = _varints(data, at, ends, _INT_BYTES)
        header_key, header_value = _headers(data, at, ends, header_count)
        return _Fields(time_delta, offset_delta, key, value, header_count, header_key, header_value)


def _headers(data: npt.NDArray[np.uint8], at: _Integers, ends: _Integers, counts: _Integers) -> tuple[_Bytes, _Bytes]:
    """Read the first header of all records together, then the second of those that have one, and so on."""
    _expect(counts >= 0, sets.ABSENT)
    _expect(counts <= (ends - at) // _SMALLEST_HEADER, sets.CUT)
    slots = np.cumsum(counts) - counts
    total = int(counts.sum())
    keys = _Bytes(np.empty(total, np.int64), np.empty(total, np.int64))
    values = _Bytes(np.empty(total, np.int64), np.empty(total, np.int64))
    at = at.copy()
    active = np.flatnonzero(counts)
    ordinal = 0
    while active.size:
        try:
            key, after = _byte_strings(data, at[active], ends[active])
            _expect(key.length >= 0, sets.ABSENT)
            value, after = _byte_strings(data, after, ends[active])
        except _BadRecordError as error:
            raise _BadRecordError(int(active[error.index]), error.why) from None
        slot = slots[active] + ordinal
        keys.at[slot], keys.length[slot] = key
        values.at[slot], values.length[slot] = value
        at[active] = after
        ordinal += 1
        active = active[counts[active] > ordinal]
    _expect(at == ends, sets.CUT)
    return keys, values


def _byte_strings(data: npt.NDArray[np.uint8], at: _Integers, ends: _Integers) -> tuple[_Bytes, _Integers]:
    """Read a length at each position; return where the bytes lie and the positions after them."""
    length, at = _varints(data, at, ends, _INT_BYTES)
    _expect(length <= ends - at, sets.CUT)
    return _Bytes(at, length), at + np.maximum(length, 0)


def _varints(data: npt.NDArray[np.uint8], at: _Integers, ends: _Integers, most: int) -> tuple[_Integers, _Integers]:
    """Read a zigzag number of at most ``most`` bytes at each position; return them and the positions after them."""
    _expect(at < ends, sets.CUT)
    byte = data[at]
    raw = (byte & 0x7F).astype(np.uint64)
    after = at + 1
    longer = np.flatnonzero(byte & 0x80)
    for shift in range(7, 7 * most, 7):
        if not longer.size:
            break
        position = after[longer]
        if not (position < ends[longer]).all():
            raise _BadRecordError(int(longer[np.argmin(position < ends[longer])]), sets.CUT)
        byte = data[position]
        raw[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[longer] += 1
        longer = longer[byte >= 0x80]
    if longer.size:
        raise _BadRecordError(int(longer[0]), sets.CUT)
    return (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64), after


def _expect(is_good: _Mask, why: str) -> None:
    if not is_good.all():
        raise _BadRecordError(int(np.argmin(is_good)), why)


def _microseconds(base: _Integers, delta: _Integers, offset: _Integers, where: str) -> _Integers:
    milliseconds = base + delta
    is_wrapped = ((base ^ milliseconds) & (delta ^ milliseconds)) < 0
    is_bad = is_wrapped | (milliseconds > _LARGEST_MS) | (milliseconds < -_LARGEST_MS)
    if is_bad.any():
        index = int(np.argmax(is_bad))
        raise sets.unrepresentable_time(where, int(offset[index]), int(base[index]) + int(delta[index]))
    return milliseconds * 1000


def _column(name: str, rows: _Rows, topic: str, partition: int, where: str) -> pa.Array[Any]:
    count = len(rows.offset)
    match name:
        case "key":
            return _gather(rows.plain, rows.key)
        case "value":
            return _gather(rows.plain, rows.value)
        case "topic":
            return topic_column(topic, count, where)
        case "partition":
            return partition_column(partition, count)
        case "offset":
            return _array(pa.int64(), rows.offset)
        case "timestamp":
            times = _microseconds(rows.base_time, rows.time_delta, rows.offset, where)
            return _array(pa.timestamp("us", tz="UTC"), times)
        case "timestampType":
            return _array(pa.int32(), rows.is_append_time.astype(np.int32))
        case _:
            return _header_column(rows)


def _header_column(rows: _Rows) -> pa.Array[Any]:
    kind = arrow_schema(["headers"]).field("headers").type
    keys = header_keys(_gather(rows.plain, rows.header_key))
    pairs = pa.StructArray.from_arrays([keys, _gather(rows.plain, rows.header_value)], fields=list(kind.value_type))
    offsets = np.concatenate(([0], np.cumsum(rows.header_count))).astype(np.int32)
    has_headers = rows.header_count > 0
    buffers = [_validity(has_headers), _buffer(offsets)]
    return pa.Array.from_buffers(kind, len(has_headers), buffers, int((~has_headers).sum()), children=[pairs])


def _gather(plain: bytes, strings: _Bytes) -> pa.Array[Any]:
    """Return byte strings as an array; between two of them lie bytes that are not of the array, and are left out."""
    count = len(strings.at)
    if not count:
        return pa.Array.from_buffers(pa.binary(), 0, [None, _buffer(np.zeros(1, np.int32)), pa.py_buffer(b"")])
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = strings.at
    bounds[1::2] = strings.at + np.maximum(strings.length, 0)
    with_gaps = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, _buffer(bounds), pa.py_buffer(plain)])
    return with_gaps.take(_array(pa.int32(), np.arange(2 * count, step=2).astype(np.int32), strings.length >= 0))


# pa.array of NumPy's would load pandas, where it is installed, which takes longer than most tasks.
def _array(kind: Any, values: npt.NDArray[Any], is_valid: _Mask | None = None) -> pa.Array[Any]:
    valid = None if is_valid is None else _validity(is_valid)
    return pa.Array.from_buffers(kind, len(values), [valid, _buffer(values)])


def _validity(is_valid: _Mask) -> pa.Buffer | None:
    return None if is_valid.all() else pa.py_buffer(np.packbits(is_valid, bitorder="little").tobytes())


def _buffer(array: npt.NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(array.data)
