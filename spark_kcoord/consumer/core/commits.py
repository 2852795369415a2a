"""Commits that nobody waits for: while one is out those that follow become one, and none overtakes a later one.

No input or output: it says what is to be sent, and what is to be told to whom once that is answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.ids import TopicPartition

__all__ = ["AsyncCommits", "Callback", "Committing"]

Callback: TypeAlias = Callable[[Any, Exception | None], Any]
"""Told of the offsets that were to be committed, as they were given, and why they were not."""


@dataclass(frozen=True, slots=True)
class Committing:
    """One commit that is to be sent, and who is to hear what came of it, each with what he had given."""

    offsets: tuple[OffsetToCommit, ...]
    callbacks: tuple[tuple[Callback, Any], ...]


class AsyncCommits:
    """The commits of one consumer that nobody waits for."""

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, OffsetToCommit] = {}
        self._callbacks: list[tuple[Callback, Any]] = []
        self._out: Committing | None = None
        self._owed: deque[tuple[Callback, Any, Exception | None]] = deque()

    @property
    def is_out(self) -> bool:
        """True while one is sent and not answered."""
        return self._out is not None

    def add(self, offsets: Sequence[OffsetToCommit], callback: Callback | None, given: Any) -> None:
        """Take a commit; of each partition the largest offset under its latest owner epoch counts.

        A smaller one that comes later would be refused alone, and whoever gave the larger one is told that it is done.
        """
        for one in offsets:
            key = (one.topic, one.partition)
            waiting = self._waiting.get(key)
            if waiting is None or waiting.owner_epoch != one.owner_epoch or waiting.offset <= one.offset:
                self._waiting[key] = one
        if callback is not None:
            self._callbacks.append((callback, given))

    def next_to_send(self, *, beside: bool = False) -> Committing | None:
        """Return what is to be sent now; with `beside` also while one is out, as something later is sent behind it."""
        if (self._out is not None and not beside) or not (self._waiting or self._callbacks):
            return None
        committing = Committing(tuple(self._waiting.values()), tuple(self._callbacks))
        self._waiting, self._callbacks = {}, []
        if not beside:
            self._out = committing
        return committing

    def answered(self, committing: Committing, error: Exception | None) -> None:
        """Note what came of one that was sent; those who gave it are owed that."""
        if self._out is committing:
            self._out = None
        self._owed.extend((callback, given, error) for callback, given in committing.callbacks)

    def next_owed(self) -> tuple[Callback, Any, Exception | None] | None:
        """Return whom to tell next, and what, each once."""
        return self._owed.popleft() if self._owed else None
