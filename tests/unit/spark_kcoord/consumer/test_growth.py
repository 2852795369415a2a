"""The topics of a consumer without a group: what comes of them is read whole, whatever is subscribed to besides."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from spark_kcoord.consumer import errors
from spark_kcoord.consumer.conduct import kafka as conduct_kafka
from spark_kcoord.consumer.conduct.growth import GROWTH_S, Growth
from spark_kcoord.errors import UnknownTopicError
from spark_kcoord.fetch.offsets import TopicPartitions
from tests.helpers.fake_consuming import Rig
from tests.helpers.processes import eventually

Key = tuple[str, int]
Record = tuple[str, int, int]
A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


class Alone(Rig):
    """A consumer without a group that begins at the ends of logs."""

    def found(self, *keys: Key) -> list[Record]:
        """Poll until these partitions are read; return the records that came."""
        found: list[Record] = []

        def are_read() -> bool:
            polled = self.poll()
            found.extend((one.topic, one.partition, one.offset) for records in polled.values() for one in records)
            return self.assignment() == set(keys)

        assert eventually(are_read, 30)
        for records in self.poll().values():
            found += [(one.topic, one.partition, one.offset) for one in records]
        return found


class Metadata:
    """Kafka's answers about topics, all of which have one id."""

    topic_id = "id"

    def __init__(self, logs: dict[Key, int]) -> None:
        self._logs = logs

    def topics(self, names: Collection[str], *, timeout_s: float) -> dict[str, TopicPartitions]:
        numbers = {name: tuple(number for topic, number in list(self._logs) if topic == name) for name in names}
        missing = [name for name, of_topic in numbers.items() if not of_topic]
        if missing:
            raise UnknownTopicError("no such topic", missing)
        return {name: TopicPartitions(self.topic_id, of_topic) for name, of_topic in numbers.items()}

    def close(self) -> None:
        pass


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> dict[Key, int]:
    """Kafka's partitions, each with its end."""
    logs = {A0: 4, B0: 4}

    monkeypatch.setattr(conduct_kafka, "KafkaLookup", lambda *_, **__: Metadata(logs))
    monkeypatch.setattr(conduct_kafka.Lookup, "names", lambda *_: {topic for topic, _ in list(logs)})
    return logs


@contextmanager
def alone(logs: dict[Key, int], **settings: Any) -> Iterator[Alone]:
    with Alone(logs, (), group_id=None, coordinators=None, bootstrap_servers="k:1", **settings) as consumer:
        yield consumer


SUBSCRIBES: list[Callable[[Alone], object]] = [
    lambda consumer: consumer.subscribe(["b"], add=True),
    lambda consumer: consumer.subscribe(["a", "b"]),
]


@pytest.mark.parametrize("subscribe", SUBSCRIBES)
def test_a_partition_that_came_is_read_whole_also_where_a_topic_is_subscribed_to_as_well(
    logs: dict[Key, int], subscribe: Callable[[Alone], object]
) -> None:
    with alone(logs) as consumer:
        consumer.subscribe(["a"])
        assert consumer.found(A0) == []
        logs[A1] = 2
        subscribe(consumer)
        assert consumer.found(A0, A1, B0) == [("a", 1, 0), ("a", 1, 1)]
        logs[B0] = 5
        assert consumer.found(A0, A1, B0) == [("b", 0, 4)]


def test_a_topic_that_came_is_read_whole_also_where_the_pattern_has_changed_since(logs: dict[Key, int]) -> None:
    del logs[B0]
    with alone(logs) as consumer:
        consumer.subscribe(pattern="[ab]")
        assert consumer.found(A0) == []
        logs |= {B0: 2, ("c", 0): 3}
        consumer.subscribe(pattern="[abc]")
        assert consumer.found(A0, B0, ("c", 0)) == [("b", 0, 0), ("b", 0, 1)]


def test_a_topic_that_was_not_read_in_between_begins_by_the_policy_again(logs: dict[Key, int]) -> None:
    with alone(logs) as consumer:
        consumer.subscribe(["a"])
        assert consumer.found(A0) == []
        consumer.subscribe(["b"])
        assert consumer.found(B0) == []
        consumer.subscribe(["a", "b"])
        assert consumer.found(A0, B0) == []


def test_whoever_has_unsubscribed_begins_by_the_policy_again(logs: dict[Key, int]) -> None:
    with alone(logs) as consumer:
        consumer.subscribe(["a"])
        assert consumer.found(A0) == []
        consumer.unsubscribe()
        consumer.subscribe(["a"])
        assert consumer.found(A0) == []


def test_topics_that_do_not_exist_yet_keep_nothing_from_the_others_and_are_read_whole_once_they_do(
    logs: dict[Key, int],
) -> None:
    del logs[B0]
    with alone(logs, wait_for_topics=True) as consumer:
        consumer.subscribe(["a", "b"])
        assert consumer.found(A0) == []
        logs[A0], logs[B0] = 5, 2
        consumer.now += GROWTH_S
        assert sorted(consumer.found(A0, B0)) == [("a", 0, 4), ("b", 0, 0), ("b", 0, 1)]


def test_a_topic_that_does_not_exist_is_an_error_where_it_is_not_to_be_waited_for(logs: dict[Key, int]) -> None:
    del logs[B0]
    with alone(logs) as consumer:
        consumer.subscribe(["a", "b"])
        with pytest.raises(errors.TopicUnknownError):
            consumer.found(A0, B0)


