"""The leader epochs of one shard's log: each with the offset of its first record.

A log is cut back and compared by them, so what is cut takes its epochs along. The first one may begin below the log's
start, for the record that a snapshot ends with has an epoch too.
"""

from collections.abc import Iterable
from typing import TypeAlias

Marks: TypeAlias = tuple[tuple[int, int], ...]
"""Epochs with the offsets of their first records, ascending."""


class LeaderEpochs:
    """The epochs of a log that grows, is cut, and loses its beginning to snapshots."""

    __slots__ = ("_marks", "is_empty", "last")

    def __init__(self, marks: Iterable[tuple[int, int]] = ()) -> None:
        self._marks = [*marks]
        self.last = self._marks[-1][0] if self._marks else 0
        """The epoch of the last record, 0 when there never was one."""
        self.is_empty = not self._marks
        """True while no epoch is known; both are attributes because each append looks at one."""

    @property
    def marks(self) -> Marks:
        """Return each epoch with the offset of its first record."""
        return tuple(self._marks)

    def note(self, epoch: int, offset: int) -> None:
        """Take note that a record at `offset`, above all before it, has this epoch."""
        if epoch != self.last or self.is_empty:
            self._marks.append((epoch, offset))
            self.last, self.is_empty = epoch, False

    def before(self, offset: int) -> int:
        """Return the epoch of the record before `offset`, 0 where none is known."""
        for epoch, first in reversed(self._marks):
            if first < offset:
                return epoch
        return 0

    def cut(self, end: int) -> None:
        """Forget the records at and above `end`."""
        while self._marks and self._marks[-1][1] >= end:
            self._marks.pop()
        self.last, self.is_empty = (self._marks[-1][0], False) if self._marks else (0, True)

    def start_at(self, start: int) -> None:
        """Forget the records below `start`, but not the epoch of the last of them."""
        known = sum(first < start for _, first in self._marks)
        del self._marks[: max(0, known - 1)]
