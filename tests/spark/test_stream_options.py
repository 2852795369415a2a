"""Options of streams that only kcoord has, on a real broker, coordinator and Spark."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def run(spark: SparkSession, coordinator: LocalCoordinator, tmp_path: Path) -> Callable[..., list[int]]:
    """Return a run to the end of what there is, from the checkpoint of the run before: what has been read by then."""

    def run_once(group: str, **options: str) -> list[int]:
        given = {"kcoord.bootstrap.servers": coordinator.address, "kcoord.group.id": group}
        given |= {name.replace("__", "."): text for name, text in options.items()}
        frame = spark.readStream.format("kcoord").options(**given).load().selectExpr("CAST(value AS STRING) AS value")
        folder = tmp_path / group
        writer = frame.writeStream.option("path", str(folder / "rows")).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).format("parquet").start()
        assert query.awaitTermination(200)
        return sorted(int(row.value) for row in spark.read.schema(frame.schema).parquet(str(folder / "rows")).collect())

    return run_once


def test_a_query_that_does_not_commit_goes_on_from_its_checkpoint_and_leaves_the_group_where_it_was(
    kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str], run: Callable[..., list[int]]
) -> None:
    name = topic(2)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 20)
    options = {"subscribe": name, "startingOffsets": "earliest", "kcoord__commit": "false"}

    assert run(name, **options) == list(range(20))
    produce_numbers(kafka.bootstrap_servers, name, 2, 20, 10)
    assert run(name, **options) == list(range(30))
    assert GroupView(coordinator.address, name).committed() == 0


def test_excluded_topics_are_left_out_and_bytes_limit_micro_batches(
    kafka: LocalKafka, topic: Callable[..., str], run: Callable[..., list[int]]
) -> None:
    first, second = topic(1), topic(1)
    produce_numbers(kafka.bootstrap_servers, first, 1, 0, 50)
    produce_numbers(kafka.bootstrap_servers, second, 1, 100, 50)

    rows = run(
        first,
        subscribePattern=f"({first}|{second})",
        kcoord__exclude=second,
        startingOffsets="earliest",
        maxBytesPerTrigger="300",
    )

    assert rows == list(range(50))
