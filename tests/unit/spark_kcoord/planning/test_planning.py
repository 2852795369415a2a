"""Which tasks read which ranges: nothing is lost or read twice, small is packed, large is cut, options are obeyed."""

from collections.abc import Sequence
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.source_options import parse_options
from spark_kcoord.options.table import Mode
from spark_kcoord.planning.input_partition import KcoordInputPartition
from spark_kcoord.planning.tasks import (
    LARGEST_PACK,
    LARGEST_PIECE,
    RANGE_COST,
    SMALLEST_PACK,
    TASKS_PER_CORE,
    plan_partitions,
)
from spark_kcoord.source.batch_reader import plan_input_partitions

SERVERS = ("k:1",)
STREAM = {"subscribe": "t", "kcoord.bootstrap.servers": "c:1", "kcoord.group.id": "g"}


def ranges_of(*sizes: int, start: int = 0) -> list[TopicRange]:
    return [TopicRange("t", "id", number, start, start + size) for number, size in enumerate(sizes)]


def plan(
    ranges: Sequence[TopicRange],
    *,
    parallelism: int = 2,
    min_partitions: int | None = None,
    max_records: int | None = None,
    may_split: bool = True,
) -> list[KcoordInputPartition]:
    return plan_partitions(
        ranges,
        servers=SERVERS,
        parallelism=parallelism,
        min_partitions=min_partitions,
        max_records_per_partition=max_records,
        may_split=may_split,
    )


def sizes(tasks: Sequence[KcoordInputPartition]) -> list[int]:
    return [sum(one.end - one.start for one in task.ranges) for task in tasks]


def cost(task: KcoordInputPartition) -> int:
    return sum(RANGE_COST + one.end - one.start for one in task.ranges)


SIZE = st.one_of(st.just(0), st.integers(1, 50), st.integers(1, 200_000), st.integers(1, 30_000_000))


@st.composite
def some_ranges(draw: st.DrawFn) -> list[TopicRange]:
    found = [
        TopicRange(topic, None, partition, start, start + draw(SIZE))
        for topic in ("a", "b")
        for partition, start in enumerate(draw(st.lists(st.integers(0, 2**40), max_size=12)))
    ]
    return draw(st.permutations(found))


def joined(pieces: Sequence[TopicRange]) -> list[TopicRange]:
    """Put pieces of one range that follow each other together again."""
    whole: list[TopicRange] = []
    for piece in pieces:
        last = whole[-1] if whole else None
        if last and (last.topic, last.partition, last.end) == (piece.topic, piece.partition, piece.start):
            whole[-1] = TopicRange(last.topic, last.topic_id, last.partition, last.start, piece.end)
        else:
            whole.append(piece)
    return whole


@given(
    some_ranges(),
    st.integers(1, 64),
    st.none() | st.integers(1, 200),
    st.none() | st.integers(100_000, 10_000_000),
    st.booleans(),
)
def test_every_offset_is_in_one_task_and_the_order_is_kept(
    ranges: list[TopicRange], parallelism: int, least: int | None, most: int | None, may_split: bool
) -> None:
    tasks = plan(ranges, parallelism=parallelism, min_partitions=least, max_records=most, may_split=may_split)
    assert all(task.ranges and task.servers == SERVERS for task in tasks)
    pieces = list(chain.from_iterable(task.ranges for task in tasks))
    assert all(piece.start < piece.end for piece in pieces)
    assert joined(pieces) == [one for one in ranges if one.start < one.end]


@given(some_ranges(), st.integers(1, 64), st.booleans())
def test_tasks_of_several_ranges_are_small_and_few(ranges: list[TopicRange], parallelism: int, may_split: bool) -> None:
    tasks = plan(ranges, parallelism=parallelism, may_split=may_split)
    shared = [task for task in tasks if len(task.ranges) > 1]
    assert all(cost(task) <= LARGEST_PACK for task in shared)
    most = max(TASKS_PER_CORE * parallelism, sum(map(cost, tasks)) / LARGEST_PACK)
    assert len(shared) <= 1 + 2 * most
    small = [max(cost(one), cost(two)) for one, two in pairwise(tasks) if cost(one) + cost(two) <= SMALLEST_PACK]
    assert small == []


