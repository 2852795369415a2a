"""Decoding record sets: every row once, both ends trimmed, and always a way past what holds no row."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.decode import AbortedTransaction, DecodedBatch, arrow_schema, decode, end_of
from spark_kcoord.source import KcoordDataSource
from tests.helpers.record_batches import COMPRESS, TRANSACTIONAL, Row, end_marker, record_batch

ROWS = [
    Row(b"k0", b"v0", 0, [("h", b"1"), ("h", b"2"), ("empty", b""), ("none", None), ("ключ", b"\x00")]),
    Row(None, b"v1", 1_700_000_000_123),
    Row(b"", b"", 2),
    Row(b"k3", None, 3, [("", b"x")]),
    Row(b"\xff\x00", b"v" * 300, -1),
]


def decode_all(record_set: bytes, start: int = 0, end: int = 1_000, **more: Any) -> DecodedBatch:
    return decode(record_set, "t", 3, start, end, **{"with_headers": False, **more})


def offsets(decoded: DecodedBatch) -> list[int]:
    column: list[int] = decoded.rows.column("offset").to_pylist()
    return column


@pytest.mark.parametrize("with_headers", [False, True])
def test_schema_is_the_one_spark_derives_from_the_columns(with_headers: bool) -> None:
    columns = KcoordDataSource({"includeHeaders": str(with_headers)}).schema()

    assert to_arrow_schema(columns, timezone="UTC").equals(arrow_schema(with_headers=with_headers))


@pytest.mark.parametrize("codec", COMPRESS)
def test_every_codec_gives_every_row(codec: str) -> None:
    decoded = decode_all(record_batch(ROWS, base_offset=40, codec=codec), 40, with_headers=True)

    assert decoded.next_offset == 45
    assert decoded.rows.schema.equals(arrow_schema(with_headers=True))
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

    assert end_of(record_set, "t") == set_end
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


def test_unknown_codec_is_a_clear_error() -> None:
    batch = bytearray(record_batch([Row()]))
    batch[22] |= 6

    with pytest.raises(KcoordError, match="compression codec 6 is unknown"):
        decode_all(bytes(batch), check_crcs=False)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_refused(magic: int) -> None:
    batch = bytearray(record_batch([Row()]))
    batch[16] = magic

    with pytest.raises(KcoordError, match=f"message format {magic}, from before Kafka 0.11"):
        decode_all(bytes(batch))


@pytest.mark.parametrize(("at", "value"), [(16, 3), (8, 0xFF), (11, 1)])
def test_unreadable_header_is_a_clear_error(at: int, value: int) -> None:
    batch = bytearray(record_batch([Row()]))
    if at == 11:
        batch[8:11] = b"\x00\x00\x00"
    batch[at] = value

    with pytest.raises(KcoordError, match="damaged: its header cannot be read"):
        decode_all(bytes(batch))


def test_timestamp_spark_cannot_hold_is_a_clear_error() -> None:
    batch = record_batch([Row(timestamp=2**62)])

    with pytest.raises(KcoordError, match=r"timestamp Spark cannot hold \(4611686018427387904 ms"):
        decode_all(batch)
