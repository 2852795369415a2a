"""The bell of an asyncio consumer: rung by other threads, awaited by coroutines of one event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["AsyncBell"]


class AsyncBell:
    """Wakes every coroutine that waits; without a loop, before `bind`, it only notes that it was rung."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._is_rung = False
        self.has_news = False
        """True once it was rung, until somebody who does not wait has taken note."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that it wakes."""
        return self._loop

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Belong to a loop from now on; whoever waits in another one waits no more."""
        self._waiting, self._is_rung = set(), False
        self._loop = loop

    def ring(self) -> None:
        """Wake who waits; safe from every thread and from signal handlers."""
        self.has_news = True
        if self._loop is not None and not self._is_rung:
            self._is_rung = True
            # A loop that is closed has nobody who waits.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._is_rung = False
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        """Wait until it rings, for so long at most."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[None] = loop.create_future()
        self._waiting.add(waiting)
        timer = loop.call_later(max(0.0, timeout_s), _end, waiting)
        try:
            await waiting
        finally:
            timer.cancel()
            self._waiting.discard(waiting)


def _end(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
