"""Two sources of one application in one group, on a real Spark: the second is refused, since each would get a part."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

import spark_kcoord
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from spark_kcoord.errors import KcoordError
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.parquet_stream import a_stream, to_parquet, values_in
from tests.helpers.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PRODUCED = 40


@dataclass(frozen=True)
class Application:
    """One Spark application, and a topic of two partitions whose name its group has too."""

    spark: "SparkSession"
    coordinator: LocalCoordinator
    bootstrap: str
    topic: str
    folder: Path
    queries: "list[StreamingQuery]"

    def produce(self, first: int, count: int) -> None:
        produce_numbers(self.bootstrap, self.topic, 2, first, count)

    def stream(self, group: str | None = None, **options: str) -> "DataFrame":
        return a_stream(
            self.spark,
            self.coordinator,
            group or self.topic,
            subscribe=self.topic,
            startingOffsets="earliest",
            **{"kcoord.session.timeout": "2s", **options},
        )

    def start(self, rows: "DataFrame", folder: str = "a", *, ends: bool = False) -> "StreamingQuery":
        writer = to_parquet(rows, self.folder / folder)
        query: StreamingQuery = (writer.trigger(availableNow=True) if ends else writer).start()
        self.queries.append(query)
        return query

    def committed(self) -> int:
        return GroupView(self.coordinator.address, self.topic).committed()


@pytest.fixture
def application(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    queries: "list[StreamingQuery]",
) -> Application:
    made = Application(spark, coordinator, kafka.bootstrap_servers, topic(2), tmp_path, queries)
    made.produce(0, PRODUCED)
    return made


def test_query_that_loads_a_topic_twice_in_one_group_fails_with_what_to_do(application: Application) -> None:
    query = application.start(application.stream().union(application.stream()), ends=True)
    with pytest.raises(StreamingQueryException, match="SECOND_MEMBER_OF_APPLICATION") as failed:
        query.awaitTermination(150)
    assert "load the topic once" in str(failed.value)
    assert "kcoord.share.within.application" in str(failed.value)
    assert application.committed() == 0


def test_query_that_loads_a_topic_twice_in_two_groups_sees_all_of_it_twice(application: Application) -> None:
    one, another = (application.stream(f"{application.topic}-{number}") for number in range(2))
    query = application.start(one.union(another), ends=True)
    assert query.awaitTermination(150)
    assert values_in(application.spark, application.folder / "a") == Counter([*range(PRODUCED), *range(PRODUCED)])


def test_query_that_is_stopped_makes_room_for_its_successor_within_seconds(application: Application) -> None:
    stream = application.stream(**{"kcoord.session.timeout": "10s"})
    first = application.start(stream)
    wait_until(lambda: application.committed() == PRODUCED, query=first)
    first.stop()
    began = time.monotonic()
    application.produce(PRODUCED, 20)
    second = application.start(stream, "b")
    wait_until(lambda: application.committed() == PRODUCED + 20, query=second)
    assert time.monotonic() - began < 30


def test_batch_of_the_application_whose_query_reads_the_group_is_refused_and_let_in_where_both_share(
    application: Application,
) -> None:
    share = {"kcoord.share.within.application": "true"}
    query = application.start(application.stream(**share))
    wait_until(lambda: application.committed() == PRODUCED, query=query)
    options = {
        "kcoord.bootstrap.servers": application.coordinator.address,
        "kcoord.group.id": application.topic,
        "subscribe": application.topic,
        "kcoord.session.timeout": "2s",
    }
    block = spark_kcoord.batch(application.spark, options)
    with pytest.raises(KcoordError, match="it has to be set for both"):
        block.__enter__()
    with spark_kcoord.batch(application.spark, options | share) as new:
        assert new.records == 0
