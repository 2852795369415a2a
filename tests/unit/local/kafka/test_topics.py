"""Records that are written for trying things out, by a producer that stands for Kafka's."""

import weakref
from typing import Any

import pytest
from kafka.errors import KafkaError, MessageSizeTooLargeError
from kafka.future import Future

from coordinator.local.errors import LocalServiceError
from coordinator.local.kafka import topics


class Producer:
    """A producer whose records are written at once; `alive` are the futures that somebody keeps."""

    why_not: KafkaError | None = None
    alive: "weakref.WeakSet[Kept]"

    def __init__(self, **_: Any) -> None:
        type(self).alive = weakref.WeakSet()
        self.most = 0

    def partitions_for(self, name: str) -> set[int]:
        if " " in name:
            raise ValueError(f'Topic name "{name}" is illegal')
        return {0, 1}

    def send(self, *_: Any, partition: int) -> "Kept":
        sent = Kept()
        self.alive.add(sent)
        assert len(self.alive) < 10, "what was written is kept"
        return sent.success(partition) if self.why_not is None else sent.failure(self.why_not)  # type: ignore[no-any-return]

    def flush(self, _: float) -> None:
        pass

    def close(self, timeout: float) -> None:
        pass


class Kept(Future):
    """A future that can be referred to weakly."""

    __slots__ = ("__weakref__",)


@pytest.fixture(autouse=True)
def producer(monkeypatch: pytest.MonkeyPatch) -> type[Producer]:
    monkeypatch.setattr(topics, "KafkaProducer", Producer)
    return Producer


def test_records_by_the_million_are_forgotten_once_they_are_written() -> None:
    assert topics.produce_numbers("127.0.0.1:1", "t", 1_000) == 2


def test_a_record_that_is_refused_is_told(producer: type[Producer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "why_not", MessageSizeTooLargeError("too large"))
    with pytest.raises(LocalServiceError, match=r"Records cannot be written to topic 't'.*too large"):
        topics.produce_numbers("127.0.0.1:1", "t", 1_000)


def test_what_is_no_name_of_a_topic_is_told() -> None:
    with pytest.raises(LocalServiceError, match="'a b' is not the name of a topic"):
        topics.produce_numbers("127.0.0.1:1", "a b", 1)
