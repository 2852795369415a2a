"""Since when partitions have no owner, and why: for whoever is told how long a partition was nobody's.

What one member had that goes is kept as the columns that it had it in: it may be very much, and most of it is granted
again soon.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from coordinator.core.groups.partitions.partition_set import PartitionSet
from coordinator.core.groups.partitions.partition_table import PartitionTable, TopicPartition, numbers_by_topic

_MANY: Final = 1_000
"""So many partitions that were lost at once are kept as they are."""
_MOST: Final = 3
"""Sets of so many are kept, the newest: each is looked at with each grant."""


class LostOwner(msgspec.Struct, frozen=True, gc=False):
    """The loss of an owner: when and why."""

    at_ms: int
    why: str


class LostOwners:
    """The partitions of one group that lost their owners and have had none since."""

    __slots__ = ("_each", "_sets")

    def __init__(self) -> None:
        self._each: PartitionTable[LostOwner] = PartitionTable()
        self._sets: list[tuple[PartitionSet, LostOwner]] = []
        """The sets that were lost at once; a partition that has an owner again may still be in one."""

    def __bool__(self) -> bool:
        return bool(self._each.topics() or self._sets)

    def note(self, partitions: Iterable[TopicPartition], lost: LostOwner) -> None:
        """Note that partitions have lost their owners; a set of them is not changed any more."""
        if isinstance(partitions, PartitionSet) and len(partitions) >= _MANY:
            self._sets = [*self._sets, (partitions, lost)][-_MOST:]
            return
        for topic, numbers in numbers_by_topic(partitions).items():
            self._each.fill(topic, numbers, lost)

    def take(self, partition: TopicPartition) -> LostOwner | None:
        """Return when and why a partition lost its owner that has another now, if it is known."""
        found = self._each.get(partition)
        if found is not None:
            del self._each[partition]
        for partitions, lost in self._sets:
            if partition in partitions and (found is None or found.at_ms < lost.at_ms):
                found = lost
        return found

    def settle(self) -> None:
        """Forget what was lost at once: the group is where it is to be."""
        self._sets.clear()

    def parts(self) -> Iterator[dict[Any, Any]]:
        """Yield the tables that it is made of, to be let go of."""
        for topic in self._each.topics():
            yield self._each.rows(topic)
