"""``spark.read.format("kcoord")`` on a real broker: rows, ranges and what wrong input is told."""

import json
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import unix_millis
from pyspark.sql.types import StringType, StructType

from coordinator.local.kafka.broker import LocalKafka
from tests.helpers.kafka_topics import consume, produce
from tests.helpers.record_batches import Row
from tests.helpers.spark_rows import rows_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

MakeTopic = Callable[..., str]
ROWS = [
    (0, Row(b"k0", b"v0", 1_790_000_000_123, [("h", b"1"), ("h", b"2"), ("ключ", b"\x00")])),
    (1, Row(None, b"v1", 1_790_000_000_001)),
    (0, Row(b"k2", None, 1_790_000_000_002)),
    *((index % 2, Row(b"%d" % index, b"v" * index, 1_790_000_000_003)) for index in range(100)),
]


def load(spark: SparkSession, kafka: LocalKafka, topic: str, **more: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, **more}
    return spark.read.format("kcoord").options(**options).load()


def test_rows_are_those_of_kafka_pythons_consumer(spark: SparkSession, kafka: LocalKafka, topic: MakeTopic) -> None:
    name = topic(3)
    produce(kafka.bootstrap_servers, name, ROWS)

    rows = rows_of(load(spark, kafka, name, includeHeaders="true").withColumn("timestamp", unix_millis("timestamp")))

    assert rows == consume(kafka.bootstrap_servers, name)


def test_columns_are_those_of_spark_sql_kafka(spark: SparkSession, kafka: LocalKafka, topic: MakeTopic) -> None:
    name = topic()

    assert load(spark, kafka, name).schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    assert load(spark, kafka, name, includeHeaders="true").schema["headers"].dataType.simpleString() == (
        "array<struct<key:string,value:binary>>"
    )
    assert load(spark, kafka, name).collect() == []


def test_range_is_exact_and_names_ignore_case(spark: SparkSession, kafka: LocalKafka, topic: MakeTopic) -> None:
    name = topic(2)
    produce(kafka.bootstrap_servers, name, ROWS)
    ranges = {
        "STARTINGOFFSETS": json.dumps({name: {"0": 3, "1": -2}}),
        "endingoffsets": json.dumps({name: {"0": 7, "1": 2}}),
    }

    packed = load(spark, kafka, name, **ranges)
    split = load(spark, kafka, name, **ranges, minPartitions="4")

    expected = [(0, 3), (0, 4), (0, 5), (0, 6), (1, 0), (1, 1)]
    for frame, tasks in ((packed, 1), (split, 4)):
        assert [(row.partition, row.offset) for row in frame.collect()] == expected
        assert frame.rdd.getNumPartitions() == tasks


def test_schema_of_the_users_own_is_refused(spark: SparkSession, kafka: LocalKafka, topic: MakeTopic) -> None:
    schema = StructType().add("value", StringType())
    reader = spark.read.format("kcoord").options(subscribe=topic()).schema(schema)

    with pytest.raises(PySparkException, match="the columns of kcoord are fixed"):
        reader.option("kafka.bootstrap.servers", kafka.bootstrap_servers).load().collect()


def test_data_loss_fails_the_read_unless_told_otherwise(
    spark: SparkSession, kafka: LocalKafka, topic: MakeTopic
) -> None:
    name = topic()
    produce(kafka.bootstrap_servers, name, [(0, Row(b"k"))] * 5)
    past = {"startingOffsets": json.dumps({name: {"0": 7}}), "endingOffsets": json.dumps({name: {"0": 9}})}

    with pytest.raises(PySparkException, match=r"offset 7 of \[7, 9\) is gone; the log has \[0, 5\) now"):
        load(spark, kafka, name, **past).collect()
    assert load(spark, kafka, name, failOnDataLoss="false", **past).collect() == []
