"""Lag in time, against examples computed by hand and laws that hold for every history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.admin.lag import POINTS, SeenEnds
from coordinator.admin.status import WINDOW, Commits, Status


def seen(*points: tuple[int, int]) -> SeenEnds:
    ends = SeenEnds()
    for offset, at_ms in points:
        ends.see(offset, at_ms)
    return ends


@pytest.mark.parametrize(
    ("points", "committed", "now_ms", "lag_ms"),
    [
        ((), 5, 1000, None),
        (((100, 1000),), 100, 1500, 0),
        (((100, 1000),), 99, 1500, None),
        # 100 records in 10 s; the end was at 150 half-way, at 6,000 ms
        (((100, 1000), (200, 11_000)), 150, 11_000, 5000),
        (((100, 1000), (200, 11_000)), 200, 11_000, 0),
        (((100, 1000), (200, 11_000)), 250, 11_000, 0),
        (((100, 1000), (200, 11_000)), 100, 13_000, 12_000),
        # a record a second from the first to the last end: offset 90 was the end 10 s before the first
        (((100, 10_000), (120, 30_000)), 90, 30_000, 30_000),
        # the slow stretch and the fast one are told apart
        (((0, 0), (10, 10_000), (110, 20_000)), 60, 20_000, 5000),
        # nothing came for 20 s, then 10 records: the end was at 10 until 30,000 ms
        (((0, 0), (10, 10_000), (10, 20_000), (10, 30_000), (20, 40_000)), 10, 40_000, 10_000),
        (((100, 1000), (100, 11_000)), 50, 11_000, None),
        # an end that goes back begins anew
        (((100, 1000), (200, 2000), (10, 3000), (20, 4000)), 15, 4000, 500),
        # a clock that was set back begins anew: nothing is known until the end has moved again
        (((100, 90_000), (200, 91_000), (300, 1000)), 250, 2000, None),
        (((100, 90_000), (200, 91_000), (300, 1000), (400, 2000)), 350, 2000, 500),
        # time that does not go on is passed over
        (((100, 1000), (200, 1000), (200, 3000)), 150, 3000, 1000),
    ],
)
def test_lag_is_the_time_since_the_end_was_at_the_committed_offset(
    points: tuple[tuple[int, int], ...], committed: int, now_ms: int, lag_ms: int | None
) -> None:
    assert seen(*points).lag_ms(committed, now_ms) == lag_ms


def test_the_oldest_ends_are_forgotten_and_a_flat_stretch_takes_two() -> None:
    ends = seen(*((number, number * 1000) for number in range(POINTS + 5)))
    assert ends.last(100) == list(range(5, POINTS + 5))
    assert seen(*((7, at_ms) for at_ms in range(100))).last(100) == [7] * 100


HISTORIES = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 10_000)), min_size=2, max_size=60)


@given(HISTORIES, st.integers(0, 100), st.integers(0, 100), st.integers(0, 10_000))
def test_who_has_committed_more_is_never_further_behind(
    steps: list[tuple[int, int]], one: int, other: int, later_ms: int
) -> None:
    ends, offset, at_ms = SeenEnds(), 0, 0
    for more, passed_ms in steps:
        offset, at_ms = offset + more, at_ms + passed_ms
        ends.see(offset, at_ms)
    behind, ahead = sorted((one, other))
    lags = [ends.lag_ms(committed, at_ms + later_ms) for committed in (behind, ahead)]
    if None not in lags:
        assert lags[0] >= lags[1] >= 0  # type: ignore[operator]


@given(HISTORIES, st.integers(0, 3000))
def test_lag_grows_with_time_while_nothing_is_committed(steps: list[tuple[int, int]], later_ms: int) -> None:
    ends, offset, at_ms = SeenEnds(), 0, 0
    for more, passed_ms in steps:
        offset, at_ms = offset + more + 1, at_ms + passed_ms
        ends.see(offset, at_ms)
    before = ends.lag_ms(offset - 1, at_ms)
    after = ends.lag_ms(offset - 1, at_ms + later_ms)
    assert before is not None
    assert after == before + later_ms


def test_the_last_looks_are_counted_also_where_nothing_new_came() -> None:
    ends = seen(*((end, look) for look, end in enumerate([10, 40, 40, 40, 40, 40, 40, 70, 70])))
    assert ends.last(1) == [70]
    assert ends.last(4) == [40, 40, 70, 70]
    assert ends.last(8) == [40, 40, 40, 40, 40, 40, 70, 70]
    assert ends.last(20) == [10, 40, 40, 40, 40, 40, 40, 70, 70]


def test_a_group_that_stopped_before_a_burst_is_stopped_once_its_end_has_stood_for_the_window() -> None:
    ends, commits = SeenEnds(), Commits()
    for at_ms in (0, 1_000):
        ends.see(4_000, at_ms)
        commits.see(3_000 + at_ms, 1_000 - at_ms, at_ms)
    statuses = []
    for look in range(2, 2 + WINDOW):  # a burst comes, and nothing after it
        ends.see(5_500, look * 1_000)
        statuses.append(commits.status(1_500, ends.last(WINDOW), look * 1_000))
    assert statuses == [Status.OK] * (WINDOW - 1) + [Status.STOP]
