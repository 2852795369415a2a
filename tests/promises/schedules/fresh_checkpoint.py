"""A new checkpoint beside an old output: Spark passes over numbers it knows, and 1,700 records were lost so."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

import spark_kcoord
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.parquet_stream import a_stream, to_parquet, values_in
from tests.helpers.python_path import python_path
from tests.promises.schedule import BrokenError, Schedule, must, must_have

if TYPE_CHECKING:
    from tests.promises.place import Place

ROOT = Path(__file__).resolve().parents[3]
FIRST, MORE = 200, 100


class _Said(logging.Handler):
    """Keeps what is logged as errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _run(place: "Place", name: str, folder: Path, checkpoint: str, **trigger: Any) -> Any:
    """Run the README's query with a checkpoint of this name, and return it when it has ended."""
    stream = a_stream(place.spark, place.coordinator, name, subscribe=name, startingOffsets="earliest")
    writer = to_parquet(stream, folder).option("checkpointLocation", str(folder / checkpoint))
    query = writer.trigger(**trigger).start()
    query.awaitTermination(90)
    return query


def _written(place: "Place", word: str) -> tuple[str, Path]:
    """Return a topic whose first records are in an output, and whose others nobody has read."""
    name, folder = place.topic(word, 2), place.folder(word)
    produce_numbers(place.kafka.bootstrap_servers, name, 2, 0, FIRST)
    attachment = spark_kcoord.attach(place.spark, coordinators=place.coordinator.address)
    try:
        attachment.wait(_run(place, name, folder, "checkpoint", availableNow=True), 30)
    finally:
        attachment.close()
    produce_numbers(place.kafka.bootstrap_servers, name, 2, FIRST, MORE)
    return name, folder


def _must_be_unread(place: "Place", name: str, folder: Path) -> None:
    committed = GroupView(place.coordinator.address, name).committed()
    must(committed == FIRST, f"{committed - FIRST} records are committed that no output has", kind="lost")
    must_have(set(range(FIRST)), set(values_in(place.spark, folder)), what="the old output")


def _must_be_read_with_a_new_output(place: "Place", name: str, folder: Path) -> None:
    stream = a_stream(place.spark, place.coordinator, name, subscribe=name, startingOffsets="earliest")
    writer = to_parquet(stream, folder / "new")
    writer.trigger(availableNow=True).start().awaitTermination(90)
    must_have(set(range(FIRST, FIRST + MORE)), set(values_in(place.spark, folder / "new")), what="the new output")


def readme_query(place: "Place") -> None:
    """Run the README's query with a new checkpoint and its old output, then with both new."""
    name, folder = _written(place, "fresh")
    try:
        _run(place, name, folder, "another", availableNow=True)
    except StreamingQueryException as error:
        must("has not read it" in str(error), f"the query failed without saying why: {error}")
    else:
        raise BrokenError("lost", "a query that wrote nothing of what it was given ended well")
    _must_be_unread(place, name, folder)
    _must_be_read_with_a_new_output(place, name, folder)


def attached_query(place: "Place") -> None:
    """Run one micro-batch with a new checkpoint and an old output, attached: no further trigger comes."""
    name, folder = _written(place, "attached")
    attachment = spark_kcoord.attach(place.spark, coordinators=place.coordinator.address)
    said = _Said()
    logging.getLogger("spark_kcoord.source.listeners.finished_batches").addHandler(said)
    try:
        attachment.wait(_run(place, name, folder, "another", once=True), 30)
    except spark_kcoord.UnreadBatchError as error:
        said.lines.append(str(error))
    finally:
        logging.getLogger("spark_kcoord.source.listeners.finished_batches").removeHandler(said)
        attachment.close()
    must(
        any("read no row" in line or "has not read it" in line for line in said.lines), f"nobody says why: {said.lines}"
    )
    _must_be_unread(place, name, folder)
    _must_be_read_with_a_new_output(place, name, folder)


def ingest_job(place: "Place") -> None:
    """Run jobs/ingest_stream.py with a new checkpoint and an old output."""
    name, folder = _written(place, "job")
    job = [sys.executable, str(ROOT / "jobs" / "ingest_stream.py"), "--coordinator", place.coordinator.address]
    job += ["--group", name, "--topic", name, "--as-text", "--available-now"]
    job += ["--output", str(folder / "rows"), "--checkpoint", str(folder / "another")]
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false pyspark-shell",
        "PYTHONPATH": python_path(ROOT),
    }
    ended = subprocess.run(job, env=environment, capture_output=True, text=True, timeout=90, check=False)
    _must_be_unread(place, name, folder)
    must(ended.returncode == 2, f"the job ended with {ended.returncode}: {ended.stderr[-800:]}")
    must("A new checkpoint needs a new output" in ended.stderr, f"the job does not say why: {ended.stderr[-800:]}")
    must(not (folder / "another").exists(), "the job began a checkpoint that it refuses")


SCHEDULES = [
    Schedule("fresh-checkpoint-query", "a query commits nothing that its sink passed over", readme_query),
    Schedule("fresh-checkpoint-attached", "attach commits nothing that the sink passed over", attached_query),
    Schedule("fresh-checkpoint-job", "the job refuses a new checkpoint beside an old output", ingest_job),
]
