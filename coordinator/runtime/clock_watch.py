"""A wall clock that is far from where it is expected, said in a sentence; nothing is decided by it.

Sessions, deadlines and retentions are counted in monotonic time. But commits and timelines are stamped with the wall
clock, and resets by time ask Kafka for it, so a clock that is wrong is for people to know.
"""

from datetime import UTC, datetime

from coordinator.runtime.clock import Clock

KIND = "clock-jumped"
FAR_MS = 3_600_000
"""A clock that is no further off is not spoken of."""
_LATEST_MS = 253_402_300_799_999
"""The last millisecond that a date can be made of."""


def why_far_from_log(written_at_ms: int | None, wall_ms: int) -> str | None:
    """Compare the clock at a start with the time at which the log was written last, if it says one."""
    if written_at_ms is None or abs(jump_ms := wall_ms - written_at_ms) <= FAR_MS:
        return None
    cause = "No node ran for so long, or the clock is or was wrong" if jump_ms > 0 else "The clock is or was wrong"
    return _say(f"the log was last written at {_shown(written_at_ms)}", wall_ms, jump_ms, cause)


class ClockWatch:
    """Watches a wall clock while a node runs: it ought to go on as monotonic time does."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms: int | None = None

    def why_far(self) -> str | None:
        """Say if the clock has moved since the last call; each move is said once."""
        wall_ms, now_ms = self._clock.wall_ms(), self._clock.monotonic_ms()
        before_ms, self._offset_ms = self._offset_ms, wall_ms - now_ms
        if before_ms is None or abs(jump_ms := self._offset_ms - before_ms) <= FAR_MS:
            return None
        cause = "This machine was suspended, or its clock was set" if jump_ms > 0 else "The clock was set"
        expected = f"it is {_shown(now_ms + before_ms)} by the time that this node has been running"
        return _say(expected, wall_ms, jump_ms, cause)


def _say(expected: str, wall_ms: int, jump_ms: int, cause: str) -> str:
    way = "ahead" if jump_ms > 0 else "behind"
    return (
        f"the clock of this machine says {_shown(wall_ms)} and {expected}: {abs(jump_ms) // 1000} s {way}. {cause}: "
        "correct it if it is wrong, since commits are stamped with it. No group is forgotten any sooner for it: "
        "retentions count the time in which a node ran"
    )


def _shown(at_ms: int) -> str:
    at = datetime.fromtimestamp(min(max(at_ms, 0), _LATEST_MS) / 1000, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
