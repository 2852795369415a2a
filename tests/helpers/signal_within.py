"""A signal at one step of a file's code: before a line of it, or where a function of Python's begins that it calls."""

import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_OF_LOCKS = ("with self._lock:", "with self._condition:")
"""Lines whose lock may be one in C; where its entrance and end are Python, these are steps of their own."""


def ctrl_c() -> None:
    """Do what Python's own handler of SIGINT does."""
    raise KeyboardInterrupt


class SignalWithin:
    """Has a handler called at one step of this thread within a file, counted from the first; 0 only counts."""

    def __init__(self, file: str, at: int = 0, handler: Callable[[], object] = ctrl_c) -> None:
        self.steps: list[str] = []
        self._file = file
        self._at = at
        self._handler = handler
        self._blocks: set[tuple[FrameType, int]] = set()

    @contextmanager
    def coming(self) -> Iterator[None]:
        """Count steps, and call the handler when it is time."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        is_ours = frame.f_code.co_filename == self._file
        is_called_by_us = frame.f_back is not None and frame.f_back.f_code.co_filename == self._file
        if not is_ours and not (is_called_by_us and frame.f_code.co_filename == threading.__file__):
            return None
        if event == ("line" if is_ours else "call") and not self._is_release(frame):
            self.steps.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
            if len(self.steps) == self._at:
                sys.settrace(None)
                self._handler()
        return self._trace

    def _is_release(self, frame: FrameType) -> bool:
        """Say whether a lock in C is released next: Python looks for no signal between the last line and that."""
        block = frame, frame.f_lineno
        was_here = block in self._blocks
        if linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith(_OF_LOCKS):
            self._blocks.add(block)
        return was_here
