"""One of the two consumers as the cases see it: they make it, read with it, and note what came of it.

Values of this folder are plain, so that those of both sides can be compared with `==`; an error is compared by whether
the one raised here could be caught by whoever catches the library's.
"""

import itertools
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition

from coordinator.local.kafka.broker import LocalKafka
from kcoord import Consumer

__all__ = ["READ_S", "Corpus", "Raised", "Side"]

READ_S = 30.0
"""The longest that a case waits for records that are there."""


@dataclass(frozen=True)
class Raised:
    """An error: its name, and all names it can be caught by."""

    name: str
    catches: frozenset[str]

    def __eq__(self, other: object) -> bool:
        """Say whether whoever catches one of them catches the other."""
        return isinstance(other, Raised) and (self.name in other.catches or other.name in self.catches)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"Raised({self.name})"


@dataclass(frozen=True)
class Corpus:
    """Topics that every case may read: `one` has a partition with ten records, `two` has two with ten each."""

    one: str
    two: str
    none: str
    """One partition without a record."""

    @property
    def first(self) -> TopicPartition:
        """The partition of `one`."""
        return TopicPartition(self.one, 0)

    @property
    def both(self) -> tuple[TopicPartition, TopicPartition]:
        """The partitions of `two`."""
        return TopicPartition(self.two, 0), TopicPartition(self.two, 1)


class Side:
    """Makes consumers of one kind; a context manager that closes them."""

    def __init__(self, kafka: LocalKafka, coordinator: str | None, corpus: Corpus, producer: KafkaProducer) -> None:
        self.kafka = kafka
        self.corpus = corpus
        self.is_ours = coordinator is not None
        self._coordinator = coordinator
        self._producer = producer
        self._group = f"compare-{secrets.token_hex(6)}"
        self._made: list[Any] = []
        self._numbers = itertools.count()

    def __enter__(self) -> "Side":
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in self._made:
            consumer.close()

    def make(self, *topics: str, group: bool = False, **settings: Any) -> Any:
        """Return a consumer, of the case's group or of none."""
        known: dict[str, Any] = {"auto_offset_reset": "earliest", "bootstrap_servers": self.kafka.bootstrap_servers}
        if group:
            known |= {"group_id": self._group, "heartbeat_interval_ms": 200, "session_timeout_ms": 10_000}
        elif not self.is_ours:
            known |= {"group_id": None}
        if group and self.is_ours:
            known |= {"coordinators": self._coordinator}
        given = {name: value for name, value in (known | settings).items() if value != "unset"}
        consumer = (Consumer if self.is_ours else KafkaConsumer)(*topics, **given)
        self._made.append(consumer)
        return consumer

    @contextmanager
    def made(self, *topics: str, **settings: Any) -> Iterator[Any]:
        """Make a consumer, and close it at the end of a with block."""
        consumer = self.make(*topics, **settings)
        try:
            yield consumer
        finally:
            consumer.close()

    def by_hand(self, *partitions: TopicPartition, **settings: Any) -> Any:
        """Return a consumer without a group, with partitions assigned."""
        consumer = self.make(**settings)
        consumer.assign(list(partitions) or [self.corpus.first])
        return consumer

    def topic(self, partitions: int = 1, records: int = 0) -> str:
        """Return a new topic, with as many records in each partition; values are their numbers."""
        name = f"{self._group}-{next(self._numbers)}"
        self.kafka.create_topic(name, partitions)
        self.produce(name, *(number for number in range(partitions) for _ in range(records)))
        return name

    def produce(self, topic: str, *partitions: int, value: bytes = b"more") -> None:
        """Write a record to each of the partitions."""
        for partition in partitions:
            self._producer.send(topic, value, partition=partition)
        self._producer.flush()

    # ---- what came of it --------------------------------------------------------------------------------------------

    def polled(self, consumer: Any, count: int, **named: Any) -> list[Any]:
        """Poll until so many records have come, and return them."""
        found: list[Any] = []
        deadline = time.monotonic() + READ_S
        while len(found) < count and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=200, **named).values():
                found += records
        return found

    def offsets(self, consumer: Any, count: int, **named: Any) -> list[tuple[int, int]]:
        """Poll until so many records have come, and return their partitions and offsets, by partition."""
        return sorted((one.partition, one.offset) for one in self.polled(consumer, count, **named))

    def assigned(self, *consumers: Any, count: int) -> list[int]:
        """Poll consumers, each on a thread, until they have so many partitions together; return how many each has."""
        counts = [0] * len(consumers)
        deadline = time.monotonic() + READ_S

        def poll(index: int) -> None:
            while time.monotonic() < deadline and not (sum(counts) == count and all(counts)):
                consumers[index].poll(timeout_ms=50)
                counts[index] = len(consumers[index].assignment())

        with ThreadPoolExecutor(len(consumers)) as threads:
            list(threads.map(poll, range(len(consumers))))
        return sorted(counts)

    def raised(self, work: Callable[[], Any]) -> Any:
        """Return what a call gives, or the error that it raises."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - which one it is, is compared
            names = frozenset(kind.__name__ for kind in type(error).__mro__) - {"Exception", "BaseException", "object"}
            return Raised(type(error).__name__, names)


class Heard(ConsumerRebalanceListener):
    """A listener that notes what it hears, and does what a case wants with it."""

    def __init__(self, **then: Callable[[Any], Any]) -> None:
        self.heard: list[tuple[str, Sequence[tuple[str, int]]]] = []
        self._then = then

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._hear("revoked", revoked)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._hear("assigned", assigned)

    def _hear(self, what: str, partitions: Any) -> None:
        if partitions:
            self.heard.append((what, sorted(one.partition for one in partitions)))
        if what in self._then and partitions:
            self._then[what](partitions)
