"""What a death, a ping and a commit take of the core, in calls: a hot path that grows is seen here first."""

import pytest

from benchmarks.group_steps import AT_MOST, DEATH_CALLS, CountedGroup, measure, missed_bars

MEMBERS = 600


@pytest.fixture(scope="module")
def found() -> dict[str, float]:
    return measure(CountedGroup(MEMBERS, 10 * MEMBERS), requests=MEMBERS)


def test_a_death_a_ping_and_a_commit_take_no_more_calls_than_they_may(found: dict[str, float]) -> None:
    assert missed_bars(found, MEMBERS) == []


def test_a_request_is_one_step_and_a_commit_one_more_for_the_disk(found: dict[str, float]) -> None:
    assert (found["ping_steps"], found["commit_steps"]) == (1, 2)


def test_a_count_over_its_bar_is_said() -> None:
    at_most = {"death_calls": DEATH_CALLS, **AT_MOST}
    assert missed_bars(at_most, 0) == []
    for name in at_most:
        (missed,) = missed_bars({**at_most, name: at_most[name] + 1}, 0)
        assert missed.startswith(f"{name} is ")