@given(some_ranges(), st.integers(1, 64))
def test_a_split_keeps_pieces_within_bounds_and_tasks_in_proportion(ranges: list[TopicRange], parallelism: int) -> None:
    whole, cut = plan(ranges, parallelism=parallelism, may_split=False), plan(ranges, parallelism=parallelism)
    assert all(size <= 1.5 * LARGEST_PIECE for size in sizes(cut))
    total = sum(sizes(whole))
    assert len(cut) <= len(whole) + max(1.5 * TASKS_PER_CORE * parallelism, 1.5 * total / LARGEST_PIECE)


@given(some_ranges(), st.integers(50_000, 10_000_000))
def test_no_task_has_more_records_than_asked_for(ranges: list[TopicRange], most: int) -> None:
    tasks = plan(ranges, max_records=most)
    assert all(size <= most for size in sizes(tasks))
    assert all(len(task.ranges) == 1 for task in tasks)


def test_a_small_micro_batch_of_many_partitions_is_one_task() -> None:
    assert sizes(plan(ranges_of(*[3] * 24), may_split=False)) == [72]


def test_ten_thousand_small_ranges_are_spread_since_each_costs_some_work() -> None:
    assert len(plan(ranges_of(*[1] * 10_000), may_split=False)) == 16


def test_partitions_with_work_for_every_core_are_tasks_of_their_own() -> None:
    ranges = ranges_of(*[625_000] * 8)
    assert [task.ranges for task in plan(ranges)] == [(one,) for one in ranges]


def test_a_large_range_of_a_batch_is_cut_for_all_cores() -> None:
    assert sizes(plan(ranges_of(8_000_000), parallelism=4)) == [500_000] * 16


def test_a_stream_reads_a_partition_in_one_task() -> None:
    assert sizes(plan(ranges_of(8_000_000), parallelism=4, may_split=False)) == [8_000_000]


def test_no_range_is_cut_into_pieces_that_are_not_worth_a_task() -> None:
    assert sizes(plan(ranges_of(400_000), parallelism=64)) == [200_000, 200_000]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"min_partitions": 3}, [100, 100, 100]),
        ({"min_partitions": 6}, [50] * 6),
        ({"min_partitions": 4}, [100, 100, 100]),
        ({"max_records": 100}, [100, 100, 100]),
        ({"max_records": 40}, [33, 33, 34] * 3),
        ({"max_records": 60, "min_partitions": 6}, [50] * 6),
        ({"max_records": 60, "min_partitions": 12}, [25] * 12),
    ],
)
def test_options_cut_equal_ranges(asked: dict[str, int], expected: list[int]) -> None:
    assert sizes(plan(ranges_of(100, 100, 100), **asked)) == expected


def test_small_ranges_stay_whole_and_take_no_share_of_the_least_number_of_tasks() -> None:
    assert sizes(plan(ranges_of(1000, 10, 10, 10), min_partitions=10)) == [142, *[143] * 6, 10, 10, 10]


def test_the_least_number_of_tasks_is_a_hint_that_rounding_moves() -> None:
    ranges = ranges_of(9000, 900, 10)
    assert sizes(plan(ranges, max_records=3000, min_partitions=6)) == [3000, 3000, 3000, 900, 10]
    assert len(plan(ranges, max_records=3000, min_partitions=7)) == 8


def test_half_a_task_is_rounded_up_as_in_java() -> None:
    # 300 of 400 offsets times 6 tasks is 4.5, 100 of 400 is 1.5: Python's round would make 4 and 2.
    assert sizes(plan(ranges_of(300, 100), min_partitions=6)) == [60] * 5 + [50, 50]


def test_empty_ranges_make_no_task() -> None:
    assert plan(ranges_of(0, 0)) == plan(ranges_of(0), min_partitions=5, max_records=1) == []


def test_the_capacity_that_is_given_packs_the_tasks_also_when_it_is_1() -> None:
    ranges = ranges_of(*[10_000] * 40)
    for streams in (1, 16):
        options = parse_options({**STREAM, "kcoord.streams": str(streams)}, "stream")
        tasks = plan_input_partitions(options, ranges, SERVERS)
        assert tasks == plan(ranges, parallelism=streams, may_split=False)


def test_a_large_range_is_cut_in_batches_and_read_in_order_in_a_stream() -> None:
    ranges = ranges_of(10 * LARGEST_PIECE)
    modes: tuple[Mode, ...] = ("stream", "group batch", "batch")
    tasks = [len(plan_input_partitions(parse_options(STREAM, mode), ranges, SERVERS)) for mode in modes]
    assert tasks == [1, 10, 10]
