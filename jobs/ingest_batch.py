"""Writes a snapshot of Kafka topics to Parquet: everything between two positions, once.

    spark-submit jobs/ingest_batch.py --coordinator 127.0.0.1:9292 --group flights --topic flights \
        --starting-offsets earliest --ending-offsets latest --output /data/snapshot

A batch read joins no group and commits nothing; with `--starting-offsets committed` it begins where the group is.
Without a coordinator, `--option kafka.bootstrap.servers=HOST:PORT` says where Kafka is. Exit codes: 0 written, 1 it
failed, 2 the arguments are wrong.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as sf

from spark_kcoord.job_arguments import add_source_arguments, source_options
from spark_kcoord.job_failures import failure_cause

log = logging.getLogger("ingest_batch")


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of this job's arguments."""
    parser = argparse.ArgumentParser(prog="ingest_batch.py", description="Write a snapshot of Kafka topics to Parquet.")
    add_source_arguments(parser, needs_group=False)
    parser.add_argument("--ending-offsets", metavar="WHERE", help="latest (the default) or JSON")
    sink = parser.add_argument_group("where it goes")
    sink.add_argument("--output", required=True, metavar="PATH", help="directory of the Parquet files")
    sink.add_argument("--as-text", action="store_true", help="write key and value as text instead of bytes")
    sink.add_argument(
        "--mode",
        choices=("error", "append", "overwrite"),
        default="error",
        help="what to do when the output exists (default: fail)",
    )
    parser.add_argument("--name", default="ingest snapshot", help="name of the application")
    return parser


def read_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the options of the read; raises ValueError for an argument that cannot be used."""
    options = source_options(arguments)
    if arguments.ending_offsets is not None:
        options["endingOffsets"] = arguments.ending_offsets
    return options


def write_snapshot(spark: SparkSession, arguments: argparse.Namespace, options: dict[str, str]) -> int:
    """Write the snapshot and return the number of its rows."""
    rows = spark.read.format("kcoord").options(**options).load()
    if arguments.as_text:
        rows = rows.withColumns({name: rows[name].cast("string") for name in ("key", "value")})
    counted = Observation("rows")
    rows.observe(counted, sf.count(sf.lit(1)).alias("rows")).write.mode(arguments.mode).parquet(arguments.output)
    return int(counted.get["rows"])


def main(given: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    parser = argument_parser()
    arguments = parser.parse_args(given)
    try:
        options = read_options(arguments)
    except ValueError as error:
        parser.error(str(error))
    spark = SparkSession.builder.appName(arguments.name).getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    try:
        rows = write_snapshot(spark, arguments, options)
    except PySparkException as error:
        log.error("the snapshot failed: %s", failure_cause(error))  # noqa: TRY400
        return 1
    finally:
        spark.stop()
    log.info("%s rows written to %s", f"{rows:,}", arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
