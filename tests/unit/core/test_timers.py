"""Deadlines that are moved often and looked at seldom."""

from coordinator.core.timers import Timers


def test_key_is_due_at_its_latest_deadline_once() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 100)
    timers.set("a", 200)
    assert (timers.pop_due(150), timers.pop_due(200), timers.pop_due(300)) == ([], ["a"], [])


def test_deadline_may_be_moved_nearer() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 500)
    timers.set("a", 100)
    assert (timers.earliest(), timers.pop_due(100), timers.pop_due(500)) == (100, ["a"], [])


def test_cancelled_key_is_never_due_and_may_be_set_again() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 100)
    timers.cancel("a")
    timers.cancel("unknown")
    assert timers.pop_due(100) == []
    timers.set("a", 150)
    assert timers.pop_due(150) == ["a"]


def test_due_keys_come_in_the_order_of_their_deadlines() -> None:
    timers: Timers[str] = Timers()
    for key, deadline_ms in (("c", 300), ("a", 100), ("b", 200), ("d", 100)):
        timers.set(key, deadline_ms)
    assert timers.pop_due(300) == ["a", "d", "b", "c"]


def test_moving_a_deadline_later_files_nothing() -> None:
    timers: Timers[str] = Timers()
    for deadline_ms in range(1_000):
        timers.set("a", deadline_ms)
    assert timers.earliest() == 0
    assert timers.pop_due(998) == []
    assert timers.earliest() == 999


def test_no_more_keys_are_taken_than_asked_for_and_the_rest_stays_due() -> None:
    timers: Timers[str] = Timers()
    for key in "abcde":
        timers.set(key, 100)
    timers.set("b", 300)
    assert timers.pop_due(200, 2) == ["a", "c"]
    assert timers.earliest() == 100
    assert (timers.pop_due(200, 9), timers.pop_due(300)) == (["d", "e"], ["b"])
