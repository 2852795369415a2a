"""Partitions and exact ranges of their offsets, as they are planned for a read and fetched by it.

A range is half open, [start, end). The topic's id travels along, so that a topic deleted and made again under
its name is noticed instead of read. Stdlib only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["TopicPartition", "TopicRange"]

TopicPartition: TypeAlias = tuple[str, int]
"""The name of a topic and the number of one of its partitions."""


@dataclass(frozen=True, slots=True)
class TopicRange:
    """Offsets [start, end) of one partition; ``topic_id`` is a UUID in text form, None when Kafka gives none."""

    topic: str
    topic_id: str | None
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"
