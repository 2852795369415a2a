"""The Spark session that the Spark tests share, and the end of the queries that they start in it."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.helpers.spark_session import start_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return the Spark session that the tests share, which writes an event log and shows itself by HTTP."""
    events = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file:{tmp_path_factory.mktemp('events')}",
    }
    session = start_session("kcoord-tests", tmp_path_factory.mktemp("spark"), events, logs="ERROR")
    yield session
    session.stop()


@pytest.fixture
def queries() -> Iterator[list[StreamingQuery]]:
    """Return a list; the queries in it are stopped when the test ends."""
    started: list[StreamingQuery] = []
    yield started
    for query in started:
        query.stop()
