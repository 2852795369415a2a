"""The Spark session of the data path's benchmark, and how each side reads a topic in it.

Both sides run in one session. The JVM connector is spark-sql-kafka with its defaults (checksums checked) and tuned
(large fetches, checksums not checked); kcoord runs with its defaults, checksums checked.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from coordinator.local.java.jars import ReportProgress, resolve_jars
from coordinator.local.java.spark_kafka import SPARK_KAFKA_JARS

TUNED = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(50 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
    "kafka.check.crcs": "false",
}
CORES = 2
ROOT = Path(__file__).resolve().parents[1]


def start_spark(scratch: Path, report: ReportProgress, *, has_sockets: bool = False) -> SparkSession:
    """Start Spark in local mode with the peer's jars, and with Unix sockets to its Python workers or with TCP's."""
    jars = resolve_jars(SPARK_KAFKA_JARS, report)
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths}
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("bench-datapath")
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.ui.showConsoleProgress": "false",
        "spark.python.unix.domain.socket.enabled": str(has_sockets).lower(),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")  # a query that is stopped logs pages of errors
    return spark


def load_peer(spark: SparkSession, bootstrap: str, topic: str, options: Mapping[str, str]) -> DataFrame:
    """Return a topic as spark-sql-kafka reads it."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return reader.options(**options).load()


def load_ours(
    spark: SparkSession, bootstrap: str, topic: str, options: Mapping[str, str], source: str = "kcoord"
) -> DataFrame:
    """Return a topic as kcoord reads it."""
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return reader.options(**options).load()
