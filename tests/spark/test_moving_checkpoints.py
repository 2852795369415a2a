"""docs/MIGRATION.md: a query of format("kafka") becomes one of format("kcoord") and goes back; nothing is missed."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.kcoord_command import kcoord
from tests.helpers.parquet_stream import a_stream, to_parquet, values_in

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RUN_LIMIT_S = 120


def run(frame: DataFrame, folder: Path) -> None:
    """Read what there is, and end."""
    query = to_parquet(frame, folder).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(RUN_LIMIT_S), "the run did not end"
    finally:
        query.stop()


def test_checkpoint_becomes_a_group_and_the_group_starting_offsets(
    spark: SparkSession,
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    name, node, group = topic(2), coordinator, f"{tmp_path.name}-group"
    before, with_kcoord, after = (tmp_path / folder for folder in ("before", "kcoord", "after"))

    def with_kafka(starting: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": name, "startingOffsets": starting}
        return spark.readStream.format("kafka").options(**options).option("maxOffsetsPerTrigger", "16").load()

    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 20)
    run(with_kafka("earliest"), before)
    # The last micro-batch was begun and is not finished, as a kill leaves it, and has not reached the sink.
    checkpoint = before / "checkpoint"
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    for log in (checkpoint / "commits", before / "rows" / "_spark_metadata"):
        (log / str(last)).unlink()
        (log / f".{last}.crc").unlink()
    produce_numbers(kafka.bootstrap_servers, name, 2, 20, 10)

    words = ("import", "spark-checkpoint", f"file:{checkpoint}", "--group", group, "-o", "json")
    dry = kcoord(node, *words)
    assert f"Batch {last - 1} is the last one that is finished." in dry.stderr
    assert f"Batch {last} had begun and not finished, with 4 offsets" in dry.stderr
    assert [row["remark"] for row in dry.data] == [f"batch {last}, not finished, reads 8 to 10"] * 2
    kcoord(node, *words, "--execute", "--why", "a shared group")
    run(a_stream(spark, node, group, subscribe=name, startingOffsets="latest"), with_kcoord)
    found = values_in(spark, before) + values_in(spark, with_kcoord)
    assert found == Counter(range(30)), "each record is in one of the sinks, once"

    produce_numbers(kafka.bootstrap_servers, name, 2, 30, 10)
    exported = kcoord(node, "export", group, "--as", "starting-offsets").stdout
    run(with_kafka(exported), after)
    assert found + values_in(spark, after) == Counter(range(40)), "and so it is on the way back"
