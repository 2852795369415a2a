"""The progress of one range, and what to make of what brokers say about it: no connection, no waiting.

A range is done when its position has reached its end, whether or not its last offsets hold records, so a read never
hangs on transaction markers or compacted holes. What may pass by itself is retried until the time without progress
is over. What is data loss (offsets the log no longer has, a history that changed under the reader, a topic deleted
or made again) fails the read, or is a warning and skipped. That a topic is gone metadata says alone: a leader that does
not know it may just have been started, and has the records.

Offsets hold nothing only where that is proven, and two things prove it. A batch does that begins after them: a broker
sends the first batch at or after the offset asked for. Where there is no such batch below the readable end, because
compaction took all of them, the answer is empty; so it is while a remote tier (KIP-405) is slow or over its quota,
however often it is asked. An empty answer proves that there is nothing only if its leader read its own disk, where it
knows all there is: so the leader is asked where its own part of the log begins (`ListOffsets` for -4), after the
answer, since that offset only grows while it leads. At or below the position, the answer was a local one and whole;
above it, or unknown, the answer tells nothing, and neither do answers of other replicas, those that were full before
the partition had its turn, and those of a broker that throttles. That question names a topic by its name; so the range
ends with one more empty answer to a fetch by the topic's id, which a topic made again meanwhile does not give.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import kafka.errors as kafka_errors

from spark_kcoord.errors import DataLossError, KafkaAwayError, KcoordError
from spark_kcoord.fetch.connection import Backoff, unreachable
from spark_kcoord.fetch.decoding.decode import AbortedTransaction, end_of
from spark_kcoord.fetch.requests import NO_EPOCH, NO_REPLICA, UNKNOWN_OFFSET, PartAnswer
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.kafka_settings import KafkaSettings

__all__ = ["TOPIC_GONE", "RangeProgress", "RawPart"]

_log = logging.getLogger(__name__)

_TOPIC_GRACE_S: Final = 5.0
"""Brokers learn of a new or deleted topic at different moments."""
_SMALLEST_SHARE: Final = 64 << 10
_SHARE_GROWS: Final = 8

TOPIC_GONE: Final = frozenset({3, 100, 103})
"""UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID: in metadata, that the topic is gone."""
_OUT_OF_RANGE: Final = kafka_errors.OffsetOutOfRangeError.errno
_UNKNOWN: Final = kafka_errors.UnknownError.errno
"""A broker's failure without a number of its own, such as that of a remote tier: it may pass."""


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
    asked for. ``last_epoch`` is the leader epoch of what was read last. ``is_in_doubt`` says that the leader gave
    nothing and is to be asked where the log on its own disk begins, see ``settle``; ``needs_leader`` that a replica
    gave nothing or failed again and again, so that from now on only the leader is asked.
    """

    __slots__ = (
        "_backoff",
        "_doubted_at",
        "_fail_on_data_loss",
        "_gone_since",
        "_hole_at",
        "_is_late",
        "_least_bytes",
        "_local_start",
        "_log_start",
        "_readable_end",
        "_settings",
        "_stalled_since",
        "_timeout_s",
        "_uniform",
        "is_in_doubt",
        "last_epoch",
        "needs_leader",
        "position",
        "ready_at",
        "replica",
        "wanted",
    )

    def __init__(
        self,
        wanted: TopicRange,
        settings: KafkaSettings,
        *,
        fail_on_data_loss: bool,
        timeout_s: float,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.wanted = wanted
        self.position = wanted.start
        self.replica = NO_REPLICA
        self.last_epoch = NO_EPOCH
        self.ready_at = 0.0
        self.is_in_doubt = False
        self.needs_leader = False
        self._settings = settings
        self._fail_on_data_loss = fail_on_data_loss
        self._timeout_s = timeout_s
        self._uniform = uniform
        self._least_bytes = _SMALLEST_SHARE
        self._doubted_at = UNKNOWN_OFFSET
        self._hole_at = UNKNOWN_OFFSET
        self._local_start: int | None = None
        self._log_start = UNKNOWN_OFFSET
        self._readable_end = UNKNOWN_OFFSET
        self._stalled_since: float | None = None
        self._gone_since: float | None = None
        self._is_late = False
        """True if metadata said that the topic is gone when the time was over already."""
        self._backoff: Backoff | None = None

    @property
    def where(self) -> str:
        """The partition, for people."""
        return f"topic '{self.wanted.topic}' partition {self.wanted.partition}"

    @property
    def is_done(self) -> bool:
        """True if everything of the range has been received or is known to be nowhere."""
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
        self._gone_since = None  # metadata has named the topic, or nobody had been asked
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
        self._stalled_since = None
        self._backoff = None
        return part

    def wait(self, seconds: float, now: float) -> None:
        """Let the broker have a pause it asked for; that is not time without progress."""
        self.ready_at = now + seconds
        if self._stalled_since is not None:
            self._stalled_since += seconds

    def fail(self, error: kafka_errors.KafkaError, now: float) -> bool:
        """Note a failure; returns whether the log must be asked what offsets it has, see ``compare``.

        Raises KcoordError for what does not pass, or not within the time-out.
        """
        errno = getattr(error, "errno", None)
        is_out_of_range = errno == _OUT_OF_RANGE
        is_from_leader = self.replica == NO_REPLICA
        # The leader would go on sending its reader to a replica that only the reader cannot reach.
        self.needs_leader = self.needs_leader or not (is_from_leader or self._stalled_since is None)
        self.replica = NO_REPLICA
        self._gone_since = None
        if is_out_of_range and is_from_leader:
            return True
        if not is_out_of_range and errno != _UNKNOWN and errno not in TOPIC_GONE and not error.retriable:
            raise self._failure(error)
        if self._is_stalled(now):
            if self._doubted_at == self.position:
                raise self._unproven() from error
            raise self._unknown_to_leader(error) if errno in TOPIC_GONE else self._failure(error)
        self.ready_at = now if is_out_of_range else now + self._next_wait_s()
        return False

    def miss(self, error: kafka_errors.KafkaError, now: float) -> None:
        """Note that metadata does not have the partition of the very topic: the range is given up where that lasts.

        Brokers learn of topics at different moments. So it has to last some seconds where a loss fails the read, since
        that can be read again, and until the time-out is over where it is passed over. While others of a task are read
        metadata may be asked so late that the time is over by then: once the seconds are waited for all the same.
        Raises DataLossError, and KcoordError when the time is over and metadata says so now and then.
        """
        self.replica = NO_REPLICA
        is_news = self._gone_since is None
        self._gone_since = now if self._gone_since is None else self._gone_since
        is_stalled = self._is_stalled(now)
        is_lasting = now - self._gone_since > min(_TOPIC_GRACE_S, self._timeout_s / 4)
        if is_lasting and (self._fail_on_data_loss or is_stalled):
            self._lose(f"the topic was deleted or made again; [{self.position}, {self.wanted.end}) is gone")
            self.position = self.wanted.end
        elif is_stalled and is_news and self._is_late:
            raise self._failure(error)
        else:
            self._is_late = is_stalled
            self.ready_at = now + self._next_wait_s()

    def compare(self, first: int, end: int, now: float) -> None:
        """Go on, after an offset was out of range, where the log [first, end) has offsets of this range.

        Raises KafkaAwayError where it has the offset itself and the time-out is over: nothing is lost then.
        """
        # A leader that has just been elected may not know its own end yet: then asking again is enough.
        is_stalled = self._is_stalled(now)
        if first <= self.position <= end and not is_stalled:
            self.ready_at = now + self._next_wait_s()
            return
        if first <= self.position < end:
            raise KafkaAwayError(
                f"{self.where}: offset {self.position} of [{self.wanted.start}, {self.wanted.end}) cannot be read. Its "
                f"leader says that it is out of range, although its log has [{first}, {end}), and nothing was read for "
                f"{self._timeout_s:g} s. Nothing was skipped. Look at the brokers, or raise "
                "'kafkaConsumer.pollTimeoutMs' (in a consumer 'fetch_timeout_ms')."
            )
        self._lose(
            f"offset {self.position} of [{self.wanted.start}, {self.wanted.end}) is gone; "
            f"the log has [{first}, {end}) now"
        )
        self.position = min(first, self.wanted.end) if self.position < first else self.wanted.end
        self.last_epoch = NO_EPOCH

    def settle(self, local_start: int | None, now: float) -> None:
        """Note where the leader's own part of the log begins, asked for after it gave nothing; None when unanswered.

        The offset is asked for again: once more if that proves that nothing is left of the range, else until the
        time-out is over. Then KafkaAwayError is raised: records that may be there are never skipped.
        """
        self.is_in_doubt = False
        self._local_start = local_start
        if local_start is not None and local_start <= self.position:
            self._hole_at = self.position
        elif self._is_stalled(now):
            raise self._unproven()
        else:
            self.ready_at = now + self._next_wait_s()

    def settle_without_tiers(self, now: float) -> None:
        """Note that the leader does not know the question that ``settle`` is about, so that nothing is ever proven.

        When the time-out is over the rest of the range is given up as data loss.
        """
        self.is_in_doubt = False
        if self._is_stalled(now):
            self._lose(
                f"{self._gave_nothing()}, and its version of Kafka cannot say whether there is nothing: it does not "
                "answer where its local log begins (ListOffsets 8, Kafka 3.5)"
            )
            self.position = self.wanted.end
        else:
            self.ready_at = now + self._next_wait_s()

    def _take_divergence(self, diverged_at: int) -> None:
        """Records read from ``diverged_at`` on have been replaced by others; go on with what follows.

        The log of a replica may just be shorter, as after a crash of its broker: then the leader is asked.
        """
        if self.replica != NO_REPLICA:
            self.replica, self.needs_leader = NO_REPLICA, True
            return
        self._lose(
            f"the log was cut back to offset {diverged_at} by a change of leader (an unclean election), so what was "
            f"read from there up to offset {self.position} is in Kafka no more"
        )
        self.last_epoch = NO_EPOCH

    def _take_nothing(self, answer: PartAnswer, now: float) -> None:
        """Note an empty answer, which by itself never ends the range while there may be records."""
        if not answer.had_its_turn:
            # The broker was busy with the partitions before this one: no time of its own has passed.
            self._stalled_since = None
            if answer.is_share_small:
                self._least_bytes = min(self._least_bytes * _SHARE_GROWS, self._settings.max_partition_fetch_bytes)
            return
        if answer.records:
            raise KcoordError(
                f"{self.where}: Kafka sent {len(answer.records)} bytes for offset {self.position} without one "
                "whole record batch. Raise 'kafka.max.partition.fetch.bytes' and 'kafka.fetch.max.bytes'."
            )
        is_stalled = self._is_stalled(now)
        if answer.readable_end >= self.wanted.end and self._hole_at == self.position:
            _log.info("%s: no records from offset %d to %d", self.where, self.position, self.wanted.end)
            self.position = self.wanted.end
            return
        is_from_leader = self.replica == NO_REPLICA
        # A replica may lag behind its leader, also for as long as anybody waits: it says nothing of the log's end.
        self.needs_leader = self.needs_leader or not is_from_leader
        self.replica = NO_REPLICA
        if answer.readable_end >= self.wanted.end:
            self._doubted_at, self._local_start = self.position, None
            self._log_start, self._readable_end = answer.log_start, answer.readable_end
            self.is_in_doubt = is_from_leader
            return
        if is_stalled and is_from_leader:
            self._lose(
                f"its log can be read up to offset {answer.readable_end} only, but records up to "
                f"{self.wanted.end} are wanted (waited {self._timeout_s:g} s at offset {self.position})"
            )
            self.position = self.wanted.end

    def _gave_nothing(self) -> str:
        """Return what was asked for in vain, for people: partition's position, both ends, and for how long."""
        first = self._log_start if self._log_start != UNKNOWN_OFFSET else "?"
        return (
            f"Kafka gave no records and no error for {self._timeout_s:g} s at offset {self.position} of "
            f"[{self.wanted.start}, {self.wanted.end}), although its log [{first}, {self._readable_end}) can be read"
        )

    def _unproven(self) -> KafkaAwayError:
        """Return the error for records that may be there but were not sent within the time-out."""
        if self._local_start is None:
            why = "Nobody answered where the log on the leader's own disk begins, so nothing tells that they are gone"
        else:
            why = (
                f"The leader's own disk has offsets from {self._local_start} on only: older ones are in the remote "
                "tier, which is slow or over its quota ('remote.fetch.max.wait.ms' and "
                "'remote.log.manager.fetch.max.bytes.per.second' of the brokers)"
            )
        return KafkaAwayError(
            f"{self.where}: {self._gave_nothing()}. {why}. Nothing was skipped. Look at the brokers, or raise "
            "'kafkaConsumer.pollTimeoutMs' (in a consumer 'fetch_timeout_ms')."
        )

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

    def _unknown_to_leader(self, error: kafka_errors.KafkaError) -> KafkaAwayError:
        failure = KafkaAwayError(
            f"{self.where}: offset {self.position} of [{self.wanted.start}, {self.wanted.end}) cannot be read. Its "
            f"leader says {type(error).__name__}, although metadata names the topic, and nothing was read for "
            f"{self._timeout_s:g} s. Nothing was skipped. Look at the brokers, or raise "
            "'kafkaConsumer.pollTimeoutMs' (in a consumer 'fetch_timeout_ms')."
        )
        failure.__cause__ = error
        return failure

    def _failure(self, error: kafka_errors.KafkaError) -> KcoordError:
        why = unreachable(self._settings, self._timeout_s, error)
        failure = KcoordError(f"{self.where}: offset {self.position} cannot be read. {why}")
        failure.__cause__ = error
        return failure

    def _next_wait_s(self) -> float:
        """Return how long to wait after one more failure without progress."""
        if self._backoff is None:
            self._backoff = Backoff(self._settings.retry_backoff_ms / 1000, float("inf"), self._uniform)
        return self._backoff.next_wait()
