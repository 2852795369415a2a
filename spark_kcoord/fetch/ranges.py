"""Reading exact ranges of Kafka offsets on an executor, as a stream of Arrow record batches.

Every row of a range is returned once, those of a range in order. One request asks a broker for all that it leads,
so many small ranges cost few round trips; a large range is read alone, and ranges are finished in the order given.
While one answer is decoded the next is on its way. Memory is bounded by that: two answers of at most
``kafka.max.partition.fetch.bytes`` (or one record batch, if that is larger) and one decoded batch of rows, however
many ranges there are. What is retried and what is lost `progress.py` decides for each range.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import kafka.errors as kafka_errors
import pyarrow as pa

from spark_kcoord.errors import KcoordError, UnknownTopicError
from spark_kcoord.fetch.connection import KafkaClient, TopicMetadata, describe_failure, unreachable
from spark_kcoord.fetch.decoding.decode import decode
from spark_kcoord.fetch.merging import merge_small
from spark_kcoord.fetch.offsets import list_offsets, local_log_starts
from spark_kcoord.fetch.pool import POOL, ClientPool
from spark_kcoord.fetch.progress import TOPIC_GONE, RangeProgress, RawPart
from spark_kcoord.fetch.requests import NO_REPLICA, PartWanted, fetch_request, read_response
from spark_kcoord.fetch.topic_range import TopicPartition, TopicRange
from spark_kcoord.options.kafka_settings import KafkaSettings
from spark_kcoord.options.offset_specs import EARLIEST_POSITION, LATEST_POSITION

__all__ = ["read_ranges"]

_log = logging.getLogger(__name__)

_MOST_PARTITIONS: Final = 1_000
"""Partitions in one request; each costs about 100 bytes of the answer and some work at both ends."""
_LIKELY_BYTES_PER_OFFSET: Final = 1_024.0
_SPARE: Final = 1.25
"""Records may be somewhat larger than those of their topic that came before."""
_SPARE_PATIENCE_S: Final = 1.0
"""The time that an answer has to travel: a broker without news keeps a fetch until patience is over, then says so."""


def read_ranges(
    settings: KafkaSettings,
    ranges: Iterable[TopicRange],
    *,
    columns: tuple[str, ...],
    fail_on_data_loss: bool,
    timeout_s: float,
    pool: ClientPool = POOL,
) -> Iterator[pa.RecordBatch]:
    """Read ``ranges`` to their ends; yields record batches of ``arrow_schema(columns)``, none empty.

    ``timeout_s`` bounds the time without progress. Raises DataLossError, or KcoordError for what no retry
    helps.
    """
    with pool.lease(settings) as client:
        open_ranges = [
            RangeProgress(wanted, settings, fail_on_data_loss=fail_on_data_loss, timeout_s=timeout_s)
            for wanted in ranges
        ]
        yield from _Reading(client, open_ranges, timeout_s).rows(columns)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request on its way: to whom, what it asks for, for which ranges, and its response, to be awaited."""

    broker: int
    wanted: Sequence[PartWanted]
    ranges: Sequence[RangeProgress]
    most_bytes: int
    response: Any


