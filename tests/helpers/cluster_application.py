"""The Spark driver of a streaming query on a cluster, whose tasks go wrong when a test says so."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.local.process.ports import LOOPBACK
from tests.helpers.mishaps import mishaps
from tests.helpers.small_spark import JAVA_OPTIONS
from tests.helpers.stream_application import NumberedStream, read_arguments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[2]


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

    arguments = read_arguments()
    stream = UnluckyStream.asked_for(arguments)
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
