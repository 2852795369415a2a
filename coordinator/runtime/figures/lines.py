"""Lines of the node's log, counted by kind and level before any of them is left out."""

import threading
from collections import Counter
from typing import Final

from structlog.typing import EventDict, WrappedLogger

from coordinator.runtime.figures.family import Family

_FROM_THE_START: Final = (
    ("bug", "critical"),
    ("halted", "critical"),
    ("file-refused", "warning"),
    ("input-held", "warning"),
    ("log-in-refused", "warning"),
    ("not-drained", "warning"),
    ("stalled", "warning"),
    ("too-many-connections", "warning"),
)
"""Lines that alerts ask for: they are there with 0, so that the first one is seen as a change."""
_MOST_KINDS: Final = 200


class LineFigures:
    """The lines of one node (a structlog processor); from any thread, and from a signal that comes within a call."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a handler that logs runs on the main thread, which may hold it
        self._counts: Counter[tuple[str, str]] = Counter(dict.fromkeys(_FROM_THE_START, 0))

    def __call__(self, _log: WrappedLogger, level: str, line: EventDict) -> EventDict:
        """Count a line and return it."""
        key = str(line.get("event", "")), level
        with self._lock:
            if key in self._counts or len(self._counts) < _MOST_KINDS:
                self._counts[key] += 1
        return line

    def family(self) -> Family:
        """Return the counts as they are now."""
        with self._lock:
            counts = dict(self._counts)
        samples = tuple(("", (("kind", kind), ("level", level)), count) for (kind, level), count in counts.items())
        return Family("kcoord_log_lines_total", "counter", "Lines of the log, also those that were left out.", samples)
