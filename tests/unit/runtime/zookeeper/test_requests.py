"""Each question to ZooKeeper is answered once, also one that kazoo refuses or answers twice, or that meets a bug."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import structlog
from kazoo.exceptions import ConnectionClosedError, KazooException
from structlog.testing import LogCapture

from coordinator.runtime.zookeeper.requests import REQUESTS_AT_ONCE, DefectError, Requests
from tests.helpers.waiting import wait_until


class Promise:
    """A result of kazoo's, told of when the test says so."""

    def __init__(self) -> None:
        self.value: Any = None
        self.exception: BaseException | None = None
        self._told: list[Callable[[Any], None]] = []

    def rawlink(self, told: Callable[[Any], None]) -> None:
        self._told.append(told)

    def keep(self, value: Any) -> None:
        wait_until(lambda: bool(self._told), timeout_s=30, what="the question to be put")
        self.value = value
        for told in self._told:
            told(self)


class Asking:
    """Requests that are being asked, with what was answered and logged."""

    def __init__(self) -> None:
        self.logged = LogCapture()
        self.requests = Requests(1, structlog.wrap_logger(None, processors=[self.logged]))
        self.requests.start()
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def ask(self, begin: Callable[[], Any]) -> None:
        self.requests.ask(begin, lambda value, error: self._answers.put((value, error)))

    def answer(self) -> tuple[Any, BaseException | None]:
        return self._answers.get(timeout=30)

    def has_more(self) -> bool:
        return not self._answers.empty()

    def end(self) -> None:
        self.requests.stop()
        self.requests.give_up()

    def bugs(self) -> list[str]:
        return [entry["why"] for entry in self.logged.entries if entry["event"] == "bug"]


def test_an_answer_that_comes_twice_is_told_of_once() -> None:
    asking, promise = Asking(), Promise()
    asking.ask(lambda: promise)
    promise.keep("value")
    promise.keep("value")
    assert asking.answer() == ("value", None)
    asking.end()
    assert not asking.has_more()


def test_a_client_that_is_closed_is_no_bug() -> None:
    asking, closed = Asking(), ConnectionClosedError("closed")

    def refuse() -> None:
        raise closed

    asking.ask(refuse)
    assert asking.answer() == (None, closed)
    assert asking.bugs() == []
    asking.end()


def test_a_question_that_cannot_be_put_is_a_bug_and_those_behind_it_are_asked() -> None:
    asking, promise = Asking(), Promise()

    def mistaken() -> None:
        raise TypeError("of ours")

    asking.ask(mistaken)
    asking.ask(lambda: promise)
    value, error = asking.answer()
    assert (value, type(error), str(error)) == (None, DefectError, "TypeError('of ours')")
    assert asking.bugs() == ["a question to ZooKeeper could not be put"]
    promise.keep("value")
    assert asking.answer() == ("value", None)
    asking.end()


def test_an_answer_that_is_not_understood_is_a_bug_and_an_error_to_who_asked() -> None:
    asking, promise, taken = Asking(), Promise(), SimpleQueue[tuple[Any, BaseException | None]]()

    def done(value: Any, error: BaseException | None) -> None:
        if error is None:
            raise AttributeError("of ours")
        taken.put((value, error))

    asking.requests.ask(lambda: promise, done)
    promise.keep("value")
    value, error = taken.get(timeout=30)
    assert (value, type(error)) == (None, DefectError)
    assert asking.bugs() == ["an answer of ZooKeeper's could not be taken"]
    asking.end()


def test_what_is_open_at_the_end_or_asked_after_it_is_answered() -> None:
    asking, begun = Asking(), threading.Semaphore(0)

    def begin() -> Promise:
        begun.release()
        return Promise()

    for _ in range(REQUESTS_AT_ONCE + 5):
        asking.ask(begin)
    for _ in range(REQUESTS_AT_ONCE):
        assert begun.acquire(timeout=30)
    assert not begun.acquire(blocking=False), "more than kazoo may be given at once"
    asking.end()
    asking.ask(begin)
    for _ in range(REQUESTS_AT_ONCE + 6):
        value, error = asking.answer()
        assert value is None
        assert isinstance(error, KazooException)
    assert not asking.has_more()
