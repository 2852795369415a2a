"""The ranges of one Spark task, as the planning process of a read hands them to a worker.

The servers travel here because a batch reader is pickled before they are known; secrets do not, since Spark prints
input partitions.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from spark_kcoord.fetch.topic_range import TopicRange

__all__ = ["KcoordInputPartition"]


@dataclass(frozen=True)
class KcoordInputPartition(InputPartition):  # type: ignore[misc]  # pyspark is untyped
    """The ranges of one task and the Kafka servers to read them from."""

    ranges: tuple[TopicRange, ...]
    servers: tuple[str, ...]
