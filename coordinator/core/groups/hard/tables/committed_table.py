"""The committed offsets of a group: a table by partition whose values are shared by what was committed at once.

Members commit all their partitions together, again and again. Ten partitions of a commit are one value here, and
looking at them touches the lines of memory of one. Very many groups have one offset and nothing else: they do without
a table by partition, which would be most of what they take.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from coordinator.core.groups.hard.records import CommittedPart, TopicCommit
from coordinator.core.groups.partitions.partition_table import (
    NO_PARTITIONS,
    PartitionTable,
    TopicPartition,
    is_same_topic,
)

OFFSET_BYTES: Final = 48
"""Bytes of a committed offset in a group's account, besides its metadata."""


class Together(msgspec.Struct, gc=False):
    """The place that partitions share which were committed together: the same ones again only change what is in it."""

    commit: TopicCommit
    left: int
    """The number of the partitions that still have their offset from here."""
    copies: int
    """The copies its table had been made of: a place is shared by those that were made after it."""

    @property
    def is_whole(self) -> bool:
        """True while all of the partitions have."""
        return self.left == len(self.commit.partitions)

    @property
    def topic_id(self) -> str:
        """The id of the topic."""
        return self.commit.topic_id

    @property
    def commit_ms(self) -> int:
        """The time of the commit, by the wall clock."""
        return self.commit.commit_ms

    def position_of(self, number: int) -> tuple[int, int | None, str]:
        """Return the offset of one of the partitions, the leader epoch there, if that is known, and the metadata."""
        return self.commit.position_of(number)


Committed: TypeAlias = CommittedPart | Together


def positions(
    rows: Mapping[int, Committed], numbers: Sequence[int], topic_id: str | None = None
) -> list[tuple[int, int | None] | None]:
    """Return the committed offset of each of these partitions with its leader epoch, or None where there is none.

    With a topic id, the offset of another topic of that name is none. Partitions that follow each other as they were
    committed are looked at together.
    """
    found: list[tuple[int, int | None] | None] = []
    at, count = 0, len(numbers)
    while at < count:
        known = rows.get(numbers[at])
        if known is None or not (topic_id is None or is_same_topic(known.topic_id, topic_id)):
            found.append(None)
        elif isinstance(known, Together):
            commit = known.commit
            end = at + len(commit.partitions)
            may_be_all = known.is_whole and end <= count and numbers[end - 1] == commit.partitions[-1]
            if may_be_all and commit.partitions == tuple(numbers[at:end]):
                found += zip(commit.offsets, commit.leader_epochs or (None,) * (end - at), strict=True)
                at = end
                continue
            place = bisect_left(commit.partitions, numbers[at])
            found.append((commit.offsets[place], commit.leader_epochs[place] if commit.leader_epochs else None))
        else:
            found.append((known.offset, known.leader_epoch))
        at += 1
    return found


