"""Chunks are cut at the right row, with holes between offsets and without; and a poll costs little a partition."""

import sys
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kcoord.consumer.core.chunk_rows import rows_before
from spark_kcoord.consumer.core.held import Grant
from spark_kcoord.consumer.core.machine import ConsumerMachine
from spark_kcoord.fetch.tailing.fetched import Chunk
from tests.helpers.fake_consuming import chunk, rows

KEY = ("t", 0)
START, END = 100, 140
PARTITIONS = 500


@given(st.sets(st.integers(START, END - 1), min_size=1), st.integers(START - 5, END + 5))
def test_rows_before_a_position_are_those_of_lower_offsets(offsets: set[int], position: int) -> None:
    one = Chunk(KEY, 1, START, END, rows(KEY, sorted(offsets)), 10)
    assert rows_before(one, position) == sum(offset < position for offset in offsets)


class Looked(list[int]):
    """Offsets that count how often one is looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        self.looks += 1
        return pa.scalar(super().__getitem__(at))


class RowsOf:
    """Rows of some offsets."""

    def __init__(self, offsets: Iterable[int]) -> None:
        self.offsets = Looked(offsets)
        self.num_rows = len(self.offsets)

    def column(self, _: str) -> Looked:
        return self.offsets


def test_where_each_offset_has_a_row_one_offset_is_looked_at() -> None:
    all_there = RowsOf(range(START, END))
    one = Chunk(KEY, 1, START, END, all_there, 10)
    assert [rows_before(one, position) for position in (START - 1, START, START + 7, END)] == [0, 0, 7, END - START]
    assert all_there.offsets.looks == 1


@pytest.mark.parametrize("offsets", [(0, 1, 1, 3), (0, 0, 2, 3), (0, 2, 2, 3), (0, 1, 3, 3)])
def test_a_damaged_batch_that_has_an_offset_twice_is_read_to_its_end(offsets: Sequence[int]) -> None:
    one = Chunk(KEY, 1, 0, 4, RowsOf(offsets), 10)
    position = 0
    for _ in offsets:
        before = rows_before(one, position)
        if before == len(offsets):
            break
        assert offsets[before] >= position
        position = offsets[before] + 1
    assert position == 4


def test_a_poll_makes_few_calls_for_a_partition_of_which_there_is_nothing() -> None:
    machine = ConsumerMachine(auto_commit=True, starts_over=True)
    machine.assign([Grant("t", number, None, 1, 0) for number in range(PARTITIONS)])
    machine.is_wanted(machine.wanted() or {})
    held = machine.held(KEY)
    assert held is not None
    machine.receive([chunk(KEY, held.token, 0, 5)])
    calls = 0

    def count(_: FrameType, event: str, __: Any) -> None:
        nonlocal calls
        calls += event == "call"

    for at in range(5):
        sys.setprofile(count)
        try:
            machine.begin_call()
            assert machine.wanted() is None
            pieces = machine.take(1)
            assert not list(machine.troubled())
            assert not machine.without_start()
            assert not machine.start_over()
            assert not machine.take_truncations()
            machine.mark_returned(pieces)
        finally:
            sys.setprofile(None)
        assert [piece.next_offset for piece in pieces] == [at + 1]
    assert calls / 5 / PARTITIONS < 6
