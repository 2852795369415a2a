"""Resolving a batch read: what Kafka is asked, what the coordinator is asked, and that it is asked late."""

import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from spark_kcoord.fetch.offsets import KafkaLookup, TopicPartitions
from spark_kcoord.options import host_ports, parse_options
from spark_kcoord.resolve import ONE_SHOT_TIMEOUT_S, resolve_kafka, resolve_ranges

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
