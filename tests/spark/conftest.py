"""The Spark session that the Spark tests share, and the end of the queries that they start in it."""

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from coordinator.local.jars import resolve_jars
from coordinator.local.spark_kafka import SPARK_KAFKA_JARS
from tests.helpers.small_spark import JAVA_OPTIONS


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return a local Spark of two threads whose Python workers are this interpreter, installed packages and all.

    It has spark-sql-kafka beside kcoord, to compare them, and writes an event log.
    """
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    session = (
        SparkSession.builder.master("local[2]")
        .appName("kcoord-tests")
        .config("spark.jars", ",".join(map(str, resolve_jars(SPARK_KAFKA_JARS))))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.compress", "false")
        .config("spark.eventLog.dir", f"file:{tmp_path_factory.mktemp('events')}")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def queries() -> Iterator[list[StreamingQuery]]:
    """Return a list; the queries in it are stopped when the test ends."""
    started: list[StreamingQuery] = []
    yield started
    for query in started:
        query.stop()
