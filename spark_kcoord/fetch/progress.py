"""How far one range has been read and what to make of what brokers say about it: no connection, no waiting.

A range is done when its position has reached its end, whether or not its last offsets hold records, so a read never
hangs on transaction markers or compacted holes. What may pass by itself is retried until the time without progress
is over. What is data loss (offsets the log no longer has, a history that changed under the reader, a topic deleted
or made again) fails the read, or is a warning and skipped.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

import kafka.errors as kafka_errors

from spark_kcoord.errors import DataLossError, KcoordError
from spark_kcoord.fetch.connection import Backoff, unreachable
from spark_kcoord.fetch.decode import AbortedTransaction, end_of
from spark_kcoord.fetch.requests import NO_EPOCH, NO_REPLICA, PartAnswer
from spark_kcoord.kafka_options import KafkaSettings
from spark_kcoord.partition import TopicRange

__all__ = ["RangeProgress", "RawPart"]

_log = logging.getLogger(__name__)

_EMPTY_ANSWERS_PROVE: Final = 3
"""So many empty answers in a row mean that there is nothing; one may come from a broker that is catching up."""
_TOPIC_GRACE_S: Final = 5.0
"""Brokers learn of a new or deleted topic at different moments."""
_SMALLEST_SHARE: Final = 64 << 10
_SHARE_GROWS: Final = 8

_TOPIC_GONE: Final = frozenset({3, 100, 103})
"""UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID."""
_OUT_OF_RANGE: Final = kafka_errors.OffsetOutOfRangeError.errno


@dataclass(frozen=True, slots=True)
class RawPart:
    """Raw records to decode: the offsets [start, end) of a partition."""

    topic: str
    partition: int
    start: int
    end: int
    records: bytes | memoryview
    aborted: tuple[AbortedTransaction, ...] | None


class RangeProgress:
    """One range while it is read; ``position`` is the next offset to ask for.

    ``replica`` is the broker to read from in place of the leader. Before ``ready_at`` (monotonic clock) it is not
    asked for again. ``last_epoch`` is the leader epoch of what was read last.
    """

    __slots__ = (
        "_backoff",
        "_empty_answers",
        "_fail_on_data_loss",
        "_gone_since",
        "_least_bytes",
        "_settings",
        "_stalled_since",
        "_timeout_s",
        "last_epoch",
        "position",
        "ready_at",
        "replica",
        "wanted",
    )

    def __init__(
        self, wanted: TopicRange, settings: KafkaSettings, *, fail_on_data_loss: bool, timeout_s: float
    ) -> None:
        self.wanted = wanted
        self.position = wanted.start
        self.replica = NO_REPLICA
        self.last_epoch = NO_EPOCH
        self.ready_at = 0.0
        self._settings = settings
        self._fail_on_data_loss = fail_on_data_loss
        self._timeout_s = timeout_s
        self._least_bytes = _SMALLEST_SHARE
        self._empty_answers = 0
        self._stalled_since: float | None = None
        self._gone_since: float | None = None
        self._backoff: Backoff | None = None

    @property
    def where(self) -> str:
        """Which partition it is, for people."""
        return f"topic '{self.wanted.topic}' partition {self.wanted.partition}"

    @property
    def is_done(self) -> bool:
        """Whether everything of the range has been received or is known to be nowhere."""
        return self.position >= self.wanted.end

    def most_bytes(self, bytes_per_offset: float) -> int:
        """Return how many bytes to ask for: about what the range still holds, so that little comes in vain."""
        likely = int((self.wanted.end - self.position) * bytes_per_offset)
        return min(self._settings.max_partition_fetch_bytes, max(likely, self._least_bytes))

    def patience_s(self, now: float) -> float:
        """Return for how long an answer may still be awaited."""
        return self._timeout_s - (now - self._stalled_since if self._stalled_since is not None else 0.0)

    def take(self, answer: PartAnswer, now: float) -> RawPart | None:
        """Note an answer without an error; returns what there is to decode."""
        if answer.preferred_replica >= 0:
            self.replica = answer.preferred_replica
            return None
        if answer.diverged_at is not None:
            self._take_divergence(answer.diverged_at)
            return None
        records_end = end_of(answer.records, self.where)
        if records_end is None or records_end.next_offset <= self.position:
            self._take_nothing(answer, now)
            return None
        part = RawPart(
            topic=self.wanted.topic,
            partition=self.wanted.partition,
            start=self.position,
            end=min(records_end.next_offset, self.wanted.end),
            records=answer.records,
            aborted=answer.aborted,
        )
        self.position = records_end.next_offset
        self.last_epoch = records_end.leader_epoch
        self._empty_answers = 0
        self._stalled_since = self._gone_since = None
        self._backoff = None
        return part

    def wait(self, seconds: float, now: float) -> None:
        """Let the broker have a pause it asked for; that is not time without progress."""
        self.ready_at = now + seconds
        if self._stalled_since is not None:
            self._stalled_since += seconds

    def fail(self, error: kafka_errors.KafkaError, now: float) -> bool:
        """Note a failure; returns whether the log must be asked what offsets it has, see ``compare``.

        Raises KcoordError for what does not pass, or not within the time-out; DataLossError for a topic that is gone.
        """
        errno = getattr(error, "errno", None)
        is_out_of_range = errno == _OUT_OF_RANGE
        is_from_leader = self.replica == NO_REPLICA
        self.replica = NO_REPLICA
        if is_out_of_range and is_from_leader:
            return True
        if errno in _TOPIC_GONE:
            self._gone_since = now if self._gone_since is None else self._gone_since
            if now - self._gone_since > min(_TOPIC_GRACE_S, self._timeout_s / 4):
                self.lose_topic()
                return False
        else:
            self._gone_since = None
            if not is_out_of_range and not error.retriable:
                raise self._failure(error)
        if self._is_stalled(now):
            raise self._failure(error)
        self.ready_at = now if is_out_of_range else now + self._next_wait_s()
        return False

    def compare(self, first: int, end: int, now: float) -> None:
        """Go on, after an offset was out of range, where the log [first, end) has offsets of this range."""
        # A leader that has just been elected may not know its own end yet: then asking again is enough.
        if first <= self.position <= end and not self._is_stalled(now):
            self.ready_at = now + self._next_wait_s()
            return
        self._lose(
            f"offset {self.position} of [{self.wanted.start}, {self.wanted.end}) is gone; "
            f"the log has [{first}, {end}) now"
        )
        self.position = min(first, self.wanted.end) if self.position < first else self.wanted.end
        self.last_epoch = NO_EPOCH

    def lose_topic(self) -> None:
        """Give the rest of the range up: its topic is not there any more."""
        self._lose(f"the topic was deleted or made again; [{self.position}, {self.wanted.end}) is gone")
        self.position = self.wanted.end

    def _take_divergence(self, diverged_at: int) -> None:
        """What was read from ``diverged_at`` on has been replaced by other records; go on with what follows."""
        self._lose(
            f"the log was cut back to offset {diverged_at} by a change of leader (an unclean election), so what was "
            f"read from there up to offset {self.position} is in Kafka no more"
        )
        self.last_epoch = NO_EPOCH

    def _take_nothing(self, answer: PartAnswer, now: float) -> None:
        """Count empty answers that prove something; they end the range when nothing can come."""
        if not answer.is_proof:
            if answer.is_share_small:
                self._least_bytes = min(self._least_bytes * _SHARE_GROWS, self._settings.max_partition_fetch_bytes)
            return
        if answer.records:
            raise KcoordError(
                f"{self.where}: Kafka sent {len(answer.records)} bytes for offset {self.position} without one "
                "whole record batch. Raise 'kafka.max.partition.fetch.bytes' and 'kafka.fetch.max.bytes'."
            )
        if answer.readable_end >= self.wanted.end:
            self._empty_answers += 1
            if self._empty_answers >= _EMPTY_ANSWERS_PROVE:
                _log.info("%s: no records from offset %d to %d", self.where, self.position, self.wanted.end)
                self.position = self.wanted.end
            return
        self._empty_answers = 0
        if self._is_stalled(now):
            self._lose(
                f"its log can be read up to offset {answer.readable_end} only, but records up to "
                f"{self.wanted.end} are wanted (waited {self._timeout_s:g} s at offset {self.position})"
            )
            self.position = self.wanted.end

    def _is_stalled(self, now: float) -> bool:
        """Return whether there has been no progress for too long, counted from the first call on."""
        self._stalled_since = now if self._stalled_since is None else self._stalled_since
        return now - self._stalled_since >= self._timeout_s

    def _lose(self, what: str) -> None:
        """Raise DataLossError, or log a warning when losses do not fail the read."""
        if self._fail_on_data_loss:
            raise DataLossError(
                f"{self.where}: {what}. Records may have aged out or the topic may have been deleted. Set "
                "'failOnDataLoss' to false to go on with what is left."
            )
        _log.warning("%s: data loss: %s", self.where, what)

    def _failure(self, error: kafka_errors.KafkaError) -> KcoordError:
        why = unreachable(self._settings, self._timeout_s, error)
        failure = KcoordError(f"{self.where}: offset {self.position} cannot be read. {why}")
        failure.__cause__ = error
        return failure

    def _next_wait_s(self) -> float:
        """Return how long to wait after one more failure without progress."""
        if self._backoff is None:
            self._backoff = Backoff(self._settings.retry_backoff_ms / 1000, float("inf"))
        return self._backoff.next_wait()
