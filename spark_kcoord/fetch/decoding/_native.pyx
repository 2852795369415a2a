# cython: language_level=3, freethreading_compatible=False
"""The compiled decoder: record batches straight into Arrow buffers, in one pass, without the interpreter's lock.

No Python object is made per record, and none per batch that is neither compressed nor in need of a look at
aborted transactions. Every number read from a batch is compared with the end of what it describes before it is
used, so bytes that are no batch are an error and never a read or write out of bounds. `record_set.py` says what
the errors are and which batches are visible; what is decoded is the same as in `decode_numpy.py`.
"""

from libc.errno cimport EAGAIN
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import os

import pyarrow as pa

from spark_kcoord.fetch.decoding import record_set
from spark_kcoord.fetch.decoding.codecs import Decompressor
from spark_kcoord.fetch.decoding.columns import arrow_schema, header_keys, partition_column, topic_column


cdef extern from "_crc32c.h" nogil:
    void kcoord_crc32c_start()
    bint kcoord_crc32c_is_by_instruction()
    uint32_t kcoord_crc32c(const uint8_t *data, size_t size)
    uint32_t kcoord_crc32c_by_table(const uint8_t *data, size_t size)


cdef enum:
    # How far `advance` and `read_records` came.
    DONE
    ALL_READ
    JUDGE
    DECOMPRESS
    FULL
    NEEDS_ROOM
    OLD_FORMAT
    DAMAGED_HEADER
    WRONG_CHECKSUM
    WRONG_TIME
    CUT
    OUTSIDE
    REST
    ABSENT

cdef enum:
    PREFIX_BYTES = 12
    ATTRIBUTES_AT = 21
    HEADER_BYTES = 61
    SMALLEST_RECORD = 7
    SMALLEST_HEADER = 2
    MAX_ROWS = 1 << 20
    CODEC_MASK = 0x07
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20

cdef int64_t LARGEST_MS = INT64_MAX // 1000

_WHY = {CUT: record_set.CUT, OUTSIDE: record_set.OUTSIDE, REST: record_set.REST, ABSENT: record_set.ABSENT}

kcoord_crc32c_start()

include "../receiving/_receiving.pxi"
include "../records/_records.pxi"


cdef class Block:
    """An Arrow buffer that grows; how much of it is used its owner knows."""

    cdef object buffer
    cdef uint8_t *data
    cdef int64_t size

    cdef int grow(self, int64_t wanted) except -1:
        """Make the buffer at least that large; it then doubles, so that growing is rare."""
        if wanted <= self.size:
            return 0
        wanted = max(wanted, 2 * self.size)
        if self.buffer is None:
            self.buffer = pa.allocate_buffer(wanted, resizable=True)
        else:
            self.buffer.resize(wanted)
        self.data = <uint8_t *><size_t>self.buffer.address
        self.size = wanted
        return 0

    cdef object take(self, int64_t used):
        """Return the first `used` bytes, and no more memory than they need."""
        buffer = self.buffer
        self.buffer = None
        self.data = NULL
        self.size = 0
        if buffer is None:
            return pa.py_buffer(b"")
        buffer.resize(used, shrink_to_fit=True)
        return buffer


