"""Reports how far a consumer group is behind, as a table and, if wanted, as rows for a dashboard.

    spark-submit jobs/lag_report.py --coordinator 127.0.0.1:9292 --group flights --output /data/lag --fail-above 100000

It asks the coordinator and joins nothing. With `--output` a row a partition is appended as JSON, with the time it was
asked at. Exit codes: 0 reported, 1 it failed, 2 the arguments are wrong, 7 the lag is above `--fail-above`, or not
known.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from spark_kcoord.errors import KcoordError
from spark_kcoord.jobs.arguments import add_option_arguments, given_options
from spark_kcoord.jobs.group_lag import PartitionLag, group_lag
from spark_kcoord.jobs.runs import run_in_spark, start_log
from spark_kcoord.options.kinds import SERVERS
from spark_kcoord.options.source_options import coordinators_at

TOO_HIGH = 7
COLUMNS = (
    "asked_at timestamp, group string, topic string, partition int, committed bigint, end bigint, lag bigint, "
    "member string, host string"
)

log = logging.getLogger("lag_report")


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of this job's arguments."""
    parser = argparse.ArgumentParser(prog="lag_report.py", description="Report how far a consumer group is behind.")
    parser.add_argument("--coordinator", metavar="HOST:PORT[,…]", required=True, help="coordinator nodes to ask first")
    parser.add_argument("--group", required=True, help="consumer group to report")
    parser.add_argument("--topic", action="append", default=[], help="only this topic; repeat for several")
    add_option_arguments(
        parser,
        meaning="how coordinators are spoken to, such as kcoord.security.protocol=SASL_SSL",
        hidden="kcoord.auth.token=env:TOKEN",
    )
    parser.add_argument("--output", metavar="PATH", help="directory to append rows to, as JSON")
    parser.add_argument(
        "--fail-above", type=int, metavar="N", help=f"end with code {TOO_HIGH} when the sum of the lags is above N"
    )
    parser.add_argument("--name", default="lag report", help="name of the application")
    return parser


def total(partitions: Sequence[PartitionLag]) -> int | None:
    """Return the sum of the lags; None when one of them is not known."""
    lags = [one.lag for one in partitions]
    return None if None in lags else sum(lag for lag in lags if lag is not None)


def write_report(spark: SparkSession, group: str, partitions: Sequence[PartitionLag], output: str | None) -> None:
    """Show the partitions, the furthest behind first, and append them to the output if there is one."""
    asked_at = datetime.now(UTC)
    rows = spark.createDataFrame(
        [
            (asked_at, group, one.topic, one.partition, one.committed, one.end, one.lag, one.member, one.host)
            for one in sorted(partitions, key=lambda one: one.lag or 0, reverse=True)
        ],
        COLUMNS,
    ).coalesce(1)
    rows.drop("asked_at", "group").show(len(partitions), truncate=False)
    if output is not None:
        rows.write.mode("append").json(output)


def report(spark: SparkSession, arguments: argparse.Namespace, partitions: Sequence[PartitionLag]) -> int:
    """Report the lag and return the exit code."""
    write_report(spark, arguments.group, partitions, arguments.output)
    lag = total(partitions)
    shown = "unknown" if lag is None else f"{lag:,}"
    log.info("group %s: lag %s over %d partitions", arguments.group, shown, len(partitions))
    is_high = arguments.fail_above is not None and (lag is None or lag > arguments.fail_above)
    return TOO_HIGH if is_high else 0


def main(given: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    start_log()
    parser = argument_parser()
    arguments = parser.parse_args(given)
    try:
        security = given_options(arguments)
        coordinators_at(SERVERS.read("--coordinator", arguments.coordinator), security)
    except ValueError as error:
        parser.error(str(error))
    try:
        partitions = group_lag(arguments.coordinator, arguments.group, security=security)
    except KcoordError as error:
        log.error("the lag is not known: %s", error)  # noqa: TRY400
        return 1
    missing = sorted(set(arguments.topic) - {one.topic for one in partitions})
    if missing:
        log.error("the lag is not known: group %s has no partition of %s", arguments.group, ", ".join(missing))
        return 1
    if arguments.topic:
        partitions = [one for one in partitions if one.topic in arguments.topic]
    return run_in_spark(arguments.name, lambda spark: report(spark, arguments, partitions))


if __name__ == "__main__":
    sys.exit(main())
