"""A Spark application of its own, for tests that kill one: a streaming query whose batches are written one file each.

The sink is idempotent by batch id, as an exactly-once sink is: a file `batch-N.json` is replaced as a whole. While the
file `hold` is in the output folder a batch stops after it has read its rows and before it writes them, having said so
by a file `holding-N`. With a file `hold-after` it stops once more after writing, before Spark notes the batch as done.
"""

import argparse
import json
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


def _hold(folder: Path, flag: str, said: str) -> None:
    while (folder / flag).exists():
        (folder / said).touch()
        time.sleep(0.02)


def main() -> None:
    """Run the query until the process is killed, or until it ends by itself with --available-now."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--coordinator", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--available-now", action="store_true")
    parser.add_argument("--option", action="append", default=[])
    arguments = parser.parse_args()
    folder: Path = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName(f"{arguments.group}-{folder.name}")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.memory", "512m")
        .getOrCreate()
    )

    def write(batch: DataFrame, batch_id: int) -> None:
        rows = [
            [row.partition, row.offset, bytes(row.value).decode()]
            for row in batch.select("partition", "offset", "value").collect()
        ]
        _hold(folder, "hold", f"holding-{batch_id}")
        target = folder / f"batch-{batch_id}.json"
        temporary = target.with_suffix(".part")
        temporary.write_text(json.dumps(rows))
        temporary.replace(target)
        _hold(folder, "hold-after", f"held-after-{batch_id}")

    stream = (
        spark.readStream.format("kcoord")
        .option("kcoord.bootstrap.servers", arguments.coordinator)
        .option("kcoord.group.id", arguments.group)
        .option("subscribe", arguments.topic)
        .option("startingOffsets", "earliest")
    )
    for pair in arguments.option:
        name, _, value = pair.partition("=")
        stream = stream.option(name, value)
    query = stream.load().writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    if arguments.available_now:
        query = query.trigger(availableNow=True)
    query.start().awaitTermination()


if __name__ == "__main__":
    main()
