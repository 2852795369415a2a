"""Records made of rows in the compiled module and in plain Python are the same, whatever the rows are."""

import gc
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kcoord.consumer.values import ConsumerRecord
from spark_kcoord.fetch.decoding.columns import COLUMNS, arrow_schema
from spark_kcoord.fetch.decoding.decode import load_decoder
from spark_kcoord.fetch.records import plain

SCHEMA = arrow_schema(COLUMNS)
MOST_US = (1 << 63) - 1

some_bytes = st.none() | st.binary(max_size=20)
some_headers = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=5), "value": some_bytes}), max_size=3
)
a_row = st.fixed_dictionaries(
    {
        "key": some_bytes,
        "value": some_bytes,
        "topic": st.just("t"),
        "partition": st.just(3),
        "offset": st.integers(0, 2**62),
        "timestamp": st.integers(-MOST_US, MOST_US) | st.sampled_from([0, -1, -1000, 999, 1000]),
        "timestampType": st.integers(0, 1),
        "headers": some_headers,
    }
)
some_epochs = st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 9)), max_size=3).map(sorted)


def rows_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def both(rows: pa.RecordBatch, epochs: Any) -> tuple[list[Any], list[Any]]:
    native = load_decoder("native")
    return (
        native.records(rows, "t", 3, epochs, ConsumerRecord),
        plain.records(rows, "t", 3, epochs, ConsumerRecord),
    )


@given(st.lists(a_row, max_size=12), some_epochs, st.integers(0, 12), st.integers(0, 12))
def test_records_are_the_same_of_whole_and_of_sliced_rows(
    rows: list[dict[str, Any]], epochs: list[tuple[int, int]], start: int, count: int
) -> None:
    made, in_python = both(rows_of(rows).slice(min(start, len(rows)), count), epochs)
    assert made == in_python
    assert [[type(field) for field in record] for record in made] == [
        [type(field) for field in record] for record in in_python
    ]
    assert all(type(record) is ConsumerRecord for record in made)


def test_rows_without_timestamps_as_the_first_format_has_them_are_the_same() -> None:
    row = {"key": b"k", "value": None, "topic": "t", "partition": 3, "offset": 1, "timestamp": None, "headers": None}
    made, in_python = both(rows_of([row | {"timestampType": 0}]), ())
    assert made == in_python
    assert made[0].timestamp == -1


def test_records_are_whole_values_that_leave_nothing_behind() -> None:
    rows = rows_of(
        [
            {
                "key": b"key" * 10,
                "value": b"value" * 10,
                "topic": "t",
                "partition": 3,
                "offset": 10**6,
                "timestamp": 10**15,
                "timestampType": 1,
                "headers": [{"key": "header", "value": b"content" * 5}],
            }
        ]
    )
    (record,) = load_decoder("native").records(rows, "t", 3, ((2, 1), (10**7, 9)), ConsumerRecord)
    assert (record.leader_epoch, record.offset, record.timestamp, record.timestamp_type) == (9, 10**6, 10**12, 1)
    # They refer to nothing, so that a collection of cycles need not look at them.
    assert not any(map(gc.is_tracked, (record, record.headers, record.headers[0])))
    # One reference by the tuple, one by the argument.
    assert [sys.getrefcount(record[at]) for at in (6, 7, 8)] == [2, 2, 2]


def test_a_class_that_is_no_tuple_is_refused() -> None:
    with pytest.raises(TypeError):
        load_decoder("native").records(rows_of([]), "t", 3, (), dict)
    wrong = rows_of([]).set_column(0, "key", pa.array([], pa.string()))
    with pytest.raises(TypeError):
        load_decoder("native").records(wrong, "t", 3, (), ConsumerRecord)


def test_a_record_is_hashed_by_its_fields_and_not_by_what_its_memory_held() -> None:
    fields = {"key": b"k", "value": None, "topic": "t", "partition": 3, "offset": 1, "timestamp": 2, "timestampType": 0}
    for made in both(rows_of([fields | {"headers": None}]), ()):
        with pytest.raises(TypeError, match="unhashable"):
            hash(made[0])
