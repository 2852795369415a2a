"""Two sources of one application in one group, on a real Spark: the second is refused, since each would get a part."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

import spark_kcoord
from coordinator.local.kafka import LocalKafka
from coordinator.local.node import LocalCoordinator
from spark_kcoord.errors import KcoordError
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.parquet_stream import a_stream, to_parquet, values_in
from tests.helpers.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

QUICK = {"kcoord.session.timeout": "2s", "startingOffsets": "earliest"}


def test_query_that_loads_a_topic_twice_in_one_group_fails_with_what_to_do(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    queries: "list[StreamingQuery]",
) -> None:
    name = topic(2)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 40)
    one, another = (a_stream(spark, coordinator, name, subscribe=name, **QUICK) for _ in range(2))
    query = to_parquet(one.union(another), tmp_path).trigger(availableNow=True).start()
    queries.append(query)
    with pytest.raises(StreamingQueryException, match="SECOND_MEMBER_OF_APPLICATION") as failed:
        query.awaitTermination(60)
    assert "load the topic once" in str(failed.value)
    assert "kcoord.share.within.application" in str(failed.value)
    assert GroupView(coordinator.address, name).committed() == 0


def test_query_that_loads_a_topic_twice_in_two_groups_sees_all_of_it_twice(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    queries: "list[StreamingQuery]",
) -> None:
    name = topic(2)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 40)
    one, another = (a_stream(spark, coordinator, f"{name}-{n}", subscribe=name, **QUICK) for n in range(2))
    query = to_parquet(one.union(another), tmp_path).trigger(availableNow=True).start()
    queries.append(query)
    assert query.awaitTermination(60)
    assert values_in(spark, tmp_path) == Counter([*range(40), *range(40)])


def test_query_that_is_stopped_makes_room_for_its_successor_within_seconds(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    queries: "list[StreamingQuery]",
) -> None:
    name = topic(2)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 40)
    stream = a_stream(spark, coordinator, name, subscribe=name, startingOffsets="earliest")
    first = to_parquet(stream, tmp_path / "a").start()
    queries.append(first)
    wait_until(lambda: GroupView(coordinator.address, name).committed() == 40, query=first)
    first.stop()
    began = time.monotonic()
    produce_numbers(kafka.bootstrap_servers, name, 2, 40, 20)
    second = to_parquet(stream, tmp_path / "b").start()
    queries.append(second)
    wait_until(lambda: GroupView(coordinator.address, name).committed() == 60, query=second)
    assert time.monotonic() - began < 30


def test_batch_of_the_application_whose_query_reads_the_group_is_refused_and_let_in_where_both_share(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    queries: "list[StreamingQuery]",
) -> None:
    name = topic(2)
    share = {"kcoord.share.within.application": "true"}
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 40)
    query = to_parquet(a_stream(spark, coordinator, name, subscribe=name, **QUICK, **share), tmp_path).start()
    queries.append(query)
    wait_until(lambda: GroupView(coordinator.address, name).committed() == 40, query=query)
    options = {
        "kcoord.bootstrap.servers": coordinator.address,
        "kcoord.group.id": name,
        "subscribe": name,
        "kcoord.session.timeout": "2s",
    }
    block = spark_kcoord.batch(spark, options)
    with pytest.raises(KcoordError, match="it has to be set for both"):
        block.__enter__()
    with spark_kcoord.batch(spark, options | share) as new:
        assert new.records == 0
