"""Decoding record sets: every row once, both ends trimmed, and always a way past what holds no row."""

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.decoding.codecs import Decompressor
from spark_kcoord.fetch.decoding.decode import COLUMNS, AbortedTransaction, DecodedBatch, arrow_schema, decode, end_of
from spark_kcoord.source.data_source import KcoordDataSource
from tests.helpers.decoders import decoder as decoder
from tests.helpers.memory_records import decoded_rows, oracle_rows
from tests.helpers.record_batches import COMPRESS, TRANSACTIONAL, Row, end_marker, record_batch

RECORD_AT = 61
"""Of a batch with one record without key, value and headers: length, attributes, time, offset, key, value, count."""
ROWS = [
    Row(b"k0", b"v0", 0, [("h", b"1"), ("h", b"2"), ("empty", b""), ("none", None), ("ключ", b"\x00")]),
    Row(None, b"v1", 1_700_000_000_123),
    Row(b"", b"", 2),
    Row(b"k3", None, 3, [("", b"x")]),
    Row(b"\xff\x00", b"v" * 300, -1),
]


def decode_all(record_set: bytes, start: int = 0, end: int = 1_000, **more: Any) -> DecodedBatch:
    return decode(record_set, "t", 3, start, end, **{"columns": COLUMNS[:-1], **more})


def offsets(decoded: DecodedBatch) -> list[int]:
    column: list[int] = decoded.rows.column("offset").to_pylist()
    return column


@pytest.mark.parametrize("with_headers", [False, True])
def test_schema_is_the_one_spark_derives_from_the_columns(with_headers: bool) -> None:
    columns = KcoordDataSource({"includeHeaders": str(with_headers), "kafka.bootstrap.servers": "k:1"}).schema()

    assert to_arrow_schema(columns, timezone="UTC").equals(arrow_schema(COLUMNS if with_headers else COLUMNS[:-1]))


@pytest.mark.parametrize("codec", COMPRESS)
def test_every_codec_gives_every_row(codec: str) -> None:
    decoded = decode_all(record_batch(ROWS, base_offset=40, codec=codec), 40, columns=COLUMNS)

    assert decoded.next_offset == 45
    assert decoded.rows.schema.equals(arrow_schema(COLUMNS))
    times = [0, 1_700_000_000_123, 2, 3, -1]
    assert decoded.rows.column("timestamp").cast(pa.int64()).to_pylist() == [ms * 1000 for ms in times]
    assert decoded.rows.drop_columns(["timestamp"]).to_pylist() == [
        {
            "key": row.key,
            "value": row.value,
            "topic": "t",
            "partition": 3,
            "offset": 40 + index,
            "timestampType": 0,
            "headers": [{"key": k, "value": v} for k, v in row.headers] or None,
        }
        for index, row in enumerate(ROWS)
    ]


def test_log_append_time_is_the_batchs_and_of_type_1() -> None:
    decoded = decode_all(record_batch(ROWS[:2], append_time=86_400_000))

    assert decoded.rows.column("timestampType").to_pylist() == [1, 1]
    assert decoded.rows.column("timestamp").to_pylist() == [datetime(1970, 1, 2, tzinfo=UTC)] * 2


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    start=st.integers(0, 20),
    length=st.integers(0, 20),
    cut=st.integers(0, 200),
    max_bytes=st.integers(1, 10),
)
def test_any_range_of_any_cut_gives_its_rows_once(
    sizes: list[int], start: int, length: int, cut: int, max_bytes: int
) -> None:
    batches, ends, at = [], [], 0
    for size in sizes:
        batches.append(record_batch([Row(value=b"xyz")] * size, base_offset=at))
        at += size
        ends.append(at)
    record_set = b"".join(batches)
    record_set = record_set[: max(0, len(record_set) - cut)]
    whole = [end for index, end in enumerate(ends) if sum(map(len, batches[: index + 1])) <= len(record_set)]
    set_end = whole[-1] if whole else None
    end = start + length

    seen: list[int] = []
    position = start
    while position < end and set_end is not None and position < set_end:
        decoded = decode_all(record_set, position, end, max_bytes=max_bytes)
        assert decoded.next_offset > position
        seen += offsets(decoded)
        position = decoded.next_offset

    found = end_of(record_set, "t")
    assert (found and found.next_offset) == set_end
    assert seen == list(range(start, min(end, set_end or 0)))


