"""Rows of a Spark frame in the shape in which the oracle returns those of a topic."""

from typing import Any

from pyspark.sql import DataFrame


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the rows ordered by partition and offset, binary values as bytes; timestamps must be numbers already."""
    return [_plain(row.asDict(recursive=True)) for row in frame.orderBy("partition", "offset").collect()]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return bytes(value) if isinstance(value, bytearray) else value
