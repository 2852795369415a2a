"""Writes a window of Kafka topics to Parquet again, by the records' timestamps, without touching any group.

    spark-submit jobs/replay.py --coordinator 127.0.0.1:9292 --group flights --topic flights \
        --from 2026-03-01T08:00:00Z --until 2026-03-01T09:00:00Z --output /data/replayed

Kafka finds in each partition the first record at or after each of the two times; what lies between and has a timestamp
of the window is written. A record that was sent late, after others of a later time, can lie outside. Without a
coordinator, `--option kafka.bootstrap.servers=HOST:PORT` says where Kafka is. Exit codes: 0 written, 1 it failed, 2 the
arguments are wrong.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark_kcoord.jobs.arguments import add_source_arguments, source_options
from spark_kcoord.jobs.parquet_sink import add_sink_arguments, sink_options, write_parquet
from spark_kcoord.jobs.runs import run_in_spark, start_log
from spark_kcoord.options.source_options import parse_options

log = logging.getLogger("replay")

_DIGITS_OF_A_DATE: Final = 8
_LEAST_MS: Final = 10**11
"""1973: a smaller number is no time in milliseconds, but seconds or a mistake; 0 is the beginning of all."""
_MOST_MS: Final = 10**13
"""2286: a larger number is microseconds, or a date and a time without anything between."""


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of this job's arguments."""
    parser = argparse.ArgumentParser(
        prog="replay.py", description="Write a window of Kafka topics to Parquet without touching any group."
    )
    add_source_arguments(parser, needs_group=False, names_start=False)
    window = parser.add_argument_group("which window")
    for name, metavar, meaning in (
        (
            "--from",
            "TIME",
            "its beginning, ISO 8601 (UTC where no zone is named) or milliseconds since 1970; 0 is the first record",
        ),
        ("--until", "TIME", "its end, exclusive; now by default"),
    ):
        window.add_argument(
            name, dest=name[2:] + "_ms", type=milliseconds, metavar=metavar, required=name == "--from", help=meaning
        )
    add_sink_arguments(parser)
    parser.add_argument("--name", default="replay", help="name of the application")
    return parser


def milliseconds(text: str) -> int:
    """Read a time as milliseconds since 1970; eight digits are a date."""
    if text.isdecimal() and len(text) != _DIGITS_OF_A_DATE:
        if text != "0" and not _LEAST_MS <= int(text) < _MOST_MS:
            raise argparse.ArgumentTypeError(
                f"{text!r} is no time of these days as milliseconds since 1970. Write a time as 2026-03-01T08:00:00Z, "
                "a date as 2026-03-01 or 20260301, or milliseconds as 1772352000000"
            )
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time such as 2026-03-01T08:00:00Z, nor milliseconds since 1970 such as 1772352000000"
        ) from None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def read_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the options of the read; raises ValueError for an argument that cannot be used."""
    if arguments.until_ms is None:
        arguments.until_ms = round(datetime.now(UTC).timestamp() * 1000)
    if arguments.from_ms >= arguments.until_ms:
        raise ValueError("the window is empty: --from must be before --until")
    return source_options(arguments) | {
        "startingTimestamp": str(arguments.from_ms),
        "startingOffsetsByTimestampStrategy": "latest",
        "endingTimestamp": str(arguments.until_ms),
    }


def write_window(spark: SparkSession, arguments: argparse.Namespace, options: dict[str, str]) -> int:
    """Write the window, tell how many rows it had, and return the exit code."""
    rows = spark.read.format("kcoord").options(**options).load()
    time_ms = sf.unix_millis("timestamp")
    rows = rows.where((time_ms >= arguments.from_ms) & (time_ms < arguments.until_ms))
    written = write_parquet(rows, arguments)
    log.info("%s rows written to %s", f"{written:,}", arguments.output)
    return 0


def main(given: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    start_log()
    parser = argument_parser()
    arguments = parser.parse_args(given)
    try:
        options = read_options(arguments)
        parse_options(options, "batch")
        sink_options(arguments)
    except ValueError as error:
        parser.error(str(error))
    return run_in_spark(arguments.name, lambda spark: write_window(spark, arguments, options))


if __name__ == "__main__":
    sys.exit(main())
