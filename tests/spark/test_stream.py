"""Streaming queries on a real broker, a real coordinator process and a real Spark: rows, offsets, restarts, sharing."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.functions import unix_millis

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import consume, produce, produce_numbers
from tests.helpers.parquet_stream import a_stream, to_parquet, values_in
from tests.helpers.record_batches import Row
from tests.helpers.spark_rows import rows_of
from tests.helpers.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def committed(coordinator: LocalCoordinator, group: str) -> int:
    return GroupView(coordinator.address, group).committed()


def test_a_query_reads_every_row_once_across_a_restart_from_its_checkpoint(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    queries: "list[StreamingQuery]",
) -> None:
    name = topic(4)
    produce_numbers(kafka.bootstrap_servers, name, 4, 0, 1_000)
    frame = a_stream(spark, coordinator, name, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger="300")
    query = to_parquet(frame, tmp_path).start()
    queries.append(query)
    wait_until(lambda: committed(coordinator, name) == 1_000, query=query)
    query.stop()
    identity = _members_in_checkpoint(tmp_path)
    produce_numbers(kafka.bootstrap_servers, name, 4, 1_000, 500)
    again = to_parquet(frame, tmp_path).start()
    queries.append(again)
    wait_until(lambda: committed(coordinator, name) == 1_500, query=again)
    again.stop()
    assert values_in(spark, tmp_path) == Counter(range(1_500))
    assert _members_in_checkpoint(tmp_path) == identity
    assert len(identity) == 1


def _members_in_checkpoint(folder: Path) -> set[str]:
    logs = sorted((folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return {json.loads(log.read_text().splitlines()[-1])["member"] for log in logs}


def test_a_streams_rows_are_those_of_kafka_pythons_consumer(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    queries: "list[StreamingQuery]",
) -> None:
    name = topic(2)
    rows = [
        (0, Row(b"k0", b"v0", 1_790_000_000_123, [("h", b"1"), ("h", b"2"), ("ключ", b"\x00")])),
        (1, Row(None, b"v1", 1_790_000_000_001)),
        (0, Row(b"k2", None, 1_790_000_000_002, [("empty", b"")])),
        *((index % 2, Row(b"%d" % index, b"v" * index, 1_790_000_000_003)) for index in range(60)),
    ]
    produce(kafka.bootstrap_servers, name, rows)
    frame = a_stream(
        spark,
        coordinator,
        name,
        subscribe=name,
        startingOffsets="earliest",
        includeHeaders="true",
        maxOffsetsPerTrigger="40",
    )
    writer = frame.withColumn("timestamp", unix_millis("timestamp")).writeStream.format("parquet")
    query = (
        writer.option("path", str(tmp_path / "rows"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    queries.append(query)
    assert query.awaitTermination(150)
    assert rows_of(spark.read.parquet(str(tmp_path / "rows"))) == consume(kafka.bootstrap_servers, name)


def test_available_now_reads_what_is_there_commits_it_and_ends(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    queries: "list[StreamingQuery]",
) -> None:
    name = topic(4)
    produce_numbers(kafka.bootstrap_servers, name, 4, 0, 600)
    frame = a_stream(spark, coordinator, name, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger="200")
    for total in (600, 900):
        query = to_parquet(frame, tmp_path).trigger(availableNow=True).start()
        queries.append(query)
        assert query.awaitTermination(150)
        assert committed(coordinator, name) == total
        if total == 600:
            produce_numbers(kafka.bootstrap_servers, name, 4, 600, 300)
    assert values_in(spark, tmp_path) == Counter(range(900))


def test_two_queries_share_a_group_and_read_every_row_once(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    queries: "list[StreamingQuery]",
) -> None:
    name = topic(4)
    share = {"kcoord.share.within.application": "true"}
    produce_numbers(kafka.bootstrap_servers, name, 4, 0, 400)
    first = to_parquet(
        a_stream(spark, coordinator, name, subscribe=name, startingOffsets="earliest", **share), tmp_path / "a"
    ).start()
    queries.append(first)
    wait_until(lambda: committed(coordinator, name) == 400, query=first)
    named = share | {"kcoord.client.id": "the second"}
    second = to_parquet(
        a_stream(spark, coordinator, name, subscribe=name, startingOffsets="earliest", **named), tmp_path / "b"
    ).start()
    queries.append(second)
    wait_until(lambda: sorted(GroupView(coordinator.address, name).owners().values()) == [2, 2], query=second)
    members = GroupView(coordinator.address, name).describe().members
    assert {member.client_id for member in members} == {spark.sparkContext.appName, "the second"}
    produce_numbers(kafka.bootstrap_servers, name, 4, 400, 800)
    wait_until(lambda: committed(coordinator, name) == 1_200, query=second)
    first.stop()
    second.stop()
    a, b = values_in(spark, tmp_path / "a"), values_in(spark, tmp_path / "b")
    assert a + b == Counter(range(1_200))
    assert sum(b.values()) == 400


def test_a_running_query_outlives_the_coordinators_death_and_restart(
    spark: "SparkSession",
    kafka: LocalKafka,
    own_coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    queries: "list[StreamingQuery]",
) -> None:
    name = topic(2)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 100)
    query = to_parquet(
        a_stream(spark, own_coordinator, name, subscribe=name, startingOffsets="earliest"), tmp_path
    ).start()
    queries.append(query)
    wait_until(lambda: committed(own_coordinator, name) == 100, query=query)
    view = GroupView(own_coordinator.address, name)
    told = view.events("rebalance", "granted")
    own_coordinator.kill()
    produce_numbers(kafka.bootstrap_servers, name, 2, 100, 100)
    own_coordinator.restart()
    wait_until(lambda: committed(own_coordinator, name) == 200, query=query)
    assert view.events("rebalance", "granted") == told
    query.stop()
    assert values_in(spark, tmp_path) == Counter(range(200))
