"""Batch reads that ask for less: by subscription, by columns and by filters that Spark pushes into them."""

import json
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaAdminClient, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from coordinator.local.kafka.broker import LocalKafka
from tests.helpers.kafka_topics import produce
from tests.helpers.record_batches import Row

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FIRST_MS = 1_790_000_000_000
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def load(spark: SparkSession, kafka: LocalKafka, **options: str) -> DataFrame:
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    for name, text in options.items():
        given[name.replace("__", ".")] = text
    return spark.read.format("kcoord").options(**given).load()


def offsets_in(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PUSH_DOWN, "true")
    yield
    spark.conf.unset(PUSH_DOWN)


def test_topics_are_chosen_by_pattern_and_exclusion_and_partitions_by_name(
    spark: SparkSession, kafka: LocalKafka, topic: Callable[..., str]
) -> None:
    first, second = topic(2), topic(2)
    for name in (first, second):
        produce(kafka.bootstrap_servers, name, [(0, Row(b"a", b"v")), (1, Row(b"b", b"v"))])
    both = {"subscribePattern": f"({first}|{second})"}

    def topics(frame: DataFrame) -> list[tuple[str, int]]:
        return sorted((row.topic, row.partition) for row in frame.collect())

    everything = sorted((name, partition) for name in (first, second) for partition in (0, 1))
    assert topics(load(spark, kafka, **both)) == everything
    assert topics(load(spark, kafka, **both, kcoord__exclude=first)) == [(second, 0), (second, 1)]
    assert topics(load(spark, kafka, assign=json.dumps({second: [1]}))) == [(second, 1)]


def test_only_the_columns_asked_for_are_there(
    spark: SparkSession, kafka: LocalKafka, topic: Callable[..., str]
) -> None:
    name = topic()
    produce(kafka.bootstrap_servers, name, [(0, Row(b"k", b"v", FIRST_MS, [("h", b"1")]))])

    frame = load(spark, kafka, subscribe=name, kcoord__columns="headers, value")

    assert frame.columns == ["value", "headers"]
    assert [(bytes(row.value), row.headers[0].key) for row in frame.collect()] == [(b"v", "h")]


def test_filters_keep_a_read_from_what_is_not_wanted(
    spark: SparkSession, kafka: LocalKafka, topic: Callable[..., str], pushing: None
) -> None:
    """The records before offset 20 are deleted, so a read that is not narrowed fails."""
    name = topic(2)
    rows = [(partition, Row(b"k", b"v", FIRST_MS + 1_000 * at)) for partition in (0, 1) for at in range(40)]
    produce(kafka.bootstrap_servers, name, rows)
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        admin.delete_records({TopicPartition(name, 0): 20})
    finally:
        admin.close()
    starting = json.dumps({name: {"0": 0, "1": 0}})

    def whole() -> DataFrame:
        return load(spark, kafka, subscribe=name, startingOffsets=starting, kcoord__push__filters="one-scan")

    with pytest.raises(PySparkException, match=r"offset 0 of \[0, 40\) is gone"):
        whole().collect()
    assert offsets_in(whole().where("partition = 1 AND offset IN (3, 5)")) == [(1, 3), (1, 5)]
    assert offsets_in(whole().where("offset >= 38")) == [(partition, at) for partition in (0, 1) for at in (38, 39)]
    late = f"timestamp >= timestamp_millis({FIRST_MS + 37_500}) AND timestamp < timestamp_millis({FIRST_MS + 39_000})"
    assert offsets_in(whole().where(late)) == [(0, 38), (1, 38)]
    assert offsets_in(whole().where(f"topic = '{name}' AND partition > 1")) == []
    two = whole().where("partition = 0 AND offset >= 38").union(whole().where("partition = 1 AND offset < 2"))
    assert offsets_in(two) == [(0, 38), (0, 39), (1, 0), (1, 1)]


def test_filters_that_the_scans_of_a_load_would_share_are_refused_when_it_is_loaded(
    spark: SparkSession, kafka: LocalKafka, pushing: None
) -> None:
    with pytest.raises(PySparkException, match=r"'kcoord\.push\.filters' cannot be 'true' .* give 'one-scan'"):
        load(spark, kafka, subscribe="unread", kcoord__push__filters="true")


def test_filters_without_sparks_own_switch_are_told_about_it(
    spark: SparkSession, kafka: LocalKafka, topic: Callable[..., str]
) -> None:
    with pytest.raises(PySparkException, match=PUSH_DOWN):
        load(spark, kafka, subscribe=topic(), kcoord__push__filters="one-scan").collect()
