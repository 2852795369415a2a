import gc
import itertools
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from coordinator.config import KafkaSettings
from coordinator.core.effects import OffsetToResolve
from coordinator.core.events import EndOffsetsRead, Event, KafkaFailed, OffsetsResolved, ResolvedOffset, TopicsRead
from coordinator.local.process.ports import free_ports
from coordinator.protocol.ids import EARLIEST, LATEST
from coordinator.runtime.kafka.port import KafkaPort
from tests.helpers.kafka_topics import make_topic_of_offsets
from tests.helpers.loopback import RememberedLog
from tests.helpers.processes import eventually

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka

EventT = TypeVar("EventT")


class Inbox:
    """Collects the events a port posts."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self._came = threading.Condition()

    def post(self, event: Event) -> None:
        with self._came:
            self.events.append(event)
            self._came.notify_all()

    def wait_for(self, kind: type[EventT], holds: Callable[[EventT], bool] = lambda _: True) -> EventT:
        def find() -> EventT | None:
            return next((event for event in self.events if isinstance(event, kind) and holds(event)), None)

        with self._came:
            self._came.wait_for(lambda: find() is not None, 60)
        found = find()
        assert found is not None, f"no such {kind.__name__} came, but {self.events[-5:]}"
        return found

    def forget(self) -> None:
        with self._came:
            self.events.clear()


@contextmanager
def running(bootstrap: str, log: RememberedLog | None = None) -> Iterator[tuple[KafkaPort, Inbox]]:
    inbox = Inbox()
    settings = KafkaSettings(bootstrap_servers=(bootstrap,), topics_poll_ms=60_000, ends_poll_ms=100)
    port = KafkaPort(settings, inbox.post, (log or RememberedLog()).logger)
    port.start()
    try:
        yield port, inbox
    finally:
        port.close()


def produce(kafka: "LocalKafka", topic: str, partition: int, stamps: list[int]) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for stamp in stamps:
        producer.send(topic, b"x", partition=partition, timestamp_ms=stamp)
    producer.flush(20)
    producer.close()


@pytest.mark.kafka
def test_the_cluster_is_known_before_any_topic_is_watched(kafka: "LocalKafka") -> None:
    log = RememberedLog()
    with running(kafka.bootstrap_servers, log) as (_, inbox):
        read = inbox.wait_for(TopicsRead)
    assert read.cluster_id == kafka.cluster_id
    assert list(read.brokers.values()) == [("127.0.0.1", kafka.port)]
    assert (read.topics, read.absent, read.refused) == ({}, frozenset(), {})
    assert [line["event"] for line in log.lines] == ["kafka-reachable"]


@pytest.mark.kafka
def test_new_topics_are_asked_about_at_once_with_ids_and_leaders(
    kafka: "LocalKafka", topic: Callable[..., str], topic_name: Callable[[], str]
) -> None:
    there = topic(3)
    missing = topic_name()
    with running(kafka.bootstrap_servers) as (port, inbox):
        inbox.wait_for(TopicsRead)
        port.watch_topics(frozenset({there, missing, "no/topic"}))
        read = inbox.wait_for(TopicsRead, lambda event: there in event.topics)
        assert read.absent == {missing}
        assert list(read.refused) == ["no/topic"]
        metadata = read.topics[there]
        assert metadata.leaders == (1, 1, 1)
        admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
        assert metadata.topic_id == str(admin.describe_topics([there])[0]["topic_id"])
        assert missing not in admin.list_topics()
        admin.close()


@pytest.mark.kafka
def test_the_end_of_a_log_with_an_open_transaction_is_told_by_isolation_level(
    kafka: "LocalKafka", topic: Callable[..., str]
) -> None:
    name = topic(1)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"tx-{name}")
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(3):
        producer.send(name, b"x", partition=0, timestamp_ms=1_000)
    producer.flush()

    def asked(port: KafkaPort, inbox: Inbox, lookup_id: int, position: int, *, is_read_committed: bool) -> int | None:
        port.resolve_offsets(lookup_id, (OffsetToResolve(name, 0, position, is_read_committed),))
        return inbox.wait_for(OffsetsResolved, lambda event: event.lookup_id == lookup_id).offsets[0].offset

    try:
        with running(kafka.bootstrap_servers) as (port, inbox):
            assert asked(port, inbox, 1, LATEST, is_read_committed=False) == 3
            assert asked(port, inbox, 2, LATEST, is_read_committed=True) == 0
            assert asked(port, inbox, 3, EARLIEST, is_read_committed=True) == 0
            assert asked(port, inbox, 4, 500, is_read_committed=True) == 0, "nothing can be read at that time"
            producer.abort_transaction()
            ids = itertools.count(5)
            assert eventually(lambda: asked(port, inbox, next(ids), LATEST, is_read_committed=True) == 4)
    finally:
        producer.close()


@pytest.mark.kafka
def test_all_topics_are_listed_and_kafkas_own_are_told_apart(
    kafka: "LocalKafka", topic: Callable[..., str], topic_name: Callable[[], str]
) -> None:
    one, other, missing = topic(2), topic(1), topic_name()
    offsets = "__consumer_offsets"
    with running(kafka.bootstrap_servers) as (port, inbox):
        make_topic_of_offsets(kafka.bootstrap_servers)
        port.watch_topics(frozenset({one, missing, offsets}), lists_all=True)
        read = inbox.wait_for(TopicsRead, lambda event: event.is_whole)
    assert {one, other} <= set(read.topics)
    assert read.topics[one].leaders == (1, 1)
    assert read.absent == {missing}
    assert {name for name, topic in read.topics.items() if topic.is_internal} == {
        name for name in read.topics if name.startswith("__")
    }
    assert read.topics[offsets].is_internal


@pytest.mark.kafka
def test_ends_are_polled(kafka: "LocalKafka", topic: Callable[..., str]) -> None:
    name = topic(2)
    with running(kafka.bootstrap_servers) as (port, inbox):
        port.watch_topics(frozenset({name}))
        inbox.wait_for(EndOffsetsRead, lambda event: event.ends == {(name, 0): 0, (name, 1): 0})
        produce(kafka, name, 1, [1, 2, 3])
        inbox.wait_for(EndOffsetsRead, lambda event: event.ends == {(name, 0): 0, (name, 1): 3})


@pytest.mark.kafka
def test_starts_ends_and_times_are_resolved_and_what_is_not_there_says_why(
    kafka: "LocalKafka", topic: Callable[..., str]
) -> None:
    name = topic(2)
    now_ms = 1_700_000_000_000
    produce(kafka, name, 0, [now_ms, now_ms + 1000, now_ms + 2000])
    with running(kafka.bootstrap_servers) as (port, inbox):
        port.resolve_offsets(
            7,
            [
                OffsetToResolve(name, 0, EARLIEST),
                OffsetToResolve(name, 1, LATEST),
                OffsetToResolve(name, 9, LATEST),
                OffsetToResolve(f"{name}-not", 0, LATEST),
            ],
        )
        port.resolve_offsets(8, [OffsetToResolve(name, 0, LATEST), OffsetToResolve(name, 1, EARLIEST)])
        port.resolve_offsets(9, [OffsetToResolve(name, 0, now_ms + 500)])
        port.resolve_offsets(10, [OffsetToResolve(name, 0, now_ms + 3000), OffsetToResolve(name, 1, 5)])
        events = [
            inbox.wait_for(OffsetsResolved, lambda event, number=number: event.lookup_id == number)
            for number in (7, 8, 9, 10)
        ]
    first, second, third, fourth = (event.offsets for event in events)
    for event in events:
        (told,) = event.topics.values()
        assert (told.topic, told.partitions, len(told.topic_id)) == (name, 2, 36), "nobody watches it"
    assert [answer.offset for answer in first[:2]] == [0, 0]
    assert first[2:] == (
        ResolvedOffset(name, 9, None, why=f"Kafka has no partition 9 of topic {name}, which has 2", is_absent=True),
        ResolvedOffset(f"{name}-not", 0, None, why=f"Kafka has no topic {name}-not", is_absent=True),
    )
    assert [answer.offset for answer in second] == [3, 0]
    assert third == (ResolvedOffset(name, 0, 1, 0),)
    assert [answer.offset for answer in fourth] == [3, 0]


def test_an_unreachable_kafka_is_reported_every_round_and_said_once() -> None:
    (nobody,) = free_ports(1)
    log = RememberedLog()
    with running(f"127.0.0.1:{nobody}", log) as (port, inbox):
        why = f"Kafka at 127.0.0.1:{nobody} cannot be reached: Connection refused"
        assert inbox.wait_for(KafkaFailed).why == why
        port.resolve_offsets(3, [OffsetToResolve("t", 0, EARLIEST)])
        assert inbox.wait_for(OffsetsResolved).offsets == (ResolvedOffset("t", 0, None, why=why),)
        assert eventually(lambda: len(inbox.events) >= 4)
    assert [line["event"] for line in log.lines] == ["kafka-unreachable"]
    assert log.lines[0]["why"].startswith(why)


# kafka-python leaves the socket of a refused connection to the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.kafka
def test_a_kafka_that_comes_back_is_found_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from coordinator.local.kafka.broker import LocalKafka

    caplog.set_level(logging.CRITICAL + 1, logger="kafka")  # a remembered line would keep such a socket for later
    log = RememberedLog()
    with LocalKafka(tmp_path) as broker, running(broker.bootstrap_servers, log) as (port, inbox):
        broker.create_topic("t")
        port.watch_topics(frozenset({"t"}))
        inbox.wait_for(TopicsRead, lambda event: "t" in event.topics)
        broker.stop()
        port.watch_topics(frozenset({"t", "u"}))
        inbox.wait_for(KafkaFailed)
        inbox.forget()
        broker.start()
        inbox.wait_for(TopicsRead, lambda event: "t" in event.topics and "u" in event.absent)
        inbox.wait_for(EndOffsetsRead)
    gc.collect()
    assert [line["event"] for line in log.lines] == ["kafka-reachable", "kafka-unreachable", "kafka-reachable"]


def test_closing_does_not_wait_for_a_kafka_that_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with running(f"127.0.0.1:{silent.getsockname()[1]}") as (_, inbox):
            started = time.monotonic()
        assert time.monotonic() - started < 30, "the port waits for it for ever"
        assert inbox.events == []
