"""A streaming query of a test from numbers in Kafka to Parquet files in a folder, in the Spark session of the test."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator.local.node import LocalCoordinator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def a_stream(spark: "SparkSession", coordinator: LocalCoordinator, group: str, **options: str) -> "DataFrame":
    """Return what a member of the group reads; `options` say of which topics and from where."""
    known = {"kcoord.bootstrap.servers": coordinator.address, "kcoord.group.id": group}
    return spark.readStream.format("kcoord").options(**known, **options).load()


def to_parquet(frame: "DataFrame", folder: Path) -> Any:
    """Return the writer of a query that keeps rows and checkpoint in the folder, before its trigger and its start."""
    return (
        frame.selectExpr("CAST(value AS STRING) AS value", "partition", "offset")
        .writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
    )


def values_in(spark: "SparkSession", folder: Path) -> Counter[int]:
    """Return how often each number is in the folder's rows; none before the first micro-batch is committed."""
    if not (folder / "rows" / "_spark_metadata").exists():
        return Counter()
    return Counter(int(row.value) for row in spark.read.parquet(str(folder / "rows")).collect())
