"""End offsets that are at most a little old, of the Kafka cluster that the coordinator works for.

Spark asks an idle query about every 11 ms; the brokers are asked less often, and the less the longer they take.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from spark_kcoord.errors import KafkaAwayError, KcoordError, UnknownTopicError
from spark_kcoord.fetch.offsets import KafkaLookup
from spark_kcoord.fetch.topic_range import TopicPartition
from spark_kcoord.source.resolve import must_be_same_cluster

__all__ = ["RecentEnds"]

_log = logging.getLogger(__name__)

_AGE_S: Final = (0.025, 0.5)
_AGE_PER_ANSWER: Final = 10
"""The ends may be this many times as old as the answer took, within the bounds: asking takes a tenth of the time."""

_LOG_ENDS_AGE_S: Final = 1.0


class RecentEnds:
    """The ends of a member's partitions, remembered for a moment."""

    def __init__(self, lookup: KafkaLookup, cluster_id: str | None, servers: Sequence[str]) -> None:
        self._lookup = lookup
        self._cluster_id = cluster_id
        self._servers = servers
        self._asked_at = float("-inf")
        self._asked_of: Sequence[TopicPartition] = ()
        self._max_age_s = 0.0
        self._ends: dict[TopicPartition, int] = {}
        self._log_ends: dict[TopicPartition, int] = {}
        self._log_ends_asked_at = float("-inf")
        self._refused: set[str] = set()

    def end_offsets(
        self, partitions: Sequence[TopicPartition], *, timeout_s: float | None = None
    ) -> Mapping[TopicPartition, int]:
        """Return the ends, asking the brokers when the last answer is too old or of other partitions.

        While nothing changes it is the same object, by which who makes something of many ends can tell.
        """
        now = time.monotonic()
        if now - self._asked_at >= self._max_age_s or not self._has(partitions):
            ends = self._lookup.end_offsets(partitions, timeout_s=timeout_s)
            if ends != self._ends:
                self._ends = ends
            self._asked_of = partitions
            must_be_same_cluster(self._cluster_id, self._lookup.cluster_id, self._servers)
            self._read_log_ends(partitions)
            self._asked_at = time.monotonic()
            shortest_s, longest_s = _AGE_S
            self._max_age_s = min(longest_s, max(shortest_s, (self._asked_at - now) * _AGE_PER_ANSWER))
        if len(partitions) == len(self._ends):
            return self._ends
        return {key: self._ends[key] for key in partitions if key in self._ends}

    def _has(self, partitions: Sequence[TopicPartition]) -> bool:
        """True when the last answer was of these partitions; an idle query asks about the same ones all the time."""
        return partitions is self._asked_of or all(key in self._ends for key in partitions)

    def log_ends(self) -> Mapping[TopicPartition, int]:
        """Return where the logs end, by which lag is counted, as last known and without asking."""
        return self._log_ends if self._lookup.is_read_committed else self._ends

    def _read_log_ends(self, partitions: Sequence[TopicPartition]) -> None:
        """Ask where the logs end whose open transactions are not read, now and then."""
        if not self._lookup.is_read_committed or time.monotonic() - self._log_ends_asked_at < _LOG_ENDS_AGE_S:
            return
        self._log_ends_asked_at = time.monotonic()
        with suppress(KafkaAwayError, UnknownTopicError):
            self._log_ends = self._lookup.high_watermarks(partitions)

    def high_watermarks(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return where the logs end whatever the isolation level, always asking the brokers."""
        return self._lookup.high_watermarks(partitions)

    def earliest_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offset of each partition, always asking the brokers."""
        return self._lookup.earliest_offsets(partitions)

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Return the id of each topic that exists, always asking the brokers; empty where they name none.

        A topic that they refuse to describe counts as one that exists; raises KcoordError where they refuse everything.
        """
        wanted = set(topics)
        while wanted:
            try:
                return {name: found.topic_id or "" for name, found in self._lookup.topics(sorted(wanted)).items()}
            except UnknownTopicError as error:
                wanted.difference_update(error.topics)
            except KafkaAwayError:
                raise
            except KcoordError as error:
                self._lookup.topics(())  # a log-in that is refused says nothing about a topic
                if len(wanted) > 1:
                    return {key: found for name in sorted(wanted) for key, found in self.topic_ids([name]).items()}
                for name in wanted:
                    self._say_refused(name, error)
                return dict.fromkeys(wanted, "")
        return {}

    def _say_refused(self, topic: str, error: KcoordError) -> None:
        """Say once of a topic that Kafka does not tell of it: the query goes on with what else it reads."""
        if topic not in self._refused:
            self._refused.add(topic)
            _log.warning("Whether topic '%s' was deleted cannot be known, and the query goes on: %s", topic, error)

    def bytes_per_offset(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, float]:
        """Return how many bytes an offset takes at each position, always asking the brokers."""
        return self._lookup.bytes_per_offset(positions)

    def close(self) -> None:
        """Close the connections to Kafka."""
        self._lookup.close()
