"""What one Spark task reads: exact ranges of Kafka offsets, nothing else.

A range is half open, [start, end). The topic's id travels along, so that a topic deleted and made again under
its name is noticed instead of read. The servers travel here because a batch reader is pickled before they are
known; secrets do not, since Spark prints input partitions.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

__all__ = ["KcoordInputPartition", "TopicRange"]


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


@dataclass(frozen=True)
class KcoordInputPartition(InputPartition):  # type: ignore[misc]  # pyspark is untyped
    """The ranges of one task and the Kafka servers to read them from."""

    ranges: tuple[TopicRange, ...]
    servers: tuple[str, ...]
