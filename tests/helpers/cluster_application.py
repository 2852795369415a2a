"""The Spark driver of a streaming query on a cluster, whose tasks go wrong when a test says so."""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.local.ports import LOOPBACK
from tests.helpers.mishaps import mishaps
from tests.helpers.stream_application import NumberedStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[2]
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True, slots=True)
class UnluckyStream(NumberedStream):
    """A numbered stream with mishaps, asked for in its folder."""

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return what is read, passed through the tasks' mishaps."""
        rows = NumberedStream.frame(self, spark).select("partition", "offset", "value")
        return rows.mapInArrow(mishaps(self.folder), rows.schema)


def main() -> None:
    """Run the query until the process is killed."""
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser()
    parser.add_argument("--master", required=True)
    parser.add_argument("--coordinator", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--option", action="append", default=[])
    arguments = parser.parse_args()
    stream = UnluckyStream(
        arguments.output, arguments.coordinator, arguments.group, arguments.topic, tuple(arguments.option)
    )
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.host": LOOPBACK,
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.pyspark.python": sys.executable,
        "spark.sql.shuffle.partitions": "1",
        "spark.locality.wait": "0",
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "1s",
    }
    builder = SparkSession.builder.master(arguments.master).appName(stream.group)
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    stream.start(spark).awaitTermination()


if __name__ == "__main__":
    main()
