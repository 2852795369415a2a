"""Writes Kafka topics to Parquet as a streaming query that is a member of a consumer group.

    spark-submit jobs/ingest_stream.py --coordinator 127.0.0.1:9292 --group flights --topic flights \
        --output /data/flights --checkpoint /data/flights-checkpoint

Several of these may share a group; each needs an output and a checkpoint of its own. It needs `spark_kcoord` where
the driver and the executors run. A micro-batch is committed as soon as it is done, also the last one. SIGTERM and
Ctrl-C to this Python process end the query between two micro-batches.
A SIGTERM to spark-submit itself reaches the Java process alone, which ends at once: the micro-batch in flight is then
replayed at the next start. `python jobs/ingest_stream.py …` with PYSPARK_SUBMIT_ARGS="… pyspark-shell" avoids that.
A new checkpoint needs a new output: one that an earlier query wrote with another checkpoint is refused.
Exit codes: 0 the query ended as asked, 1 it failed, 2 the arguments are wrong.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import spark_kcoord
from spark_kcoord.errors import KcoordError, UnreadBatchError
from spark_kcoord.jobs.arguments import add_source_arguments, coordinator_security, seconds, source_options
from spark_kcoord.jobs.matching_checkpoint import names_in, why_not_together
from spark_kcoord.jobs.parquet_sink import add_output_arguments, as_text, sink_options
from spark_kcoord.jobs.runs import run_in_spark, start_log
from spark_kcoord.options.source_options import parse_options

POLL_S = 1
REFUSED_SINK_OPTION = "asyncprogresstracking"
_CLIENT_IDS = frozenset({"kcoord.client.id", "kafka.client.id"})
_STARTS = frozenset({"startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"})

log = logging.getLogger("ingest_stream")


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of this job's arguments."""
    parser = argparse.ArgumentParser(
        prog="ingest_stream.py",
        description="Write Kafka topics to Parquet as a streaming query that is a member of a consumer group.",
        epilog="A group that several queries share is for stateless queries such as this one.",
    )
    add_source_arguments(parser, needs_group=True)
    parser.add_argument("--max-offsets-per-trigger", type=positive_integer, metavar="N", help="limit of a micro-batch")
    sink = add_output_arguments(parser)
    sink.add_argument("--checkpoint", required=True, metavar="PATH", help="checkpoint of this query alone")
    run = parser.add_argument_group("how it runs")
    when = run.add_mutually_exclusive_group()
    when.add_argument(
        "--trigger", type=positive_seconds, default=1.0, metavar="DURATION", help="interval, such as 30s (default 1s)"
    )
    when.add_argument("--available-now", action="store_true", help="read what is there, then end")
    run.add_argument(
        "--stop-timeout",
        type=positive_seconds,
        default=60.0,
        metavar="DURATION",
        help="how long a running micro-batch may take to finish after SIGTERM (default 1m)",
    )
    run.add_argument("--name", help="name of the application and the query (default: ingest and the group's name)")
    return parser


def positive_integer(text: str) -> int:
    """Read a whole number above 0."""
    number = int(text)
    if number <= 0:
        raise ValueError(text)
    return number


def positive_seconds(text: str) -> float:
    """Read a duration above 0 as seconds."""
    wanted = seconds(text)
    if wanted <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration above 0")
    return wanted


def stream_sink_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the sink's options; raises ValueError for asynchronous progress tracking, which breaks commits."""
    options = sink_options(arguments)
    for name in options:
        if name.lower().startswith(REFUSED_SINK_OPTION):
            raise ValueError(
                f"--sink-option {name} is refused: with asynchronous progress tracking Spark goes on before a "
                "micro-batch is done, and the group's offsets would be committed too early"
            )
    return options


def describe_progress(progress: Mapping[str, Any]) -> str:
    """Return one line for a micro-batch of Spark's progress report."""
    return (
        f"batch {progress['batchId']}: {progress['numInputRows']:,} rows in {progress['batchDuration']:,} ms, "
        f"{progress.get('inputRowsPerSecond') or 0:,.0f} rows/s in"
    )


def new_batches(progresses: Iterable[Mapping[str, Any]], after: int) -> list[Mapping[str, Any]]:
    """Return the reports of micro-batches that had rows and came after batch `after`, once each."""
    found = {int(p["batchId"]): p for p in progresses if p["numInputRows"] > 0 and int(p["batchId"]) > after}
    return [found[batch_id] for batch_id in sorted(found)]


