"""The entrance of a consumer: one thread at a time may be inside, of the process that made it.

Two threads at once are refused, naming both; so is a child that was forked. A listener is inside already and may call
what does not hand partitions over. An entrance is known by the frame that went in, so that one which Ctrl-C ended
between two lines is not taken for somebody inside.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection
from types import CodeType, FrameType

from spark_kcoord.consumer.errors import ConsumerClosedError, WrongThreadError

__all__ = ["Guard", "is_inside"]


class Guard:
    """The entrance of one consumer."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._inside: dict[None, _Entrance] = {}

    @property
    def is_at_home(self) -> bool:
        """True in the process that made the consumer."""
        return os.getpid() == self._pid

    def entered(self, *, hands_over: bool = False) -> _Entrance:
        """Return a context manager that is inside; with `hands_over` partitions may change hands in it."""
        return _Entrance(self, hands_over=hands_over)

    def enter(self, entrance: _Entrance, frame: FrameType) -> bool:
        """Go in, or raise WrongThreadError or ConsumerClosedError; return whether nobody was inside before."""
        self.must_be_at_home()
        entrance.thread, entrance.frame = threading.current_thread(), frame
        # One call of the dictionary's, which no other thread can be in the middle of.
        inside = self._inside.setdefault(None, entrance)
        if inside is entrance:
            return True
        me = entrance.thread
        if inside.thread is not me:
            name = inside.thread.name if inside.thread is not None else "another"
            raise WrongThreadError(
                f"Thread '{me.name}' called a consumer while thread '{name}' is inside: one thread at a time."
            )
        if not _is_running(inside.frame, frame):
            self._inside[None] = entrance
            return True
        if entrance.hands_over:
            raise WrongThreadError(
                f"A listener or callback in thread '{me.name}' made a call that hands partitions over: make it when "
                "the call has ended that told it."
            )
        return False

    def leave(self, entrance: _Entrance) -> None:
        """Go out, but for an entrance within another."""
        if self._inside.get(None) is entrance:
            self._inside.pop(None, None)
        entrance.frame = None

    def must_be_at_home(self) -> None:
        """Raise ConsumerClosedError in a forked child."""
        if not self.is_at_home:
            raise ConsumerClosedError(
                f"This consumer belongs to process {self._pid} and cannot be used in process {os.getpid()}: make one "
                "there."
            )


class _Entrance:
    """One with block that is inside."""

    __slots__ = ("_guard", "frame", "hands_over", "thread")

    def __init__(self, guard: Guard, *, hands_over: bool) -> None:
        self._guard = guard
        self.hands_over = hands_over
        self.thread: threading.Thread | None = None
        self.frame: FrameType | None = None

    def __enter__(self) -> bool:
        """Return True in a call of the program's own, False in one that a listener or a signal handler makes."""
        return self._guard.enter(self, sys._getframe(1))

    def __exit__(self, *_: object) -> None:
        self._guard.leave(self)


def _is_running(wanted: FrameType | None, frame: FrameType | None) -> bool:
    while frame is not None:
        if frame is wanted:
            return True
        frame = frame.f_back
    return False


def is_inside(calls: Collection[CodeType], consumer: object, frame: FrameType | None) -> bool:
    """Say whether a frame runs within one of some methods of a consumer: a signal may have come in the middle of it."""
    while frame is not None:
        if frame.f_code in calls and frame.f_locals.get("self") is consumer:
            return True
        frame = frame.f_back
    return False
