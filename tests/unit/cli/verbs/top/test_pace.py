"""The pace of a group: what two looks and more tell of it, and where that leads."""

from collections.abc import Sequence

import pytest

from coordinator.cli.verbs.top.pace import Pace, Rates, Way, duration_text, way_of
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import PartitionDescription


def one(committed: int | None, end: int | None, partition: int = 0) -> PartitionDescription:
    return PartitionDescription("t", partition, committed, end)


def paced(*looks: tuple[float, list[PartitionDescription]], topic_ids: Sequence[str] = ()) -> Rates:
    """Return the pace of looks, with the topic's id at each of them if it is given."""
    pace = Pace()
    for number, (at_s, partitions) in enumerate(looks):
        ids = tuple(("t", topic_id) for topic_id in topic_ids[number : number + 1])
        pace.see(DescribeGroupResponse(partitions=tuple(partitions), topic_ids=ids), at_s)
    return pace.rates()


def test_one_look_tells_no_rate() -> None:
    assert paced((5.0, [one(10, 20)])) == Rates(None, None)


def test_rates_are_the_records_between_two_looks_a_second() -> None:
    assert paced((5.0, [one(10, 20), one(0, 4, 1)]), (7.0, [one(30, 20), one(2, 10, 1)])) == Rates(11.0, 3.0)


def test_offset_that_is_known_for_the_first_time_has_no_rate() -> None:
    assert paced((5.0, [one(None, None)]), (7.0, [one(1_000_000, 2_000_000)])) == Rates(None, None)
    assert paced((5.0, [one(None, 10)]), (7.0, [one(1_000_000, 14)])) == Rates(None, 2.0)
    assert paced((5.0, []), (7.0, [one(1, 1)])) == Rates(None, None)


def test_offset_that_went_back_does_not_count() -> None:
    assert paced((5.0, [one(90, 100), one(0, 5, 1)]), (7.0, [one(10, 100), one(4, 5, 1)])) == Rates(2.0, 0.0)
    assert paced((5.0, [one(90, 100)]), (7.0, [one(10, 100)])) == Rates(None, 0.0)


def test_offset_of_a_topic_that_was_made_again_does_not_count() -> None:
    looks = [(5.0, [one(90, 100)]), (7.0, [one(300, 400)]), (9.0, [one(304, 410)])]
    assert paced(*looks, topic_ids=["a", "b", "b"]) == Rates(2.0, 5.0)


def test_rates_are_over_ten_seconds_and_forget_what_was_before() -> None:
    looks = [(float(at_s), [one(at_s * 100 if at_s > 20 else 0, 0)]) for at_s in range(10, 34, 2)]
    assert paced(*looks) == Rates(100.0, 0.0)


def test_looks_that_are_far_apart_tell_the_rate_between_them() -> None:
    assert paced((0.0, [one(0, 0)]), (100.0, [one(500, 100)]), (200.0, [one(500, 300)])) == Rates(0.0, 2.0)


def test_second_look_at_the_same_time_is_passed_over() -> None:
    assert paced((5.0, [one(0, 0)]), (5.0, [one(9, 9)]), (6.0, [one(3, 1)])) == Rates(3.0, 1.0)


@pytest.mark.parametrize(
    ("lag", "rates", "way"),
    [
        (600, Rates(30.0, 10.0), Way("catches up in about 30s", 30.0)),
        (600, Rates(10.0, 30.0), Way("falls behind")),
        (600, Rates(0.0, 30.0), Way("falls behind")),
        (600, Rates(0.0, 0.0), Way("still")),
        (600, Rates(101.0, 100.0), Way("keeps pace")),
        (600, Rates(None, 10.0), None),
        (600, Rates(10.0, None), None),
        (None, Rates(30.0, 10.0), None),
        (0, Rates(), Way("caught up", 0.0)),
    ],
)
def test_way_is_told_by_lag_and_rates(lag: int | None, rates: Rates, way: Way | None) -> None:
    assert way_of(lag, is_lag_whole=True, has_commit=True, rates=rates) == way


def test_group_whose_lag_is_not_wholly_known_is_not_called_caught_up() -> None:
    assert way_of(0, is_lag_whole=False, has_commit=True, rates=Rates()) is None
    assert way_of(0, is_lag_whole=False, has_commit=True, rates=Rates(0.0, 0.0)) == Way("still")


def test_group_without_a_commit_is_on_no_way() -> None:
    assert way_of(None, is_lag_whole=False, has_commit=False, rates=Rates(None, 5.0)) == Way("no commit")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0004, "0ms"),
        (0.85, "850ms"),
        (1, "1s"),
        (119.4, "119s"),
        (120, "2m"),
        (3599, "60m"),
        (7200, "2h"),
        (172_800, "2d"),
    ],
)
def test_duration_has_one_unit(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
