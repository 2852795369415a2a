"""Lag in time: how long ago a partition's end was where a group's committed offset is.

It is interpolated between the ends that were seen, as kafka-lag-exporter does it: nothing is asked of Kafka for it and
no record is read. It knows neither groups nor clocks, and says nothing (None) where too little was seen.
"""

from array import array
from bisect import bisect_right
from typing import Final

POINTS: Final = 30
"""Ends of one partition that are remembered; a stretch without new records takes two."""
_MOST_LOOKS: Final = 255
"""Looks at the same end that are counted: more than anybody asks `last` for, and one byte each."""


class SeenEnds:
    """The ends of one partition with the times at which they were seen, oldest first."""

    __slots__ = ("_looks", "_offsets", "_times")

    def __init__(self) -> None:
        self._looks = array("B")
        self._offsets = array("q")
        self._times = array("q")

    def see(self, offset: int, at_ms: int) -> None:
        """Take in the end at a time; a second one at the same time is passed over.

        An end that goes back is that of another topic of this name, or of a log that was cut, and a time that goes back
        is of a clock that was set: what was seen before it says nothing any more.
        """
        looks, offsets, times = self._looks, self._offsets, self._times
        if times and at_ms == times[-1]:
            return
        if offsets and (offset < offsets[-1] or at_ms < times[-1]):
            del looks[:], offsets[:], times[:]
        if len(offsets) > 1 and offset == offsets[-1] == offsets[-2]:
            times[-1] = at_ms
            looks[-1] = min(_MOST_LOOKS, looks[-1] + 1)
            return
        looks.append(1)
        offsets.append(offset)
        times.append(at_ms)
        if len(offsets) > POINTS:
            del looks[0], offsets[0], times[0]

    def last(self, most: int) -> list[int]:
        """Return what the last looks saw, at most so many, oldest first; an end that was seen again is there again."""
        ends: list[int] = []
        for offset, looks in zip(reversed(self._offsets), reversed(self._looks), strict=True):
            ends += [offset] * min(looks, most - len(ends))
            if len(ends) == most:
                break
        return ends[::-1]

    def lag_ms(self, committed: int, now_ms: int) -> int | None:
        """Return how long ago the end was at a committed offset; zero for one that is at the end.

        An offset from before the first end that was seen is looked for on the line from the first to the last one. None
        when fewer than two ends were seen, or when the end has not moved since the first.
        """
        offsets, times = self._offsets, self._times
        if not offsets:
            return None
        if committed >= offsets[-1]:
            return 0
        left, right = 0, len(offsets) - 1
        if committed >= offsets[0]:
            right = bisect_right(offsets, committed)
            left = right - 1
        moved = offsets[right] - offsets[left]
        if moved == 0:
            return None
        at_ms = times[left] + (committed - offsets[left]) * (times[right] - times[left]) // moved
        return max(0, now_ms - at_ms)
