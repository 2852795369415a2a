"""A tailing fetcher that asks where partitions begin and end: one that nobody leads, or that hangs, keeps none back."""

import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from spark_kcoord.fetch.connection import TopicMetadata
from spark_kcoord.fetch.decoding.columns import COLUMNS
from spark_kcoord.fetch.tailing.fetched import AT_BEGINNING, Resolved, Wanted
from spark_kcoord.fetch.tailing.tailer import Tailer
from spark_kcoord.options.kafka_settings import KafkaSettings
from tests.helpers.processes import eventually
from tests.helpers.scripted_kafka import SETTINGS, TOPIC_ID, fetched, offsets_answered

HANGS = 3
"""A broker that gives no answer."""


@dataclass
class Never:
    """What a broker that hangs answers; work that awaits it is not done."""

    is_done = False
    exception = None

    def __await__(self) -> Generator["Never", None, Any]:
        yield self


@dataclass
class Done:
    """The outcome of work that was done at once."""

    value: Any = None
    exception: BaseException | None = None
    is_done = True

    def __await__(self) -> Generator[None, None, Any]:
        if self.exception is not None:
            raise self.exception
        return self.value
        yield


@dataclass
class Brokers:
    """Brokers 1 and 3, of which the latter hangs; each partition is led by whom `leaders` says."""

    leaders: dict[int, int]
    settings: KafkaSettings = SETTINGS
    requests: int = 0
    asked: list[int] = field(default_factory=list)
    turned: threading.Event = field(default_factory=threading.Event)

    def beside(self) -> "Brokers":
        return self

    def start_soon(self, work: Callable[[], Awaitable[Any]]) -> Any:
        try:
            next(work().__await__())
        except StopIteration as done:
            self.turned.set()
            return Done(done.value)
        except Exception as error:  # noqa: BLE001 - told where it is awaited
            self.turned.set()
            return Done(exception=error)
        return Never()

    def topic(self, name: str) -> TopicMetadata:
        return TopicMetadata(TOPIC_ID, {number: (leader, 7) for number, leader in self.leaders.items()}, None, 0.0)

    async def refresh(self, topics: list[str]) -> dict[str, TopicMetadata]:
        return {name: self.topic(name) for name in topics}

    async def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.05))

    async def send(self, node_id: int, request: Any) -> Any:
        if node_id == HANGS:
            return await Never()
        if not isinstance(request, ListOffsetsRequest):
            return fetched()
        (asked,) = request.topics[0].partitions
        response = offsets_answered(5)
        response.topics[0].partitions[0].partition_index = asked.partition_index
        return response

    def turn(self, timeout_s: float) -> None:
        self.turned.wait(min(timeout_s, 0.05))
        self.turned.clear()

    def wake(self) -> None:
        self.turned.set()

    def catch_up(self) -> None:
        pass

    def close(self) -> None:
        pass


@contextmanager
def tailing(brokers: Brokers) -> Iterator[Tailer]:
    connect: Any = lambda *_: brokers  # noqa: E731 - the shape of a client's class
    tailer = Tailer(SETTINGS, columns=COLUMNS, max_buffered_bytes=1 << 20, on_news=lambda: None, connect=connect)
    try:
        yield tailer
    finally:
        tailer.close()


def begins(*numbers: int) -> dict[tuple[str, int], Wanted]:
    return {("t", number): Wanted(TOPIC_ID, 1, AT_BEGINNING) for number in numbers}


def test_a_partition_that_nobody_leads_keeps_no_other_from_being_found() -> None:
    with tailing(Brokers({0: 1, 1: -1})) as tailer:
        tailer.want(begins(0, 1))
        assert eventually(lambda: Resolved(("t", 0), 1, 5, TOPIC_ID) in tailer.news())


def test_a_broker_that_hangs_keeps_those_of_others_from_being_found_neither() -> None:
    brokers = Brokers({0: 1, 1: HANGS, 2: 1})
    with tailing(brokers) as tailer:
        tailer.want(begins(0, 1))
        assert eventually(lambda: Resolved(("t", 0), 1, 5, TOPIC_ID) in tailer.news())
        tailer.want(begins(1, 2))
        assert eventually(lambda: Resolved(("t", 2), 1, 5, TOPIC_ID) in tailer.news()), (
            "what is sought later is found too"
        )
