"""The open claims of a group: a table by partition whose values are shared by what was claimed at once.

A micro-batch is claimed, run and finished as a whole, so a thousand claims of it are one value here. The values are
frozen: what happens to some of them gives these a value of their own.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from coordinator.core.groups.partition_table import PartitionTable, TopicPartition


class OpenClaim(msgspec.Struct, frozen=True, gc=False):
    """A range [from_offset, until_offset) handed to the owner; offered until it is known to be read."""

    from_offset: int
    until_offset: int
    is_running: bool = False


class OpenClaims(msgspec.Struct, frozen=True, gc=False):
    """Claims of one topic that were made at once, in columns by ascending partition; each is an OpenClaim."""

    partitions: tuple[int, ...]
    from_offsets: tuple[int, ...]
    until_offsets: tuple[int, ...]
    is_running: bool = False

    def of(self, number: int) -> OpenClaim:
        """Return the claim on one of the partitions."""
        at = bisect_left(self.partitions, number)
        assert self.partitions[at] == number, f"partition {number} is not one of those claimed together"
        return OpenClaim(self.from_offsets[at], self.until_offsets[at], self.is_running)


@dataclass(slots=True, eq=False)
class ClaimTable:
    """A mapping from (topic, partition) to OpenClaim."""

    _shared: PartitionTable[OpenClaims] = field(default_factory=PartitionTable)

    def topics(self) -> Iterable[str]:
        """Return the topics of which something is claimed."""
        return self._shared.topics()

    def rows(self, topic: str) -> dict[int, OpenClaims]:
        """Return by number what a topic's claims were made with, to read; of a topic without any, nothing."""
        return self._shared.rows(topic)

    def get(self, partition: TopicPartition) -> OpenClaim | None:
        """Return the claim on a partition, if there is one."""
        found = self._shared.get(partition)
        return None if found is None else found.of(partition[1])

    def is_running(self, partition: TopicPartition) -> bool:
        """True when a claim on a partition runs."""
        found = self._shared.get(partition)
        return found is not None and found.is_running

    def is_offered(self, partition: TopicPartition) -> bool:
        """True when there is a claim on a partition that does not run."""
        found = self._shared.get(partition)
        return found is not None and not found.is_running

    def items(self) -> Iterator[tuple[TopicPartition, OpenClaim]]:
        """Yield each claimed partition with its claim."""
        for partition, found in self._shared.items():
            yield partition, found.of(partition[1])

    def __len__(self) -> int:
        return len(self._shared)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._shared)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._shared

    def __eq__(self, other: object) -> bool:
        """Tables are equal when every partition has the same claim in both, however it came to be there."""
        if not isinstance(other, ClaimTable):
            return NotImplemented
        return dict(self.items()) == dict(other.items())

    def open(self, topic: str, claims: OpenClaims) -> None:
        """Open claims of a topic, in place of those there are on the same partitions."""
        if claims.partitions:
            self._shared.rows_to_fill(topic).update(dict.fromkeys(claims.partitions, claims))

    def run(self, topic: str, numbers: tuple[int, ...]) -> None:
        """Have the claims on partitions run, all of which have one."""
        rows = self._shared.rows(topic)
        first = rows[numbers[0]]
        if first.partitions == numbers and self.are_all(topic, first):
            running = OpenClaims(numbers, first.from_offsets, first.until_offsets, is_running=True)
        else:
            claims = [rows[number].of(number) for number in numbers]
            running = OpenClaims(
                numbers,
                tuple([claim.from_offset for claim in claims]),
                tuple([claim.until_offset for claim in claims]),
                is_running=True,
            )
        self.open(topic, running)

    def are_all(self, topic: str, claims: OpenClaims) -> bool:
        """True while all of what was claimed together still is."""
        rows = self._shared.rows(topic)
        return set(map(id, map(rows.get, claims.partitions))) == {id(claims)}

    def close(self, partition: TopicPartition) -> None:
        """Close the claim on a partition, if there is one."""
        if partition in self._shared:
            self._shared.pop(partition)

    def close_all(self, topic: str, numbers: Iterable[int]) -> None:
        """Close the claims on partitions of a topic that have one."""
        rows = self._shared.rows(topic)
        if not rows:
            return
        for number in numbers:
            rows.pop(number, None)
        if not rows:
            self._shared.drop(topic)

    def copy(self) -> "ClaimTable":
        """Return a table of its own with the same claims."""
        return ClaimTable(self._shared.copy())
