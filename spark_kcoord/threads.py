"""Threads, and what comes of their work, for calls which a signal may end or come into the middle of."""

from __future__ import annotations

import threading
from collections.abc import Callable
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


class _Entered(threading.Condition):
    """A condition whose `with` is that of its lock, which is in C: Ctrl-C has no line to leave it locked at."""

    @property
    def __enter__(self) -> Callable[[], bool]:  # a `with` looks it up, and calls what it finds
        return self._lock.__enter__  # type: ignore[attr-defined, no-any-return]

    @property
    def __exit__(self) -> Callable[..., None]:
        return self._lock.__exit__  # type: ignore[attr-defined, no-any-return]


class Reply(Future[T]):
    """A future that a call may ask and wait for which Ctrl-C may end at any moment.

    A plain one has a lock that is taken and given back in Python, which Ctrl-C can leave locked: whoever has the result
    then waits for ever to give it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._condition = _Entered(threading.RLock())
