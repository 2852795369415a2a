"""The Parquet files that a job writes once: the arguments that name them, and the write that counts its rows.

A streaming job has a sink of its own, because its output and its checkpoint belong together.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sf

__all__ = ["add_sink_arguments", "write_parquet"]


def add_sink_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where rows go, and in which form."""
    sink = parser.add_argument_group("where it goes")
    sink.add_argument("--output", required=True, metavar="PATH", help="directory of the Parquet files")
    sink.add_argument("--as-text", action="store_true", help="write key and value as text instead of bytes")
    sink.add_argument(
        "--mode",
        choices=("error", "append", "overwrite"),
        default="error",
        help="what to do when the output exists (default: fail)",
    )


def write_parquet(rows: DataFrame, arguments: argparse.Namespace) -> int:
    """Write rows as the arguments say and return their number."""
    if arguments.as_text:
        rows = rows.withColumns({name: rows[name].cast("string") for name in ("key", "value")})
    counted = Observation("rows")
    rows.observe(counted, sf.count(sf.lit(1)).alias("rows")).write.mode(arguments.mode).parquet(arguments.output)
    return int(counted.get["rows"])
