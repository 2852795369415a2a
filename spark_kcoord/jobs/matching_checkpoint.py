"""The test that a streaming job's output and checkpoint belong together, as far as names of micro-batches tell.

Spark's file sink keeps the numbers of the micro-batches that it has written in ``_spark_metadata`` and passes over
those it knows. An output that knows a number which the checkpoint has not reached was written with another checkpoint.
Both are looked at through Spark's own file systems, so that they may be anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["names_in", "why_not_together"]

_NUMBER: Final = re.compile(r"(\d+)(?:\.compact)?")


def why_not_together(output: str, checkpoint: str, names_of: Callable[[str], Iterable[str]]) -> str | None:
    """Say why a query must not be started with this output and checkpoint; None when it may.

    `names_of` lists the names in a directory, none when it does not exist.
    """
    written = _newest(names_of(f"{output}/_spark_metadata"))
    begun = _newest(names_of(f"{checkpoint}/offsets"))
    if written is None or (begun is not None and begun >= written):
        return None
    reached = "is new" if begun is None else f"has only reached micro-batch {begun}"
    return (
        f"the output {output} was written by a query up to micro-batch {written}, and the checkpoint {checkpoint} "
        f"{reached}: Spark would pass over every micro-batch whose number the output knows, and write nothing of it. A "
        "new checkpoint needs a new output: name another --output, or the --checkpoint that this one was written with"
    )


def names_in(spark: SparkSession, directory: str) -> list[str]:
    """Return the names in a directory of any file system that Spark knows, none when it does not exist."""
    path = spark._jvm.org.apache.hadoop.fs.Path(directory)
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    return [str(each.getPath().getName()) for each in files.listStatus(path)] if files.exists(path) else []


def _newest(names: Iterable[str]) -> int | None:
    numbers = [int(found[1]) for name in names if (found := _NUMBER.fullmatch(name))]
    return max(numbers, default=None)
