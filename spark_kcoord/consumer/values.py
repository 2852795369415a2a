"""The values that a consumer takes and gives: kafka-python's own where it has them, so that programs can mix both.

`TopicPartition`, `OffsetAndMetadata`, `OffsetAndTimestamp` and `ConsumerRecord` are that library's named tuples, with
its fields in its order. A partition is equal to the plain tuple of its topic and number, by which it is known inside.
"""

from __future__ import annotations

from collections.abc import Collection

from kafka.consumer.fetcher import ConsumerRecord
from kafka.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

__all__ = [
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
]


class ConsumerRebalanceListener:
    """Told when partitions change hands, in calls of the consumer alone and on the thread that makes them.

    Each method gets a set of TopicPartition and may be left as it is. A method that raises ends the call it is told
    in, with its error; the hand-over is done all the same.
    """

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Take note that partitions are about to be given back: their offsets can still be committed."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Take note of partitions that came: they can be sought and paused, and nothing of them has been fetched."""

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Take note of partitions that are somebody else's already; unless overridden, as if they were revoked."""
        self.on_partitions_revoked(lost)