def test_compacted_holes_and_emptied_batches_are_passed() -> None:
    record_set = record_batch({2: Row(b"a"), 7: Row(b"b")}, base_offset=2, last_offset=9) + record_batch(
        {}, base_offset=10, last_offset=19
    )

    assert offsets(decode_all(record_set, 0)) == [2, 7]
    assert decode_all(record_set, 0).next_offset == 20
    assert (offsets(decode_all(record_set, 8)), decode_all(record_set, 8).next_offset) == ([], 20)


def test_range_that_ends_inside_a_hole_is_finished() -> None:
    record_set = record_batch([Row(b"a")], base_offset=50)

    assert (offsets(decode_all(record_set, 10, 30)), decode_all(record_set, 10, 30).next_offset) == ([], 30)


def test_record_set_without_a_whole_batch_moves_nothing() -> None:
    record_set = record_batch(ROWS)[:-1]

    assert (end_of(record_set, "t"), decode_all(record_set).next_offset) == (None, 0)


def test_decoding_stops_at_a_batchs_end_once_enough_is_held() -> None:
    record_set = b"".join(record_batch([Row(value=b"x" * 10)] * 2, base_offset=at) for at in (0, 2, 4))

    assert offsets(decode_all(record_set, max_bytes=30)) == [0, 1, 2, 3]
    assert decode_all(record_set, max_bytes=30).next_offset == 4


def transactions() -> bytes:
    """Two producers: 7 aborts offset 0 and commits 4; 8 commits 1; offset 6 is not of a transaction."""
    return b"".join(
        (
            record_batch([Row(b"aborted")], base_offset=0, flags=TRANSACTIONAL, producer_id=7),
            record_batch([Row(b"kept")], base_offset=1, flags=TRANSACTIONAL, producer_id=8),
            end_marker(2, 7, is_abort=True),
            end_marker(3, 8, is_abort=False),
            record_batch([Row(b"kept")], base_offset=4, flags=TRANSACTIONAL, producer_id=7),
            end_marker(5, 7, is_abort=False),
            record_batch([Row(b"plain")], base_offset=6),
        )
    )


def test_read_uncommitted_hides_control_records_only() -> None:
    assert offsets(decode_all(transactions())) == [0, 1, 4, 6]


def test_read_committed_hides_aborted_transactions() -> None:
    decoded = decode_all(transactions(), aborted=[AbortedTransaction(7, 0)])

    assert (offsets(decoded), decoded.next_offset) == ([1, 4, 6], 7)


@pytest.mark.parametrize("start", range(7))
def test_read_committed_knows_an_abort_that_lies_before_the_start(start: int) -> None:
    aborted = [AbortedTransaction(7, 0)]

    assert offsets(decode_all(transactions(), start, aborted=aborted)) == [o for o in (1, 4, 6) if o >= start]


def test_aborted_transaction_begun_before_the_record_set_is_hidden() -> None:
    record_set = record_batch([Row(b"aborted")], base_offset=10, flags=TRANSACTIONAL, producer_id=7)

    decoded = decode_all(record_set, 10, aborted=[AbortedTransaction(7, 4)])

    assert (offsets(decoded), decoded.next_offset) == ([], 11)


def test_read_committed_hides_an_end_marker_without_aborts() -> None:
    assert offsets(decode_all(end_marker(0, 7, is_abort=False), aborted=[])) == []


def damaged(batch: bytes, at: int) -> bytes:
    return batch[:at] + bytes([batch[at] ^ 0x40]) + batch[at + 1 :]


def test_wrong_checksum_is_refused_unless_told_not_to_look() -> None:
    batch = damaged(record_batch([Row(value=b"value")], base_offset=5), 21 + 14)

    with pytest.raises(KcoordError, match="topic 't' partition 3: the batch at offset 5 is damaged: its checksum"):
        decode_all(batch)
    assert offsets(decode_all(batch, check_crcs=False)) == [5]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_unreadable_records_are_a_clear_error(codec: str) -> None:
    batch = damaged(record_batch([Row(value=b"value" * 50)], codec=codec), 61)

    with pytest.raises(KcoordError, match="batch at offset 0 cannot be read"):
        decode_all(batch, check_crcs=False)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "raw snappy", "lz4", "zstd"])
