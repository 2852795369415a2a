"""How often a Spark driver asks Kafka again."""

from collections.abc import Awaitable, Callable
from typing import Any

import kafka.errors as kafka_errors
import pytest

from spark_kcoord.consumer.conduct.kafka import Lookup
from spark_kcoord.consumer.errors import TopicUnknownError
from spark_kcoord.errors import KafkaAwayError
from spark_kcoord.fetch import offsets
from spark_kcoord.options.kafka_settings import KafkaSettings


class DeafClient:
    """Answers the last of `failures` + 1 questions."""

    failures = 0

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self.asked = 0

    def run(self, work: Callable[[], Awaitable[Any]], timeout_s: float) -> list[str]:
        self.asked += 1
        if self.asked <= self.failures:
            raise kafka_errors.NodeNotReadyError("nobody")
        return ["t"]


@pytest.mark.parametrize("retries", [0, 2])
def test_a_question_without_answer_is_asked_as_often_as_told(
    retries: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(offsets, "KafkaClient", DeafClient)
    monkeypatch.setattr(DeafClient, "failures", retries)
    settings = KafkaSettings(servers=("k:1",))

    assert offsets.KafkaLookup(settings, retries=retries).topic_names() == ["t"]
    assert caplog.text.count("Asking again in 0 s.") == retries
    monkeypatch.setattr(DeafClient, "failures", retries + 1)
    with pytest.raises(KafkaAwayError):
        offsets.KafkaLookup(settings, retries=retries).topic_names()


def test_a_question_of_a_consumer_is_given_up_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    class Counting(DeafClient):
        def run(self, work: Callable[[], Awaitable[Any]], timeout_s: float) -> list[str]:
            given.append(timeout_s)
            return ["t"]

        def close(self) -> None:
            pass

    monkeypatch.setattr(offsets, "KafkaClient", Counting)
    lookup = Lookup(lambda: KafkaSettings(servers=("k:1",)))
    assert lookup.names(0.5) == {"t"}
    assert given == [pytest.approx(0.52)]


@pytest.mark.parametrize("ask", [lambda it: it.beginnings([("t", 7)], 1), lambda it: it.at_times({("t", 7): 5}, 1)])
def test_a_partition_that_kafka_does_not_have_is_named(
    ask: Callable[[Lookup], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Empty(DeafClient):
        def run(self, work: Callable[[], Awaitable[Any]], timeout_s: float) -> Any:
            return {}

    monkeypatch.setattr(offsets, "KafkaClient", Empty)
    with pytest.raises(TopicUnknownError, match="no partition t-7") as raised:
        ask(Lookup(lambda: KafkaSettings(servers=("k:1",))))
    assert raised.value.partitions == (("t", 7),)
