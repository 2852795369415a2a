"""Threads, and what comes of their work, for calls which a signal may end or come into the middle of."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["Reply", "start_once"]

T = TypeVar("T")


def start_once(thread: threading.Thread) -> None:
    """Start a thread unless it was: one that Ctrl-C came before is started by the next call, and not twice by two."""
    if thread.ident is not None:
        return
    try:
        thread.start()
    except RuntimeError:
        if thread.ident is None:
            raise  # no thread is to be had


class Reply(Future[T]):
    """A future that may be asked whether it is done at any moment, by a call that Ctrl-C may end.

    A plain one is asked under a lock in Python, which Ctrl-C can leave locked: whoever has the result then waits for
    ever. Callbacks are called before it says that it is done.
    """

    _is_done = False

    def done(self) -> bool:
        """Say whether the result is there."""
        return self._is_done

    def set_result(self, result: T) -> None:
        """Have a result."""
        super().set_result(result)
        self._is_done = True

    def set_exception(self, exception: BaseException | None) -> None:
        """Have an exception."""
        super().set_exception(exception)
        self._is_done = True
