"""A topic that metadata leaves out: a name that may be wrong is told soon, what was read before is asked for again."""

import asyncio
from collections.abc import Collection
from types import SimpleNamespace

import kafka.errors as kafka_errors
import pytest

from spark_kcoord.errors import UnknownTopicError
from spark_kcoord.fetch import connection, offsets
from spark_kcoord.fetch.absences import ABSENCE_S, Absences
from spark_kcoord.fetch.connection import TopicMetadata
from spark_kcoord.options.kafka_settings import KafkaSettings

KNOWN = TopicMetadata("id", {0: (1, 1)}, None, 0.0)
UNKNOWN = TopicMetadata(None, {}, kafka_errors.UnknownTopicOrPartitionError, 0.0)


class OneBroker:
    """A broker that does not know topic t from `gone_from` to `gone_until` by a clock that its waits move."""

    settings = KafkaSettings(servers=("k:1",))

    def __init__(self, monkeypatch: pytest.MonkeyPatch, gone_from: float, gone_until: float) -> None:
        self.now_s, self.gone_from, self.gone_until = 0.0, gone_from, gone_until
        clock = SimpleNamespace(monotonic=lambda: self.now_s)
        monkeypatch.setattr(offsets, "time", clock)
        monkeypatch.setattr(connection, "time", clock)

    async def refresh(self, topics: Collection[str]) -> dict[str, TopicMetadata]:
        self.now_s += 0.01
        is_gone = self.gone_from <= self.now_s < self.gone_until
        return dict.fromkeys(topics, UNKNOWN if is_gone else KNOWN)

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def look_up(self, absences: Absences | None = None) -> dict[str, TopicMetadata]:
        """Ask for topic t, for five seconds at most."""
        return asyncio.run(offsets._topics(self, ["t"], self.now_s + 5.0, absences))  # type: ignore[arg-type]  # a stand-in


def test_a_name_that_may_be_wrong_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = OneBroker(monkeypatch, 0.0, 9e9)
    with pytest.raises(UnknownTopicError, match="has no topic t"):
        broker.look_up()
    assert broker.now_s < 0.5


def test_a_topic_that_was_read_is_not_given_up_for_a_broker_that_does_not_know_it_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = OneBroker(monkeypatch, 0.0, 2.0)
    assert broker.look_up(Absences(ABSENCE_S)) == {"t": KNOWN}


def test_a_topic_that_was_read_and_is_gone_is_told_within_one_question_and_at_once_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, absences = OneBroker(monkeypatch, 0.0, 9e9), Absences(ABSENCE_S)
    for most_s in (5.0, 0.1):
        began_s = broker.now_s
        with pytest.raises(UnknownTopicError, match="has no topic t"):
            broker.look_up(absences)
        assert broker.now_s - began_s < most_s


def test_a_time_that_is_over_makes_no_topic_unknown_that_was_there_a_moment_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, absences = OneBroker(monkeypatch, 0.0, 9e9), Absences(60.0)
    with pytest.raises(kafka_errors.UnknownTopicOrPartitionError):
        broker.look_up(absences)


def test_a_topic_that_is_seen_again_has_to_be_absent_anew() -> None:
    absences = Absences(3.0)
    absences.note(["t"], set(), 0.0)
    absences.note(["t"], {"t"}, 1.0)
    absences.note(["t"], set(), 2.0)
    absences.note(["t"], set(), 4.0)
    assert absences.proven(["t"], 4.0, is_last=True) == set()
    absences.note(["t"], set(), 5.0)
    assert absences.proven(["t"], 5.0, is_last=False) == {"t"}
    assert absences.proven(["u"], 5.0, is_last=False) == set()


def test_an_absence_of_long_ago_says_nothing_of_one_that_is_seen_now() -> None:
    absences = Absences(3.0)
    absences.note(["t"], set(), 0.0)
    absences.note(["t"], set(), 100.0)
    assert absences.proven(["t"], 100.0, is_last=False) == set()
