"""Filters pushed into a batch read: what is left of ranges, and what goes back to Spark."""

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.planning.narrowing import Narrowing
from spark_kcoord.source.pushed_filters import take_filters

TOPIC, PARTITION, OFFSET, TIME = ("topic",), ("partition",), ("offset",), ("timestamp",)
RANGES = [TopicRange(topic, None, number, 10, 20) for topic in ("a", "b") for number in range(3)]
NOON = datetime(2026, 11, 21, 12, 0, 0, 1_500, tzinfo=timezone(timedelta(hours=2)))
NOON_MS = 1_795_255_200_001


def left_of(*filters: Filter) -> list[str]:
    narrowing, returned = take_filters(filters)
    assert returned == []
    return [str(left) for whole in RANGES if (left := narrowing.apply(whole)) is not None]


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([EqualTo(TOPIC, "b"), EqualTo(PARTITION, 1)], ["b-1 [10, 20)"]),
        ([In(TOPIC, ("b", "c")), In(PARTITION, (0, 2, 7))], ["b-0 [10, 20)", "b-2 [10, 20)"]),
        ([EqualTo(TOPIC, "a"), EqualTo(TOPIC, "b")], []),
        ([In(PARTITION, (0, 1)), In(PARTITION, (1, 2)), EqualTo(TOPIC, "a")], ["a-1 [10, 20)"]),
        ([GreaterThan(PARTITION, 1), EqualNullSafe(TOPIC, "a")], ["a-2 [10, 20)"]),
        ([GreaterThanOrEqual(PARTITION, 1), LessThan(PARTITION, 2), EqualTo(TOPIC, "a")], ["a-1 [10, 20)"]),
        (
            [LessThanOrEqual(PARTITION, 0), GreaterThanOrEqual(OFFSET, 12), LessThan(OFFSET, 15)],
            ["a-0 [12, 15)", "b-0 [12, 15)"],
        ),
        ([EqualTo(OFFSET, 19), EqualTo(PARTITION, 0)], ["a-0 [19, 20)", "b-0 [19, 20)"]),
        (
            [GreaterThan(OFFSET, 4), LessThanOrEqual(OFFSET, 99), EqualTo(PARTITION, 0)],
            ["a-0 [10, 20)", "b-0 [10, 20)"],
        ),
        ([GreaterThan(OFFSET, 19)], []),
        ([LessThan(OFFSET, 10)], []),
        ([GreaterThan(OFFSET, 12), LessThan(OFFSET, 12)], []),
        (
            [IsNotNull(TOPIC), IsNotNull(PARTITION), IsNotNull(OFFSET), EqualTo(PARTITION, 0)],
            ["a-0 [10, 20)", "b-0 [10, 20)"],
        ),
    ],
)
def test_filters_on_what_ranges_are_made_of_are_applied_whole(filters: list[Filter], left: list[str]) -> None:
    assert left_of(*filters) == left


@pytest.mark.parametrize(
    "one",
    [
        Not(EqualTo(PARTITION, 1)),
        IsNull(PARTITION),
        IsNotNull(("key",)),
        EqualTo(("key",), b"k"),
        EqualTo(PARTITION, None),
        EqualTo(TOPIC, 1),
        In(OFFSET, (1, None)),
        In(PARTITION, ()),
        StringStartsWith(TOPIC, "a"),
        EqualTo(("headers", "partition"), 1),
        LessThan(TIME, NOON),
        LessThanOrEqual(TIME, NOON),
        GreaterThan(TIME, NOON.replace(tzinfo=None)),
        GreaterThan(TIME, datetime(1969, 1, 1, tzinfo=UTC)),
        EqualTo(("timestampType",), 1),
    ],
)
def test_other_filters_go_back_and_change_nothing(one: Filter) -> None:
    narrowing, returned = take_filters([one])
    assert narrowing == Narrowing()
    assert [id(it) for it in returned] == [id(one)]


@pytest.mark.parametrize(
    "one",
    [
        GreaterThan(TIME, NOON),
        GreaterThanOrEqual(TIME, NOON),
        EqualTo(TIME, NOON),
        In(TIME, (NOON + timedelta(days=1), NOON)),
    ],
)
def test_a_lower_bound_of_the_time_narrows_and_goes_back(one: Filter) -> None:
    assert take_filters([one]) == (Narrowing(since_ms=NOON_MS), [one])


def test_the_latest_lower_bound_counts() -> None:
    later = GreaterThan(TIME, NOON + timedelta(milliseconds=5))
    assert take_filters([later, GreaterThan(TIME, NOON)])[0].since_ms == NOON_MS + 5


def test_single_offsets_narrow_and_go_back() -> None:
    one = In(OFFSET, (17, 12))
    assert take_filters([one]) == (Narrowing(least_offset=12, greatest_offset=17), [one])


def test_what_is_left_travels_to_executors() -> None:
    narrowing, _ = take_filters([In(TOPIC, ("a",)), GreaterThan(TIME, NOON)])
    assert pickle.loads(pickle.dumps(narrowing)) == narrowing