def test_batch_that_grows_past_the_limit_is_a_clear_error(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = record_batch([Row(value=bytes(500_000))], codec=codec)
    assert decode_all(batch).rows.num_rows == 1
    monkeypatch.setattr(Decompressor.__init__, "__defaults__", (400_000,))

    with pytest.raises(KcoordError, match=r"at offset 0 cannot be read \(it is larger than 400000 bytes without"):
        decode_all(batch)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_emptied_batch_of_any_codec_has_no_rows(codec: str) -> None:
    batch = bytearray(record_batch({}, last_offset=4))
    batch[22] |= COMPRESS[codec][0]

    decoded = decode_all(bytes(batch), check_crcs=False)

    assert (offsets(decoded), decoded.next_offset) == ([], 5)


@pytest.mark.parametrize("columns", [["value"], ["timestamp", "offset"], ["headers", "key"], ["topic"], ["partition"]])
def test_only_the_columns_asked_for_come_in_the_schemas_order(columns: list[str]) -> None:
    record_set = record_batch(ROWS, base_offset=40)
    whole = decode_all(record_set, 41, 44, columns=COLUMNS).rows

    some = decode_all(record_set, 41, 44, columns=columns).rows

    assert some.equals(whole.select([name for name in whole.schema.names if name in columns]))
    assert some.num_rows == 3


@pytest.mark.parametrize("columns", [[], ["values"], ["key", "Headers"]])
def test_columns_that_are_none_are_refused(columns: list[str]) -> None:
    with pytest.raises(ValueError, match="the columns must be some of key, value"):
        decode_all(record_batch(ROWS), columns=columns)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"ok\xff", "ok\ufffd"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xed\xa0\x80x", "\ufffdx"),
        (b"\xf0\x9f\x98\x80", "\N{GRINNING FACE}"),
        (b"\xc0\x80", "\ufffd\ufffd"),
    ],
)
def test_header_key_that_is_not_utf8_is_replaced_as_java_does(key: bytes, text: str) -> None:
    batch = record_batch([Row(headers=[("?" * len(key), b"v"), ("good", None)]), Row()])
    assert batch.count(b"?" * len(key)) == 1

    rows = decode_all(batch.replace(b"?" * len(key), key), columns=COLUMNS, check_crcs=False).rows

    assert rows.column("headers").to_pylist() == [
        [{"key": text, "value": b"v"}, {"key": "good", "value": None}],
        None,
    ]


def test_batches_of_many_sizes_and_codecs_make_one_record_batch() -> None:
    record_set, at, expected = b"", 0, []
    for index, codec in enumerate([*COMPRESS, *COMPRESS]):
        rows = [Row(b"%d" % at, bytes(index * 97 + n), 1_000 + n) for n in range(index * index)]
        record_set += record_batch(rows, base_offset=at, last_offset=at + 200, codec=codec)
        expected += [(at + n, row.timestamp, 0, row.key, row.value, None) for n, row in enumerate(rows)]
        at += 201

    decoded = decode_all(record_set, 0, 1 << 40, columns=COLUMNS)

    assert decoded_rows(decoded.rows) == expected == oracle_rows(record_set)
    decoded.rows.validate(full=True)


def many_batches() -> list[bytes]:
    """Return batches of very different numbers of records, more of them than one by one is worth."""
    sizes = [n % 7 if n else 40 for n in range(300)]
    return [
        record_batch([Row(b"%d" % n, bytes(n)) for n in range(size)], base_offset=100 * n, last_offset=100 * n + 99)
        for n, size in enumerate(sizes)
    ]


def test_many_batches_give_every_row() -> None:
    record_set = b"".join(many_batches())

    decoded = decode_all(record_set, 5, 1 << 40, columns=COLUMNS)

    assert decoded_rows(decoded.rows) == oracle_rows(record_set)[5:]
    assert decoded.next_offset == 30_000


@pytest.mark.parametrize(("at", "value"), [(RECORD_AT, 0x7E), (RECORD_AT, 0x80), (RECORD_AT, 0x01), (57 + 3, 1)])
def test_bad_batch_among_many_is_named(at: int, value: int) -> None:
    batches = many_batches()
    bad = bytearray(batches[202])
    bad[at] = value
    batches[202] = bytes(bad)

    with pytest.raises(KcoordError, match="the batch at offset 20200 cannot be read"):
        decode_all(b"".join(batches), 0, 1 << 40, check_crcs=False)


def test_unknown_codec_is_a_clear_error() -> None:
    batch = bytearray(record_batch([Row()]))
    batch[22] |= 6

    with pytest.raises(KcoordError, match="compression codec 6 is unknown"):
        decode_all(bytes(batch), check_crcs=False)


@pytest.mark.parametrize(("at", "value"), [(16, 3), (8, 0xFF), (11, 1)])
def test_unreadable_header_is_a_clear_error(at: int, value: int) -> None:
    batch = bytearray(record_batch([Row()]))
    if at == 11:
        batch[8:11] = b"\x00\x00\x00"
    batch[at] = value

    with pytest.raises(KcoordError, match="damaged: its header cannot be read"):
        decode_all(bytes(batch))


