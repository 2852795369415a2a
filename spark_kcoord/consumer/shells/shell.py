"""The shell of a blocking consumer: what a flow waits for is waited for here, on the program's thread."""

from __future__ import annotations

import time
from typing import Any, TypeVar

from spark_kcoord.consumer.calls import Calls
from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.conduct.wishes import Answer, Call, Do, Flow, Tell, Wait, Wish
from spark_kcoord.consumer.shells.bell import Bell

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
                return self._calls.tell(owed)
            case Wait(seconds):
                return self._bell.wait(seconds)
            case Answer(future, seconds):
                deadline = time.monotonic() + seconds
                while not future.done():
                    left_s = deadline - time.monotonic()
                    if left_s <= 0:
                        raise TimeoutError
                    self._flows.check_interrupt()
                    self._bell.wait(min(left_s, 1.0))
                return future.result()
            case Do(work) | Call(work):
                return work()
