"""Keys of a terminal one by one, without its echo; the terminal is afterwards as it was. Knows no key's meaning."""

import os
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Final, Self

_DISABLED: Final = b"\x00"
_MOST_BYTES: Final = 64


class Keys:
    """The keys of standard input, a context manager; where that is no terminal none comes.

    Ctrl-C stays a signal. Ctrl-Z is taken away: a screen that is redrawn cannot be left half way.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        """Take the keys as they come."""
        if sys.stdin is not None and sys.stdin.isatty():
            self._file = sys.stdin.fileno()
            self._before = termios.tcgetattr(self._file)
            tty.setcbreak(self._file)
            taken = termios.tcgetattr(self._file)
            taken[6][termios.VSUSP] = _DISABLED
            termios.tcsetattr(self._file, termios.TCSANOW, taken)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Put the terminal back."""
        if self._file is not None:
            termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)

    def wait(self, most_s: float) -> str:
        """Return the keys that were pressed within a time, none for none."""
        files = [] if self._file is None else [self._file]
        ready, _, _ = select.select(files, [], [], max(0.0, most_s))
        if self._file is None or not ready:
            return ""
        data = os.read(self._file, _MOST_BYTES)
        if not data:  # the terminal is gone
            self._file = None
        return data.decode("ascii", "replace")
