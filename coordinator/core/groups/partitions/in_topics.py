"""Partitions in columns by topic, as records hold what is said of very many: a name once, not for each."""

from collections.abc import Iterable, Iterator

import msgspec

from coordinator.core.groups.partitions.partition_set import PartitionSet
from coordinator.core.groups.partitions.partition_table import TopicPartition, numbers_by_topic
from coordinator.protocol.parts import StartHint


class TopicNumbers(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Partitions of one topic."""

    topic: str
    partitions: tuple[int, ...]


def by_topic(partitions: Iterable[TopicPartition]) -> tuple[TopicNumbers, ...]:
    """Return partitions by topic, ascending."""
    numbers = numbers_by_topic(partitions)
    return tuple(TopicNumbers(topic, tuple(sorted(numbers[topic]))) for topic in sorted(numbers))


def columns_of(partitions: PartitionSet) -> tuple[TopicNumbers, ...]:
    """Return a set of partitions by topic, ascending."""
    return tuple([TopicNumbers(topic, tuple(numbers)) for topic, numbers in sorted(partitions.columns())])


def one_by_one(topics: Iterable[TopicNumbers]) -> Iterator[TopicPartition]:
    """Yield the partitions of topics."""
    for each in topics:
        for number in each.partitions:
            yield each.topic, number


class TopicHints(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Start hints of one topic and one kind, as StartHint has them one by one."""

    topic: str
    topic_id: str
    from_checkpoint: bool
    partitions: tuple[int, ...]
    offsets: tuple[int, ...]
    owner_epochs: tuple[int | None, ...] = ()
    """Empty where none has one."""


def hints_by_topic(hints: Iterable[StartHint]) -> tuple[TopicHints, ...]:
    """Return hints in columns; those of a topic stay in their order."""
    of_topic: dict[tuple[str, str, bool], list[StartHint]] = {}
    for hint in hints:
        of_topic.setdefault((hint.topic, hint.topic_id, hint.from_checkpoint), []).append(hint)
    return tuple(
        TopicHints(
            *key,
            tuple([hint.partition for hint in rows]),
            tuple([hint.offset for hint in rows]),
            tuple([hint.owner_epoch for hint in rows]) if any(hint.owner_epoch is not None for hint in rows) else (),
        )
        for key, rows in of_topic.items()
    )


def hint_at(each: TopicHints, place: int) -> StartHint:
    """Return one hint of columns."""
    owner_epoch = each.owner_epochs[place] if each.owner_epochs else None
    return StartHint(
        each.topic, each.topic_id, each.partitions[place], each.offsets[place], each.from_checkpoint, owner_epoch
    )
