"""A table by partition: what a group has for each, kept by topic and then by number.

A commit looks up ten partitions among ten thousands, mostly of one topic. Numbers are found with far fewer cold lines
of memory than tuples of a topic and a number, so who handles many partitions at once takes a topic's rows.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

from coordinator.core.groups.partitions.no_entries import NO_ENTRIES

TopicPartition: TypeAlias = tuple[str, int]

V = TypeVar("V")


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of each topic's partitions, as they come."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers = by_topic.get(topic)
        if numbers is None:
            by_topic[topic] = [number]
        else:
            numbers.append(number)
    return by_topic


def in_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return partitions by topic and number, sooner than `sorted` compares tuples."""
    by_topic = numbers_by_topic(partitions)
    return [(topic, number) for topic in sorted(by_topic) for number in sorted(by_topic[topic])]


@dataclass(slots=True)
class PartitionTable(Generic[V]):
    """A mapping from (topic, partition) to values; iteration goes topic by topic."""

    _topics: dict[str, dict[int, V]] = field(default_factory=lambda: NO_ENTRIES)
    """No topic has no rows; tables that never had one share the empty one."""
    changes: int = field(default=0, compare=False)
    """A value that differs whenever something may have been written or taken out."""

    def topics(self) -> Collection[str]:
        """Return the topics that have values."""
        return self._topics.keys()

    def rows(self, topic: str) -> dict[int, V]:
        """Return a topic's values by partition number, to read; of a topic that is not here, none."""
        rows = self._topics.get(topic)
        return {} if rows is None else rows

    def rows_to_fill(self, topic: str) -> dict[int, V]:
        """Return a topic's values by partition number, to write; the caller writes at least one."""
        self.changes += 1
        rows = self._topics.get(topic)
        if rows is None:
            rows = self._put(topic, {})
        return rows

    def fill(self, topic: str, numbers: Iterable[int], value: V) -> None:
        """Write one value for partitions of a topic, of which there may be very many."""
        self.changes += 1
        rows = self._topics.get(topic)
        if rows is not None:
            rows.update(dict.fromkeys(numbers, value))
        elif written := dict.fromkeys(numbers, value):
            self._put(topic, written)

    def _put(self, topic: str, rows: dict[int, V]) -> dict[int, V]:
        if self._topics is NO_ENTRIES:
            assert self is not NO_PARTITIONS, "the table of nothing is only read; a write needs one of its own"
            self._topics = {}
        self._topics[topic] = rows
        return rows

    def get(self, partition: TopicPartition) -> V | None:
        """Return the value of a partition, if it has one."""
        rows = self._topics.get(partition[0])
        return None if rows is None else rows.get(partition[1])

    def __getitem__(self, partition: TopicPartition) -> V:
        try:
            return self._topics[partition[0]][partition[1]]
        except KeyError:
            raise KeyError(partition) from None

    def __setitem__(self, partition: TopicPartition, value: V) -> None:
        self.rows_to_fill(partition[0])[partition[1]] = value

    def __delitem__(self, partition: TopicPartition) -> None:
        self.pop(partition)

    def pop(self, partition: TopicPartition) -> V:
        """Take out the value of a partition that has one."""
        topic, number = partition
        rows = self.rows(topic)
        if number not in rows:
            raise KeyError(partition)
        self.changes += 1
        value = rows.pop(number)
        if not rows:
            del self._topics[topic]
        return value

    def drop(self, topic: str) -> None:
        """Forget a topic whose rows the caller has taken out one by one."""
        assert not self._topics[topic], f"topic {topic} has values"
        self.changes += 1
        del self._topics[topic]

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition[1] in self.rows(partition[0])

    def __iter__(self) -> Iterator[TopicPartition]:
        for topic, rows in self._topics.items():
            for number in rows:
                yield topic, number

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def items(self) -> Iterator[tuple[TopicPartition, V]]:
        """Yield each partition with its value."""
        for topic, rows in self._topics.items():
            for number, value in rows.items():
                yield (topic, number), value

    def copy(self) -> "PartitionTable[V]":
        """Return a table with the same values, of its own unless this is the table of nothing."""
        if self is NO_PARTITIONS:
            return self
        return PartitionTable({topic: rows.copy() for topic, rows in self._topics.items()} or NO_ENTRIES)


NO_PARTITIONS: Final[PartitionTable[Any]] = PartitionTable()
"""The table of nothing, to read."""


def is_same_topic(recorded_id: str, topic_id: str) -> bool:
    """True when a recorded topic id stands for this topic; an empty one stands for whichever there is."""
    return recorded_id in ("", topic_id)
