"""Blocks of ``spark_kcoord.batch`` that nobody read: seen to commit 33,380 records, also with Spark stopped in them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import spark_kcoord
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.python_path import python_path
from tests.promises.schedule import BrokenError, Schedule, must, must_have

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tests.promises.place import Place

RECORDS = 200
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
ROOT = Path(__file__).resolve().parents[3]

STOPS_SPARK = """
import sys
from pyspark.sql import SparkSession
import spark_kcoord
address, name = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
options = {"kcoord.bootstrap.servers": address, "kcoord.group.id": name, "subscribe": name}
try:
    with spark_kcoord.batch(spark, options) as new:
        assert new.records
        spark.stop()
except spark_kcoord.UnreadBatchError:
    sys.exit(3)
"""


def _topic(place: "Place", word: str) -> str:
    name = place.topic(word, 2)
    produce_numbers(place.kafka.bootstrap_servers, name, 2, 0, RECORDS)
    return name


def _block(place: "Place", name: str) -> spark_kcoord.GroupBatch:
    options = {"kcoord.bootstrap.servers": place.coordinator.address, "kcoord.group.id": name, "subscribe": name}
    return spark_kcoord.batch(place.spark, options)


def _numbers(rows: "DataFrame") -> set[int]:
    return {int(bytes(row.value).decode()) for row in rows.select("value").collect()}


def no_action_in_the_block(place: "Place") -> None:
    """Look at the rows of a block without reading them, then read them in a second block."""
    _only_look(place, "no-action")


def no_action_where_filters_are_pushed(place: "Place") -> None:
    """Do that where Spark pushes filters into Python sources, for which it plans while it optimizes."""
    place.spark.conf.set(PUSH_DOWN, "true")
    try:
        _only_look(place, "no-action-pushed")
    finally:
        place.spark.conf.unset(PUSH_DOWN)


def _only_look(place: "Place", word: str) -> None:
    name = _topic(place, word)
    view = GroupView(place.coordinator.address, name)
    ended_well = False
    try:
        with _block(place, name) as new:
            some = new.rows.where("offset > 3")
            some.explain()
            some.cache().unpersist()
            new.rows.createOrReplaceTempView("unread")
        ended_well = True
    except spark_kcoord.UnreadBatchError:
        pass
    must(not ended_well, f"a block of {RECORDS} unread records ended well", kind="lost")
    must(view.committed() == 0, f"{view.committed()} unread records are committed", kind="lost")
    with _block(place, name) as again:
        must_have(set(range(RECORDS)), _numbers(again.rows), what="the second block")
    must(view.committed() == RECORDS, f"the second block committed {view.committed()} of {RECORDS}")


def rows_after_the_block(place: "Place") -> None:
    """Read the rows of a block when it has ended: what it had planned, and what it had not."""
    name = _topic(place, "after")
    with _block(place, name) as new:
        rows = new.rows
        must_have(set(range(RECORDS)), _numbers(rows), what="the block")
    produce_numbers(place.kafka.bootstrap_servers, name, 2, RECORDS, 50)
    for what, late in (("planned rows", rows.collect), ("the batch's rows", lambda: new.rows.collect())):
        try:
            found = len(late())
        except (spark_kcoord.KcoordError, PySparkException, Py4JError) as error:
            must("is over" in str(error), f"{what} fail without saying that the block is over: {error}")
        else:
            raise BrokenError("wrong", f"{what} gave {found} rows after the block without a word")


def spark_stopped_in_the_block(place: "Place") -> None:
    """Stop Spark in a block before any action."""
    name = _topic(place, "stopped")
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": python_path(ROOT),
    }
    program = [sys.executable, "-c", STOPS_SPARK, place.coordinator.address, name]
    ended = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=90, check=False)
    committed = GroupView(place.coordinator.address, name).committed()
    must(committed == 0, f"{committed} unread records are committed", kind="lost")
    must(ended.returncode == 3, f"the program ended with {ended.returncode}: {ended.stderr[-800:]}")


SCHEDULES = [
    Schedule("batch-no-action", "a block whose rows no action read commits nothing", no_action_in_the_block),
    Schedule(
        "batch-no-action-pushed",
        "a block whose rows no action read commits nothing where Spark pushes filters",
        no_action_where_filters_are_pushed,
    ),
    Schedule("batch-rows-after-block", "rows of a block that is over are refused", rows_after_the_block),
    Schedule("batch-spark-stopped", "Spark stopped in a block commits nothing unread", spark_stopped_in_the_block),
]