cdef class BinaryColumn:
    """A column of bytes, some of them null."""

    cdef Block offsets
    cdef Block valid
    cdef Block bytes
    cdef int64_t used
    cdef int64_t nulls

    def __cinit__(self):
        self.offsets = Block()
        self.valid = Block()
        self.bytes = Block()

    cdef bint has_room(self, int64_t rows, int64_t more) noexcept nogil:
        return (
            (rows + 1) * <int64_t>sizeof(int32_t) <= self.offsets.size
            and rows // 8 + 1 <= self.valid.size
            and self.used + more <= self.bytes.size
        )

    cdef int make_room(self, int64_t rows, int64_t more) except -1:
        self.offsets.grow((rows + 1) * <int64_t>sizeof(int32_t))
        self.valid.grow(rows // 8 + 1)
        self.bytes.grow(self.used + more)
        return 0

    cdef object take(self, int64_t rows, kind):
        self.make_room(rows, 0)
        (<int32_t *>self.offsets.data)[rows] = <int32_t>self.used
        valid = self.valid.take((rows + 7) // 8) if self.nulls else None
        offsets = self.offsets.take((rows + 1) * <int64_t>sizeof(int32_t))
        return pa.Array.from_buffers(kind, rows, [valid, offsets, self.bytes.take(self.used)], self.nulls)


cdef inline void set_bit(uint8_t *bits, int64_t row, bint value) noexcept nogil:
    cdef uint8_t mask = <uint8_t>(1 << (row & 7))
    if mask == 1:
        bits[row >> 3] = 0
    if value:
        bits[row >> 3] |= mask


cdef inline void append(BinaryColumn column, int64_t row, const uint8_t *data, int64_t length) noexcept nogil:
    """Write row `row`, null if the length is negative; room is there."""
    (<int32_t *>column.offsets.data)[row] = <int32_t>column.used
    set_bit(column.valid.data, row, length >= 0)
    if length > 0:
        memcpy(column.bytes.data + column.used, data, <size_t>length)
        column.used += length
    elif length < 0:
        column.nulls += 1


cdef inline uint32_t big_endian_32(const uint8_t *at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t big_endian_64(const uint8_t *at) noexcept nogil:
    return <int64_t>((<uint64_t>big_endian_32(at) << 32) | big_endian_32(at + 4))


cdef inline bint read_varint(const uint8_t **at, const uint8_t *end, int64_t *value, int most) noexcept nogil:
    """Read a zigzag number of at most `most` bytes and move past it; False where it does not end before `end`."""
    cdef const uint8_t *next_byte = at[0]
    cdef uint64_t raw = 0
    cdef uint64_t byte
    cdef int shift
    for shift in range(0, 7 * most, 7):
        if next_byte >= end:
            return False
        byte = next_byte[0]
        next_byte += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
            at[0] = next_byte
            return True
    return False


cdef class Decoding:
    """One call of `decode`: where it is in the record set, and the columns so far."""

    # The question.
    cdef const uint8_t *data
    cdef int64_t length
    cdef int64_t start
    cdef int64_t end
    cdef int64_t max_bytes
    cdef bint check_crcs
    cdef bint has_aborts
    cdef bint want_key
    cdef bint want_value
    cdef bint want_offset
    cdef bint want_time
    cdef bint want_time_type
    cdef bint want_headers

    # The batch at hand; `position` is its first byte.
    cdef int64_t position
    cdef int64_t batch_bytes
    cdef int64_t base_offset
    cdef int64_t batch_end
    cdef int64_t base_time
    cdef int64_t append_time
    cdef int64_t producer_id
    cdef int64_t record_count
    cdef int32_t leader_epoch
    cdef int attributes
    cdef bint is_past

    # The answer.
    cdef int64_t next_offset
    cdef int64_t plain_bytes
    cdef int64_t held_bytes
    cdef int64_t held_records
    cdef int64_t rows
    cdef int64_t header_rows
    cdef int64_t rows_without_headers
    cdef BinaryColumn keys
    cdef BinaryColumn values
    cdef Block offsets
    cdef Block times
    cdef Block time_types
    cdef Block header_offsets
    cdef Block headers_valid
    cdef BinaryColumn header_keys
    cdef BinaryColumn header_values

    # What was wrong.
    cdef uint32_t checksum
    cdef int64_t wrong_offset
    cdef int64_t wrong_delta

    def __cinit__(self):
        self.keys = BinaryColumn()
        self.values = BinaryColumn()
        self.offsets = Block()
        self.times = Block()
        self.time_types = Block()
        self.header_offsets = Block()
        self.headers_valid = Block()
        self.header_keys = BinaryColumn()
        self.header_values = BinaryColumn()

    cdef int read_header(self) noexcept nogil:
        """Read the header at `position`; DONE where no whole batch is left."""
        cdef const uint8_t *at = self.data + self.position
        cdef int64_t left = self.length - self.position
        cdef int64_t size
        cdef int64_t last_delta
        if left < PREFIX_BYTES:
            return DONE
        self.base_offset = big_endian_64(at)
        size = <int64_t><int32_t>big_endian_32(at + 8) + PREFIX_BYTES
        if size > left and size > PREFIX_BYTES:
            return DONE
        if size > 16 and at[16] < 2:
            return OLD_FORMAT
        if size < HEADER_BYTES or at[16] != 2:
            return DAMAGED_HEADER
        self.batch_bytes = size
        self.leader_epoch = <int32_t>big_endian_32(at + 12)
        self.attributes = <int>(big_endian_32(at + 19) & 0xFFFF)
        last_delta = <int32_t>big_endian_32(at + 23)
        self.base_time = big_endian_64(at + 27)
        self.append_time = big_endian_64(at + 35)
        self.producer_id = big_endian_64(at + 43)
        self.record_count = <int32_t>big_endian_32(at + 57)
        if self.base_offset < 0 or last_delta < 0 or self.record_count < 0:
            return DAMAGED_HEADER
        if self.base_offset > INT64_MAX - 1 - last_delta:
            return DAMAGED_HEADER
        self.batch_end = self.base_offset + last_delta + 1
        return ALL_READ

    cdef void leave_batch(self) noexcept nogil:
        if self.batch_end > self.next_offset:
            self.next_offset = self.batch_end
        self.position += self.batch_bytes

    cdef int advance(self) noexcept nogil:
        """Decode batches until all is done or Python is needed for the one at hand."""
        cdef int step
        cdef const uint8_t *at
        while True:
            step = self.read_header()
            if step != ALL_READ:
                return step
            self.is_past = self.batch_end <= self.start
            if not self.is_past:
                if self.held_bytes >= self.max_bytes or self.held_records >= MAX_ROWS:
                    return DONE
                if self.base_offset >= self.end:
                    self.next_offset = max(self.next_offset, self.end)
                    return DONE
                at = self.data + self.position
                if self.check_crcs:
                    self.checksum = kcoord_crc32c(at + ATTRIBUTES_AT, <size_t>(self.batch_bytes - ATTRIBUTES_AT))
                    if self.checksum != big_endian_32(at + 17):
                        return WRONG_CHECKSUM
            if self.has_aborts and self.attributes & (CONTROL | TRANSACTIONAL):
                return JUDGE
            if not self.is_past and not self.attributes & CONTROL:
                if self.attributes & CODEC_MASK and not self.is_empty():
                    return DECOMPRESS
                step = self.read_records(self.data + self.position + HEADER_BYTES, self.batch_bytes - HEADER_BYTES)
                if step != ALL_READ:
                    return step
            self.leave_batch()

    cdef bint is_empty(self) noexcept nogil:
        return self.record_count == 0 and self.batch_bytes == HEADER_BYTES

    cdef int64_t most_headers(self, int64_t plain_bytes) noexcept nogil:
        return self.header_rows + plain_bytes // SMALLEST_HEADER

    cdef bint has_room(self, int64_t plain_bytes) noexcept nogil:
        """Say whether there is room for all that the batch at hand can add."""
        cdef int64_t rows = self.rows + self.record_count
        if (
            (self.want_key and not self.keys.has_room(rows, plain_bytes))
            or (self.want_value and not self.values.has_room(rows, plain_bytes))
            or (self.want_offset and rows * <int64_t>sizeof(int64_t) > self.offsets.size)
            or (self.want_time and rows * <int64_t>sizeof(int64_t) > self.times.size)
            or (self.want_time_type and rows * <int64_t>sizeof(int32_t) > self.time_types.size)
        ):
            return False
        return not self.want_headers or (
            (rows + 1) * <int64_t>sizeof(int32_t) <= self.header_offsets.size
            and rows // 8 + 1 <= self.headers_valid.size
            and self.header_keys.has_room(self.most_headers(plain_bytes), plain_bytes)
            and self.header_values.has_room(self.most_headers(plain_bytes), plain_bytes)
        )

    cdef int make_room(self, int64_t plain_bytes, int64_t likely_batches) except -1:
        """Make room for the batch at hand, and at first for as many like it as the record set may have."""
        cdef int64_t rows = self.rows + self.record_count
        cdef int64_t likely_bytes = plain_bytes
        if self.rows == 0:
            likely_bytes = max(plain_bytes, min(plain_bytes * likely_batches, self.max_bytes + plain_bytes))
            rows += rows // 8 + 1
            rows *= min(likely_batches, likely_bytes // max(plain_bytes, 1) + 1)
        if self.want_key:
            self.keys.make_room(rows, plain_bytes)
        if self.want_value:
            self.values.make_room(rows, likely_bytes)
        if self.want_offset:
            self.offsets.grow(rows * <int64_t>sizeof(int64_t))
        if self.want_time:
            self.times.grow(rows * <int64_t>sizeof(int64_t))
        if self.want_time_type:
            self.time_types.grow(rows * <int64_t>sizeof(int32_t))
        if self.want_headers:
            self.header_offsets.grow((rows + 1) * <int64_t>sizeof(int32_t))
            self.headers_valid.grow(rows // 8 + 1)
            self.header_keys.make_room(self.most_headers(plain_bytes), plain_bytes)
            self.header_values.make_room(self.most_headers(plain_bytes), plain_bytes)
        return 0

    cdef int read_records(self, const uint8_t *at, int64_t plain_bytes) noexcept nogil:
        """Append the records of the batch at hand that are of the range; `at` is their plain bytes."""
        cdef const uint8_t *end = at + plain_bytes
        cdef const uint8_t *record_end
        cdef const uint8_t *key
        cdef const uint8_t *value
        cdef int64_t index, length, time_delta, delta, key_length, value_length, header_count, offset
        cdef int64_t last_delta = self.batch_end - 1 - self.base_offset
        cdef int64_t row
        cdef bint is_append_time = (self.attributes & LOG_APPEND_TIME) != 0
        cdef bint is_wanted
        cdef int step
        if self.record_count * SMALLEST_RECORD > plain_bytes:
            return CUT
        if self.plain_bytes + plain_bytes > INT32_MAX and self.plain_bytes > 0:
            return FULL
        if not self.has_room(plain_bytes):
            return NEEDS_ROOM
        for index in range(self.record_count):
            if not read_varint(&at, end, &length, 5) or length <= 0 or length > end - at:
                return CUT
            record_end = at + length
            at += 1
            if not read_varint(&at, record_end, &time_delta, 10) or not read_varint(&at, record_end, &delta, 5):
                return CUT
            if delta < 0 or delta > last_delta:
                return OUTSIDE
            if not read_varint(&at, record_end, &key_length, 5) or key_length > record_end - at:
                return CUT
            key = at
            if key_length > 0:
                at += key_length
            if not read_varint(&at, record_end, &value_length, 5) or value_length > record_end - at:
                return CUT
            value = at
            if value_length > 0:
                at += value_length
            if not read_varint(&at, record_end, &header_count, 5):
                return CUT
            offset = self.base_offset + delta
            is_wanted = self.start <= offset < self.end
            row = self.rows
            if header_count != 0 or at != record_end:
                step = self.read_headers(&at, record_end, header_count, is_wanted and self.want_headers)
                if step != ALL_READ:
                    return step
            elif is_wanted and self.want_headers:
                (<int32_t *>self.header_offsets.data)[row] = <int32_t>self.header_rows
                set_bit(self.headers_valid.data, row, False)
                self.rows_without_headers += 1
            if not is_wanted:
                continue
            if self.want_key:
                append(self.keys, row, key, key_length)
            if self.want_value:
                append(self.values, row, value, value_length)
            if self.want_offset:
                (<int64_t *>self.offsets.data)[row] = offset
            if self.want_time:
                if is_append_time:
                    time_delta = self.append_time
                elif (time_delta > 0 and self.base_time > INT64_MAX - time_delta) or (
                    time_delta < 0 and self.base_time < INT64_MIN - time_delta
                ):
                    self.wrong_offset = offset
                    self.wrong_delta = time_delta
                    return WRONG_TIME
                else:
                    time_delta = self.base_time + time_delta
                if time_delta > LARGEST_MS or time_delta < -LARGEST_MS:
                    self.wrong_offset = offset
                    self.wrong_delta = 0 if is_append_time else time_delta - self.base_time
                    return WRONG_TIME
                (<int64_t *>self.times.data)[row] = time_delta * 1000
            if self.want_time_type:
                (<int32_t *>self.time_types.data)[row] = is_append_time
            self.rows += 1
        if at != end:
            return REST
        self.plain_bytes += plain_bytes
        self.held_records += self.record_count
        self.held_bytes += plain_bytes - self.record_count * SMALLEST_RECORD
        return ALL_READ

    cdef int read_headers(
        self, const uint8_t **cursor, const uint8_t *end, int64_t count, bint is_wanted
    ) noexcept nogil:
        """Read the headers of one record, append them to the row at hand, and see that they fill the record."""
        cdef const uint8_t *at = cursor[0]
        cdef const uint8_t *key
        cdef int64_t index, key_length, value_length
        cdef int64_t row = self.header_rows
        if count < 0:
            return ABSENT
        if count > (end - at) // SMALLEST_HEADER:
            return CUT
        if is_wanted:
            (<int32_t *>self.header_offsets.data)[self.rows] = <int32_t>self.header_rows
            set_bit(self.headers_valid.data, self.rows, True)
        for index in range(count):
            if not read_varint(&at, end, &key_length, 5) or key_length > end - at:
                return CUT
            if key_length < 0:
                return ABSENT
            key = at
            at += key_length
            if not read_varint(&at, end, &value_length, 5) or value_length > end - at:
                return CUT
            if is_wanted:
                append(self.header_keys, row, key, key_length)
                append(self.header_values, row, at, value_length)
                row += 1
            if value_length > 0:
                at += value_length
        if at != end:
            return CUT
        cursor[0] = at
        if is_wanted:
            self.header_rows = row
        return ALL_READ

    def run(self, record_set_bytes, str topic, int partition, aborted, columns, str where):
        """Decode all; returns the Arrow record batch."""
        cdef const uint8_t[::1] view = record_set_bytes
        cdef const uint8_t[::1] plain
        cdef const uint8_t *at
        cdef int64_t size
        cdef int step
        visible = record_set.VisibleBatches(aborted, where)
        decompressor = Decompressor()
        self.length = view.shape[0]
        self.data = &view[0] if self.length else NULL
        while True:
            with nogil:
                kcoord_works_without()
                step = self.advance()
                kcoord_wants_lock()
            kcoord_has_lock()
            if step == NEEDS_ROOM:
                self.make_room(self.batch_bytes - HEADER_BYTES, self.likely_batches())
                continue
            if step == JUDGE:
                is_visible = visible.shows(
                    self.attributes,
                    self.producer_id,
                    self.base_offset,
                    self.batch_end,
                    lambda: bytes(self.plain(record_set_bytes, decompressor, where)),
                )
                if self.is_past or not is_visible:
                    self.leave_batch()
                    continue
                step = DECOMPRESS
            if step == DECOMPRESS:
                plain = self.plain(record_set_bytes, decompressor, where)
                size = plain.shape[0]
                at = &plain[0] if size else NULL
                step = self.read_plain(at, size)
                if step == NEEDS_ROOM:
                    self.make_room(size, self.likely_batches())
                    step = self.read_plain(at, size)
                if step == ALL_READ:
                    self.leave_batch()
                    continue
            if step == DONE or step == FULL:
                return self.to_arrow(topic, partition, columns, where)
            raise self.failure(step, where)

    cdef int read_plain(self, const uint8_t *at, int64_t size) noexcept:
        """Read records as `read_records` does, without the interpreter's lock."""
        cdef int step
        with nogil:
            kcoord_works_without()
            step = self.read_records(at, size)
            kcoord_wants_lock()
        kcoord_has_lock()
        return step

    cdef int64_t likely_batches(self):
        return (self.length - self.position) // self.batch_bytes + 1

    cdef object plain(self, record_set_bytes, decompressor, where):
        """Return the records of the batch at hand without their compression."""
        data = memoryview(record_set_bytes)[self.position + HEADER_BYTES : self.position + self.batch_bytes]
        if not self.attributes & CODEC_MASK or self.is_empty():
            return data
        try:
            return decompressor.decompress(self.attributes & CODEC_MASK, data)
        except ValueError as error:
            raise record_set.unreadable(where, self.base_offset, str(error)) from error

    cdef object failure(self, int step, where):
        cdef const uint8_t *at = self.data + self.position
        if step == OLD_FORMAT:
            return record_set.old_format(where, self.base_offset, at[16])
        if step == DAMAGED_HEADER:
            return record_set.damaged_header(where, self.base_offset)
        if step == WRONG_CHECKSUM:
            return record_set.wrong_checksum(where, self.base_offset, self.checksum, big_endian_32(at + 17))
        if step == WRONG_TIME:
            base = self.append_time if self.attributes & LOG_APPEND_TIME else self.base_time
            return record_set.unrepresentable_time(where, self.wrong_offset, base + <object>self.wrong_delta)
        return record_set.unreadable(where, self.base_offset, _WHY[step])

    cdef object to_arrow(self, topic, partition, columns, where):
        cdef int64_t rows = self.rows
        arrays = []
        for field in columns:
            if field.name == "key":
                array = self.keys.take(rows, field.type)
            elif field.name == "value":
                array = self.values.take(rows, field.type)
            elif field.name == "topic":
                array = topic_column(topic, self.rows, where)
            elif field.name == "partition":
                array = partition_column(partition, self.rows)
            elif field.name == "offset":
                array = pa.Array.from_buffers(field.type, rows, [None, self.offsets.take(rows * 8)], 0)
            elif field.name == "timestamp":
                array = pa.Array.from_buffers(field.type, rows, [None, self.times.take(rows * 8)], 0)
            elif field.name == "timestampType":
                array = pa.Array.from_buffers(field.type, rows, [None, self.time_types.take(rows * 4)], 0)
            else:
                array = self.headers_to_arrow(field.type)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=columns)

    cdef object headers_to_arrow(self, kind):
        cdef int64_t rows = self.rows
        self.header_offsets.grow((rows + 1) * <int64_t>sizeof(int32_t))
        (<int32_t *>self.header_offsets.data)[rows] = <int32_t>self.header_rows
        keys = header_keys(self.header_keys.take(self.header_rows, pa.binary()))
        values = self.header_values.take(self.header_rows, pa.binary())
        pairs = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
        valid = self.headers_valid.take((rows + 7) // 8) if self.rows_without_headers else None
        offsets = self.header_offsets.take((rows + 1) * <int64_t>sizeof(int32_t))
        return pa.Array.from_buffers(kind, rows, [valid, offsets], self.rows_without_headers, children=[pairs])


def decode(
    data,
    str topic,
    int partition,
    int64_t start,
    int64_t end,
    *,
    columns,
    aborted=None,
    bint check_crcs=True,
    int64_t max_bytes=record_set.DECODED_BYTES,
):
    """Decode the records of [start, end); see `spark_kcoord.fetch.decoding.decode.decode`."""
    cdef Decoding decoding = Decoding.__new__(Decoding)
    schema = arrow_schema(columns)
    names = frozenset(schema.names)
    decoding.start = start
    decoding.end = end
    decoding.max_bytes = max_bytes
    decoding.check_crcs = check_crcs
    decoding.has_aborts = bool(aborted)
    decoding.want_key = "key" in names
    decoding.want_value = "value" in names
    decoding.want_offset = "offset" in names
    decoding.want_time = "timestamp" in names
    decoding.want_time_type = "timestampType" in names
    decoding.want_headers = "headers" in names
    decoding.next_offset = start
    rows = decoding.run(data, topic, partition, aborted, schema, f"topic '{topic}' partition {partition}")
    return record_set.DecodedBatch(rows, decoding.next_offset)


def end_of(data, str where):
    """Return where the whole batches end, or None; see `spark_kcoord.fetch.decoding.decode.end_of`."""
    cdef Decoding reading = Decoding.__new__(Decoding)
    cdef const uint8_t[::1] view = data
    cdef int step
    cdef bint is_found = False
    cdef int32_t leader_epoch = -1
    reading.length = view.shape[0]
    reading.data = &view[0] if reading.length else NULL
    with nogil:
        step = reading.read_header()
        while step == ALL_READ:
            is_found = True
            leader_epoch = reading.leader_epoch
            reading.next_offset = reading.batch_end
            reading.position += reading.batch_bytes
            step = reading.read_header()
    if step != DONE:
        raise reading.failure(step, where)
    return record_set.RecordSetEnd(reading.next_offset, leader_epoch) if is_found else None


def checksum(const uint8_t[::1] data, *, bint by_table=False):
    """Return the CRC-32C of `data`, as `decode` computes it or by the table it falls back to."""
    cdef size_t size = <size_t>data.shape[0]
    cdef const uint8_t *at = &data[0] if size else NULL
    return kcoord_crc32c_by_table(at, size) if by_table else kcoord_crc32c(at, size)


def checksum_by_instruction():
    """Return whether the processor's own CRC-32C instruction is used."""
    return kcoord_crc32c_is_by_instruction()
