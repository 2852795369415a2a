"""The frame around the work of every job: its log, a Spark session of its own, and an exit code.

A failure that Spark or kcoord reports is one line of the log, the sentence that the user can act on; any other is a
mistake of the job and shows where.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.library_log import quieten
from spark_kcoord.jobs.failures import failure_cause
from spark_kcoord.jobs.unix_sockets import socket_settings, why_no_sockets

__all__ = ["run_in_spark", "start_log"]

_log = logging.getLogger(__name__)


def start_log() -> None:
    """Log to the standard error what jobs and kcoord say, but not every call into Java and every connection."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    quieten()


def run_in_spark(name: str, work: Callable[[SparkSession], int]) -> int:
    """Do a job's work in a session with this application name; return its exit code, or 1 when it fails.

    Spark reaches its Python processes through Unix sockets where that can work and nobody has said otherwise. The
    sockets are gone when the session is stopped, as it is here.
    """
    temporary_directory = SparkContext.getSystemProperty("java.io.tmpdir")  # starts the JVM, which has all settings
    conf = dict(SparkConf().getAll())
    why_not = why_no_sockets(conf, temporary_directory)
    if why_not is not None:
        _log.error("the job failed: %s", why_not)
        return 1
    builder = SparkSession.builder.appName(name)
    for key, value in socket_settings(conf, os.environ, temporary_directory).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    try:
        return work(spark)
    except (PySparkException, Py4JJavaError, KcoordError) as error:
        _log.error("the job failed: %s", failure_cause(error))
        return 1
    finally:
        spark.stop()
