"""The records of an iteration: given one at a time, while their rows stay where they are until they are given.

So a partition that is asked back in the middle is let go of with what was given, and the rest is read by whoever has it
next. Only `at` ever changes, by one store, so that Ctrl-C finds it before or after a record and never between.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Sequence
from typing import Any

from coordinator.protocol.ids import TopicPartition
from spark_kcoord.consumer.core.chunk_rows import Piece

__all__ = ["Iteration"]

NOTE_S = 0.25
"""The longest time for which an iteration goes on without a look at what has changed."""

_forks = 0
"""The forks between the first process and this one."""


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class Iteration:
    """Some records and the pieces they were made of, in order; `at` is the index of the one given last.

    `keys` are the partitions that were asked for, none for all.
    """

    __slots__ = ("_forks", "_pieces", "_thread_id", "at", "changes", "keys", "noted_at", "records")

    def __init__(
        self, pieces: Sequence[Piece], records: Sequence[Any], changes: int, keys: Collection[TopicPartition]
    ) -> None:
        self._pieces = pieces
        self.records = records
        self.at = -1
        self.changes = changes
        self.keys = keys
        self._thread_id = threading.get_ident()
        self._forks = _forks
        self.noted_at = time.monotonic()

    def at_once(self) -> Any:
        """Give the next record where nothing has to be looked at before, else None."""
        at = self.at + 1
        if at >= len(self.records) or time.monotonic() - self.noted_at >= NOTE_S:
            return None
        if self._thread_id != threading.get_ident() or self._forks != _forks:
            return None
        self.at = at
        return self.records[at]

    @property
    def is_over(self) -> bool:
        """True when all was given."""
        return self.at + 1 >= len(self.records)

    def given(self) -> list[Piece]:
        """Return what was given, as pieces that were returned."""
        given, begin = [], 0
        for piece in self._pieces:
            end = begin + piece.rows.num_rows
            if end > self.at + 1:
                if begin <= self.at:
                    given.append(Piece(piece.key, None, self.records[self.at].offset + 1, piece.chunk))
                break
            given.append(piece)
            begin = end
        return given
