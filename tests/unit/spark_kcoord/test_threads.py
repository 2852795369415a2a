"""Threads and answers of calls that a signal may end."""

import threading
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress

import pytest

from spark_kcoord.threads import Reply
from tests.helpers.signal_within import SignalWithin

FUTURES = str(futures._base.__file__)


def settle(reply: Future[str]) -> bool:
    """Have the reply settled by another thread, and say whether it was."""
    settling = threading.Thread(target=reply.set_result, args=("it",), daemon=True)
    settling.start()
    settling.join(3)
    return not settling.is_alive()


@pytest.mark.parametrize(("kind", "is_settled"), [(Future, False), (Reply, True)])
def test_ctrl_c_at_any_step_of_the_question_whether_a_reply_is_there_keeps_nobody_from_giving_it(
    kind: type[Future[str]], is_settled: bool
) -> None:
    steps = SignalWithin(FUTURES)
    with steps.coming():
        kind().done()
    settled = []
    for at in range(1, len(steps.steps) + 2):
        reply = kind()
        with suppress(KeyboardInterrupt), SignalWithin(FUTURES, at).coming():
            reply.done()
        settled.append(settle(reply))
    assert all(settled) is is_settled, "a future of Python's has the fault that ours is there for"


def test_a_reply_is_done_when_its_result_or_its_error_can_be_had() -> None:
    answered, failed = Reply[str](), Reply[str]()
    assert not answered.done()
    answered.set_result("it")
    failed.set_exception(ValueError("no"))
    assert (answered.done(), answered.result(0), failed.done()) == (True, "it", True)
    with pytest.raises(ValueError, match="no"):
        failed.result(0)
