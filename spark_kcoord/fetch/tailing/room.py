"""The memory of a fetcher: all that it fetched and that is not free again is bounded. No input or output.

What is held for later, of paused partitions, keeps the others from nothing: at least as much as one request takes of a
partition may be asked for beside it. What room there is the brokers share, for one that has no records answers late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["Room", "least_room"]

_SHARES: Final = 4
"""One answer takes at most such a part of the memory that there is."""


@dataclass(slots=True)
class Room:
    """Bytes that may be held, and that are: `parked_bytes` of them for later.

    A request asks for at most `partition_bytes` of a partition, and `answer_bytes` of all.
    """

    max_bytes: int
    partition_bytes: int
    answer_bytes: int
    held_bytes: int = 0
    parked_bytes: int = 0

    def left(self) -> int:
        """Return how many bytes may be held besides; what is held for later leaves at least room for one partition."""
        least = self.least
        room = self.max_bytes - self.held_bytes
        return least if room < least and self.held_bytes - self.parked_bytes < least else room

    @property
    def least(self) -> int:
        """The room that there is beside what is held for later, however much that is."""
        return least_room(self.max_bytes, self.partition_bytes)

    def free(self, freed_bytes: int, parked_bytes: int) -> bool:
        """Take how much is not held any more, and how much is parked; say if there is room now and was none."""
        was_full = self.left() <= 0
        self.held_bytes -= freed_bytes
        self.parked_bytes = parked_bytes
        return was_full and self.left() > 0

    def share(self, room: int, requests: int) -> int:
        """Return the most bytes of the next of so many requests, so that none waits for what another is given."""
        return min(self.answer_bytes, max(1, self.max_bytes // _SHARES), max(1, room // requests))


def least_room(max_bytes: int, partition_bytes: int) -> int:
    """Return the bytes that may be asked for beside what is held for later, however much that is."""
    return min(partition_bytes, max_bytes // _SHARES)
