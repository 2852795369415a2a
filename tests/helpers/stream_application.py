"""Streaming queries whose batches are written one file each, in a session of a test or as an application to be killed.

The sink is idempotent by batch id, as an exactly-once sink is: a file `batch-N.json` is replaced as a whole. While the
file `hold` is in the output folder a batch stops after it has read its rows and before it writes them, having said so
by a file `holding-N`. With a file `hold-after` it stops once more after writing, before Spark notes the batch as done.
"""

import argparse
import json
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.helpers.small_spark import JAVA_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery


@dataclass(frozen=True, slots=True)
class NumberedStream:
    """A query from a topic of numbers to the files of one folder; `options` are `name=value`."""

    folder: Path
    coordinator: str
    group: str
    topic: str
    options: tuple[str, ...] = ()

    @classmethod
    def asked_for(cls, arguments: argparse.Namespace) -> Self:
        """Return the query that a command line asks for."""
        return cls(arguments.output, arguments.coordinator, arguments.group, arguments.topic, tuple(arguments.option))

    @classmethod
    def asked_for_beside(cls, arguments: argparse.Namespace) -> list[Self]:
        """Return the other queries of the application."""
        return [
            cls(Path(folder), arguments.coordinator, group, topic, tuple(options))
            for folder, group, topic, *options in arguments.beside
        ]

    def start(self, spark: "SparkSession", *, is_available_now: bool = False) -> "StreamingQuery":
        """Start the query in a Spark session, from the checkpoint in the folder if there is one."""
        query = self.writer(spark)
        return (query.trigger(availableNow=True) if is_available_now else query).start()

    def writer(self, spark: "SparkSession") -> "DataStreamWriter":
        """Return the query before its start."""
        query = self.frame(spark).writeStream.foreachBatch(self.write)
        return query.option("checkpointLocation", str(self.folder / "checkpoint"))

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return what is read."""
        self.folder.mkdir(parents=True, exist_ok=True)
        options = dict(option.split("=", 1) for option in self.options)
        stream = spark.readStream.format("kcoord").options(
            **{
                "kcoord.bootstrap.servers": self.coordinator,
                "kcoord.group.id": self.group,
                "subscribe": self.topic,
                "startingOffsets": "earliest",
                **options,
            }
        )
        return stream.load()

    def rows(self) -> Counter[int]:
        """Return how often each number is in the output."""
        return Counter(
            int(value) for path in self.folder.glob("batch-*.json") for _, _, value in json.loads(path.read_text())
        )

    def write(self, batch: "DataFrame", batch_id: int) -> None:
        """Write a micro-batch as one file, in place of what an earlier try of it wrote."""
        rows = [
            [row.partition, row.offset, bytes(row.value).decode()]
            for row in batch.select("partition", "offset", "value").collect()
        ]
        self._hold("hold", f"holding-{batch_id}")
        target = self.folder / f"batch-{batch_id}.json"
        temporary = target.with_suffix(".part")
        temporary.write_text(json.dumps(rows))
        temporary.replace(target)
        self._hold("hold-after", f"held-after-{batch_id}")

    def _hold(self, flag: str, said: str) -> None:
        while (self.folder / flag).exists():
            (self.folder / said).touch()
            time.sleep(0.02)


def read_arguments() -> argparse.Namespace:
    """Read the command line of an application that runs streams, here or on the cluster of a master."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--coordinator", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--beside", action="append", default=[], nargs="+", metavar="OUTPUT GROUP TOPIC OPTION...")
    return parser.parse_args()


def main() -> None:
    """Run the queries until the process is killed."""
    from pyspark.sql import SparkSession

    arguments = read_arguments()
    stream = NumberedStream.asked_for(arguments)
    spark = (
        SparkSession.builder.master(arguments.master)
        .appName(f"{stream.group}-{stream.folder.name}")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
        .getOrCreate()
    )
    for one in (stream, *NumberedStream.asked_for_beside(arguments)):
        one.start(spark)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
