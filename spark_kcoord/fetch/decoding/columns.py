"""The columns of decoded rows: their schema, exactly as Spark derives it, and those that are the same in every row.

Columns that hold one value for a whole partition are cut from a longer array that is kept, so they cost
nothing per record. Header keys that are not UTF-8 are replaced as Java's String does it, because that is what
a reader of the JVM connector sees.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_kcoord.errors import KcoordError

__all__ = ["COLUMNS", "arrow_schema", "header_keys", "partition_column", "topic_column"]

_HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_SCHEMA: Final[pa.Schema] = pa.schema(
    (
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", _HEADERS),
    )
)
COLUMNS: Final[tuple[str, ...]] = tuple(_SCHEMA.names)
"""The names of all columns, in Spark's order; ``headers`` is the last."""

_KEPT_ARRAYS: Final = 4
_SMALLEST_ROWS: Final = 1 << 6
_LARGEST_COLUMN_BYTES: Final = (1 << 31) - 1
# Java reads an encoded surrogate, whole or cut short, as one bad character, Python each of its bytes.
_ENCODED_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}".encode()


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of rows with these columns, which come in Spark's order whatever the order given.

    Raises ValueError for a name that is no column, and for none at all.
    """
    if not columns or not set(columns).issubset(_SCHEMA.names):
        raise ValueError(f"the columns must be some of {', '.join(_SCHEMA.names)}, not {', '.join(columns) or 'none'}")
    return pa.schema([field for field in _SCHEMA if field.name in columns])


def topic_column(topic: str, rows: int, where: str) -> pa.Array[Any]:
    """Return the topic's name ``rows`` times; raises KcoordError where that does not fit in one Arrow array."""
    text = topic.encode()
    if rows * len(text) > _LARGEST_COLUMN_BYTES:
        raise KcoordError(f"{where}: a batch of {rows} records is more than one Arrow array can hold the topic of.")
    most = _LARGEST_COLUMN_BYTES // max(1, len(text))
    return _texts(text, min(most, _rounded(rows))).slice(0, rows)


def partition_column(partition: int, rows: int) -> pa.Array[Any]:
    """Return the partition's number ``rows`` times."""
    return _numbers(partition, _rounded(rows)).slice(0, rows)


def header_keys(keys: pa.Array[Any]) -> pa.Array[Any]:
    """Return binary header keys as strings, bytes that are not UTF-8 replaced as Java replaces them."""
    strings = keys.view(pa.string())
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        replaced = [_ENCODED_SURROGATE.sub(_REPLACEMENT, key or b"") for key in keys.to_pylist()]
        return pa.array([key.decode(errors="replace") for key in replaced], pa.string())
    return strings


def _rounded(rows: int) -> int:
    """Return ``rows`` or more, so that few lengths are asked for."""
    return max(_SMALLEST_ROWS, 1 << (rows - 1).bit_length() if rows else 0)


# pa.repeat and pa.scalar would load pandas, where it is installed, which takes longer than most tasks.
@lru_cache(maxsize=_KEPT_ARRAYS)
def _texts(text: bytes, rows: int) -> pa.Array[Any]:
    ends = np.arange(rows + 1, dtype=np.int32) * len(text)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(ends.data), pa.py_buffer(text * rows)], 0)


@lru_cache(maxsize=_KEPT_ARRAYS)
def _numbers(number: int, rows: int) -> pa.Array[Any]:
    return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(np.full(rows, number, np.int32).data)], 0)
