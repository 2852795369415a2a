"""Calls on other threads, and listeners of an asyncio consumer, that last until a test lets them end."""

import asyncio
import threading
from typing import Any

LONG_S = 60.0
"""Longer than anything that is waited for."""


class HeldCall:
    """A call that blocks its thread until it may end, and returns what it was made with."""

    def __init__(self, result: Any = None) -> None:
        self._result = result
        self._has_begun, self._may_end = threading.Event(), threading.Event()

    def __call__(self, *_: Any) -> Any:
        self._has_begun.set()
        assert self._may_end.wait(LONG_S), "the test has not let it end"
        return self._result

    async def begun(self) -> None:
        """Wait until it has begun."""
        async with asyncio.timeout(LONG_S):
            while not self._has_begun.is_set():
                await asyncio.sleep(0.001)

    def end(self) -> None:
        """Let it end, and each that comes after it."""
        self._may_end.set()


class SlowListener:
    """A listener whose coroutines last until they may end."""

    def __init__(self) -> None:
        self.is_told = asyncio.Event()
        self.may_end = asyncio.Event()

    async def on_partitions_assigned(self, _: Any) -> None:
        await self._last()

    async def on_partitions_revoked(self, _: Any) -> None:
        await self._last()

    async def _last(self) -> None:
        self.is_told.set()
        await self.may_end.wait()


class SlowToRevoke(SlowListener):
    """A listener that lasts where partitions are revoked, and not where they come."""

    async def on_partitions_assigned(self, _: Any) -> None:
        pass
