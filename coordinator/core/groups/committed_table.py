"""The committed offsets of a group: a table by partition whose values are shared by what was committed at once.

Members commit all their partitions together, again and again. Ten partitions of a commit are one value here, and
looking at them touches the lines of memory of one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from coordinator.core.groups.partition_table import PartitionTable, TopicPartition
from coordinator.core.groups.records import CommittedPart, TopicCommit

Committed: TypeAlias = CommittedPart | TopicCommit


@dataclass(slots=True, eq=False)
class CommittedTable:
    """A mapping from (topic, partition) to CommittedPart; iteration goes topic by topic."""

    _shared: PartitionTable[Committed] = field(default_factory=PartitionTable)

    def topics(self) -> Iterable[str]:
        """Return the topics of which something is committed."""
        return self._shared.topics()

    def rows(self, topic: str) -> dict[int, Committed]:
        """Return by number what a topic's offsets were committed with, to read; of a topic without any, nothing."""
        return self._shared.rows(topic)

    def get(self, partition: TopicPartition) -> CommittedPart | None:
        """Return the committed offset of a partition, if it has one."""
        value = self._shared.get(partition)
        return None if value is None else _part(value, partition[1])

    def __getitem__(self, partition: TopicPartition) -> CommittedPart:
        return _part(self._shared[partition], partition[1])

    def __delitem__(self, partition: TopicPartition) -> None:
        del self._shared[partition]

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._shared

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._shared)

    def __len__(self) -> int:
        return len(self._shared)

    def __eq__(self, other: object) -> bool:
        """Tables are equal when every partition has the same offset in both, however it came to be there."""
        if not isinstance(other, CommittedTable):
            return NotImplemented
        return dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]

    def items(self) -> Iterator[tuple[TopicPartition, CommittedPart]]:
        """Yield each partition with its committed offset."""
        for partition, value in self._shared.items():
            yield partition, _part(value, partition[1])

    def values(self) -> Iterator[CommittedPart]:
        """Yield each committed offset."""
        for _, part in self.items():
            yield part

    def write(self, part: CommittedPart) -> None:
        """Write the committed offset of one partition."""
        self._shared.rows_to_fill(part.topic)[part.partition] = part

    def write_together(self, commit: TopicCommit) -> None:
        """Write the committed offsets of a topic that were committed at once."""
        if len(commit.partitions) == 1:  # there is nothing to share, and by itself it is smaller
            self.write(commit.part(commit.partitions[0]))
            return
        rows = self._shared.rows_to_fill(commit.topic)
        for number in commit.partitions:
            rows[number] = commit

    def copy(self) -> "CommittedTable":
        """Return a table of its own with the same offsets."""
        return CommittedTable(self._shared.copy())


def _part(value: Committed, number: int) -> CommittedPart:
    return value if isinstance(value, CommittedPart) else value.part(number)
