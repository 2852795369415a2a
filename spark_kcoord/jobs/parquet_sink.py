"""The Parquet files that jobs write: the arguments that name them, their form, and the write that counts its rows.

A streaming job adds a checkpoint of its own, and Spark's streaming sink writes its files.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sf

from spark_kcoord.jobs.arguments import read_pairs

__all__ = ["add_output_arguments", "add_sink_arguments", "as_text", "sink_options", "write_parquet"]

_SINK_OPTION = "--sink-option"


def add_output_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the arguments that say where rows go and in which form, and return their group for a job's own."""
    sink = parser.add_argument_group("where it goes")
    sink.add_argument("--output", required=True, metavar="PATH", help="directory of the Parquet files")
    sink.add_argument("--as-text", action="store_true", help="write key and value as text instead of bytes")
    sink.add_argument(
        _SINK_OPTION,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the Parquet sink, such as compression=zstd; repeat for several",
    )
    return sink


def add_sink_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a job that writes once: where rows go, in which form, and what becomes of what is there."""
    add_output_arguments(parser).add_argument(
        "--mode",
        choices=("error", "append", "overwrite"),
        default="error",
        help="what to do when the output exists (default: fail)",
    )


def sink_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the options of the Parquet sink; raises ValueError for one that is not KEY=VALUE."""
    return read_pairs(arguments.sink_option, _SINK_OPTION)


def as_text(rows: DataFrame) -> DataFrame:
    """Return the rows with key and value as text."""
    return rows.withColumns({name: rows[name].cast("string") for name in ("key", "value")})


def write_parquet(rows: DataFrame, arguments: argparse.Namespace) -> int:
    """Write rows as the arguments say and return their number."""
    if arguments.as_text:
        rows = as_text(rows)
    counted = Observation("rows")
    observed = rows.observe(counted, sf.count(sf.lit(1)).alias("rows"))
    observed.write.mode(arguments.mode).options(**sink_options(arguments)).parquet(arguments.output)
    return int(counted.get["rows"])
