"""Leaders that are late, in the library's own loop, with futures that the test ends."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, NodeNotReadyError, RequestTimedOutError
from kafka.future import Future
from kafka.net.selector import NetworkSelector

from coordinator.core.effects import OffsetToResolve
from coordinator.core.events import ResolvedOffset
from coordinator.protocol.ids import LATEST, TopicPartition
from coordinator.runtime.kafka import late_leaders
from coordinator.runtime.kafka.late_leaders import LateLeaders, LeaderKey, Told
from tests.helpers.waiting import wait_until

QUICK, OTHER = (1, False), (2, False)
LONGEST_KEPT_S = 60.0


class Leaders:
    """Leaders of which the second answers when the test says so; remembers the partitions it was asked about."""

    def __init__(self, net: NetworkSelector) -> None:
        self.net = net
        self.is_quick = False
        self.why_not: Exception | None = None
        self.asked: list[list[int]] = []
        self.requests: list[Future] = []
        self.late = LateLeaders(self.send, net.call_at, self.read, LONGEST_KEPT_S)

    def send(self, key: LeaderKey, offsets: Sequence[OffsetToResolve]) -> Future:
        if key == OTHER:
            self.asked.append([asked.partition for asked in offsets])
            if self.why_not is not None:
                raise self.why_not
        request = Future()
        if key == QUICK or self.is_quick:
            self.net.call_soon(lambda: request.success(list(offsets)))
        else:
            self.requests.append(request)
        return request

    def read(self, response: Any) -> Mapping[TopicPartition, ResolvedOffset]:
        return {(each.topic, each.partition): ResolvedOffset(each.topic, each.partition, 7) for each in response}

    def ask(self, *numbers: int) -> Told:
        told: Told = self.net.run(self.late.ask, {QUICK: offsets(0), OTHER: offsets(*numbers)})
        assert told.results[0] == (QUICK, offsets(0))
        return told

    def answer(self, *numbers: int) -> None:
        request = self.requests.pop(0)
        self.net.call_soon_threadsafe(lambda: request.success(offsets(*numbers)))
        wait_until(lambda: request.is_done)

    def fail(self, error: Exception) -> None:
        request = self.requests.pop(0)
        self.net.call_soon_threadsafe(lambda: request.failure(error))
        wait_until(lambda: request.is_done)


def offsets(*numbers: int) -> list[OffsetToResolve]:
    return [OffsetToResolve("t", number, LATEST) for number in numbers]


@pytest.fixture
def leaders(monkeypatch: pytest.MonkeyPatch) -> Iterator[Leaders]:
    monkeypatch.setattr(late_leaders, "PATIENCE_S", 0.2)
    monkeypatch.setattr(late_leaders, "_REST_S", 0.0)
    net = NetworkSelector(client_id="test")
    net.start()
    yield Leaders(net)
    net.stop(2000)
    net.close()


def test_a_leader_that_is_silent_is_waited_for_once(leaders: Leaders) -> None:
    told = leaders.ask(1)
    assert (len(told.results), told.answers) == (1, {})
    assert told.waited_s >= 0.1
    begun_s = time.monotonic()
    for _ in range(20):
        assert leaders.ask(1).waited_s == 0
    assert time.monotonic() - begun_s < 20 * 0.2 / 2
    assert leaders.asked == [[1]]


def test_a_leader_that_fails_at_once_is_not_late(leaders: Leaders) -> None:
    leaders.why_not = NodeNotReadyError()
    told = leaders.ask(1)
    assert told.results[1] == (OTHER, leaders.why_not)
    assert told.waited_s == 0


def test_the_answer_of_a_late_leader_is_told_by_the_next_call_and_until_it_fails(leaders: Leaders) -> None:
    leaders.ask(1, 2)
    time.sleep(0.3)
    leaders.answer(1, 2)
    known = leaders.read(offsets(1, 2))
    assert leaders.ask(1, 2).answers == known
    assert leaders.ask(1, 2).answers == known
    assert leaders.asked == [[1, 2], [1, 2]]
    leaders.fail(RequestTimedOutError())
    assert leaders.ask(1, 2).answers == {}


def test_answers_of_a_late_leader_are_not_told_for_longer_than_they_may_be_old(
    leaders: Leaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaders.ask(1)
    time.sleep(0.3)
    leaders.answer(1)
    assert leaders.ask(1).answers
    now_s = time.monotonic() + LONGEST_KEPT_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    assert leaders.ask(1).answers == {}


def test_a_late_leader_is_asked_about_all_its_partitions_a_question_at_a_time(
    leaders: Leaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_leaders, "_MOST_AT_ONCE", 2)
    leaders.ask(1)
    for number in (2, 3, 4, 2, 3):
        leaders.ask(number)
    time.sleep(0.3)
    leaders.answer(1)
    leaders.ask(1)
    assert leaders.asked[1:] == [[2, 3]]
    time.sleep(0.3)
    leaders.answer(2, 3)
    assert set(leaders.ask(1, 2, 3).answers) == {("t", 1), ("t", 2), ("t", 3)}
    assert leaders.asked[2:] == [[4, 1]]


def test_a_leader_that_answers_promptly_again_is_waited_for_again(
    leaders: Leaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaders.ask(1)
    monkeypatch.setattr(late_leaders, "PATIENCE_S", LONGEST_KEPT_S)  # by which it is prompt on any machine
    leaders.fail(KafkaConnectionError())
    leaders.is_quick = True
    leaders.ask(1)
    told = leaders.ask(1)
    assert told.results[1] == (OTHER, offsets(1))


def test_a_leader_that_is_now_quick_and_now_slow_is_waited_for_a_tenth_of_the_time(
    leaders: Leaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_leaders, "_REST_S", 60.0)
    leaders.ask(1)
    leaders.fail(KafkaConnectionError())
    leaders.is_quick = True
    for _ in range(5):
        told = leaders.ask(1)
        assert (len(told.results), told.waited_s) == (1, 0)
    assert told.answers == leaders.read(offsets(1))


def test_what_the_library_stumbles_over_is_raised(leaders: Leaders) -> None:
    leaders.ask(1)
    leaders.fail(OverflowError())
    with pytest.raises(OverflowError):
        leaders.ask(1)
