"""The shell of a blocking consumer: what a flow waits for is waited for here, on the program's thread."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from spark_kcoord.consumer.calls import Calls
from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.conduct.wishes import Answer, Ask, Call, Do, Flow, Tell, Wait, Wish
from spark_kcoord.consumer.shells.bell import Bell
from spark_kcoord.consumer.shells.beside import beside

__all__ = ["Shell"]

T = TypeVar("T")


class Shell:
    """Performs the wishes of flows, one after the other."""

    _bell: Bell
    _calls: Calls
    _flows: Flows

    def _drive(self, flow: Flow[T]) -> T:
        """Perform what a flow waits for, to its end."""
        try:
            wish = next(flow)
            while True:
                try:
                    result = self._perform(wish)
                except BaseException as error:  # noqa: BLE001 - the flow decides what follows from it
                    wish = flow.throw(error)
                else:
                    wish = flow.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            flow.close()

    def _perform(self, wish: Wish) -> Any:
        match wish:
            case Tell(owed):
                return _must_have_run(self._calls.tell(owed))
            case Wait(seconds):
                return self._bell.wait(seconds)
            case Answer(future, seconds):
                return self._answer(future, seconds)
            case Ask(begin, _):
                return self._ask(begin())
            case Call(work):
                return _must_have_run(work())
            case Do(work):
                return work()

    def _answer(self, future: Future[Any], seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        while not future.done():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._flows.check_interrupt()
            self._bell.wait(min(left_s, 1.0))
        return future.result()

    def _ask(self, work: Callable[[], Any]) -> Any:
        """Ask on a thread of its own: nothing else can be interrupted in the middle of a name that is resolved."""
        future = beside(work, self._bell.ring)
        try:
            return self._answer(future, math.inf)
        finally:
            if not future.done():
                self._flows.leave_lookup()


def _must_have_run(result: Any) -> Any:
    """Return what a listener or callback returned; raises TypeError for a coroutine, which has not begun yet."""
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError(
            "A listener or callback is a coroutine, which a Consumer does not run: make it a plain one, or use an "
            "AsyncConsumer."
        )
    return result
