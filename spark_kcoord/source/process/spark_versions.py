"""The Sparks that kcoord runs on, and one sentence about what an older one lacks.

Batch reads need the Python data sources of Spark 4.1, streams those of 4.2, where a source is told from where to go on
and how far. It is not the number that decides but what the pyspark of this process has, because platforms give Spark
numbers of their own. Stdlib only, so that it can be asked where nothing else can be imported.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from typing import Final

__all__ = [
    "NEEDED_FOR_BATCHES",
    "NEEDED_FOR_STREAMS",
    "NEWEST_TRIED",
    "batch_lack",
    "parse_version",
    "spark_here",
    "stream_lack",
]

NEEDED_FOR_BATCHES: Final = "4.1"
NEEDED_FOR_STREAMS: Final = "4.2"
NEWEST_TRIED: Final = "4.3"
"""The last version that `make compat` runs."""
_HOME_OF_STREAMS: Final = "pyspark.sql.streaming.datasource"


def batch_lack() -> str | None:
    """Return what this process's Spark lacks for any read, in one sentence; None where it can read."""
    from pyspark.sql import datasource

    if hasattr(datasource, "Filter"):
        return None
    return (
        f"kcoord needs Spark {NEEDED_FOR_BATCHES} or newer for batch reads and {NEEDED_FOR_STREAMS} or newer for "
        f"streams, and this is Spark {spark_here()}: install a newer one, for example with pip install 'kcoord[spark]'."
    )


def stream_lack() -> str | None:
    """Return what this process's Spark lacks for a stream, in one sentence; None where it can stream."""
    if find_spec(_HOME_OF_STREAMS) is not None:
        return None
    return (
        f"A stream of kcoord needs Spark {NEEDED_FOR_STREAMS} or newer, and this is Spark {spark_here()}, which can "
        "only read batches with it: read with spark.read or spark_kcoord.batch, or install a newer Spark, for example "
        "with pip install 'kcoord[spark]'."
    )


def spark_here() -> str:
    """Return the version that the pyspark of this process gives itself."""
    return str(getattr(sys.modules.get("pyspark"), "__version__", "of an unknown version"))


def parse_version(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, such as (4, 2) of 4.2.1 and of 4.2.0.dev1."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
