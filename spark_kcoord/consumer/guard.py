"""The entrance of a consumer: one thread at a time may be inside, of the process that made it.

Two threads at once are refused, naming both; so is a child that was forked. A listener is inside already and may call
what does not hand partitions over.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from spark_kcoord.consumer.errors import ConsumerClosedError, WrongThreadError

__all__ = ["Guard"]


class Guard:
    """The entrance of one consumer."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._inside: threading.Thread | None = None
        self._hands_over = False

    @property
    def is_at_home(self) -> bool:
        """True in the process that made the consumer."""
        return os.getpid() == self._pid

    @contextmanager
    def entered(self, *, hands_over: bool = False) -> Iterator[None]:
        """Be inside for the time of a with block; with `hands_over` partitions may change hands in it."""
        self.must_be_at_home()
        me = threading.current_thread()
        if not self._lock.acquire(blocking=False):
            other = self._inside
            if other is not me:
                name = other.name if other is not None else "another"
                raise WrongThreadError(
                    f"Thread '{me.name}' called a consumer while thread '{name}' is inside: one thread at a time."
                )
            if hands_over:
                raise WrongThreadError(f"A listener in thread '{me.name}' made a call that hands partitions over.")
            yield
            return
        self._inside = me
        try:
            yield
        finally:
            self._inside = None
            self._lock.release()

    def must_be_at_home(self) -> None:
        """Raise ConsumerClosedError in a forked child."""
        if not self.is_at_home:
            raise ConsumerClosedError(
                f"This consumer belongs to process {self._pid} and cannot be used in process {os.getpid()}: make one "
                "there."
            )