READS_BOTH: dict[str, Callable[[Alone], object]] = {
    "pattern": lambda consumer: consumer.subscribe(pattern="[ab]"),
    "topics": lambda consumer: consumer.subscribe(["a", "b"]),
}


def looked_again(consumer: Alone, looks: list[list[Key]]) -> list[Record]:
    """Poll until what a new look for topics has found is taken; return the records that came."""
    consumer.now += GROWTH_S
    found, before = [], len(looks)

    def has_looked() -> bool:
        polled = consumer.poll()
        found.extend((one.topic, one.partition, one.offset) for records in polled.values() for one in records)
        return len(looks) > before

    assert eventually(has_looked, 5)
    return found


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[list[Key]]:
    """The looks for topics that were taken, each with what was missing."""
    taken: list[list[Key]] = []
    take = Growth.taken

    def noted(growth: Growth, missing: Sequence[Key]) -> None:
        take(growth, missing)
        taken.append(list(missing))

    monkeypatch.setattr(Growth, "taken", noted)
    return taken


@pytest.mark.parametrize("subscribe", READS_BOTH.values(), ids=READS_BOTH)
def test_a_topic_that_one_answer_lacks_is_read_on_where_it_was(
    logs: dict[Key, int], looks: list[list[Key]], subscribe: Callable[[Alone], object]
) -> None:
    with alone(logs, wait_for_topics=True) as consumer:
        subscribe(consumer)
        assert consumer.found(A0, B0) == []
        end = logs.pop(A0)
        consumer.kafka.ends = {A0: end + 1, B0: 4}
        assert looked_again(consumer, looks) == [("a", 0, 4)]
        assert consumer.assignment() == {A0, B0}
        logs[A0] = end
        assert looked_again(consumer, looks) == []
        consumer.kafka.ends[A0] = end + 2
        assert consumer.found(A0, B0) == [("a", 0, 5)]


def test_partitions_that_one_answer_lacks_are_read_on_where_they_were(
    logs: dict[Key, int], looks: list[list[Key]]
) -> None:
    logs[A1] = 3
    with alone(logs) as consumer:
        consumer.subscribe(["a"])
        assert consumer.found(A0, A1) == []
        del logs[A1]
        consumer.kafka.ends = {A0: 4, A1: 4}
        assert looked_again(consumer, looks) == [("a", 1, 3)]
        logs[A1] = 3
        assert looked_again(consumer, looks) == []
        assert consumer.found(A0, A1) == []


def test_a_topic_that_two_looks_do_not_find_is_read_no_more_and_whole_when_it_comes_back(
    logs: dict[Key, int], looks: list[list[Key]]
) -> None:
    with alone(logs) as consumer:
        consumer.subscribe(pattern="[ab]")
        assert consumer.found(A0, B0) == []
        del logs[A0]
        looked_again(consumer, looks)
        looked_again(consumer, looks)
        assert consumer.found(B0) == []
        logs[A0] = 2
        consumer.now += GROWTH_S
        assert consumer.found(A0, B0) == [("a", 0, 0), ("a", 0, 1)]


def test_a_warning_names_a_few_of_the_partitions_that_are_missing(
    logs: dict[Key, int], looks: list[list[Key]], caplog: pytest.LogCaptureFixture
) -> None:
    many = {("a", number): 4 for number in range(10)}
    logs |= many
    with alone(logs) as consumer:
        consumer.subscribe(pattern="[ab]")
        assert consumer.found(*many, B0) == []
        for key in many:
            del logs[key]
        looked_again(consumer, looks)
    assert "a-0, a-1, a-2, a-3, a-4, a-5, a-6, a-7 and 2 more any more" in caplog.text


def test_a_topic_is_missing_anew_when_it_was_found_in_between(logs: dict[Key, int], looks: list[list[Key]]) -> None:
    with alone(logs) as consumer:
        consumer.subscribe(pattern="[ab]")
        assert consumer.found(A0, B0) == []
        for is_there in (False, True, False):
            logs.pop(A0, None) if not is_there else logs.update({A0: 4})
            assert looked_again(consumer, looks) == []
            assert consumer.assignment() == {A0, B0}


def test_two_looks_one_right_after_the_other_count_as_one(logs: dict[Key, int], looks: list[list[Key]]) -> None:
    with alone(logs) as consumer:
        consumer.subscribe(pattern="[ab]")
        assert consumer.found(A0, B0) == []
        del logs[A0]
        looked_again(consumer, looks)
        consumer.now -= GROWTH_S
        consumer.subscribe(pattern="[abc]")
        looked_again(consumer, looks)
        assert consumer.assignment() == {A0, B0}


def test_a_topic_that_is_missing_and_not_subscribed_to_any_more_is_forgotten(logs: dict[Key, int]) -> None:
    with alone(logs) as consumer:
        consumer.subscribe(pattern="[ab]")
        assert consumer.found(A0, B0) == []
        del logs[A0]
        consumer.subscribe(pattern="b")
        assert consumer.found(B0) == []


def test_a_partition_that_a_topic_made_again_does_not_have_is_forgotten_at_once(
    logs: dict[Key, int], looks: list[list[Key]], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs[A1] = 4
    with alone(logs) as consumer:
        consumer.kafka.topic_id = Metadata.topic_id
        consumer.subscribe(["a"])
        assert consumer.found(A0, A1) == []
        del logs[A1]
        consumer.kafka.topic_id = "other"
        monkeypatch.setattr(Metadata, "topic_id", "other")
        looked_again(consumer, looks)
        assert consumer.assignment() == {A0}
