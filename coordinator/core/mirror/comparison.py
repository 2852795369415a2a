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
_DOUBTED: Final = -1
"""In the place of an offset: Kafka has one, perhaps, and another one than ever was committed."""

_Row: TypeAlias = tuple[int, int, int | None, str]
"""Partition, offset, leader epoch, metadata."""


@dataclass(slots=True)
class Told:
    """The offsets that Kafka has of a group as far as is known here, by topic and partition."""

    offsets: dict[str, dict[int, int]] = field(default_factory=dict)

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
        self, table_of: Callable[[], CommittedTable], id_of: Callable[[str], str | None], told: Told, *, is_whole: bool
    ) -> None:
        self._table_of = table_of
        self._id_of = id_of
        self._told = told
        self._is_whole = is_whole
        # It does not refer to this object: one that is given up is freed without a round of the collector.
        self._pieces = _pieces(table_of, told.offsets)
        self.is_over = False

    def go_on(self, most: int) -> tuple[int, Difference]:
        """Look at about so many partitions more; returns how many, and what Kafka lacks of them."""
        looked = 0
        written: dict[str, list[_Row]] = {}
        deleted: dict[str, list[int]] = {}
        for topic, numbers in self._pieces:
            self._look(topic, numbers, written, deleted)
            looked += len(numbers)
            if looked >= most:
                break
        else:
            self.is_over = True
        return looked, Difference(
            tuple(_in_columns(topic, rows) for topic, rows in written.items()),
            tuple((topic, tuple(numbers)) for topic, numbers in deleted.items()),
        )

    def _look(
        self,
        topic: str,
        numbers: Sequence[int],
        written: dict[str, list[_Row]],
        deleted: dict[str, list[int]],
    ) -> None:
        rows, topic_id = self._table_of().rows(topic), self._id_of(topic)
        known = self._told.offsets.get(topic, {})
        for number in numbers:
            row = rows.get(number)
            if row is None or not (topic_id is None or is_same_topic(row.topic_id, topic_id)):
                if number in known:
                    deleted.setdefault(topic, []).append(number)
                continue
            position = row.position_of(number)
            if self._is_whole or known.get(number) != position[0]:
                written.setdefault(topic, []).append((number, *position))


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
