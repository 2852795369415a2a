"""Threads and answers of calls that a signal may end."""

import threading
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress

import pytest

import spark_kcoord.threads
from spark_kcoord.threads import Reply, start_once
from tests.helpers.signal_within import SignalWithin

FUTURES = str(futures._base.__file__)
HERE = str(spark_kcoord.threads.__file__)


def settle(reply: Future[str], patience_s: float) -> bool:
    """Have the reply settled by another thread, and say whether it was in time."""
    settling = threading.Thread(target=reply.set_result, args=("it",), daemon=True)
    settling.start()
    settling.join(patience_s)
    return not settling.is_alive()


def whether_it_is_there(reply: Future[str]) -> None:
    reply.done()


def what_it_is(reply: Future[str]) -> None:
    with suppress(TimeoutError):
        reply.result(0.001)


@pytest.mark.parametrize("question", [whether_it_is_there, what_it_is])
@pytest.mark.parametrize(("kind", "is_settled"), [(Future, False), (Reply, True)])
def test_ctrl_c_at_any_step_of_a_question_for_a_reply_keeps_nobody_from_giving_it(
    kind: type[Future[str]], is_settled: bool, question: Callable[[Future[str]], None]
) -> None:
    steps, reply = SignalWithin(FUTURES), kind()
    with steps.coming():
        question(reply)
    settled = []
    for at in range(1, len(steps.steps) + 1):
        reply = kind()
        # In the middle of a wait the lock is not held, and that is said in place of Ctrl-C when it is given back.
        with suppress(KeyboardInterrupt, RuntimeError), SignalWithin(FUTURES, at).coming():
            question(reply)
        settled.append(settle(reply, 10 if is_settled else 0.5))
    assert all(settled) is is_settled, "a future of Python's has the fault that ours is there for"


def test_a_reply_is_done_when_its_result_or_its_error_can_be_had() -> None:
    answered, failed = Reply[str](), Reply[str]()
    assert not answered.done()
    answered.set_result("it")
    failed.set_exception(ValueError("no"))
    assert (answered.done(), answered.result(0), failed.done()) == (True, "it", True)
    with pytest.raises(ValueError, match="no"):
        failed.result(0)


def test_ctrl_c_at_any_step_of_the_start_of_a_thread_leaves_it_to_be_started_once() -> None:
    def times_begun(at: int) -> int:
        begun = threading.Semaphore(0)
        thread = threading.Thread(target=begun.release, daemon=True)
        with suppress(KeyboardInterrupt), SignalWithin(HERE, at).coming():
            start_once(thread)
        start_once(thread)
        assert begun.acquire(timeout=30)
        thread.join(30)
        return 1 + begun.acquire(blocking=False)

    steps, of_python = SignalWithin(HERE), SignalWithin(str(threading.__file__))
    with steps.coming():
        start_once(threading.Thread(target=str, daemon=True))
    assert len(steps.steps) > 3
    assert [times_begun(at) for at in range(1, len(steps.steps) + 1)] == [1] * len(steps.steps)
    thread = threading.Thread(target=str, daemon=True)
    with of_python.coming():
        start_once(thread)
    assert of_python.steps == [], "Python's own start of a thread cannot be ended at any step"


def test_a_thread_that_several_start_is_started_once() -> None:
    begun: list[int] = []
    thread = threading.Thread(target=begun.append, args=(1,), daemon=True)
    starting = [threading.Thread(target=start_once, args=(thread,)) for _ in range(20)]
    for one in starting:
        one.start()
    for one in starting:
        one.join(30)
    thread.join(30)
    assert begun == [1]


def test_a_thread_that_is_not_to_be_had_is_said_and_may_be_had_later() -> None:
    begun = threading.Event()

    class Scarce(threading.Thread):
        left = 1

        def start(self) -> None:
            self.left -= 1
            if self.left >= 0:
                raise RuntimeError("can't start new thread")
            super().start()

    thread = Scarce(target=begun.set, daemon=True)
    with pytest.raises(RuntimeError, match="can't start"):
        start_once(thread)
    start_once(thread)
    assert begun.wait(30)
