"""Reading exact ranges of Kafka offsets on an executor, as a stream of Arrow record batches.

A range is finished when the fetch position has reached its end, whether or not its last offsets hold records,
so a read never hangs on transaction markers or compacted holes. Every row of a range is returned once, in
order. What is retried: leaders that move, brokers that restart, time-outs, each for a bounded time without
progress. What is data loss: offsets the log no longer has, a topic deleted or made again; it fails, or warns
and skips. One raw record set and its decoded rows are in memory at a time, plus one answer on its way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import UUID

import kafka.errors as kafka_errors
import pyarrow as pa
from kafka.protocol.consumer import FetchRequest

from spark_kcoord.errors import DataLossError, KcoordError, UnknownTopicError
from spark_kcoord.fetch.connection import Backoff, KafkaClient, describe_failure, unreachable
from spark_kcoord.fetch.decode import AbortedTransaction, decode, end_of
from spark_kcoord.fetch.offsets import list_offsets
from spark_kcoord.fetch.pool import POOL, ClientPool
from spark_kcoord.kafka_options import KafkaSettings
from spark_kcoord.offset_specs import EARLIEST_POSITION, LATEST_POSITION
from spark_kcoord.partition import TopicRange

__all__ = ["read_ranges"]

_log = logging.getLogger(__name__)

# Version 4 is the first with isolation levels (Kafka 0.11); from 13 on topics go by id.
_FETCH_MIN_VERSION: Final = 4
_FETCH_MAX_VERSION_BY_NAME: Final = 12
# A broker that throttles answers with nothing; only this many empty answers in a row mean there is nothing.
_EMPTY_ANSWERS_PROVE: Final = 3
# Brokers learn of a new or deleted topic at different moments.
_TOPIC_GRACE_S: Final = 5.0
_NO_REPLICA: Final = -1

_TOPIC_GONE: Final = frozenset({3, 100, 103})
"""UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID."""
_OUT_OF_RANGE: Final = kafka_errors.OffsetOutOfRangeError.errno


@dataclass(frozen=True, slots=True)
class _Answer:
    records: bytes
    aborted: tuple[AbortedTransaction, ...] | None
    readable_end: int
    preferred_replica: int
    is_throttled: bool


def read_ranges(
    settings: KafkaSettings,
    ranges: Iterable[TopicRange],
    *,
    columns: tuple[str, ...],
    fail_on_data_loss: bool,
    timeout_s: float,
    pool: ClientPool = POOL,
) -> Iterator[pa.RecordBatch]:
    """Read ``ranges`` one after the other; yields record batches of ``arrow_schema(columns)``, none empty.

    ``timeout_s`` bounds the time without progress. Raises DataLossError, or KcoordError for what no retry
    helps.
    """
    with pool.lease(settings) as client:
        for wanted in ranges:
            reader = _RangeReader(client, wanted, fail_on_data_loss=fail_on_data_loss, timeout_s=timeout_s)
            yield from reader.read(columns=columns)


class _RangeReader:
    """Reads one range through one client."""

    def __init__(self, client: KafkaClient, wanted: TopicRange, *, fail_on_data_loss: bool, timeout_s: float) -> None:
        self._client = client
        self._range = wanted
        self._position = wanted.start
        self._fail_on_data_loss = fail_on_data_loss
        self._timeout_s = timeout_s
        self._replica = _NO_REPLICA
        self._where = f"topic '{wanted.topic}' partition {wanted.partition}"

    def read(self, *, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the range's rows."""
        started: Any = None
        empty_answers = 0
        progress_at = time.monotonic()
        while self._position < self._range.end:
            answer = self._next_answer(started, progress_at)
            started = None
            if answer is None:
                continue
            self._replica = answer.preferred_replica if answer.preferred_replica >= 0 else self._replica
            set_end = end_of(answer.records, self._where)
            if set_end is None or set_end <= self._position:
                empty_answers = self._count_empty(answer, empty_answers, progress_at)
                continue
            empty_answers = 0
            if set_end < self._range.end:
                started = self._client.start(partial(self._fetch_once, set_end))
            yield from self._decode(answer, set_end, columns=columns)
            progress_at = time.monotonic()

    def _decode(self, answer: _Answer, set_end: int, *, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        while self._position < min(set_end, self._range.end):
            decoded = decode(
                answer.records,
                self._range.topic,
                self._range.partition,
                self._position,
                self._range.end,
                columns=columns,
                aborted=answer.aborted,
                check_crcs=self._client.settings.check_crcs,
            )
            if decoded.next_offset <= self._position:
                raise KcoordError(f"{self._where}: the decoder made no progress at offset {self._position}.")
            self._position = decoded.next_offset
            if decoded.rows.num_rows:
                yield decoded.rows

    def _count_empty(self, answer: _Answer, empty_answers: int, progress_at: float) -> int:
        """Return the number of empty answers in a row; ends the range when they prove that it holds nothing."""
        if answer.is_throttled or answer.preferred_replica >= 0:
            return empty_answers
        if answer.records:
            raise KcoordError(
                f"{self._where}: Kafka sent {len(answer.records)} bytes for offset {self._position} without one "
                "whole record batch. Raise 'kafka.max.partition.fetch.bytes' and 'kafka.fetch.max.bytes'."
            )
        if answer.readable_end >= self._range.end:
            if empty_answers + 1 >= _EMPTY_ANSWERS_PROVE:
                _log.info("%s: no records from offset %d to %d", self._where, self._position, self._range.end)
                self._position = self._range.end
            return empty_answers + 1
        if time.monotonic() - progress_at > self._timeout_s:
            self._lose(
                f"its log can be read up to offset {answer.readable_end} only, but records up to "
                f"{self._range.end} are wanted (waited {self._timeout_s:g} s at offset {self._position})"
            )
            self._position = self._range.end
        return 0

    def _next_answer(self, started: Any, progress_at: float) -> _Answer | None:
        """Return the answer of the request already started, or of a new one; None when the position was moved."""
        if started is not None:
            try:
                return self._client.run(partial(_settle, started), self._timeout_s)
            except kafka_errors.KafkaError as error:
                _log.debug("%s: fetching ahead failed: %s", self._where, describe_failure(error))
        deadline = time.monotonic() + self._timeout_s
        try:
            return self._client.run(partial(self._fetch, deadline), self._timeout_s + 1)
        except kafka_errors.OffsetOutOfRangeError:
            self._skip_lost(progress_at)
        except UnknownTopicError:
            self._lose_topic()
        except kafka_errors.KafkaError as error:
            failure = unreachable(self._client.settings, self._timeout_s, error)
            raise KcoordError(f"{self._where}: offset {self._position} cannot be read. {failure}") from error
        return None

    def _skip_lost(self, progress_at: float) -> None:
        """Move to the first offset the log still has, or to the range's end, after offsets were found missing."""
        try:
            first, end = (self._log_offset(position) for position in (EARLIEST_POSITION, LATEST_POSITION))
        except UnknownTopicError:
            self._lose_topic()
            return
        except kafka_errors.KafkaError as error:
            raise unreachable(self._client.settings, self._timeout_s, error) from error
        # A leader that has just been elected may not know its own end yet: then asking again is enough.
        if first <= self._position <= end and time.monotonic() - progress_at < self._timeout_s:
            return
        self._lose(
            f"offset {self._position} of [{self._range.start}, {self._range.end}) is gone; "
            f"the log has [{first}, {end}) now"
        )
        self._position = min(first, self._range.end) if self._position < first else self._range.end

    def _log_offset(self, position: int) -> int:
        deadline = time.monotonic() + self._timeout_s
        key = (self._range.topic, self._range.partition)
        found = self._client.run(partial(list_offsets, self._client, {key: position}, deadline), self._timeout_s)
        offset = found[key]
        if offset is None:
            raise kafka_errors.OffsetNotAvailableError(self._where)
        return offset

    def _lose_topic(self) -> None:
        self._lose(f"the topic was deleted or made again; [{self._position}, {self._range.end}) is gone")
        self._position = self._range.end

    def _lose(self, what: str) -> None:
        """Raise DataLossError, or log a warning when losses do not fail the read."""
        if self._fail_on_data_loss:
            raise DataLossError(
                f"{self._where}: {what}. Records may have aged out or the topic may have been deleted. Set "
                "'failOnDataLoss' to false to go on with what is left."
            )
        _log.warning("%s: data loss: %s", self._where, what)

    async def _fetch(self, deadline: float) -> _Answer:
        """Fetch at the position, retrying until ``deadline`` what may pass by itself."""
        backoff = Backoff(self._client.settings.retry_backoff_ms / 1000, deadline)
        gone_since: float | None = None
        while True:
            try:
                return await self._fetch_once(self._position)
            except kafka_errors.KafkaError as error:
                failure = error
            errno = getattr(failure, "errno", None)
            is_from_leader = self._replica == _NO_REPLICA
            self._replica = _NO_REPLICA
            if is_from_leader and errno == _OUT_OF_RANGE:
                raise failure
            if errno in _TOPIC_GONE:
                gone_since = gone_since or time.monotonic()
                if time.monotonic() - gone_since > min(_TOPIC_GRACE_S, self._timeout_s / 4):
                    raise UnknownTopicError(f"{self._where} is gone", [self._range.topic])
            elif errno != _OUT_OF_RANGE and not failure.retriable:
                raise failure
            else:
                gone_since = None
            if backoff.is_over():
                raise failure
            await self._client.sleep(backoff.next_wait())
            await self._refresh_leader()

    async def _refresh_leader(self) -> None:
        try:
            await self._client.refresh([self._range.topic])
        except kafka_errors.KafkaError as error:
            _log.debug("%s: no metadata: %s", self._where, describe_failure(error))

    async def _fetch_once(self, position: int) -> _Answer:
        """Send one fetch; raises kafka-python's error for what the broker or the connection says."""
        wanted, settings = self._range, self._client.settings
        leader, epoch, topic_id = await self._leader()
        replica = self._replica if self._replica != _NO_REPLICA else leader
        by_id = {"topic_id": UUID(topic_id)} if topic_id else {}
        request = FetchRequest(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=int(settings.is_read_committed),
            rack_id=settings.rack,
            topics=[
                FetchRequest.FetchTopic(
                    topic=wanted.topic,
                    partitions=[
                        FetchRequest.FetchTopic.FetchPartition(
                            partition=wanted.partition,
                            current_leader_epoch=epoch,
                            fetch_offset=position,
                            partition_max_bytes=settings.max_partition_fetch_bytes,
                        )
                    ],
                    **by_id,
                )
            ],
            min_version=_FETCH_MIN_VERSION,
            max_version=None if topic_id else _FETCH_MAX_VERSION_BY_NAME,
        )
        response = await self._client.send(replica, request)
        return self._read_response(response)

    async def _leader(self) -> tuple[int, int, str | None]:
        """Return (broker id, leader epoch, topic id) of the partition, asking Kafka when it is not known."""
        topic = self._client.topic(self._range.topic)
        if topic is None:
            topic = (await self._client.refresh([self._range.topic])).get(self._range.topic)
        if topic is None:
            raise kafka_errors.UnknownTopicOrPartitionError(self._where)
        if topic.error is not None:
            raise topic.error(self._where)
        if self._range.topic_id is not None and topic.topic_id not in (None, self._range.topic_id):
            raise kafka_errors.UnknownTopicIdError(f"{self._where} was made again as {topic.topic_id}")
        leader, epoch = topic.leaders.get(self._range.partition, (None, _NO_REPLICA))
        if leader is None:
            raise kafka_errors.UnknownTopicOrPartitionError(self._where)
        if leader < 0:
            raise kafka_errors.LeaderNotAvailableError(self._where)
        return leader, epoch, self._range.topic_id or topic.topic_id

    def _read_response(self, response: Any) -> _Answer:
        if response.error_code:
            raise kafka_errors.for_code(response.error_code)(self._where)
        found = [partition for topic in response.responses for partition in topic.partitions]
        if not found:
            raise kafka_errors.UnknownTopicOrPartitionError(f"the answer leaves out {self._where}")
        answer = found[0]
        if answer.error_code:
            raise kafka_errors.for_code(answer.error_code)(self._where)
        is_read_committed = self._client.settings.is_read_committed
        aborted = tuple(
            AbortedTransaction(transaction.producer_id, transaction.first_offset)
            for transaction in answer.aborted_transactions or ()
        )
        return _Answer(
            records=bytes(answer.records or b""),
            aborted=aborted if is_read_committed else None,
            readable_end=answer.last_stable_offset if is_read_committed else answer.high_watermark,
            preferred_replica=answer.preferred_read_replica,
            is_throttled=bool(response.throttle_time_ms),
        )


async def _settle(started: Any) -> _Answer:
    answer: _Answer = await started
    return answer
