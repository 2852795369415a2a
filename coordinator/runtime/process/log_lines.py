"""The way of log lines out of the process: on a thread of their own, bounded in memory and in number.

A reader of standard error that has stopped costs lines, which are counted, and never a step of the node. A flood costs
lines of its own kind: of one kind and group at most so many a minute are written, of one kind in all ten times as many,
and what was left out is told once a minute. Knows nothing of what lines say.
"""

import contextlib
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

import structlog
from structlog.typing import EventDict, WrappedLogger

MOST_WAITING_BYTES = 1 << 20
"""Lines that wait for a slow reader of standard error; what comes after them is dropped."""
_GATHER_S = 0.005
"""The time for which lines are gathered, so that a thousand of them wake the thread that writes them once."""
_MINUTE_S = 60.0
_GROUPS_OF_A_KIND = 10
"""A kind of line may come from so many groups at their limit at once."""


class BackgroundLines:
    """Writes lines to a file descriptor on a thread, in order; drops and counts what it cannot keep up with."""

    def __init__(self, descriptor: int, *, most_waiting_bytes: int = MOST_WAITING_BYTES) -> None:
        self._descriptor = descriptor
        self._most_waiting_bytes = most_waiting_bytes
        self._changed = threading.Condition()  # guards everything below
        self._lines: list[bytes] = []
        self._waiting_bytes = 0
        self._dropped = 0
        self._is_writing = False
        # Not through sys.stderr: the interpreter's end would wait for a lock that a blocked write holds.
        threading.Thread(target=self._run, name="kcoord-log-lines", daemon=True).start()

    def write(self, line: str) -> None:
        """Have a line written soon; any thread."""
        data = line.encode(errors="backslashreplace") + b"\n"
        with self._changed:
            if self._waiting_bytes + len(data) > self._most_waiting_bytes:
                self._dropped += 1
                return
            is_first = not self._lines
            self._lines.append(data)
            self._waiting_bytes += len(data)
            if is_first:
                self._changed.notify_all()

    def close(self, timeout_s: float) -> bool:
        """Wait until everything is written, at most so long; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines and not self._is_writing, timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._lines)
                self._is_writing = True
            time.sleep(_GATHER_S)
            with self._changed:
                data = b"".join(self._lines)
                if self._dropped:
                    data += f"kcoord: {self._dropped} log lines were dropped: standard error was not read\n".encode()
                self._lines.clear()
                self._waiting_bytes = self._dropped = 0
            self._write(data)

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]


class LineLimit:
    """Leaves out lines of a kind that comes too often (a structlog processor)."""

    def __init__(self, most_per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most_per_minute
        self._clock = clock
        self._began_s = clock()
        self._seen: Counter[tuple[str, str]] = Counter()
        self._kinds: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()

    def __call__(self, _log: WrappedLogger, _level: str, line: EventDict) -> EventDict:
        """Return the line, or raise DropEvent when there were too many of its kind in this minute."""
        kind, group = str(line.get("event", "")), str(line.get("group", ""))
        if self._kinds[kind] >= _GROUPS_OF_A_KIND * self._most or self._seen[kind, group] >= self._most:
            self._left_out[kind] += 1
            raise structlog.DropEvent
        self._kinds[kind] += 1
        self._seen[kind, group] += 1
        return line

    def take_left_out(self, *, is_last: bool = False) -> dict[str, int]:
        """Begin a new minute when the last is over, and return how many lines of each kind it left out."""
        if not is_last and self._clock() - self._began_s < _MINUTE_S:
            return {}
        left_out = dict(self._left_out)
        for counter in (self._seen, self._kinds, self._left_out):
            counter.clear()
        self._began_s = self._clock()
        return left_out


def standard_error_lines() -> BackgroundLines | None:
    """Return a writer to this process's standard error, or None when it has none to write to."""
    try:
        return BackgroundLines(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return None
