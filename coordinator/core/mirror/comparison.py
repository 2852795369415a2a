"""The difference between a group's committed offsets and what Kafka has of them, found a little at a time.

It compares what is committed with what Kafka was told. Steps may come between two pieces, and each piece is of its own
time; what is committed behind it is for the next look. Offsets of a topic that was deleted and made again do not count.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeAlias

from coordinator.core.effects import MirroredTopic
from coordinator.core.groups.hard.tables.committed_table import CommittedTable
from coordinator.core.groups.partitions.partition_table import is_same_topic

_PIECE: Final = 250
_MOST_BYTES: Final = 512 * 1024
"""Bytes of one write. Kafka takes a write as one batch of its own topic, whose batches have by default 1 MiB at most,
and refuses all of one that is larger."""
_RECORD_BYTES: Final = 164
"""Bytes of an offset there besides its texts, with the longest prefix."""
_DOUBTED: Final = -1
"""In the place of an offset: Kafka has one, perhaps, and another one than ever was committed."""

_Row: TypeAlias = tuple[int, int, int | None, str]
"""Partition, offset, leader epoch, metadata."""


@dataclass(slots=True)
class Told:
    """The offsets that Kafka has of a group as far as is known here, by topic and partition."""

    offsets: dict[str, dict[int, int]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of offsets."""
        return sum(map(len, self.offsets.values()))

    def take(self, topics: Sequence[MirroredTopic], deleted: Sequence[tuple[str, Sequence[int]]]) -> None:
        """Take note of a write that Kafka has taken."""
        for each in topics:
            self.offsets.setdefault(each.topic, {}).update(zip(each.partitions, each.offsets, strict=True))
        for topic, numbers in deleted:
            known = self.offsets.get(topic, {})
            for number in numbers:
                known.pop(number, None)
            if not known:
                self.offsets.pop(topic, None)

    def doubt(self, topics: Sequence[MirroredTopic]) -> None:
        """Take note of a write of which it is not known whether Kafka has taken it."""
        for each in topics:
            self.offsets.setdefault(each.topic, {}).update(dict.fromkeys(each.partitions, _DOUBTED))


MOST_OF_FORMER: Final = 20_000
"""Offsets of groups that are gone that are remembered of one shard: about two megabytes."""


class Former:
    """The offsets that Kafka has of groups of one shard that are gone here; the oldest go when there are too many."""

    def __init__(self) -> None:
        self._told: dict[str, Told] = {}
        self._offsets = 0

    def put(self, group_id: str, told: Told) -> None:
        """Remember what Kafka was told of a group that is gone now."""
        self.take(group_id)
        self._told[group_id] = told
        self._offsets += told.count
        while self._offsets > MOST_OF_FORMER:
            self.take(next(iter(self._told)))

    def take(self, group_id: str) -> Told:
        """Return what Kafka was told of a group, nothing if that is not known, and forget it here."""
        told = self._told.pop(group_id, None)
        if told is None:
            return Told()
        self._offsets -= told.count
        return told


@dataclass(slots=True)
class Difference:
    """The partitions of which Kafka lacks the offset, or has one too many."""

    topics: tuple[MirroredTopic, ...]
    deleted: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def is_none(self) -> bool:
        """True when Kafka lacks nothing."""
        return not (self.topics or self.deleted)


class Comparison:
    """One look at a group. With `is_whole` every offset counts as lacking."""

    def __init__(
        self,
        group_id: str,
        table_of: Callable[[], CommittedTable],
        id_of: Callable[[str], str | None],
        told: Told,
        *,
        is_whole: bool,
    ) -> None:
        self._record_bytes = _RECORD_BYTES + len(group_id.encode())
        self._table_of = table_of
        self._id_of = id_of
        self._told = told
        self._is_whole = is_whole
        # It does not refer to this object: one that is given up is freed without a round of the collector.
        self._pieces = _pieces(table_of, told.offsets)
        self._left: tuple[str, Sequence[int]] | None = None
        """The part of a piece that the last write had no room for."""
        self.is_over = False

    def go_on(self, most: int) -> tuple[int, Difference]:
        """Look at about so many partitions more; returns how many, and what Kafka lacks of them.

        Fewer are looked at where one write has no room for more.
        """
        looked, room = 0, _MOST_BYTES
        written: dict[str, list[_Row]] = {}
        deleted: dict[str, list[int]] = {}
        while looked < most and room > 0:
            piece = self._left or next(self._pieces, None)
            if piece is None:
                self.is_over = True
                break
            topic, numbers = piece
            seen, room = self._look(topic, numbers, room, written, deleted)
            self._left = (topic, numbers[seen:]) if seen < len(numbers) else None
            looked += seen
        return looked, Difference(
            tuple(_in_columns(topic, rows) for topic, rows in written.items()),
            tuple((topic, tuple(numbers)) for topic, numbers in deleted.items()),
        )

    def _look(
        self,
        topic: str,
        numbers: Sequence[int],
        room: int,
        written: dict[str, list[_Row]],
        deleted: dict[str, list[int]],
    ) -> tuple[int, int]:
        """Look at some partitions, until there is no room; returns how many, and the bytes that are left."""
        rows, topic_id = self._table_of().rows(topic), self._id_of(topic)
        known = self._told.offsets.get(topic, {})
        for seen, number in enumerate(numbers):
            if room <= 0:
                return seen, room
            row = rows.get(number)
            if row is None or not (topic_id is None or is_same_topic(row.topic_id, topic_id)):
                if number in known:
                    deleted.setdefault(topic, []).append(number)
                continue
            position = row.position_of(number)
            if self._is_whole or known.get(number) != position[0]:
                written.setdefault(topic, []).append((number, *position))
                room -= self._record_bytes + len(topic) + len(position[2].encode())
        return len(numbers), room


def _pieces(
    table_of: Callable[[], CommittedTable], told: Mapping[str, Mapping[int, int]]
) -> Iterator[tuple[str, list[int]]]:
    """Yield all partitions that either side has, some of a topic at a time."""
    for topic in list(dict.fromkeys(chain(table_of().topics(), told))):
        rows: Mapping[int, object] = table_of().rows(topic)
        numbers = [*rows, *(number for number in told.get(topic, ()) if number not in rows)]
        for begin in range(0, len(numbers), _PIECE):
            yield topic, numbers[begin : begin + _PIECE]


def _in_columns(topic: str, rows: Sequence[_Row]) -> MirroredTopic:
    numbers, offsets, leader_epochs, metadata = zip(*rows, strict=True)
    return MirroredTopic(topic, numbers, offsets, leader_epochs, metadata)
