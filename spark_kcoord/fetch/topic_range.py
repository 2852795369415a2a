"""An exact range of Kafka offsets, as it is planned for a read and fetched by it.

A range is half open, [start, end). The topic's id travels along, so that a topic deleted and made again under
its name is noticed instead of read. Stdlib only.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TopicRange"]


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
