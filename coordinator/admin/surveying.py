"""Looking at a node's groups on its own event loop, a little at a time and with rests between, whoever asks for pages.

So the cost to members is bounded by settings alone: at most two milliseconds at once, and a tenth of the time.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from coordinator.core.requests.survey import Seen

_TURN_S: Final = 0.002
_REST_S: Final = 0.02


class Surveyor:
    """Looks at everything again and again, `pause_s` after it has seen all, and hands over what it saw."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        look: Callable[[], Iterator[Seen]],
        hand_over: Callable[[tuple[Seen, ...]], None],
        pause_s: float,
    ) -> None:
        self._loop = loop
        self._look = look
        self._hand_over = hand_over
        self._pause_s = pause_s
        self._next = loop.call_soon(self._begin)

    def stop(self) -> None:
        """Look no more."""
        self._next.cancel()

    def _begin(self) -> None:
        self._go_on(self._look(), [])

    def _go_on(self, pieces: Iterator[Seen], seen: list[Seen]) -> None:
        self._next = self._loop.call_later(self._pause_s, self._begin)  # also when a piece meets a bug
        until_s = self._loop.time() + _TURN_S
        for piece in pieces:
            seen.append(piece)
            if self._loop.time() >= until_s:
                self._next.cancel()
                self._next = self._loop.call_later(_REST_S, self._go_on, pieces, seen)
                return
        self._hand_over(tuple(seen))
