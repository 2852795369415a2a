"""The shell of an asyncio consumer: what a flow waits for is awaited, on the event loop of the program.

Calls that block are made on threads beside the loop, questions one after the other. A task that is cancelled ends its
flow as Ctrl-C does; the question that it asked is given up, and nobody waits behind it. A listener or callback that is
under way goes on to its end before that: nobody tells it again.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, TypeVar

from spark_kcoord.consumer.calls import Calls
from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.conduct.wishes import Answer, Ask, Call, Do, Flow, Tell, Wait, Wish
from spark_kcoord.consumer.shells.async_bell import AsyncBell
from spark_kcoord.consumer.shells.beside import beside

__all__ = ["AsyncShell"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

_TELLING: ContextVar[tuple[object, ...]] = ContextVar("telling", default=())
"""The listeners and callbacks that this task, or the one that began it, is inside of."""


class AsyncShell:
    """Performs the wishes of flows; several flows may be under way, each in a task of its own."""

    _bell: AsyncBell
    _calls: Calls
    _flows: Flows
    _question: asyncio.Lock | None = None
    _tellings: frozenset[object] = frozenset()
    """The listeners and callbacks that are under way: a callback may run beside a listener."""

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
                return await self._tell(lambda: self._calls.tell(owed))
            case Call(work):
                return await self._tell(work)
            case Wait(seconds):
                return await self._bell.wait(seconds)
            case Answer(future, seconds):
                return await self._answer(future, seconds)
            case Ask(begin, seconds):
                return await self._ask(begin, seconds)
            case Do(work):
                if self._question is not None and self._question.locked():
                    self._give_up()
                return await self._done(beside(work, self._bell.ring))

    async def _tell(self, work: Callable[[], Any]) -> Any:
        before, telling = _TELLING.get(), object()
        self._tellings |= {telling}
        _TELLING.set((*before, telling))
        try:
            result = work()
            return await _to_its_end(result) if inspect.isawaitable(result) else result
        finally:
            self._tellings -= {telling}
            _TELLING.set(before)
            # The bell wakes who waits already: what rang meanwhile is to be heard by whoever waits next.
            self._bell.ring()

    @property
    def _is_told(self) -> bool:
        """True in a listener or callback that is under way, and in tasks that it began."""
        return not self._tellings.isdisjoint(_TELLING.get())

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

    async def _done(self, future: Future[Any]) -> Any:
        while not future.done():
            await self._bell.wait(1.0)
        return future.result()

    async def _ask(self, begin: Callable[[], Callable[[], Any]], seconds: float) -> Any:
        if self._question is None:
            self._question = asyncio.Lock()
        async with asyncio.timeout(None if seconds == math.inf else seconds):
            await self._question.acquire()
        try:
            future = beside(begin(), self._bell.ring)
            try:
                return await self._answer(future, math.inf)
            finally:
                if not future.done():
                    self._give_up()
        finally:
            self._question.release()

    def _give_up(self) -> None:
        """Have the question that is under way go on until its time is over; whoever asks next does not wait for it."""
        self._flows.leave_lookup()


async def _to_its_end(work: Awaitable[Any]) -> Any:
    """Await in a task of its own what a cancellation of this one is not to end; raise the cancellation behind it."""
    task, cancelled = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is None:
        return task.result()
    if not task.cancelled() and (raised := task.exception()) is not None:
        _log.warning("A listener or callback raised in a call that was cancelled.", exc_info=raised)
    raise cancelled
