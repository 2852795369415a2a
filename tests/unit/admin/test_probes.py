"""Probes of a node: started once, alive while its loop turns, ready while it lets members in, and why not."""

from collections.abc import Iterable

import pytest

from coordinator.admin.http import Answer
from coordinator.admin.probes import DEAD_S, UNREADY_S, Condition


class Watch:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def said(answer: Answer) -> tuple[int, str]:
    body: Iterable[bytes] = answer.body
    return answer.status, b"".join(body).decode()


def test_a_node_that_starts_is_alive_for_as_long_as_it_loads_and_not_ready() -> None:
    watch = Watch()
    condition = Condition(watch)
    assert said(condition.readyz()) == (503, "not ready: it has only begun\n")
    condition.why_not_ready = "it loads its log"
    watch.now_s += 100_000
    assert said(condition.livez()) == (200, "alive\n")
    assert said(condition.readyz()) == (503, "not ready: it loads its log\n")


def test_a_node_that_serves_is_alive_and_ready() -> None:
    condition = Condition(Watch())
    condition.why_not_ready = ""
    condition.beat()
    assert said(condition.livez()) == (200, "alive\n")
    assert said(condition.readyz()) == (200, "ready\n")


@pytest.mark.parametrize(
    ("still_s", "is_alive", "is_ready"),
    [
        (0.0, True, True),
        (UNREADY_S - 0.1, True, True),
        (UNREADY_S, True, False),
        (DEAD_S - 0.1, True, False),
        (DEAD_S, False, False),
    ],
)
def test_a_loop_that_stands_still_is_first_not_ready_and_then_not_alive(
    still_s: float, is_alive: bool, is_ready: bool
) -> None:
    watch = Watch()
    condition = Condition(watch)
    condition.why_not_ready = ""
    condition.beat()
    watch.now_s += still_s
    assert (condition.livez().status == 200, condition.readyz().status == 200) == (is_alive, is_ready)
    condition.beat()
    assert (condition.livez().status, condition.readyz().status) == (200, 200)


def test_a_node_has_started_once_its_loop_turns_and_stays_so() -> None:
    watch = Watch()
    condition = Condition(watch)
    condition.why_not_ready = "it loads its log"
    watch.now_s += 100_000
    assert said(condition.startupz()) == (503, "not started: it loads its log\n")
    condition.beat()
    assert said(condition.startupz()) == (200, "started\n")
    condition.why_not_ready = "it waits for ZooKeeper"
    watch.now_s += DEAD_S
    assert (condition.livez().status, condition.readyz().status) == (503, 503)
    assert said(condition.startupz()) == (200, "started\n")
