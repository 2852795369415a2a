"""Health of a partition and of a group by Burrow's rules and words: from a window of commits, without thresholds.

A partition is judged by its last ten commits that were seen, each with the lag that it left. Pure: times are arguments,
all by the wall clock.
"""

from array import array
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final

WINDOW: Final = 10
"""Commits by which a partition is judged."""
_FEWEST: Final = 2


class Status(StrEnum):
    """Burrow's words. A partition is everything but ERR, a group is OK, WARN or ERR."""

    OK = "OK"
    """It keeps up, or was without lag within the window."""
    WARN = "WARN"
    """It commits and moves, and its lag has not become less in any commit of the window."""
    ERR = "ERR"
    """A group of which some partition is STOP, STALL or REWIND."""
    STOP = "STOP"
    """It has committed nothing for longer than the window of its commits had taken, and there is lag."""
    STALL = "STALL"
    """It commits the same offset again and again, and there is lag."""
    REWIND = "REWIND"
    """A commit went back, and there is lag."""


class Commits:
    """The last commits of one partition that were seen, oldest first: offset, the lag it left, and its time."""

    __slots__ = ("_lags", "_offsets", "_times")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._lags = array("q")
        self._times = array("q")

    def see(self, offset: int, lag: int, commit_ms: int) -> None:
        """Take in a commit, unless it is the last one again."""
        if self._times and commit_ms == self._times[-1] and offset == self._offsets[-1]:
            return
        for column, value in ((self._offsets, offset), (self._lags, lag), (self._times, commit_ms)):
            column.append(value)
            if len(column) > WINDOW:
                del column[0]

    def status(self, lag: int, recent_ends: Sequence[int], now_ms: int) -> Status | None:
        """Judge a partition that has this lag now; None while fewer than two commits were seen.

        `recent_ends` are the ends of the partition that were seen last: one that is not beyond the last commit shows
        that there was no lag a moment ago, and that nobody has stopped.
        """
        offsets, times = self._offsets, self._times
        if len(offsets) < _FEWEST:
            return None
        if lag <= 0:
            return Status.OK
        has_stopped = now_ms - times[-1] > times[-1] - times[0]
        if has_stopped and all(end > offsets[-1] for end in recent_ends):
            return Status.STOP
        if 0 in self._lags:
            return Status.OK
        if _goes_back(offsets):
            return Status.REWIND
        if offsets[0] == offsets[-1]:  # none goes back, so that all between are the same
            return Status.STALL
        return Status.OK if _goes_back(self._lags) else Status.WARN


def group_status(partitions: Iterable[Status | None]) -> Status | None:
    """Return the status of a group from those of its partitions; None when none of them is judged."""
    worst = None
    for status in partitions:
        if status is None:
            continue
        if status not in {Status.OK, Status.WARN}:
            return Status.ERR
        if worst is None or status is Status.WARN:
            worst = status
    return worst


def _goes_back(values: Sequence[int]) -> bool:
    """Return whether some value is less than the one before it."""
    return any(later < earlier for earlier, later in pairwise(values))
