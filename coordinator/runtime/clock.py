"""The clock port: monotonic milliseconds for deadlines, wall-clock milliseconds for timestamps.

A coordinator that stood still (a suspended machine, a SIGSTOP, a starved container) has not seen the pings that came
meanwhile, so time it did not live through is not counted against its members: between two readings at most
`longest_gap_ms` pass, and the rest is reported as a stall. Does not promise that the wall clock only grows.
Not thread-safe: only the event loop's thread reads it.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """The clocks that the driver needs."""

    def monotonic_ms(self) -> int:
        """Return milliseconds since an arbitrary start; it never goes back."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 as the machine believes them to be."""

    def take_stall_ms(self) -> int:
        """Return how long the process stood still since this was last asked, 0 when it did not."""

    def hold(self) -> None:
        """Have monotonic time stand still."""

    def go_on(self) -> int:
        """Have it go on from where it stood; returns for how long it did, in milliseconds."""


class SystemClock:
    """The machine's clocks; read it more often than `longest_gap_ms` or time stands still.

    The gap is less than half of the smallest session that a member may have, so that a standstill together with the
    time since its last ping, which is at most a third, expires nobody.
    """

    def __init__(self, longest_gap_ms: int = 499) -> None:
        self._longest_gap_ms = longest_gap_ms
        self._last_read_ms = _machine_ms()
        self._not_lived_ms = 0
        self._stall_ms = 0
        self._held_at_ms: int | None = None

    def monotonic_ms(self) -> int:
        """Return the time this process lived through, in milliseconds."""
        if self._held_at_ms is not None:
            return self._held_at_ms
        now_ms = time.monotonic_ns() // 1_000_000
        too_long_ms = now_ms - self._last_read_ms - self._longest_gap_ms
        self._last_read_ms = now_ms
        if too_long_ms > 0:
            self._not_lived_ms += too_long_ms
            self._stall_ms += too_long_ms + self._longest_gap_ms
        return now_ms - self._not_lived_ms

    def hold(self) -> None:
        """Have monotonic time stand still: nothing is heard, so that nobody may be late."""
        self._held_at_ms = self.monotonic_ms()

    def go_on(self) -> int:
        """Have it go on from where it stood; returns for how long it did, in milliseconds."""
        assert self._held_at_ms is not None, "time that goes on stood still"
        now_ms = _machine_ms()
        held_ms = now_ms - self._not_lived_ms - self._held_at_ms
        self._not_lived_ms += held_ms
        self._last_read_ms, self._held_at_ms = now_ms, None
        return held_ms

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def take_stall_ms(self) -> int:
        """Return the length of the gaps that were cut short, and forget them."""
        stall_ms, self._stall_ms = self._stall_ms, 0
        return stall_ms


def _machine_ms() -> int:
    return time.monotonic_ns() // 1_000_000
