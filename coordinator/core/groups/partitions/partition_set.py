"""A set of partitions as numbers by topic: four bytes a partition, where a set of tuples takes a hundred and more.

Members by the ten thousand have a target and what they own, and a start holds them all. Numbers ascend, so that what
is in order already need not be put in order, and two sets are compared column by column. What is looked up partition
by partition belongs into a `PartitionTable`: here a look-up is a binary search.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import filterfalse

from coordinator.core.groups.partitions.partition_table import TopicPartition, numbers_by_topic

_FEW = 8
"""Fewer than one number of so many is looked for in a column, which is copied around it: to move all that comes behind
each number would take long where a column is. More are found by a pass over the column."""


class PartitionSet(AbstractSet[TopicPartition]):
    """A mutable set of (topic, partition); iteration goes topic by topic, numbers ascend."""

    __slots__ = ("_topics",)

    def __init__(self, partitions: Iterable[TopicPartition] = ()) -> None:
        self._topics: dict[str, array[int]] = {}
        for topic, numbers in numbers_by_topic(partitions).items():
            self.add_all(topic, sorted(set(numbers)))

    def columns(self) -> Iterable[tuple[str, Sequence[int]]]:
        """Return each topic with its numbers, to read, and not while the set changes."""
        return self._topics.items()

    def numbers(self, topic: str) -> Sequence[int]:
        """Return a topic's numbers, to read; of a topic that is not here, none."""
        return self._topics.get(topic, ())

    def in_order(self) -> list[TopicPartition]:
        """Return the partitions by topic and number."""
        return [(topic, number) for topic in sorted(self._topics) for number in self._topics[topic]]

    def copy(self) -> "PartitionSet":
        """Return a set of its own with the same partitions."""
        another = PartitionSet()
        another._topics = {topic: numbers[:] for topic, numbers in self._topics.items()}
        return another

    def add_all(self, topic: str, numbers: Sequence[int]) -> None:
        """Put in partitions of a topic, which ascend."""
        assert self is not NOTHING, "the set of nothing is only read"
        if not numbers:
            return
        known = self._topics.get(topic)
        if known is None:
            self._topics[topic] = array("i", numbers)
        elif numbers[0] > known[-1]:
            known.extend(numbers)
        elif len(numbers) * _FEW > len(known):
            self._topics[topic] = array("i", sorted({*known, *numbers}))
        else:
            merged, begin = array("i"), 0
            for number in numbers:
                at = bisect_left(known, number, begin)
                if at == len(known) or known[at] != number:
                    merged.extend(known[begin:at])
                    merged.append(number)
                    begin = at
            merged.extend(known[begin:])
            self._topics[topic] = merged

    def take(self, most: int) -> list[TopicPartition]:
        """Take out at most so many partitions, the first in order."""
        taken: list[TopicPartition] = []
        for topic in sorted(self._topics):
            numbers = self._topics[topic]
            some = numbers[: most - len(taken)]
            taken += [(topic, number) for number in some]
            if len(some) < len(numbers):
                del numbers[: len(some)]
                break
            del self._topics[topic]
        return taken

    def discard_all(self, topic: str, numbers: Sequence[int]) -> None:
        """Take out partitions of a topic, as far as they are there."""
        known = self._topics.get(topic)
        if known is None:
            return
        if len(numbers) == len(known) and known == numbers:
            known = self._topics[topic] = array("i")
        elif len(numbers) * _FEW > len(known):
            gone = set(numbers)
            known = self._topics[topic] = array("i", filterfalse(gone.__contains__, known))
        else:
            left, begin = array("i"), 0
            for number in sorted(numbers):
                at = bisect_left(known, number, begin)
                if at < len(known) and known[at] == number:
                    left.extend(known[begin:at])
                    begin = at + 1
            left.extend(known[begin:])
            known = self._topics[topic] = left
        if not known:
            del self._topics[topic]

    def __contains__(self, partition: object) -> bool:
        assert isinstance(partition, tuple), f"{partition!r} is no partition"
        known = self._topics.get(partition[0])
        if known is None:
            return False
        at = bisect_left(known, partition[1])
        return at < len(known) and known[at] == partition[1]

    def __iter__(self) -> Iterator[TopicPartition]:
        for topic, numbers in self._topics.items():
            for number in numbers:
                yield topic, number

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def __bool__(self) -> bool:
        return bool(self._topics)

    def __eq__(self, other: object) -> bool:
        if type(other) is PartitionSet:
            return self._topics == other._topics
        return super().__eq__(other)

    def __hash__(self) -> int:
        raise TypeError("a set that changes has no hash")

    def __le__(self, other: AbstractSet[object]) -> bool:
        if not isinstance(other, PartitionSet):
            return super().__le__(other)
        theirs = other._topics
        return all(
            topic in theirs and (numbers == theirs[topic] or set(theirs[topic]).issuperset(numbers))
            for topic, numbers in self._topics.items()
        )

    def __sub__(self, other: AbstractSet[object]) -> "PartitionSet":
        left = self.copy()
        if isinstance(other, PartitionSet):
            for topic, numbers in other.columns():
                left.discard_all(topic, numbers)
        else:
            left = PartitionSet(partition for partition in self if partition not in other)
        return left

    def __repr__(self) -> str:
        return f"PartitionSet({self.in_order()})"


NOTHING = PartitionSet()
"""The set of nothing, to read: who has nothing is in no index."""
