"""Threads, and what comes of their work, for calls which a signal may end or come into the middle of."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

__all__ = ["Reply", "start_once"]

T = TypeVar("T")

_STARTED: Final = "_kcoord_started"
"""The attribute of a thread by which it is known that it was started, or is being."""


def start_once(thread: threading.Thread) -> None:
    """Start a thread unless it was: one that Ctrl-C came before is started by the next call, and not twice by two.

    Raises RuntimeError when no thread is to be had. A thread's own start waits, with a lock in Python, until the new
    one is up, which needs that lock too: Ctrl-C in the middle can leave it locked. So another thread starts it, on
    which no signal comes.
    """
    if _STARTED in vars(thread):
        return
    is_tried, errors = _thread.allocate_lock(), list[RuntimeError]()
    is_tried.acquire()
    _thread.start_new_thread(_start, (thread, is_tried, errors))
    is_tried.acquire()
    if errors:
        raise errors[0]


def _start(thread: threading.Thread, is_tried: _thread.LockType, errors: list[RuntimeError]) -> None:
    try:
        if vars(thread).setdefault(_STARTED, is_tried) is is_tried:
            thread.start()
    except RuntimeError as error:
        del vars(thread)[_STARTED]
        errors.append(error)
    finally:
        is_tried.release()


class _Entered(threading.Condition):
    """A condition whose `with` is that of its lock, which is in C: Ctrl-C has no line to leave it locked at."""

    def __init__(self) -> None:
        self._inner = threading.RLock()
        super().__init__(self._inner)

    @property
    def __enter__(self) -> Callable[..., bool]:  # a `with` looks it up, and calls what it finds
        return self._inner.__enter__

    @property
    def __exit__(self) -> Callable[..., None]:
        return self._inner.__exit__


class Reply(Future[T]):
    """A future that a call may ask and wait for which Ctrl-C may end at any moment.

    A plain one has a lock that is taken and given back in Python, which Ctrl-C can leave locked: whoever has the result
    then waits for ever to give it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._condition = _Entered()