def read_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the options of the source; raises ValueError for an argument that cannot be used.

    A job that ingests loses nothing by default: it starts at the earliest offset unless told otherwise.
    """
    options = source_options(arguments)
    given = {name.lower() for name in options}
    if _STARTS.isdisjoint(given):
        options["startingOffsets"] = "earliest"
    if _CLIENT_IDS.isdisjoint(given):
        options["kcoord.client.id"] = name_of(arguments)
    if arguments.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(arguments.max_offsets_per_trigger)
    return options


def name_of(arguments: argparse.Namespace) -> str:
    """Return the name of the application and the query, by which the group's members are told apart."""
    return str(arguments.name or f"ingest {arguments.group}")


def start_query(spark: SparkSession, arguments: argparse.Namespace, name: str) -> StreamingQuery:
    """Start the query that the arguments describe; raises ValueError when they cannot be used."""
    options, writes = read_options(arguments), stream_sink_options(arguments)
    rows = spark.readStream.format("kcoord").options(**options).load()
    if arguments.as_text:
        rows = as_text(rows)
    writer = rows.writeStream.queryName(name).format("parquet").options(**writes)
    writer = writer.option("path", arguments.output).option("checkpointLocation", arguments.checkpoint)
    if arguments.available_now:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(arguments.trigger * 1000)} milliseconds").start()


def follow(query: StreamingQuery, asked: list[int], stop_s: float) -> None:
    """Log each micro-batch until the query ends or a signal has been received; then end it after the one that runs.

    With a backlog the next one begins at once and is interrupted; it is replayed when the query starts again. Raises
    what the query has failed by, also when that was after the signal.
    """
    logged = -1
    ended = False
    while not ended and not asked:
        ended = query.awaitTermination(POLL_S)
        for progress in new_batches(query.recentProgress, logged):
            log.info(describe_progress(progress))
            logged = int(progress["batchId"])
    if asked:
        log.info("%s received: the query ends after its micro-batch", signal.Signals(asked[0]).name)
        deadline = time.monotonic() + stop_s
        known = newest_report(query)
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            query.awaitTermination(0.05)
            if newest_report(query) != known:
                break
        if not query.isActive:
            query.awaitTermination(POLL_S)
        query.stop()


def newest_report(query: StreamingQuery) -> tuple[int, str] | None:
    """Return which progress report of a query is its newest: one follows each micro-batch, before the next begins."""
    progress = query.lastProgress
    return None if progress is None else (int(progress["batchId"]), str(progress["timestamp"]))


def wait_for_commit(attachment: spark_kcoord.Attachment, query: StreamingQuery, timeout_s: float) -> None:
    """Wait until the last micro-batch is committed; where it cannot be, say that the next start does it.

    Raises UnreadBatchError when it was not read: no start commits that.
    """
    try:
        attachment.wait(query, timeout_s)
    except UnreadBatchError:
        raise
    except KcoordError as error:
        log.warning("the last micro-batch is done, and will be committed when the query starts again: %s", error)


def ingest(spark: SparkSession, arguments: argparse.Namespace, name: str, asked: list[int]) -> int:
    """Run the query to its end, or until a signal has been received, and return the exit code."""
    why = why_not_together(arguments.output, arguments.checkpoint, lambda directory: names_in(spark, directory))
    if why is not None:
        log.error("nothing was read: %s", why)
        return 2
    attachment = spark_kcoord.attach(spark, security=coordinator_security(read_options(arguments)))
    query = start_query(spark, arguments, name)
    log.info("query %s runs, checkpoint %s", query.id, arguments.checkpoint)
    follow(query, asked, arguments.stop_timeout)
    wait_for_commit(attachment, query, arguments.stop_timeout)
    log.info("the query ended as asked")
    return 0


def main(given: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    start_log()
    parser = argument_parser()
    arguments = parser.parse_args(given)
    try:
        parse_options(read_options(arguments), "stream")
        stream_sink_options(arguments)
    except ValueError as error:
        parser.error(str(error))
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: asked.append(received))
    name = name_of(arguments)
    return run_in_spark(name, lambda spark: ingest(spark, arguments, name, asked))


if __name__ == "__main__":
    sys.exit(main())
