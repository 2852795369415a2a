"""The time in which nodes of this log ran: the retention of groups is counted in it, and not by the wall clock.

A wall clock that is wrong at a start would forget every group at once and for ever. So a shard counts the monotonic
time of its nodes, one after the other, and writes it down now and then while it has groups. Time in which no node
ran, and the little that a crash lost, is not counted: offsets are kept longer by that, never shorter.
"""

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.records import TimeLived
from coordinator.core.groups.soft.timers import Timer, TimerKind


class LivedTime:
    """The lived time of one shard."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._before_ms = 0
        """The time by which lived time is ahead of this node's monotonic time."""

    def start(self) -> None:
        """Go on counting after the load."""
        self._before_ms = self._desk.journal.state.lived_ms - self._desk.now_ms
        self._wait()

    @property
    def now_ms(self) -> int:
        """Lived time as of the event at hand."""
        return self._before_ms + self._desk.now_ms

    def is_due(self) -> None:
        """Write down how long nodes ran, if there is a group that may have to be forgotten some time."""
        desk = self._desk
        if desk.journal.state.groups:
            desk.journal.decide(TimeLived(self.now_ms, desk.clock.wall_ms))
        self._wait()

    def _wait(self) -> None:
        self._desk.timers.set(Timer(TimerKind.LIVED, ""), self._desk.now_ms + self._desk.limits.lived_interval_ms)
