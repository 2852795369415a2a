"""The bell of a blocking consumer: rung by other threads and by signal handlers, awaited by the program's thread.

A queue without a lock in Python carries it, so that a signal handler may ring while the same thread waits.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue

__all__ = ["Bell"]


class Bell:
    """Rings once, however often it is rung before somebody hears it."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[None] = SimpleQueue()
        self._is_rung = False
        self.has_news = False
        """True once it was rung, until somebody who does not wait has taken note."""

    def ring(self) -> None:
        """Wake who waits, or who waits next; safe from every thread and from signal handlers."""
        self.has_news = True
        if not self._is_rung:
            self._is_rung = True
            self._queue.put(None)

    def wait(self, timeout_s: float) -> None:
        """Wait until it rings, for so long at most."""
        try:
            self._queue.get(timeout=max(0.0, timeout_s))
        except Empty:
            return
        finally:
            self._is_rung = False
