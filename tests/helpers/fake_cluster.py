"""Brokers that answer fetches as Kafka's do, in memory: what fits, in the order asked, one whole batch at least."""

import struct
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import kafka.errors as kafka_errors
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse

from spark_kcoord.fetch.connection import TopicMetadata
from spark_kcoord.options.kafka_settings import KafkaSettings
from spark_kcoord.options.offset_specs import EARLIEST_LOCAL_POSITION, EARLIEST_POSITION
from tests.helpers.record_batches import Row, record_batch

_TopicAnswer = FetchResponse.FetchableTopicResponse
_Data = _TopicAnswer.PartitionData
_EPOCH_AT = 12


@lru_cache(maxsize=8)
def _batch(values: tuple[bytes, ...]) -> bytes:
    return record_batch([Row(value=value) for value in values])


@dataclass
class FakeLog:
    """One partition: whole batches as (base offset, end, bytes), its leader and the leader's epoch."""

    leader: int
    epoch: int = 0
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)

    def append(self, rows: Iterable[bytes]) -> None:
        """Add one batch, written under the current epoch."""
        values = tuple(rows)
        base = self.end
        batch = bytearray(_batch(values))
        struct.pack_into(">q", batch, 0, base)
        struct.pack_into(">i", batch, _EPOCH_AT, self.epoch)
        self.batches.append((base, base + len(values), bytes(batch)))

    @property
    def end(self) -> int:
        """Return the offset of the next record."""
        return self.batches[-1][1] if self.batches else 0

    def end_of_epoch(self, epoch: int) -> int:
        """Return where the records of that epoch or an earlier one end."""
        ends = [end for _, end, batch in self.batches if struct.unpack_from(">i", batch, _EPOCH_AT)[0] <= epoch]
        return max(ends, default=0)


class FakeCluster:
    """Stands in for a KafkaClient; `faults` are what happens to the next fetches, None for nothing.

    A fault is an exception to raise, a number of ms to throttle, or a change to make to the cluster before it answers.
    """

    def __init__(self, settings: KafkaSettings, logs: Mapping[tuple[str, int], FakeLog]) -> None:
        self.settings = settings
        self.logs = dict(logs)
        self.told: dict[str, TopicMetadata] = {}
        self.tell()
        self.faults: deque[Exception | int | Callable[[], None] | None] = deque()
        self.asked: list[tuple[int, list[tuple[str, int, int, int]]]] = []
        self.sent_bytes: list[int] = []
        self.slept_s = 0.0

    def run(self, work: Callable[[], Awaitable[Any]], timeout_s: float) -> Any:
        """Run work that never waits."""
        assert timeout_s > 0
        try:
            next(work().__await__())
        except StopIteration as done:
            return done.value
        raise AssertionError("work on a fake waits for nothing")

    def start(self, work: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
        """Ask at once, as a request does that is on its way."""
        try:
            answer = self.run(work, 1)
        except kafka_errors.KafkaError as error:
            return _failed(error)
        return _done(answer)

    def start_soon(self, work: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
        """Return work to await."""
        return work()

    async def sleep(self, seconds: float) -> None:
        """Count the seconds."""
        self.slept_s += seconds

    def topic(self, name: str) -> TopicMetadata | None:
        """Return what was told last."""
        return self.told.get(name)

    def tell(self) -> None:
        """Tell who leads now."""
        self.told = {
            name: TopicMetadata(
                None, {n: (log.leader, log.epoch) for (topic, n), log in self.logs.items() if topic == name}, None, 0.0
            )
            for name in {topic for topic, _ in self.logs}
        }

    async def refresh(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        """Learn who leads now."""
        self.tell()
        return {name: self.told[name] for name in topics if name in self.told}

    async def send(self, node_id: int, request: Any) -> Any:
        """Answer a fetch, or a question about offsets."""
        if isinstance(request, ListOffsetsRequest):
            return self._offsets(request)
        assert isinstance(request, FetchRequest)
        parts = [
            (topic.topic, part.partition, part.fetch_offset, part.last_fetched_epoch)
            for topic in request.topics
            for part in topic.partitions
        ]
        assert len({part[:2] for part in parts}) == len(parts), "a partition was asked for twice"
        self.asked.append((node_id, parts))
        fault = self.faults.popleft() if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        if callable(fault):
            fault()
        if isinstance(fault, int):
            return FetchResponse(throttle_time_ms=fault, error_code=0, responses=[])
        return self._fetch(node_id, request)

    def catch_up(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def _fetch(self, node_id: int, request: Any) -> Any:
        sent = 0
        topics = []
        for topic in request.topics:
            answers = []
            for part in topic.partitions:
                answer = self._partition(node_id, topic.topic, part, request.max_bytes, sent)
                sent += len(answer.records)
                answers.append(answer)
            topics.append(_TopicAnswer(topic=topic.topic, partitions=answers))
        self.sent_bytes.append(sent)
        return FetchResponse(throttle_time_ms=0, error_code=0, responses=topics)

    def _partition(self, node_id: int, topic: str, part: Any, most_bytes: int, sent: int) -> Any:
        log = self.logs[topic, part.partition]
        answer = {"partition_index": part.partition, "high_watermark": log.end, "last_stable_offset": log.end}
        if log.leader != node_id:
            return _Data(error_code=kafka_errors.NotLeaderForPartitionError.errno, **answer)
        if part.current_leader_epoch < log.epoch:
            return _Data(error_code=kafka_errors.FencedLeaderEpochError.errno, **answer)
        if part.fetch_offset > log.end:
            return _Data(error_code=kafka_errors.OffsetOutOfRangeError.errno, **answer)
        if part.last_fetched_epoch >= 0 and log.end_of_epoch(part.last_fetched_epoch) < part.fetch_offset:
            end = log.end_of_epoch(part.last_fetched_epoch)
            diverging = _Data.EpochEndOffset(epoch=part.last_fetched_epoch, end_offset=end)
            return _Data(error_code=0, diverging_epoch=diverging, **answer)
        room = min(part.partition_max_bytes, max(0, most_bytes - sent))
        batches: list[bytes] = []
        for _, end, batch in log.batches:
            if end > part.fetch_offset:
                if not batches and len(batch) > room:
                    room = 0 if sent else len(batch)
                batches.append(batch[:room])
                room -= len(batches[-1])
        return _Data(error_code=0, records=b"".join(batches), **answer)

    def _offsets(self, request: Any) -> Any:
        answer = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for topic in request.topics:
            partitions = []
            for part in topic.partitions:
                log = self.logs.get((topic.name, part.partition_index))
                if log is None:
                    said = {"error_code": kafka_errors.UnknownTopicOrPartitionError.errno}
                else:
                    is_start = part.timestamp in (EARLIEST_POSITION, EARLIEST_LOCAL_POSITION)
                    said = {"error_code": 0, "offset": 0 if is_start else log.end}
                partitions.append(answer.ListOffsetsPartitionResponse(partition_index=part.partition_index, **said))
            topics.append(answer(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)


async def _done(answer: Any) -> Any:
    return answer


async def _failed(error: kafka_errors.KafkaError) -> Any:
    raise error
