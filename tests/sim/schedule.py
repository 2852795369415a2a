"""Virtual time: one queue of what is going to happen, the story of what happened, and its hash.

Whatever happens at the same time happens in the order in which it was planned, so a seed gives one history.
"""

import heapq
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

STORY_LENGTH = 4_000


class Schedule:
    """The clock of a simulated world. `now_ms` is the time of the machine room: what all clocks are made from."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.events = 0
        self.story: deque[tuple[int, str, Any]] = deque(maxlen=STORY_LENGTH)
        self._queue: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._planned = 0
        self._hash = blake2b(digest_size=16)

    @property
    def is_crowded(self) -> bool:
        """True in a third of the time: strangers then say more to each node than it has time to hear."""
        return self.now_ms % 1_500 < 500

    def at(self, at_ms: int, work: Callable[..., object], *arguments: Any) -> None:
        """Plan work for a time; what lies in the past is done next."""
        self._planned += 1
        heapq.heappush(self._queue, (max(at_ms, self.now_ms), self._planned, work, arguments))

    def after(self, ms: int, work: Callable[..., object], *arguments: Any) -> None:
        self.at(self.now_ms + ms, work, *arguments)

    def run_until(self, end_ms: int) -> None:
        """Do what is planned up to a time."""
        queue = self._queue
        while queue and queue[0][0] <= end_ms:
            self.now_ms, _, work, arguments = heapq.heappop(queue)
            self.events += 1
            work(*arguments)
        self.now_ms = max(self.now_ms, end_ms)

    def tell(self, who: str, what: Any) -> None:
        """Put something on the story; what is told is only turned into text when somebody reads it."""
        self.story.append((self.now_ms, who, what))

    def stamp(self, data: bytes) -> None:
        """Make something part of the history's hash."""
        self._hash.update(b"%d " % self.now_ms)
        self._hash.update(data)

    @property
    def trace(self) -> str:
        """The hash of the history so far."""
        return self._hash.hexdigest()

    def show_story(self, lines: int) -> list[str]:
        """Return the end of the story, readable."""
        return [f"{at_ms:>8} {who:<12} {_show(what)}" for at_ms, who, what in list(self.story)[-lines:]]


def _show(what: Any) -> str:
    text = what if isinstance(what, str) else repr(what)
    return text if len(text) <= 400 else f"{text[:400]}… ({len(text)} characters)"