@pytest.mark.parametrize("timestamp", [2**62, -(2**62), 9_223_372_036_854_776])
def test_timestamp_spark_cannot_hold_is_a_clear_error(timestamp: int) -> None:
    batch = record_batch([Row(timestamp=0), Row(timestamp=timestamp)], base_offset=6)

    with pytest.raises(KcoordError, match=rf"record at offset 7 has a timestamp Spark cannot hold \({timestamp} ms"):
        decode_all(batch)
    assert offsets(decode_all(batch, end=7)) == [6]


def test_timestamp_spark_cannot_hold_is_no_error_where_nobody_asks_for_it() -> None:
    batch = record_batch([Row(timestamp=0), Row(timestamp=2**62)], base_offset=6)

    assert decode_all(batch, columns=("offset", "timestampType")).rows.to_pydict() == {
        "offset": [6, 7],
        "timestampType": [0, 0],
    }


def test_timestamp_past_64_bits_is_a_clear_error() -> None:
    batch = bytearray(record_batch([Row(timestamp=1), Row(timestamp=2)]))
    batch[27:35] = b"\x7f" + b"\xff" * 7

    with pytest.raises(KcoordError, match=r"offset 0 has a timestamp Spark cannot hold \(9223372036854775807 ms"):
        decode_all(bytes(batch), check_crcs=False)
    with pytest.raises(KcoordError, match=r"offset 1 has a timestamp Spark cannot hold \(9223372036854775808 ms"):
        decode_all(bytes(batch), start=1, check_crcs=False)


@pytest.mark.parametrize(("at", "value"), [(0, 0xFF), (23, 0xFF), (57, 0xFF)])
def test_header_with_negative_numbers_is_a_clear_error(at: int, value: int) -> None:
    batch = bytearray(record_batch([Row()]))
    batch[at] = value

    with pytest.raises(KcoordError, match="damaged: its header cannot be read"):
        decode_all(bytes(batch), check_crcs=False)


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (57 + 3, 2, "a record is cut short"),
        (57 + 3, 0, "the records do not fill the batch"),
        (57, 0x7F, "a record is cut short"),
        (RECORD_AT, 0x0E, "a record is cut short"),
        (RECORD_AT, 0x0B, "(a record is cut short|the records do not fill)"),
        (RECORD_AT + 6, 0x80, "a record is cut short"),
        (RECORD_AT + 3, 0x02, "a record has an offset outside of its batch"),
        (RECORD_AT + 3, 0x01, "a record has an offset outside of its batch"),
        (RECORD_AT + 4, 0x08, "a record is cut short"),
        (RECORD_AT + 5, 0x08, "a record is cut short"),
        (RECORD_AT + 6, 0x02, "a record is cut short"),
        (RECORD_AT + 6, 0x01, "a record has a negative number of headers"),
    ],
)
def test_each_number_of_a_record_is_checked(at: int, value: int, why: str) -> None:
    batch = bytearray(record_batch([Row()], base_offset=9))
    assert len(batch) == RECORD_AT + 7
    batch[at] = value

    with pytest.raises(KcoordError, match=rf"the batch at offset 9 cannot be read \({why}"):
        decode_all(bytes(batch), check_crcs=False)


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [(7, 0x01, "or a header without a key"), (7, 0x20, "is cut short"), (9, 0x06, "is cut short"), (9, 0x00, "is cut")],
)
def test_each_number_of_a_header_is_checked(at: int, value: int, why: str) -> None:
    batch = bytearray(record_batch([Row(headers=[("h", b"v")])]))
    assert bytes(batch[RECORD_AT + 6 :]) == b"\x02\x02h\x02v"
    batch[RECORD_AT + at] = value

    for columns in (COLUMNS, COLUMNS[:-1]):
        with pytest.raises(KcoordError, match=why):
            decode_all(bytes(batch), check_crcs=False, columns=columns)


IMPORTS = """
import sys
from spark_kcoord.fetch.decoding.decode import COLUMNS, decode
decode(bytes.fromhex(sys.argv[1]), "t", 0, 0, 9, columns=COLUMNS)
print(*({"pandas", "pyspark"} & {*sys.modules}))
"""


def test_decoding_does_not_load_pandas(decoder: str) -> None:
    record_set = record_batch([Row(b"k", b"v", 1, [("h", b"1")]), Row()])

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORTS, record_set.hex()], capture_output=True, text=True, timeout=60
    )

    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr
