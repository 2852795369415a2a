"""A local Spark with kcoord and spark-sql-kafka, as tests, comparisons and schedules share one for their whole run."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from coordinator.local.java.jars import resolve_jars
from coordinator.local.java.spark_kafka import SPARK_KAFKA_JARS
from tests.helpers.small_spark import JAVA_OPTIONS

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
}


def start_session(name: str, folder: Path, settings: Mapping[str, str] | None = None, *, logs: str) -> SparkSession:
    """Start a Spark of two threads whose Python workers are this interpreter, installed packages and all.

    It writes into `folder`, which has to outlive it, and logs at the level `logs`. `settings` are more of Spark's own.
    """
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    folders = {"spark.local.dir": str(folder / "spark"), "spark.sql.warehouse.dir": str(folder / "warehouse")}
    jars = {"spark.jars": ",".join(map(str, resolve_jars(SPARK_KAFKA_JARS)))}
    builder = SparkSession.builder.master("local[2]").appName(name)
    for key, value in (_SETTINGS | folders | jars | dict(settings or {})).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(logs)
    return session
