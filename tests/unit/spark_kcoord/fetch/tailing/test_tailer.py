"""The tailing fetcher over a broker that answers a fetch when it has records, or when the test says."""

import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka.protocol.consumer import FetchRequest

from spark_kcoord.fetch.connection import TopicMetadata
from spark_kcoord.fetch.decoding.columns import COLUMNS
from spark_kcoord.fetch.tailing.fetched import AT_BEGINNING, Chunk, Resolved, Wanted
from spark_kcoord.fetch.tailing.tailer import Tailer
from spark_kcoord.options.kafka_settings import KafkaSettings
from tests.helpers.processes import eventually
from tests.helpers.scripted_kafka import SETTINGS, TOPIC_ID, fetched, offsets_answered, values

WAITS = fetched(watermark=4)
KEY = ("t", 0)
BUFFERED = 1 << 20


@dataclass
class Pending:
    """An answer of the broker, which comes when nothing before it on its connection waits."""

    value: Any
    is_done: bool = True
    exception: Exception | None = None

    def __await__(self) -> Generator[None, None, Any]:
        """Give the value to work that the client does."""
        return self.value
        yield


@dataclass
class Broker:
    """Broker 1 with records 0 to 3 of one partition; a fetch at the end waits, and all behind it on its connection."""

    fetches: list[tuple[int, int, int]] = field(default_factory=list)
    """Connection, offset and longest wait of each."""
    leaders: dict[int, tuple[int, int]] = field(default_factory=lambda: {0: (1, 7)})
    asked: list[tuple[int, int]] = field(default_factory=list)
    """The leader that was asked, and the most bytes of the answer, of each fetch."""
    answers: list[tuple[int, Pending]] = field(default_factory=list)
    connections: int = 0
    topic_id: str = TOPIC_ID
    known_id: str | None = None
    """The topic's id as the metadata has it that was read before all; None where that is as the topic is."""
    turned: threading.Event = field(default_factory=threading.Event)

    def connect(self, *_: Any) -> "Connection":
        self.connections += 1
        return Connection(self, self.connections - 1)


@dataclass
class Connection:
    """One client of the broker."""

    broker: Broker
    number: int
    requests: int = 0
    settings: KafkaSettings = SETTINGS

    def beside(self) -> "Connection":
        return self.broker.connect()

    def start_soon(self, work: Callable[[], Awaitable[Any]]) -> Any:
        steps = work().__await__()
        try:
            next(steps)
        except StopIteration as done:
            answer = done.value if isinstance(done.value, Pending) else Pending(done.value)
            if answer.is_done:
                self.wake()
            return answer
        raise AssertionError("nothing here waits inside")

    def topic(self, name: str) -> TopicMetadata:
        if self.broker.known_id is not None:
            return TopicMetadata(self.broker.known_id, self.broker.leaders, None, 0.0)
        return TopicMetadata(self.broker.topic_id, self.broker.leaders, None, time.monotonic())

    async def refresh(self, topics: list[str]) -> None:
        self.broker.known_id = None

    async def send(self, node_id: int, request: Any) -> Any:
        self.requests += 1
        if not isinstance(request, FetchRequest):
            assert not self._waits(), "a question is behind a fetch that waits"
            return offsets_answered(0)
        self.broker.asked.append((node_id, request.max_bytes))
        offset = request.topics[0].partitions[0].fetch_offset
        is_at_end = offset == 4
        answer = Pending(WAITS if is_at_end else fetched(values(*range(offset, 4))), not is_at_end)
        answer.is_done = answer.is_done and not self._waits()
        self.broker.answers.append((self.number, answer))
        self.broker.fetches.append((self.number, offset, request.max_wait_ms))
        return answer

    def _waits(self) -> bool:
        return any(number == self.number and not answer.is_done for number, answer in self.broker.answers)

    def turn(self, timeout_s: float) -> None:
        self.broker.turned.wait(timeout_s)
        self.broker.turned.clear()

    def wake(self) -> None:
        self.broker.turned.set()

    def catch_up(self) -> None:
        pass

    def close(self) -> None:
        pass


@contextmanager
def tailing(broker: Broker) -> Iterator[Tailer]:
    connect: Any = broker.connect
    tailer = Tailer(SETTINGS, columns=COLUMNS, max_buffered_bytes=BUFFERED, on_news=lambda: None, connect=connect)
    try:
        yield tailer
    finally:
        tailer.close()


def has_rows(tailer: Tailer, token: int) -> bool:
    return any(isinstance(one, Chunk) and one.token == token and one.rows is not None for one in tailer.news())


def wanted(token: int, position: int) -> dict[tuple[str, int], Wanted]:
    return {KEY: Wanted(TOPIC_ID, token, position)}


def test_a_seek_is_served_while_a_long_poll_is_out() -> None:
    broker = Broker()
    with tailing(broker) as tailer:
        tailer.want(wanted(1, 4))
        assert eventually(lambda: broker.fetches == [(0, 4, 500)])
        tailer.want(wanted(2, 0))
        assert eventually(partial(has_rows, tailer, 2))
        assert not broker.answers[0][1].is_done, "the long poll is still out"
        assert broker.fetches[1][:2] == (1, 0)
        assert broker.fetches[1][2] <= 50, "the next seek would wait behind this one"


def test_the_beginning_is_asked_for_while_a_long_poll_is_out() -> None:
    broker = Broker()
    with tailing(broker) as tailer:
        tailer.want(wanted(1, 4))
        assert eventually(lambda: len(broker.fetches) == 1)
        tailer.want(wanted(2, AT_BEGINNING))
        assert eventually(lambda: Resolved(KEY, 2, 0, TOPIC_ID) in tailer.news())
        assert eventually(partial(has_rows, tailer, 2))


def test_seeks_one_after_the_other_are_served_while_what_was_read_to_its_end_waits() -> None:
    broker = Broker()
    with tailing(broker) as tailer:
        tailer.want(wanted(1, 4))
        assert eventually(lambda: len(broker.fetches) == 1)
        for token in (2, 3):
            tailer.want(wanted(token, 0))
            assert eventually(partial(has_rows, tailer, token))


def test_each_broker_is_asked_for_a_part_of_what_room_there_is() -> None:
    broker = Broker(leaders={0: (1, 7), 1: (2, 7)})
    with tailing(broker) as tailer:
        tailer.free(-BUFFERED, BUFFERED)  # all of it is of paused partitions
        tailer.want({("t", number): Wanted(TOPIC_ID, 1, 4) for number in range(2)})
        assert eventually(lambda: len(broker.asked) == 2)
    assert sorted(broker.asked) == [(1, BUFFERED // 8), (2, BUFFERED // 8)]
