"""Deadlines that are cheap to move: a session writes its deadline on every message and no timer is made for it.

Moving a deadline later is one write; only when the old one comes due is the key filed under the new one. What a key
means and what is done when it is due is its owner's business. There is no clock here.
"""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """Deadlines by key, at most one a key."""

    __slots__ = ("_deadlines", "_filed", "_heap", "_sequence")

    def __init__(self) -> None:
        self._deadlines: dict[K, int] = {}
        self._filed: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: K, deadline_ms: int) -> None:
        """Make a key due at a time, instead of whenever it was due before."""
        self._deadlines[key] = deadline_ms
        filed = self._filed.get(key)
        if filed is None or filed > deadline_ms:
            self._file(key, deadline_ms)

    def cancel(self, key: K) -> None:
        """Forget a key; one that is not known changes nothing."""
        self._deadlines.pop(key, None)

    def get(self, key: K) -> int | None:
        """Return when a key is due."""
        return self._deadlines.get(key)

    def earliest(self) -> int | None:
        """Return a time before which nothing is due; it may be early, never late."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> list[K]:
        """Return the keys that are due, in the order of their deadlines, and forget them."""
        due: list[tuple[int, int, K]] = []
        while self._heap and self._heap[0][0] <= now_ms:
            filed, sequence, key = heapq.heappop(self._heap)
            if self._filed.get(key) != filed:
                continue
            del self._filed[key]
            deadline_ms = self._deadlines.get(key)
            if deadline_ms is None:
                continue
            if deadline_ms > now_ms:
                self._file(key, deadline_ms)
                continue
            del self._deadlines[key]
            due.append((deadline_ms, sequence, key))
        due.sort(key=lambda entry: entry[:2])
        return [key for _, _, key in due]

    def _file(self, key: K, deadline_ms: int) -> None:
        self._sequence += 1
        self._filed[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, self._sequence, key))
