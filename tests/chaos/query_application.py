"""The Spark application of a chaos run: one query that is started again from its checkpoint whenever it fails.

Its sink is idempotent by batch id: a file `batch-N.json` is replaced as a whole, with a row `[partition, offset,
value]` a record. Work is slow on purpose, in the Python workers and in the sink, so that there is something to
interrupt. It ends when a file `stop` is in its folder.
"""

import argparse
import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

import spark_kcoord
from tests.helpers.small_spark import JAVA_OPTIONS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger("chaos")


def slow(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Pass batches on after a while, in a Python worker."""
    for batch in batches:
        time.sleep(0.15)
        yield batch


class Sink:
    """Writes each micro-batch as one file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        rows = [[row.partition, row.offset, bytes(row.value).decode()] for row in batch.collect()]
        time.sleep(0.1)
        target = self.folder / f"batch-{batch_id}.json"
        temporary = target.with_suffix(".part")
        temporary.write_text(json.dumps(rows))
        temporary.replace(target)
        time.sleep(0.1)


def start(spark: "SparkSession", folder: Path, options: dict[str, str]) -> "StreamingQuery":
    """Start the query from its checkpoint."""
    rows = spark.readStream.format("kcoord").options(**options).load().select("partition", "offset", "value")
    writer = rows.mapInArrow(slow, rows.schema).writeStream.foreachBatch(Sink(folder))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def main() -> None:
    """Keep the query running until it is told to stop."""
    from pyspark.sql import SparkSession

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--attach", action="store_true")
    parser.add_argument("--master", required=True)
    arguments = parser.parse_args()
    options = dict(option.split("=", 1) for option in arguments.option)
    spark = (
        SparkSession.builder.master(arguments.master)
        .appName(arguments.folder.name)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
        .config("spark.executor.memory", "512m")
        .config("spark.executor.extraJavaOptions", JAVA_OPTIONS)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    if arguments.attach:
        spark_kcoord.attach(spark)
    stop = arguments.folder / "stop"
    while not stop.exists():
        query = start(spark, arguments.folder, options)
        try:
            while not stop.exists() and not query.awaitTermination(0.2):
                pass
        except PySparkException as error:
            log.warning("the query failed and is started again: %s", str(error).splitlines()[0][:300])
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
