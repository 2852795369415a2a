"""Burrow's status words, against examples computed by hand and laws that hold for every window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.admin.status import WINDOW, Commits, Status, group_status


def judged(
    *commits: tuple[int, int, int], lag: int | None = None, ends: tuple[int, ...] = (), now_ms: int | None = None
) -> Status | None:
    """Judge commits of (offset, lag, time), by default at the time and with the lag of the last one."""
    window = Commits()
    for commit in commits:
        window.see(*commit)
    return window.status(commits[-1][1] if lag is None else lag, ends, commits[-1][2] if now_ms is None else now_ms)


@pytest.mark.parametrize(
    ("commits", "more", "status"),
    [
        (((10, 5, 1000),), {}, None),
        (((10, 5, 1000), (10, 5, 1000)), {}, None),  # the same commit, seen twice
        (((10, 5, 1000), (20, 4, 2000)), {}, Status.OK),
        (((10, 5, 1000), (20, 5, 2000)), {}, Status.WARN),
        (((10, 5, 1000), (20, 9, 2000), (30, 9, 3000)), {}, Status.WARN),
        (((10, 5, 1000), (20, 9, 2000), (30, 8, 3000)), {}, Status.OK),
        (((10, 0, 1000), (20, 9, 2000), (30, 9, 3000)), {}, Status.OK),  # it was without lag once
        (((10, 5, 1000), (10, 7, 2000), (10, 9, 3000)), {}, Status.STALL),
        (((10, 5, 1000), (10, 0, 2000), (10, 9, 3000)), {}, Status.OK),
        (((10, 5, 1000), (8, 7, 2000), (12, 9, 3000)), {}, Status.REWIND),
        (((10, 5, 1000), (8, 7, 2000), (10, 9, 3000)), {}, Status.REWIND),
        # two seconds of commits, then nothing: stopped once more than two seconds are over
        (((10, 5, 1000), (20, 4, 2000), (30, 3, 3000)), {"now_ms": 5000}, Status.OK),
        (((10, 5, 1000), (20, 4, 2000), (30, 3, 3000)), {"now_ms": 5001}, Status.STOP),
        (((10, 0, 1000), (20, 0, 3000)), {"lag": 7, "now_ms": 6000}, Status.STOP),
        (((10, 0, 1000), (20, 0, 3000)), {"lag": 7, "now_ms": 6000, "ends": (20, 27)}, Status.OK),
        (((10, 0, 1000), (20, 0, 3000)), {"lag": 7, "now_ms": 6000, "ends": (21, 27)}, Status.STOP),
        (((10, 5, 1000), (8, 7, 2000)), {"lag": 0, "now_ms": 99_000}, Status.OK),
    ],
)
def test_a_partition_is_judged_by_the_rules_of_burrow(
    commits: tuple[tuple[int, int, int], ...], more: dict[str, int], status: Status | None
) -> None:
    assert judged(*commits, **more) is status  # type: ignore[arg-type]


def test_only_the_last_ten_commits_count() -> None:
    growing = [(10 * number, number, 1000 * number) for number in range(1, WINDOW + 1)]
    assert judged((5, 0, 500), *growing) is Status.WARN
    assert judged((5, 0, 500), *growing[:-1]) is Status.OK


@pytest.mark.parametrize(
    ("partitions", "status"),
    [
        ([], None),
        ([None], None),
        ([None, Status.OK], Status.OK),
        ([Status.OK, Status.WARN, Status.OK], Status.WARN),
        ([Status.WARN, Status.STALL], Status.ERR),
        ([Status.STOP, Status.OK], Status.ERR),
        ([None, Status.REWIND], Status.ERR),
    ],
)
def test_a_group_is_as_its_worst_partition(partitions: list[Status | None], status: Status | None) -> None:
    assert group_status(partitions) is status


WINDOWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 5)), min_size=2, max_size=12)


@given(WINDOWS, st.integers(0, 100))
def test_without_lag_a_partition_is_never_in_error(steps: list[tuple[int, int, int]], later_ms: int) -> None:
    window, at_ms = Commits(), 0
    for offset, lag, passed_ms in steps:
        at_ms += passed_ms
        window.see(offset, lag, at_ms)
    assert window.status(0, (), at_ms + later_ms) is Status.OK


@given(WINDOWS)
def test_whoever_was_without_lag_within_the_window_and_commits_is_ok(steps: list[tuple[int, int, int]]) -> None:
    window, at_ms = Commits(), 0
    for offset, _, passed_ms in steps:
        at_ms += passed_ms
        window.see(offset, 0, at_ms)
    assert window.status(3, (), at_ms) is Status.OK
