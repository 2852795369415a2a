"""docs/MIGRATION.md: a query of format("kafka") becomes one of format("kcoord") and goes back; nothing is missed.

The sink is a list of this process by micro-batch, and each source reads few of them: Spark's time here is that of its
micro-batches, whatever is in them.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.kcoord_command import kcoord
from tests.helpers.parquet_stream import a_stream

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RUN_LIMIT_S = 120


def run(frame: DataFrame, checkpoint: Path) -> dict[int, list[int]]:
    """Read what there is, end, and return the numbers of each micro-batch."""
    batches: dict[int, list[int]] = {}

    def keep(rows: DataFrame, batch_id: int) -> None:
        batches[batch_id] = [int(row.value) for row in rows.collect()]

    stream = frame.selectExpr("CAST(value AS STRING) AS value").writeStream.foreachBatch(keep)
    query = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(RUN_LIMIT_S), "the run did not end"
    finally:
        query.stop()
    return batches


def numbers(*runs: dict[int, list[int]]) -> Counter[int]:
    """Return how often each number has reached a sink."""
    return Counter(number for batches in runs for batch in batches.values() for number in batch)


def test_checkpoint_becomes_a_group_and_the_group_starting_offsets(
    spark: SparkSession,
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    name, node, group = topic(2), coordinator, f"{tmp_path.name}-group"

    def with_kafka(starting: str, **more: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": name, "startingOffsets": starting}
        return spark.readStream.format("kafka").options(**options, **more).load()

    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 20)
    checkpoint = tmp_path / "before"
    before = run(with_kafka("earliest", maxOffsetsPerTrigger="16"), checkpoint)
    # The last micro-batch was begun and is not finished, as a kill leaves it, and has not reached the sink.
    last = max(before)
    assert (last, sorted(before.pop(last))) == (1, [16, 17, 18, 19])
    for finished in (checkpoint / "commits" / str(last), checkpoint / "commits" / f".{last}.crc"):
        finished.unlink()
    produce_numbers(kafka.bootstrap_servers, name, 2, 20, 10)

    words = ("import", "spark-checkpoint", f"file:{checkpoint}", "--group", group, "-o", "json")
    dry = kcoord(node, *words)
    assert f"Batch 0 of {checkpoint} is the last one that is finished." in dry.stderr
    assert "Batch 1 had begun and not finished, with 4 offsets" in dry.stderr
    assert [row["remark"] for row in dry.data] == ["batch 1, not finished, reads 8 to 10"] * 2
    kcoord(node, *words, "--execute", "--why", "a shared group")
    with_kcoord = run(a_stream(spark, node, group, subscribe=name, startingOffsets="latest"), tmp_path / "kcoord")
    assert numbers(before, with_kcoord) == Counter(range(30)), "each record is in one of the sinks, once"

    produce_numbers(kafka.bootstrap_servers, name, 2, 30, 10)
    exported = kcoord(node, "export", group, "--as", "starting-offsets").stdout
    after = run(with_kafka(exported), tmp_path / "after")
    assert numbers(before, with_kcoord, after) == Counter(range(40)), "and so it is on the way back"