class _Reading:
    """Reads some ranges through one client."""

    def __init__(self, client: KafkaClient, open_ranges: Sequence[RangeProgress], timeout_s: float) -> None:
        self._client = client
        self._settings = client.settings
        self._timeout_s = timeout_s
        self._open = [progress for progress in open_ranges if not progress.is_done]
        self._stale: set[str] = set()
        self._metadata_failure: kafka_errors.KafkaError | None = None
        self._bytes_per_offset: dict[str, float] = {}
        self._last_broker = NO_REPLICA

    def rows(self, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all ranges."""
        asked: _Asked | None = None
        while self._open:
            if asked is None:
                self._look_up_leaders()
                asked = self._ask()
            parts = self._take(asked) if asked is not None else []
            self._open = [progress for progress in self._open if not progress.is_done]
            if asked is None:
                self._wait()
            asked = self._ask() if parts else None
            yield from merge_small(self._decode(parts, columns))

    # ---- asking -----------------------------------------------------------------------------------------------------

    def _look_up_leaders(self) -> None:
        """Ask for the leaders of topics about which nothing is known, nothing recent, or something wrong."""
        stale = self._stale | {
            progress.wanted.topic for progress in self._open if self._client.topic(progress.wanted.topic) is None
        }
        if not stale:
            return
        try:
            self._client.run(partial(self._client.refresh, stale), self._timeout_s)
            self._stale = set()
            self._metadata_failure = None
            missing = sorted(name for name in stale if self._client.topic(name) is None)
            if missing:
                said = f"a broker says nothing of {', '.join(missing)}"
                self._metadata_failure = kafka_errors.LeaderNotAvailableError(said)
        except kafka_errors.KafkaError as error:
            _log.debug("no metadata of %s: %s", ", ".join(sorted(stale)), describe_failure(error))
            self._metadata_failure = error

    def _ask(self) -> _Asked | None:
        """Send a request for the ranges that one broker has; None when there is none to be asked for now."""
        now = time.monotonic()
        by_broker: dict[int, list[tuple[PartWanted, RangeProgress]]] = {}
        for progress in self._open:
            if progress.ready_at > now:
                continue
            topic = self._client.topic(progress.wanted.topic)
            if topic is None or progress.wanted.topic in self._stale:
                if self._metadata_failure is not None:
                    self._fail(progress, self._metadata_failure)
                continue
            try:
                broker, wanted = self._wanted(progress, topic)
            except kafka_errors.KafkaError as error:
                self._fail_by_metadata(progress, error)
                continue
            found = by_broker.setdefault(broker, [])
            found.append((wanted, progress))
            if len(found) >= _MOST_PARTITIONS and broker > self._last_broker:
                break
        if not by_broker:
            return None
        # Brokers take turns, so that each has its next answer ready when it is asked again.
        later = [broker for broker in by_broker if broker > self._last_broker]
        self._last_broker = min(later or by_broker)
        chosen = _one_request(by_broker[self._last_broker])
        most_bytes = min(self._settings.fetch_max_bytes, self._settings.max_partition_fetch_bytes)
        parts = [wanted for wanted, _ in chosen]
        from_leader = bool(self._settings.rack) and any(progress.needs_leader for _, progress in chosen)
        max_wait_ms = min(self._settings.fetch_max_wait_ms, int(_patience_s([one for _, one in chosen], now) * 1000))
        request = fetch_request(
            self._settings, parts, most_bytes=most_bytes, from_leader=from_leader, max_wait_ms=max_wait_ms
        )
        response = self._client.start(partial(self._client.send, self._last_broker, request))
        return _Asked(self._last_broker, parts, [progress for _, progress in chosen], most_bytes, response)

    def _wanted(self, progress: RangeProgress, topic: TopicMetadata) -> tuple[int, PartWanted]:
        """Return whom to ask for what; raises kafka-python's error where nobody is known."""
        wanted = progress.wanted
        if topic.error is not None:
            raise topic.error(progress.where)
        if wanted.topic_id is not None and topic.topic_id not in (None, wanted.topic_id):
            raise kafka_errors.UnknownTopicIdError(f"{progress.where} was made again as {topic.topic_id}")
        if wanted.partition not in topic.leaders:
            raise kafka_errors.UnknownTopicOrPartitionError(progress.where)
        leader, epoch = topic.leaders[wanted.partition]
        if leader < 0:
            raise kafka_errors.LeaderNotAvailableError(progress.where)
        bytes_per_offset = self._bytes_per_offset.get(wanted.topic, _LIKELY_BYTES_PER_OFFSET) * _SPARE
        part = PartWanted(
            topic=wanted.topic,
            topic_id=wanted.topic_id or topic.topic_id,
            partition=wanted.partition,
            position=progress.position,
            most_bytes=progress.most_bytes(bytes_per_offset),
            leader_epoch=epoch,
            last_epoch=progress.last_epoch,
        )
        return (leader if progress.replica == NO_REPLICA else progress.replica), part

    def _wait(self) -> None:
        """Wait until a range may be asked for again."""
        seconds = min((progress.ready_at for progress in self._open), default=0.0) - time.monotonic()
        if seconds > 0:
            self._client.run(partial(self._client.sleep, seconds), seconds + self._timeout_s)

    # ---- answers ----------------------------------------------------------------------------------------------------

    def _take(self, asked: _Asked) -> list[RawPart]:
        """Await the answer and note what it says about each range; returns what there is to decode."""
        patience_s = _patience_s(asked.ranges, time.monotonic())
        try:
            response = self._client.run(partial(_settle, asked.response), patience_s + _SPARE_PATIENCE_S)
        except kafka_errors.KafkaError as error:
            for progress in asked.ranges:
                self._fail(progress, error)
            return []
        now = time.monotonic()
        parts = []
        doubted = []
        answers = read_response(self._settings, asked.wanted, response, most_bytes=asked.most_bytes)
        for progress, answer in zip(asked.ranges, answers, strict=True):
            if answer.error is not None:
                self._fail(progress, answer.error)
                continue
            part = progress.take(answer, now)
            if part is not None:
                parts.append(part)
                offsets = max(1, progress.position - part.start)
                self._bytes_per_offset[part.topic] = len(part.records) / offsets
            elif progress.is_in_doubt:
                doubted.append(progress)
        if response.throttle_time_ms:
            for progress in asked.ranges:
                progress.wait(response.throttle_time_ms / 1000, now)
        if doubted:
            self._settle(asked, doubted)
        return parts

    def _settle(self, asked: _Asked, doubted: Sequence[RangeProgress]) -> None:
        """Ask the leader that gave nothing whether that is because there is nothing."""
        epochs = {(part.topic, part.partition): part.leader_epoch for part in asked.wanted}
        keys = [(progress.wanted.topic, progress.wanted.partition) for progress in doubted]
        ask = partial(local_log_starts, self._client, asked.broker, {key: epochs[key] for key in keys})
        patience_s = _patience_s(doubted, time.monotonic())
        starts: dict[TopicPartition, int] | None = {}
        try:
            starts = self._client.run(ask, patience_s + _SPARE_PATIENCE_S)
        except kafka_errors.KafkaError as error:
            _log.debug("broker %d does not say where local logs begin: %s", asked.broker, describe_failure(error))
        now = time.monotonic()
        for progress, key in zip(doubted, keys, strict=True):
            if starts is None:
                progress.settle_without_tiers(now)
                continue
            if key not in starts:
                self._stale.add(progress.wanted.topic)
            progress.settle(starts.get(key), now)

    def _fail(self, progress: RangeProgress, error: kafka_errors.KafkaError) -> None:
        self._stale.add(progress.wanted.topic)
        if progress.fail(error, time.monotonic()):
            self._compare(progress)

    def _fail_by_metadata(self, progress: RangeProgress, error: kafka_errors.KafkaError) -> None:
        if getattr(error, "errno", None) in TOPIC_GONE:
            self._stale.add(progress.wanted.topic)
            progress.miss(error, time.monotonic())
        else:
            self._fail(progress, error)

    def _compare(self, progress: RangeProgress) -> None:
        """Ask what offsets the log has, after one was out of range."""
        key = (progress.wanted.topic, progress.wanted.partition)
        missing = kafka_errors.UnknownTopicOrPartitionError(progress.where)
        ends: list[int] = []
        try:
            for position in (EARLIEST_POSITION, LATEST_POSITION):
                deadline = time.monotonic() + self._timeout_s
                # Out of range is what the log does not have, and not what is behind an open transaction.
                ask = partial(list_offsets, self._client, {key: position}, deadline, is_read_committed=False)
                offset = self._client.run(ask, self._timeout_s + 1).get(key)
                if offset is None:
                    progress.miss(missing, time.monotonic())
                    return
                ends.append(offset)
        except UnknownTopicError:
            progress.miss(missing, time.monotonic())
        except kafka_errors.KafkaError as error:
            raise unreachable(self._settings, self._timeout_s, error) from error
        else:
            progress.compare(ends[0], ends[1], time.monotonic())

    def _decode(self, parts: list[RawPart], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``parts``, letting go of each when it is done."""
        while parts:
            yield from self._decode_one(parts.pop(0), columns)

    def _decode_one(self, part: RawPart, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        position = part.start
        while position < part.end:
            decoded = decode(
                part.records,
                part.topic,
                part.partition,
                position,
                part.end,
                columns=columns,
                aborted=part.aborted,
                check_crcs=self._settings.check_crcs,
            )
            if decoded.next_offset <= position:
                where = f"topic '{part.topic}' partition {part.partition}"
                raise KcoordError(f"{where}: the decoder made no progress at offset {position}.")
            position = decoded.next_offset
            if decoded.rows.num_rows:
                yield decoded.rows


def _patience_s(ranges: Sequence[RangeProgress], now: float) -> float:
    """Return for how long an answer about some ranges may still be awaited."""
    return max(0.0, *(progress.patience_s(now) for progress in ranges))


def _one_request(found: Sequence[tuple[PartWanted, RangeProgress]]) -> list[tuple[PartWanted, RangeProgress]]:
    """Return what one request can hold: each partition once, those of a topic together, not too many."""
    by_topic: dict[str, dict[int, tuple[PartWanted, RangeProgress]]] = {}
    for wanted, progress in found[:_MOST_PARTITIONS]:
        by_topic.setdefault(wanted.topic, {}).setdefault(wanted.partition, (wanted, progress))
    return [one for parts in by_topic.values() for one in parts.values()]


async def _settle(started: Any) -> Any:
    return await started
