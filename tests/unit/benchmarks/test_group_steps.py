"""The calls that a death, a ping and a commit take: a hot path that grows is seen here first."""

import pytest

from benchmarks.group_steps import AT_MOST, DEATH_CALLS, CountedGroup, measure, missed_bars
from benchmarks.server_steps import measure_server

MEMBERS = 600
SERVED = 64


@pytest.fixture(scope="module")
def found() -> dict[str, float]:
    core = measure(CountedGroup(MEMBERS, 10 * MEMBERS), requests=MEMBERS)
    return core | measure_server(SERVED, requests=MEMBERS)


def test_a_death_a_ping_and_a_commit_take_no_more_calls_than_they_may(found: dict[str, float]) -> None:
    assert missed_bars(found, MEMBERS) == []


def test_a_request_is_one_step_and_a_commit_one_more_for_the_disk(found: dict[str, float]) -> None:
    assert (found["ping_steps"], found["commit_steps"]) == (1, 2)


def test_an_answer_is_one_write_and_no_timer_is_set_for_a_request(found: dict[str, float]) -> None:
    counts = ("ping_writes", "commit_writes", "ping_timers", "commit_timers")
    assert [found[name] for name in counts] == [1, 1, 0, 0]


def test_a_count_over_its_bar_is_said() -> None:
    at_most = {"death_calls": DEATH_CALLS, **AT_MOST}
    assert missed_bars(at_most, 0) == []
    for name in at_most:
        (missed,) = missed_bars({**at_most, name: at_most[name] + 1}, 0)
        assert missed.startswith(f"{name} is ")
