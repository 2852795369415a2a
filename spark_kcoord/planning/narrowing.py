"""The part of a read that filters leave: bounds on topics, partitions, offsets and time. Pure values without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from spark_kcoord.fetch.topic_range import TopicRange

__all__ = ["Narrowing"]


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Bounds, each None where there is none; the greatest partition and offset are included.

    `since_ms` says that records before the first one that is as late are not wanted.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    least_partition: int | None = None
    greatest_partition: int | None = None
    least_offset: int | None = None
    greatest_offset: int | None = None
    since_ms: int | None = None

    def only_topics(self, names: Iterable[str]) -> Narrowing:
        """Return this with other topics left out too."""
        names = frozenset(names)
        return replace(self, topics=names if self.topics is None else self.topics & names)

    def only_partitions(self, numbers: Iterable[int]) -> Narrowing:
        """Return this with other partitions left out too."""
        numbers = frozenset(numbers)
        return replace(self, partitions=numbers if self.partitions is None else self.partitions & numbers)

    def partitions_between(self, least: int | None, greatest: int | None) -> Narrowing:
        """Return this with partitions outside of the bounds left out too."""
        return replace(
            self,
            least_partition=_greater(self.least_partition, least),
            greatest_partition=_lesser(self.greatest_partition, greatest),
        )

    def offsets_between(self, least: int | None, greatest: int | None) -> Narrowing:
        """Return this with offsets outside of the bounds left out too."""
        return replace(
            self,
            least_offset=_greater(self.least_offset, least),
            greatest_offset=_lesser(self.greatest_offset, greatest),
        )

    def apply(self, whole: TopicRange) -> TopicRange | None:
        """Return what is left of a range by everything but the time, or None when nothing is."""
        is_outside = (
            (self.topics is not None and whole.topic not in self.topics)
            or (self.partitions is not None and whole.partition not in self.partitions)
            or (self.least_partition is not None and whole.partition < self.least_partition)
            or (self.greatest_partition is not None and whole.partition > self.greatest_partition)
        )
        start = whole.start if self.least_offset is None else max(whole.start, self.least_offset)
        end = whole.end if self.greatest_offset is None else min(whole.end, self.greatest_offset + 1)
        return None if is_outside or start >= end else replace(whole, start=start, end=end)


def _greater(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else max(one, other)


def _lesser(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else min(one, other)
