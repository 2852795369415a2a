# The part of the compiled decoder that makes named tuples of rows; included by `_native.pyx`.
#
# It reads Arrow arrays that are whole: they were made here or by pyarrow, so what their offsets say is believed. Each
# record is a tuple of a given class, filled before anybody sees it; `plain.py` gives the same without C. Records and
# their headers hold texts, bytes and numbers, which refer to nothing, so the collector of cycles is not to look at
# them: two objects a record have it begin every few hundred records, and go through the whole program now and then.
# What a program itself puts into a list of headers may refer to the list, and is never freed then.

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8

from spark_kcoord.fetch.records.plain import records as plain_records


cdef extern from *:
    """
    static PyObject *kcoord_new_tuple(PyTypeObject *kind, Py_ssize_t size) {
        PyObject *made = kind->tp_alloc(kind, size);
    #if PY_VERSION_HEX >= 0x030E0000
        /* From Python 3.14 on a tuple keeps its hash; -1 says that it is not known yet. */
        if (made != NULL) ((PyTupleObject *)made)->ob_hash = -1;
    #endif
        return made;
    }
    """
    object kcoord_new_tuple(PyTypeObject *kind, Py_ssize_t size)
    void PyObject_GC_UnTrack(void *)


cdef enum:
    RECORD_FIELDS = 13

cdef bytes NOTHING_AT_ALL = b""


cdef class BytesOf:
    """A column of bytes or texts that is read; `at` is its first row."""

    cdef object column
    cdef const int32_t *offsets
    cdef const uint8_t *valid
    cdef const char *bytes
    cdef int64_t at

    def __cinit__(self, column, kind):
        if column.type != kind:
            raise TypeError(f"a column of {column.type} is not one of {kind}")
        valid, offsets, data = column.buffers()
        self.column = column
        self.at = column.offset
        self.offsets = <const int32_t *><size_t>offsets.address if offsets is not None else NULL
        self.valid = <const uint8_t *><size_t>valid.address if valid is not None and column.null_count else NULL
        self.bytes = <const char *><size_t>data.address if data is not None else <const char *>NOTHING_AT_ALL

    cdef inline Py_ssize_t size(self, int64_t row) noexcept:
        """Return the bytes of a row, -1 for null."""
        row += self.at
        if self.valid != NULL and not self.valid[row >> 3] >> (row & 7) & 1:
            return -1
        return self.offsets[row + 1] - self.offsets[row]

    cdef inline object value(self, int64_t row, Py_ssize_t size):
        return PyBytes_FromStringAndSize(self.bytes + self.offsets[self.at + row], size) if size >= 0 else None

    cdef inline str text(self, int64_t row, Py_ssize_t size):
        return PyUnicode_DecodeUTF8(self.bytes + self.offsets[self.at + row], size, NULL)


cdef class HeadersOf:
    """A column of headers that is read."""

    cdef object column
    cdef BytesOf keys
    cdef BytesOf values
    cdef const int32_t *offsets
    cdef const uint8_t *valid
    cdef int64_t at
    cdef int64_t last_bytes
    """The bytes of the row that was read last, -1 where it has no headers."""

    def __cinit__(self, column):
        valid, offsets = column.buffers()[:2]
        pairs = column.values
        self.column = column
        self.at = column.offset
        self.keys = BytesOf(pairs.field(0), pa.string())
        self.values = BytesOf(pairs.field(1), pa.binary())
        self.offsets = <const int32_t *><size_t>offsets.address
        self.valid = <const uint8_t *><size_t>valid.address if valid is not None and column.null_count else NULL

    cdef list value(self, int64_t row):
        cdef int64_t pair
        cdef Py_ssize_t key_size, value_size
        cdef list found = no_headers()
        cdef tuple one
        row += self.at
        self.last_bytes = -1
        if self.valid != NULL and not self.valid[row >> 3] >> (row & 7) & 1:
            return found
        for pair in range(self.offsets[row], self.offsets[row + 1]):
            key_size, value_size = self.keys.size(pair), self.values.size(pair)
            one = (self.keys.text(pair, key_size), self.values.value(pair, value_size))
            PyObject_GC_UnTrack(<void *>one)
            found.append(one)
            self.last_bytes = max(self.last_bytes, 0) + key_size + max(value_size, 0)
        return found


