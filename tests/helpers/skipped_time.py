"""A module's `time` whose pauses take none: it stands for a machine that is as slow as it likes between them."""

import time


class SkippedTime:
    """Goes on as the clock does, and by `skip_s` with each pause, which returns at once.

    In the place of a module's `time` it ends what is tried until a time-out after a few tries, however long that is.
    """

    def __init__(self, skip_s: float) -> None:
        self._skip_s = skip_s
        self._skipped_s = 0.0

    def monotonic(self) -> float:
        """Return the time, with what was skipped."""
        return time.monotonic() + self._skipped_s

    def sleep(self, _seconds: float) -> None:
        """Skip time."""
        self._skipped_s += self._skip_s
