"""A wall clock that is far from where it is expected is said with both times."""

import pytest

from coordinator.runtime.clock_watch import ClockWatch, why_far_from_log

NOON_MS = 1_700_000_000_000
"""2023-11-14 22:13:20 UTC."""
AN_HOUR_MS = 3_600_000
ADVICE = (
    ": correct it if it is wrong, since commits are stamped with it. No group is forgotten any sooner for it: "
    "retentions count the time in which a node ran"
)


class SetClock:
    """A clock that says what it is set to."""

    def __init__(self) -> None:
        self.now_ms = 5
        self.offset_ms = NOON_MS

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms + self.offset_ms

    def take_stall_ms(self) -> int:
        return 0

    def hold(self) -> None:
        raise AssertionError("this clock is not held")

    def go_on(self) -> int:
        raise AssertionError("this clock is not held")


def test_start_with_a_clock_that_is_ahead_of_the_log_is_said_with_both_times() -> None:
    assert why_far_from_log(NOON_MS, NOON_MS + 10 * 86_400_000) == (
        "the clock of this machine says 2023-11-24 22:13:20 UTC and the log was last written at 2023-11-14 22:13:20 "
        "UTC: 864000 s ahead. No node ran for so long, or the clock is or was wrong" + ADVICE
    )


def test_start_with_a_clock_that_is_behind_the_log_is_said() -> None:
    assert why_far_from_log(NOON_MS, NOON_MS - 2 * AN_HOUR_MS) == (
        "the clock of this machine says 2023-11-14 20:13:20 UTC and the log was last written at 2023-11-14 22:13:20 "
        "UTC: 7200 s behind. The clock is or was wrong" + ADVICE
    )


@pytest.mark.parametrize("jump_ms", [-AN_HOUR_MS, 0, AN_HOUR_MS])
def test_less_than_an_hour_is_nothing_to_speak_of(jump_ms: int) -> None:
    assert why_far_from_log(NOON_MS, NOON_MS + jump_ms) is None
    clock = SetClock()
    watch = ClockWatch(clock)
    assert watch.why_far() is None
    clock.offset_ms += jump_ms
    assert watch.why_far() is None


def test_log_that_does_not_say_when_it_was_written_is_nothing_to_compare_with() -> None:
    assert why_far_from_log(None, NOON_MS) is None


def test_clock_beyond_every_calendar_is_said_too() -> None:
    assert "says 9999-12-31 23:59:59 UTC" in (why_far_from_log(NOON_MS, 10**16) or "")


def test_clock_that_jumps_while_the_node_runs_is_said_once() -> None:
    clock = SetClock()
    watch = ClockWatch(clock)
    said = [watch.why_far()]
    for jump_ms in (2 * AN_HOUR_MS, 0, -2 * AN_HOUR_MS, 0):
        clock.now_ms += 100 * AN_HOUR_MS
        clock.offset_ms += jump_ms
        said.append(watch.why_far())
    assert said == [
        None,
        "the clock of this machine says 2023-11-19 04:13:20 UTC and it is 2023-11-19 02:13:20 UTC by the time that "
        "this node has been running: 7200 s ahead. This machine was suspended, or its clock was set" + ADVICE,
        None,
        "the clock of this machine says 2023-11-27 10:13:20 UTC and it is 2023-11-27 12:13:20 UTC by the time that "
        "this node has been running: 7200 s behind. The clock was set" + ADVICE,
        None,
    ]