cdef inline list no_headers():
    cdef list found = []
    PyObject_GC_UnTrack(<void *>found)
    return found


cdef const int64_t *numbers_of(column, int64_t rows) except? NULL:
    """Return the 64-bit numbers of a column without nulls."""
    data = column.buffers()[1]
    return <const int64_t *><size_t>data.address + <int64_t>column.offset if rows else NULL


cdef inline void put(object record, Py_ssize_t at, object value) noexcept:
    Py_INCREF(value)
    PyTuple_SET_ITEM(record, at, value)


cdef int32_t epoch_at(epochs, int64_t offset) except? -2:
    for until, epoch in epochs:
        if offset < until:
            return epoch
    return -1


def records(rows, str topic, int partition, epochs, type kind):
    """Return the rows as records; see `spark_kcoord.fetch.decoding.decode.Decoder`."""
    give_way()
    cdef int64_t count = rows.num_rows
    cdef list found = PyList_New(count)
    cdef int64_t row, offset, time_ms, last_ms = 0
    cdef Py_ssize_t key_size, value_size, last_size = 0
    cdef object record, epoch, number = partition
    # Neighbours often have the same time and size, and share the numbers then.
    cdef object time_number = 0, size_number = 0
    cdef bint is_one_epoch = len(epochs) <= 1
    if not issubclass(kind, tuple):
        raise TypeError(f"{kind} is no kind of tuple")
    keys = rows.column("key")
    values = rows.column("value")
    offsets_column = rows.column("offset")
    times_column = rows.column("timestamp")
    types_column = rows.column("timestampType")
    headers_column = rows.column("headers")
    if times_column.null_count or types_column.null_count:
        return plain_records(rows, topic, partition, epochs, kind)
    cdef BytesOf key_of = BytesOf(keys, pa.binary())
    cdef BytesOf value_of = BytesOf(values, pa.binary())
    cdef const int64_t *offsets = numbers_of(offsets_column, count)
    cdef const int64_t *times = numbers_of(times_column, count)
    cdef const int32_t *types = NULL
    cdef HeadersOf headers_of = None
    if count:
        types = <const int32_t *><size_t>types_column.buffers()[1].address + <int64_t>types_column.offset
    if headers_column.null_count != count:
        headers_of = HeadersOf(headers_column)
    epoch = epochs[0][1] if epochs else -1
    for row in range(count):
        offset = offsets[row]
        if not is_one_epoch:
            epoch = epoch_at(epochs, offset)
        time_ms = times[row] // 1000
        if time_ms * 1000 > times[row]:
            time_ms -= 1
        if time_ms != last_ms:
            last_ms = time_ms
            time_number = time_ms
        key_size, value_size = key_of.size(row), value_of.size(row)
        if value_size != last_size:
            last_size = value_size
            size_number = value_size
        record = kcoord_new_tuple(<PyTypeObject *>kind, RECORD_FIELDS)
        put(record, 0, topic)
        put(record, 1, number)
        put(record, 2, epoch)
        put(record, 3, offset)
        put(record, 4, time_number)
        put(record, 5, types[row])
        put(record, 6, key_of.value(row, key_size))
        put(record, 7, value_of.value(row, value_size))
        put(record, 8, headers_of.value(row) if headers_of is not None else no_headers())
        put(record, 9, None)
        put(record, 10, key_size)
        put(record, 11, size_number)
        put(record, 12, headers_of.last_bytes if headers_of is not None else -1)
        PyObject_GC_UnTrack(<void *>record)
        Py_INCREF(record)
        PyList_SET_ITEM(found, row, record)
    return found