@dataclass(slots=True, eq=False)
class CommittedTable:
    """A mapping from (topic, partition) to CommittedPart; iteration goes topic by topic."""

    _shared: PartitionTable[Committed] = field(default_factory=lambda: NO_PARTITIONS)
    """The table of nothing where there is no offset, or one that is alone."""
    bytes: int = 0
    """Bytes of all offsets in a group's account."""
    _copies: int = 0
    _alone: CommittedPart | None = None
    """The one offset of a table that never had another since it was empty."""

    def topics(self) -> Collection[str]:
        """Return the topics of which something is committed."""
        return self._shared.topics() if self._alone is None else (self._alone.topic,)

    def rows(self, topic: str) -> dict[int, Committed]:
        """Return by number what a topic's offsets were committed with, to read; of a topic without any, nothing."""
        alone = self._alone
        if alone is None:
            return self._shared.rows(topic)
        return {alone.partition: alone} if alone.topic == topic else {}

    def get(self, partition: TopicPartition) -> CommittedPart | None:
        """Return the committed offset of a partition, if it has one."""
        alone = self._alone
        if alone is None:
            value = self._shared.get(partition)
            return None if value is None else _part(value, partition[1])
        return alone if (alone.topic, alone.partition) == partition else None

    def offset_of(self, partition: TopicPartition) -> int | None:
        """Return the committed offset of a partition alone, if it has one."""
        value = self._shared.get(partition) if self._alone is None else self.place_of(partition)
        return None if value is None else value.position_of(partition[1])[0]

    def place_of(self, partition: TopicPartition) -> Committed | None:
        """Return what a partition's offset was committed with, to read, if it has one."""
        alone = self._alone
        if alone is None:
            return self._shared.get(partition)
        return alone if (alone.topic, alone.partition) == partition else None

    def __getitem__(self, partition: TopicPartition) -> CommittedPart:
        value = self.place_of(partition)
        if value is None:
            raise KeyError(partition)
        return _part(value, partition[1])

    def __delitem__(self, partition: TopicPartition) -> None:
        if self._alone is not None:
            known: Committed = self[partition]
            self._alone = None
        else:
            known = self._shared.pop(partition)
            if not self._shared.topics():
                self._shared = NO_PARTITIONS
        self.bytes -= _bytes_of(known, partition[1])
        _leave(known)

    def __contains__(self, partition: TopicPartition) -> bool:
        return self.place_of(partition) is not None

    def __iter__(self) -> Iterator[TopicPartition]:
        alone = self._alone
        return iter(self._shared) if alone is None else iter(((alone.topic, alone.partition),))

    def __len__(self) -> int:
        return len(self._shared) if self._alone is None else 1

    def __eq__(self, other: object) -> bool:
        """Tables are equal when every partition has the same offset in both, however it came to be there."""
        if not isinstance(other, CommittedTable):
            return NotImplemented
        return dict(self.items()) == dict(other.items())

    def items(self) -> Iterator[tuple[TopicPartition, CommittedPart]]:
        """Yield each partition with its committed offset."""
        for partition, value in self._places():
            yield partition, _part(value, partition[1])

    def _places(self) -> Iterable[tuple[TopicPartition, Committed]]:
        alone = self._alone
        return self._shared.items() if alone is None else (((alone.topic, alone.partition), alone),)

    def write(self, part: CommittedPart) -> None:
        """Write the committed offset of one partition."""
        if self._shared is NO_PARTITIONS:
            alone = self._alone
            if alone is None or (alone.partition == part.partition and alone.topic == part.topic):
                self._alone, self.bytes = part, _bytes_of(part, part.partition)
                return
            self._have_table()
        rows = self._shared.rows_to_fill(part.topic)
        known = rows.get(part.partition)
        if known is not None:
            self.bytes -= _bytes_of(known, part.partition)
            _leave(known)
        self.bytes += _bytes_of(part, part.partition)
        rows[part.partition] = part

    def write_together(self, commit: TopicCommit) -> None:
        """Write the committed offsets of a topic that were committed at once."""
        numbers = commit.partitions
        if len(numbers) == 1:  # there is nothing to share, and by itself it is smaller
            self.write(commit.part(numbers[0]))
            return
        if self._shared is NO_PARTITIONS:
            self._have_table()
        rows = self._shared.rows_to_fill(commit.topic)
        place = rows.get(numbers[0])
        if isinstance(place, Together) and place.is_whole and place.commit.partitions == numbers:
            if commit.metadata or place.commit.metadata:
                self.bytes += _bytes_of_all(commit.metadata) - _bytes_of_all(place.commit.metadata)
            if place.copies == self._copies:
                place.commit = commit
            else:
                rows.update(dict.fromkeys(numbers, Together(commit, len(numbers), self._copies)))
            return
        epochs = commit.owner_epochs
        if epochs and epochs.count(epochs[0]) == len(epochs):
            # As they were decoded they are as many objects as partitions.
            commit = replace(commit, owner_epochs=epochs[:1] * len(epochs))
        place = Together(commit, len(numbers), self._copies)
        self.bytes += OFFSET_BYTES * len(numbers) + _bytes_of_all(commit.metadata)
        for number in numbers:
            known = rows.get(number)
            if known is not None:
                self.bytes -= _bytes_of(known, number)
                _leave(known)
            rows[number] = place

    def _have_table(self) -> None:
        """Begin a table by partition, with the offset that has been alone, if there is one."""
        alone, self._alone = self._alone, None
        self._shared = PartitionTable()
        if alone is not None:
            self._shared[alone.topic, alone.partition] = alone

    def recount(self) -> int:
        """Count anew what the offsets take in the account."""
        return sum(_bytes_of(value, partition[1]) for partition, value in self._places())

    def copy(self) -> "CommittedTable":
        """Return a table with the same offsets, to read: what is written to this one is not seen there.

        What is committed stays in the places that both share, so that a copy takes no longer than its rows. Partitions
        that leave such a place are not whole there any more, and have the same offsets in the copy one by one.
        """
        self._copies += 1
        return CommittedTable(self._shared.copy(), self.bytes, self._copies, self._alone)


def _bytes_of(known: Committed, number: int) -> int:
    """Return what one partition takes in the account."""
    if isinstance(known, CommittedPart):
        metadata = known.metadata
    elif known.commit.metadata:
        metadata = known.commit.metadata[known.commit.partitions.index(number)]
    else:
        return OFFSET_BYTES
    return OFFSET_BYTES + len(metadata.encode()) if metadata else OFFSET_BYTES


def bytes_of_metadata(metadata: str) -> int:
    """Return what metadata takes in the account."""
    return len(metadata.encode()) if metadata else 0


def _bytes_of_all(metadata: Iterable[str]) -> int:
    return sum(len(one.encode()) for one in metadata)


def _leave(known: Committed | None) -> None:
    """Note that one partition less has its offset from where it was."""
    if isinstance(known, Together):
        known.left -= 1


def _part(value: Committed, number: int) -> CommittedPart:
    return value if isinstance(value, CommittedPart) else value.commit.part(number)
