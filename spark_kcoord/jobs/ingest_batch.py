"""Writes to Parquet what a consumer group has not read yet, once, as a member of the group.

    spark-submit jobs/ingest_batch.py --coordinator 127.0.0.1:9292 --group nightly --topic flights \
        --output /data/flights --mode append

What it wrote is committed when all of it is written, and nothing if it fails. Several of these, and streaming queries,
may share a group. With `--snapshot` it joins no group and commits nothing: it writes what lies between
`--starting-offsets` and `--ending-offsets`; without a coordinator, `--option kafka.bootstrap.servers=HOST:PORT` says
where Kafka is. Exit codes: 0 written, 1 it failed, 2 the arguments are wrong.
"""

from __future__ import annotations

import argparse
import logging
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession

import spark_kcoord
from spark_kcoord.jobs.arguments import add_source_arguments, seconds, source_options
from spark_kcoord.jobs.parquet_sink import add_sink_arguments, sink_options, write_parquet
from spark_kcoord.jobs.runs import run_in_spark, start_log
from spark_kcoord.options.source_options import parse_options

SAY_EVERY_S = 5.0

log = logging.getLogger("ingest_batch")


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of this job's arguments."""
    parser = argparse.ArgumentParser(
        prog="ingest_batch.py", description="Write to Parquet what a consumer group has not read yet, once."
    )
    add_source_arguments(parser, needs_group=False)
    parser.add_argument(
        "--snapshot", action="store_true", help="join no group and commit nothing; write between two positions"
    )
    parser.add_argument("--ending-offsets", metavar="WHERE", help="where to end: latest (the default) or JSON")
    parser.add_argument(
        "--max-offsets", type=int, metavar="N", help="most offsets to write; the rest is for the next run"
    )
    parser.add_argument(
        "--assignment-timeout",
        type=seconds,
        default=60.0,
        metavar="DURATION",
        help="how long other members may take to let go of partitions, such as 30s (default 1m)",
    )
    add_sink_arguments(parser)
    parser.add_argument("--name", default="ingest batch", help="name of the application")
    return parser


def read_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the options of the read; raises ValueError for an argument that cannot be used."""
    options = source_options(arguments)
    if not arguments.snapshot:
        if arguments.coordinator is None or arguments.group is None:
            raise ValueError("--coordinator and --group are needed to read as a member; or use --snapshot")
        if arguments.max_offsets is not None:
            options["maxOffsetsPerTrigger"] = str(arguments.max_offsets)
    elif arguments.max_offsets is not None:
        raise ValueError("--max-offsets is for a member; give --ending-offsets to limit a --snapshot")
    if arguments.ending_offsets is not None:
        options["endingOffsets"] = arguments.ending_offsets
    return options


def ingest(spark: SparkSession, arguments: argparse.Namespace, options: dict[str, str]) -> int:
    """Write the batch, tell how many rows it had, and return the exit code."""
    with progress_shown(spark):
        if arguments.snapshot:
            rows = write_parquet(spark.read.format("kcoord").options(**options).load(), arguments)
        else:
            with spark_kcoord.batch(spark, options, assignment_timeout_s=arguments.assignment_timeout) as new:
                rows = write_parquet(new.rows, arguments)
    log.info("%s rows written to %s", f"{rows:,}", arguments.output)
    return 0


@contextmanager
def progress_shown(spark: SparkSession) -> Iterator[None]:
    """Log how many tasks are done while Spark works, every few seconds."""
    is_over = threading.Event()

    def say() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not is_over.wait(SAY_EVERY_S):
            for stage_id in tracker.getActiveStageIds():
                stage = tracker.getStageInfo(stage_id)
                if stage is not None:
                    log.info("stage %d: %d of %d tasks done", stage_id, stage.numCompletedTasks, stage.numTasks)

    teller = threading.Thread(target=say, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


def main(given: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    start_log()
    parser = argument_parser()
    arguments = parser.parse_args(given)
    try:
        options = read_options(arguments)
        parse_options(options, "batch" if arguments.snapshot else "group batch")
        sink_options(arguments)
    except ValueError as error:
        parser.error(str(error))
    return run_in_spark(arguments.name, lambda spark: ingest(spark, arguments, options))


if __name__ == "__main__":
    sys.exit(main())
