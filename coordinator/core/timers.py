"""Deadlines by key, which are cheap to move.

Moving a deadline later is one write; only when the old one comes due is the key filed under the new one. What a key
means and what is done when it is due is its owner's business. There is no clock here.
"""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)


class _Entry(msgspec.Struct, gc=False):
    """The time at which a key is due, unless it was cancelled, and that under which it is filed, if it is."""

    deadline_ms: int | None
    filed_ms: int | None = None


class Timers(Generic[K]):
    """Deadlines by key, at most one a key."""

    __slots__ = ("_entries", "_heap", "_sequence")

    def __init__(self) -> None:
        self._entries: dict[K, _Entry] = {}
        """Every key with a deadline, and those cancelled that are still filed."""
        self._heap: list[tuple[int, int, K]] = []
        self._sequence = 0

    def set(self, key: K, deadline_ms: int) -> None:
        """Make a key due at a time, instead of whenever it was due before."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(deadline_ms)
        else:
            entry.deadline_ms = deadline_ms
        if entry.filed_ms is None or entry.filed_ms > deadline_ms:
            self._file(key, entry, deadline_ms)

    def cancel(self, key: K) -> None:
        """Forget a key; one that is not known changes nothing."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.deadline_ms = None

    def get(self, key: K) -> int | None:
        """Return when a key is due."""
        entry = self._entries.get(key)
        return None if entry is None else entry.deadline_ms

    def earliest(self) -> int | None:
        """Return a time before which nothing is due; it may be early, never late."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int, most: int | None = None) -> list[K]:
        """Return the keys that are due, in the order of their deadlines, and forget them; at most so many."""
        due: list[tuple[int, int, K]] = []
        while self._heap and self._heap[0][0] <= now_ms and (most is None or len(due) < most):
            filed_ms, sequence, key = heapq.heappop(self._heap)
            entry = self._entries.get(key)
            if entry is None or entry.filed_ms != filed_ms:
                continue
            entry.filed_ms = None
            deadline_ms = entry.deadline_ms
            if deadline_ms is not None and deadline_ms > now_ms:
                self._file(key, entry, deadline_ms)
                continue
            del self._entries[key]
            if deadline_ms is not None:
                due.append((deadline_ms, sequence, key))
        due.sort(key=lambda found: found[:2])
        return [key for _, _, key in due]

    def _file(self, key: K, entry: _Entry, deadline_ms: int) -> None:
        self._sequence += 1
        entry.filed_ms = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, self._sequence, key))
