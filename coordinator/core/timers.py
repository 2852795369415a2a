"""Deadlines by key, which are cheap to move.

Moving a deadline later is one write; only when the old one comes due is the key filed under the new one. What a key
means and what is done when it is due is its owner's business. There is no clock here.
"""

import heapq
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)


class _Entry(msgspec.Struct, gc=False, order=True):
    """A key that is filed: under which time, as the how-manieth, and when it is due unless it was cancelled.

    Entries are ordered by the first two, of which no two entries have the same.
    """

    filed_ms: int
    sequence: int
    deadline_ms: int | None
    key: Any


class Timers(Generic[K]):
    """Deadlines by key, at most one a key."""

    __slots__ = ("_entries", "_heap", "_sequence")

    def __init__(self) -> None:
        self._entries: dict[K, _Entry] = {}
        """Every key with a deadline, and those cancelled that are still filed."""
        self._heap: list[_Entry] = []
        """Besides those, entries that others have taken the place of, because they are due sooner."""
        self._sequence = 0

    def set(self, key: K, deadline_ms: int) -> None:
        """Make a key due at a time, instead of whenever it was due before."""
        entry = self._entries.get(key)
        if entry is not None and entry.filed_ms <= deadline_ms:
            entry.deadline_ms = deadline_ms
            return
        self._sequence += 1
        entry = self._entries[key] = _Entry(deadline_ms, self._sequence, deadline_ms, key)
        heapq.heappush(self._heap, entry)

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
        return self._heap[0].filed_ms if self._heap else None

    def pop_due(self, now_ms: int, most: int | None = None) -> list[K]:
        """Return the keys that are due, in the order of their deadlines, and forget them; at most so many."""
        due: list[tuple[int, int, K]] = []
        while self._heap and self._heap[0].filed_ms <= now_ms and (most is None or len(due) < most):
            entry = heapq.heappop(self._heap)
            key, deadline_ms = entry.key, entry.deadline_ms
            if self._entries.get(key) is not entry:
                continue
            if deadline_ms is not None and deadline_ms > now_ms:
                self._sequence += 1
                entry.filed_ms, entry.sequence = deadline_ms, self._sequence
                heapq.heappush(self._heap, entry)
                continue
            del self._entries[key]
            if deadline_ms is not None:
                due.append((deadline_ms, entry.sequence, key))
        due.sort(key=lambda found: found[:2])
        return [key for _, _, key in due]
