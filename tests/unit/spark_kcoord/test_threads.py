"""Threads and answers of calls that a signal may end."""

import threading
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress

import pytest

from spark_kcoord.threads import Reply
from tests.helpers.signal_within import SignalWithin

FUTURES = str(futures._base.__file__)


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
