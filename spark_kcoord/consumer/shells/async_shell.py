"""The shell of an asyncio consumer: what a flow waits for is awaited, on the event loop of the program.

Calls that block are made on one thread beside the loop. A task that is cancelled ends its flow as Ctrl-C does.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from spark_kcoord.consumer.calls import Calls
from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.conduct.wishes import Answer, Ask, Call, Do, Flow, Tell, Wait, Wish
from spark_kcoord.consumer.shells.async_bell import AsyncBell

__all__ = ["AsyncShell"]

T = TypeVar("T")


class AsyncShell:
    """Performs the wishes of flows; several flows may be under way, each in a task of its own."""

    _bell: AsyncBell
    _calls: Calls
    _flows: Flows
    _workers: ThreadPoolExecutor | None = None

    async def _drive(self, flow: Flow[T]) -> T:
        """Perform what a flow waits for, to its end."""
        try:
            wish = next(flow)
            while True:
                try:
                    result = await self._perform(wish)
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 - the flow decides what follows from it
                    wish = flow.throw(error)
                else:
                    wish = flow.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            flow.close()

    async def _perform(self, wish: Wish) -> Any:
        match wish:
            case Tell(owed):
                return await _awaited(self._calls.tell(owed))
            case Call(work):
                return await _awaited(work())
            case Wait(seconds):
                return await self._bell.wait(seconds)
            case Answer(future, seconds):
                return await self._answer(future, seconds)
            case Ask(work):
                return await self._ask(work)
            case Do(work):
                return await asyncio.wrap_future(self._beside(work))

    async def _answer(self, future: Future[Any], seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        # Not awaited itself: a task that is cancelled must not cancel what the member answers.
        while not future.done():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._flows.check_interrupt()
            await self._bell.wait(min(left_s, 1.0))
        return future.result()

    async def _ask(self, work: Callable[[], Any]) -> Any:
        future = self._beside(work)
        future.add_done_callback(lambda _: self._bell.ring())
        try:
            return await self._answer(future, math.inf)
        finally:
            if not future.done():
                # The work goes on until its time is over; whoever asks next does not wait for it.
                self._let_workers_go()
                self._flows.leave_lookup()

    def _beside(self, work: Callable[[], Any]) -> Future[Any]:
        if self._workers is None:
            self._workers = ThreadPoolExecutor(1, thread_name_prefix="kcoord-calls")
        return self._workers.submit(work)

    def _let_workers_go(self) -> None:
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.shutdown(wait=False)


async def _awaited(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result
