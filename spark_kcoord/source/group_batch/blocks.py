"""The blocks of ``spark_kcoord.batch`` that have ended in a Spark session, as the tasks of that session are told.

Spark plans a DataFrame's source once and keeps the plan, so that the end of a block, which commits its ranges, would
not be noticed by what is read of its rows later. The session's configuration is sent along with every task of an action
on DataFrames: it names the blocks that have ended, and a task of one of them refuses to read. Tasks of actions on RDDs
get what is set for their thread alone, so that the thread in which a block ends is told too. Executors import this:
nothing of the coordinator's.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from spark_kcoord.errors import KcoordError
from spark_kcoord.source.process.jvm_errors import JVM_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BLOCKS_REMEMBERED", "ENDED_BLOCKS", "must_not_have_ended", "note_ended", "over"]

_log = logging.getLogger(__name__)

ENDED_BLOCKS: Final = "spark.kcoord.batches.ended"
"""The session's setting: ids of blocks, separated by spaces, the last one last."""

BLOCKS_REMEMBERED: Final = 200
"""So many blocks that have ended are named; the setting travels with every task."""

_changing = threading.Lock()


def note_ended(spark: SparkSession, block: str) -> None:
    """Have tasks of this session read nothing more for a block; a session that has ended needs no word of it."""
    try:
        with _changing:
            before = str(spark.conf.get(ENDED_BLOCKS, "") or "").split()
            ended = " ".join([*before, block][-BLOCKS_REMEMBERED:])
            spark.conf.set(ENDED_BLOCKS, ended)
            spark._jsparkSession.sparkContext().setLocalProperty(ENDED_BLOCKS, ended)
    except (PySparkException, *JVM_ERRORS, OSError) as error:
        _log.debug("the session cannot be told that block %s is over: %s", block, error)


def must_not_have_ended(block: str) -> None:
    """Raise KcoordError in a task whose block has ended."""
    from pyspark import TaskContext

    context = TaskContext.get()
    ended = None if context is None else context.getLocalProperty(ENDED_BLOCKS)
    if ended is not None and block in ended.split():
        raise over()


def over() -> KcoordError:
    """Say that a block is over whose rows are asked for."""
    return KcoordError(
        "The block of spark_kcoord.batch whose rows these are is over: its ranges are committed, or somebody else's by "
        "now. Read the rows inside of the block; what is to be kept has to be written or cached there."
    )
