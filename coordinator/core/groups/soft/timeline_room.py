"""The memory that the timelines of all groups may take together: the oldest events of all make room for the newest.

A timeline alone is bounded in events; groups are many, and what an event says can be long.
"""

from collections import OrderedDict
from typing import Protocol


class Oldest(Protocol):
    """Whose oldest event can be dropped."""

    def drop_oldest(self) -> None:
        """Drop the oldest event."""


class TimelineRoom:
    """The events of all timelines in the order in which they came, with the bytes of each."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._events: OrderedDict[tuple[Oldest, int], int] = OrderedDict()
        self.used_bytes = 0

    def take(self, timeline: Oldest, sequence: int, size: int) -> None:
        """Give room to the newest event of a timeline, by its number there.

        Older events make that room, of whatever timeline; of one that is larger than all of it nothing stays.
        """
        self._events[timeline, sequence] = size
        self.used_bytes += size
        while self.used_bytes > self._most_bytes:
            (oldest, _), its_size = self._events.popitem(last=False)
            self.used_bytes -= its_size
            oldest.drop_oldest()

    def free(self, timeline: Oldest, sequence: int) -> None:
        """Take back the room of an event that is gone."""
        self.used_bytes -= self._events.pop((timeline, sequence))
