"""A broker whose answers to fetches are written down, and reading a range from it."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import kafka.errors as kafka_errors
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse

from spark_kcoord.fetch.connection import TopicMetadata
from spark_kcoord.fetch.decoding.decode import COLUMNS
from spark_kcoord.fetch.pool import ClientPool
from spark_kcoord.fetch.ranges import read_ranges
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.kafka_settings import KafkaSettings
from spark_kcoord.options.offset_specs import EARLIEST_LOCAL_POSITION, EARLIEST_POSITION, LATEST_POSITION
from tests.helpers.record_batches import Row, record_batch

TOPIC_ID = "12345678-1234-5678-1234-567812345678"
SETTINGS = KafkaSettings(servers=("k:1",), retry_backoff_ms=1)
WANTED = TopicRange("t", TOPIC_ID, 0, 0, 4)
TIMEOUT_S = 0.2

Answer = FetchResponse | Exception


def fetched(
    records: bytes = b"",
    *,
    error: int = 0,
    watermark: int = 4,
    stable: int = 4,
    throttle: int = 0,
    replica: int = -1,
    start: int = 0,
) -> FetchResponse:
    """Return the answer of the broker to a fetch of partition 0."""
    partition = FetchResponse.FetchableTopicResponse.PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=watermark,
        last_stable_offset=stable,
        log_start_offset=start,
        aborted_transactions=[],
        preferred_read_replica=replica,
        records=records,
    )
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])
    return FetchResponse(throttle_time_ms=throttle, error_code=0, responses=[topic])


def offsets_answered(offset: int) -> ListOffsetsResponse:
    """Return the answer of the broker to a question for an offset of partition 0."""
    answer = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse(
        partition_index=0, error_code=0, offset=offset
    )
    return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[answer])])


def values(*offsets: int) -> bytes:
    """Return one batch that begins at the first of these offsets."""
    return record_batch([Row(value=b"v")] * len(offsets), base_offset=offsets[0])


class ScriptedKafka:
    """Answers fetches from a script, in order, and everything else like a broker 1 that leads the partition.

    ``asked_again`` is what metadata says of the topic once it was asked, None for what it said before. ``local_starts``
    is the script of answers to the question where the leader's own part of the log begins. One that
    ``holds_empty_answers`` keeps a fetch without records for as long as it is told to wait, as a broker does.
    """

    def __init__(self, *answers: Answer, leaders: dict[int, tuple[int, int]] | None = None) -> None:
        self.settings = SETTINGS
        self.answers = list(answers)
        self.asked: list[tuple[int, int]] = []
        self.log = (0, 4)
        self.local_starts: list[int | Exception] = [0]
        self.racks: list[str] = []
        self.slept_s: list[float] = []
        self.leaders = {0: (1, 7)} if leaders is None else leaders
        self.refreshed = 0
        self.asked_again: TopicMetadata | None = None
        self.holds_empty_answers = False
        self.is_closed = False
        self._held_s = 0.0

    def run(self, work: Callable[[], Awaitable[Any]], timeout_s: float) -> Any:
        assert timeout_s > 0
        self._held_s = 0.0
        steps = work().__await__()
        try:
            next(steps)
        except StopIteration as done:
            time.sleep(min(self._held_s, timeout_s))
            if self._held_s > timeout_s:
                raise kafka_errors.KafkaTimeoutError(f"Timed out after {timeout_s:g} s") from None
            return done.value
        raise AssertionError("scripted work waits for nothing")

    def start(self, work: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
        return work()

    start_soon = start

    async def sleep(self, seconds: float) -> None:
        assert seconds <= 1.2
        self.slept_s.append(seconds)

    def topic(self, name: str) -> TopicMetadata:
        if self.asked_again is not None and self.refreshed:
            return self.asked_again
        return TopicMetadata(TOPIC_ID, self.leaders, None, time.monotonic())

    async def refresh(self, topics: list[str]) -> dict[str, TopicMetadata]:
        self.refreshed += 1
        return {name: self.topic(name) for name in topics}

    async def send(self, node_id: int, request: Any) -> Any:
        if isinstance(request, ListOffsetsRequest):
            (partition,) = request.topics[0].partitions
            if partition.timestamp == EARLIEST_LOCAL_POSITION:
                offset = self._local_start(node_id, partition.current_leader_epoch)
            else:
                offset = self.log[(EARLIEST_POSITION, LATEST_POSITION).index(partition.timestamp)]
            return offsets_answered(offset)
        assert isinstance(request, FetchRequest)
        self.asked.append((node_id, request.topics[0].partitions[0].fetch_offset))
        self.racks.append(request.rack_id)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if self.holds_empty_answers and not answer.responses[0].partitions[0].records:
            self._held_s += request.max_wait_ms / 1000
        return answer

    def _local_start(self, node_id: int, epoch: int) -> int:
        assert (node_id, epoch) == self.leaders[0], "the question goes to the leader that gave nothing"
        start = self.local_starts.pop(0) if len(self.local_starts) > 1 else self.local_starts[0]
        if isinstance(start, Exception):
            raise start
        return start

    def catch_up(self) -> None:
        assert not self.is_closed

    def close(self) -> None:
        self.is_closed = True


def read(
    kafka: ScriptedKafka,
    *,
    fail_on_data_loss: bool = True,
    wanted: TopicRange = WANTED,
    timeout_s: float = TIMEOUT_S,
) -> list[int]:
    """Return the offsets of the rows of a range."""
    pool = ClientPool(connect=lambda _: kafka)  # type: ignore[arg-type,return-value]  # a scripted stand-in
    batches = read_ranges(
        kafka.settings,
        [wanted],
        columns=COLUMNS[:-1],
        fail_on_data_loss=fail_on_data_loss,
        timeout_s=timeout_s,
        pool=pool,
    )
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]
