"""Offsets to commit, one by one and in the columns in which they are sent.

A member commits all its partitions over and over: columns are shorter than a list of values, and read and looked at
sooner.
"""

from collections.abc import Iterable, Iterator
from itertools import repeat

import msgspec

from coordinator.protocol.parts import PartitionResult, TopicOffsets


class OffsetToCommit(msgspec.Struct, frozen=True, gc=False):
    """An offset to commit: the next one to read. Without an owner epoch only for a partition that nobody owns.

    Then `topic_id` says of which life of the topic it is, where that is known.
    """

    topic: str
    partition: int
    offset: int
    owner_epoch: int | None = None
    leader_epoch: int | None = None
    metadata: str = ""
    topic_id: str = ""


def in_columns(offsets: Iterable[OffsetToCommit]) -> tuple[TopicOffsets, ...]:
    """Return offsets by topic, each topic's by ascending partition; those of one partition stay in their order."""
    by_topic: dict[tuple[str, str], list[OffsetToCommit]] = {}
    for each in offsets:
        by_topic.setdefault((each.topic, each.topic_id), []).append(each)
    return tuple(_of_topic(*topic, rows) for topic, rows in by_topic.items())


def _of_topic(topic: str, topic_id: str, rows: list[OffsetToCommit]) -> TopicOffsets:
    rows.sort(key=lambda row: row.partition)
    return TopicOffsets(
        topic,
        tuple(row.partition for row in rows),
        tuple(row.offset for row in rows),
        tuple(row.owner_epoch for row in rows) if any(row.owner_epoch is not None for row in rows) else (),
        tuple(row.leader_epoch for row in rows) if any(row.leader_epoch is not None for row in rows) else (),
        tuple(row.metadata for row in rows) if any(row.metadata for row in rows) else (),
        topic_id,
    )


def results_of(asked: Iterable[OffsetToCommit], refused: Iterable[PartitionResult]) -> tuple[PartitionResult, ...]:
    """Return a result for each offset, in order, of an answer that names the refused; a partition has one for all."""
    why_not = {(result.topic, result.partition): result for result in refused}
    return tuple(
        why_not.get((each.topic, each.partition)) or PartitionResult(each.topic, each.partition, committed=each.offset)
        for each in asked
    )


def one_by_one(columns: Iterable[TopicOffsets]) -> Iterator[OffsetToCommit]:
    """Yield the offsets of columns, in their order."""
    for each in columns:
        for row in zip(
            each.partitions,
            each.offsets,
            each.owner_epochs or repeat(None),
            each.leader_epochs or repeat(None),
            each.metadata or repeat(""),
            strict=False,
        ):
            yield OffsetToCommit(each.topic, *row, each.topic_id)
