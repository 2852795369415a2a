"""Resolving a batch read: what Kafka is asked, what the coordinator is asked, and that it is asked late."""

import subprocess
import sys
from collections.abc import Collection
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from spark_kcoord.errors import OptionError, UnknownTopicError
from spark_kcoord.fetch.offsets import KafkaLookup, TopicPartitions
from spark_kcoord.offset_specs import OffsetSpec
from spark_kcoord.options import host_ports, parse_options
from spark_kcoord.resolve import (
    ONE_SHOT_TIMEOUT_S,
    must_be_same_cluster,
    resolve_kafka,
    resolve_ranges,
    start_positions,
    topics_of,
)

COORDINATOR = {"subscribe": "t", "kcoord.bootstrap.servers": "c:1", "kcoord.group.id": "g"}


class FakeLookup:
    """A topic of three partitions with logs [2, 10)."""

    def topics(self, names: tuple[str, ...]) -> dict[str, TopicPartitions]:
        return {name: TopicPartitions("id", (0, 1, 2)) for name in names}

    def earliest_offsets(self, keys: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(keys, 2)

    def end_offsets(self, keys: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(keys, 10)


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stand in for the member's client; returns what it was asked."""
    asked: list[Any] = []
    client = ModuleType("spark_kcoord.member.client")

    def find_coordinator(servers: tuple[tuple[str, int], ...], group: str, *, timeout_s: float) -> SimpleNamespace:
        asked.append(("find", servers, group, timeout_s))
        return SimpleNamespace(kafka_bootstrap=("k1:9092", "k2:9092"))

    def fetch_offsets(
        servers: tuple[tuple[str, int], ...], group: str, *, timeout_s: float
    ) -> dict[tuple[str, int], int]:
        asked.append(("offsets", servers, group, timeout_s))
        return {("t", 0): 7, ("t", 1): 10}

    client.__dict__.update(find_coordinator=find_coordinator, fetch_offsets=fetch_offsets)
    monkeypatch.setitem(sys.modules, "spark_kcoord.member.client", client)
    return asked


def ranges(**more: str) -> list[tuple[int, int, int]]:
    options = parse_options({**COORDINATOR, **more}, "batch")
    return [(one.partition, one.start, one.end) for one in resolve_ranges(options, cast("KafkaLookup", FakeLookup()))]


def test_kafka_is_where_the_coordinator_says(coordinator: list[Any]) -> None:
    settings = resolve_kafka(parse_options({**COORDINATOR, "kafka.client.rack": "r"}, "batch"))

    assert (settings.servers, settings.rack) == (("k1:9092", "k2:9092"), "r")
    assert coordinator == [("find", (("c", 1),), "g", ONE_SHOT_TIMEOUT_S)]


def test_coordinator_is_not_asked_when_the_user_says_where_kafka_is(coordinator: list[Any]) -> None:
    options = parse_options({"subscribe": "t", "kafka.bootstrap.servers": "k:1"}, "batch")

    assert resolve_kafka(options) is options.kafka
    assert coordinator == []


def test_servers_become_host_and_port() -> None:
    assert host_ports(("c1:1", "[::1]:2")) == (("c1", 1), ("::1", 2))


def test_committed_starts_where_the_group_is_and_else_at_the_earliest(coordinator: list[Any]) -> None:
    assert ranges(startingOffsets="committed") == [(0, 7, 10), (2, 2, 10)]
    assert coordinator == [("offsets", (("c", 1),), "g", ONE_SHOT_TIMEOUT_S)]


def test_positions_are_resolved_and_empty_ranges_left_out() -> None:
    assert ranges() == [(0, 2, 10), (1, 2, 10), (2, 2, 10)]
    starting, ending = '{"t": {"0": -2, "1": 5, "2": 10}}', '{"t": {"0": 4, "1": -1, "2": -1}}'
    assert ranges(startingOffsets=starting, endingOffsets=ending) == [(0, 2, 4), (1, 5, 10)]


def test_executors_load_neither_the_coordinator_nor_msgspec() -> None:
    code = (
        "import sys, spark_kcoord.batch_reader, spark_kcoord.fetch.ranges, spark_kcoord.partition, pyspark_kcoord; "
        "print(sorted({'msgspec', 'coordinator', 'pydantic', 'structlog'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


class OnlyA:
    """Kafka with the one topic `a`, of two partitions."""

    def topics(self, names: Collection[str]) -> dict[str, TopicPartitions]:
        missing = sorted(set(names) - {"a"})
        if missing:
            raise UnknownTopicError("no such topic", missing)
        return {name: TopicPartitions("id", (0, 1)) for name in names}


@pytest.mark.parametrize(("names", "found"), [(("a", "b"), {"a"}), (("b",), set()), (("a",), {"a"})])
def test_topics_that_may_be_absent_do_not_hide_those_that_exist(names: tuple[str, ...], found: set[str]) -> None:
    assert set(topics_of(OnlyA(), names, may_be_absent=True)) == found


def test_topics_that_must_exist_are_named_when_absent() -> None:
    with pytest.raises(UnknownTopicError) as raised:
        topics_of(OnlyA(), ("a", "b"), may_be_absent=False)
    assert raised.value.topics == ("b",)


def test_start_positions_spell_out_whole_topics_that_exist() -> None:
    spec = OffsetSpec(topics=(("a", -2), ("b", -1)), partitions=(("a", 1, 7),))
    topics = {"a": TopicPartitions("id", (0, 1))}
    assert start_positions(spec, topics, must_name_all=True) == {("a", 0): -2, ("a", 1): 7}


@pytest.mark.parametrize(("named", "said"), [(0, "leaves out 1 of topic 'a'"), (2, "leaves out 0, 1")])
def test_start_positions_must_name_every_partition_of_a_new_query(named: int, said: str) -> None:
    spec = OffsetSpec(partitions=(("a", named, 7),))
    topics = {"a": TopicPartitions("id", (0, 1))}
    with pytest.raises(OptionError, match=f"'startingOffsets' {said}"):
        start_positions(spec, topics, must_name_all=True)
    assert start_positions(spec, topics, must_name_all=False) == {("a", named): 7}


def test_kafka_of_another_cluster_than_the_coordinators_is_refused_naming_both() -> None:
    with pytest.raises(OptionError, match=r"'kafka.bootstrap.servers' \(k:1\).*'theirs'.*'ours'"):
        must_be_same_cluster("ours", "theirs", ("k:1",))
    for found in ("ours", None):
        must_be_same_cluster("ours", found, ("k:1",))
