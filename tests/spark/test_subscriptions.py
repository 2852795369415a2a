"""Streaming queries that subscribe by pattern or partitions, and queries whose positions Kafka no longer has."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.parquet_stream import a_stream, to_parquet, values_in
from tests.helpers.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def run_once(frame: "DataFrame", folder: Path, queries: "list[StreamingQuery]") -> None:
    """Read what there is into the folder and wait for the end; raises what ended the query."""
    query = to_parquet(frame, folder).trigger(availableNow=True).start()
    queries.append(query)
    assert query.awaitTermination(150)


def test_topics_that_match_a_pattern_later_are_read_from_their_beginning(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic_name: Callable[[], str],
    tmp_path: Path,
    queries: "list[StreamingQuery]",
) -> None:
    group = topic_name()
    for name in ("a", "excluded"):
        kafka.create_topic(f"{group}.{name}", 1)
        produce_numbers(kafka.bootstrap_servers, f"{group}.{name}", 1, 900, 5)
    frame = a_stream(
        spark,
        coordinator,
        group,
        subscribePattern=rf"{group}\..*",
        startingOffsets="latest",
        **{"kcoord.exclude": f"{group}.excluded"},
    )
    seen: Counter[tuple[str, int]] = Counter()

    def collect(batch: "DataFrame", _: int) -> None:
        seen.update((row.topic.removeprefix(group), int(row.value)) for row in batch.collect())

    query = frame.writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path)).start()
    queries.append(query)
    view = GroupView(coordinator.address, group)
    wait_until(lambda: len(view.owners()) == 1 and view.committed() == 5, query=query)
    kafka.create_topic(f"{group}.b", 2)
    produce_numbers(kafka.bootstrap_servers, f"{group}.b", 2, 0, 6)
    produce_numbers(kafka.bootstrap_servers, f"{group}.a", 1, 100, 2)
    expected = {(".b", number) for number in range(6)} | {(".a", 100), (".a", 101)}
    wait_until(lambda: set(seen) == expected, query=query)
    assert set(seen.values()) == {1}


def test_a_query_by_pattern_that_reads_what_there_is_ends(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic_name: Callable[[], str],
    tmp_path: Path,
    queries: "list[StreamingQuery]",
) -> None:
    group = topic_name()
    for name in ("a", "b"):
        kafka.create_topic(f"{group}.{name}", 1)
        produce_numbers(kafka.bootstrap_servers, f"{group}.{name}", 1, 0, 3)
    frame = a_stream(spark, coordinator, group, subscribePattern=rf"{group}\..*", startingOffsets="earliest")
    run_once(frame, tmp_path, queries)
    assert values_in(spark, tmp_path) == Counter({0: 2, 1: 2, 2: 2})


def test_assigned_partitions_alone_are_read(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    queries: "list[StreamingQuery]",
) -> None:
    name = topic(3)
    produce_numbers(kafka.bootstrap_servers, name, 3, 0, 9)
    frame = a_stream(spark, coordinator, name, assign=f'{{"{name}": [0, 2]}}', startingOffsets="earliest")
    run_once(frame, tmp_path, queries)
    assert values_in(spark, tmp_path) == Counter([0, 2, 3, 5, 6, 8])


def test_positions_that_were_deleted_fail_the_query_or_are_passed_over(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    queries: "list[StreamingQuery]",
) -> None:
    name = topic(1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 10)
    options = {"subscribe": name, "startingOffsets": "earliest"}
    strict = a_stream(spark, coordinator, name, **options)
    run_once(strict, tmp_path, queries)
    produce_numbers(kafka.bootstrap_servers, name, 1, 10, 10)
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        admin.delete_records({TopicPartition(name, 0): 15})
    finally:
        admin.close()
    with pytest.raises(Exception, match="begins at offset 15 at the broker, after offset 10"):
        run_once(strict, tmp_path, queries)
    run_once(a_stream(spark, coordinator, name, failOnDataLoss="false", **options), tmp_path, queries)
    assert values_in(spark, tmp_path) == Counter([*range(10), *range(15, 20)])
