"""From rows in Arrow to records of Python objects, without the compiled module: the same records, some times slower.

A record has kafka-python's thirteen fields. The class of the records is given; any named tuple of these fields will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final

import pyarrow as pa

__all__ = ["NO_EPOCH", "epoch_at", "records"]

NO_EPOCH: Final = -1


def epoch_at(epochs: Sequence[tuple[int, int]], offset: int) -> int:
    """Return the epoch of the leader that wrote an offset, NO_EPOCH where that is not known.

    `epochs` are pairs of the offset before which an epoch counts, and the epoch, in order.
    """
    return next((epoch for until, epoch in epochs if offset < until), NO_EPOCH)


def records(
    rows: pa.RecordBatch, topic: str, partition: int, epochs: Sequence[tuple[int, int]], kind: type[Any]
) -> list[Any]:
    """Return the rows as records; see `spark_kcoord.fetch.decoding.decode.Decoder`."""
    count = rows.num_rows
    offsets: list[Any] = rows.column("offset").to_pylist()
    keys: list[bytes | None] = rows.column("key").to_pylist()
    values: list[bytes | None] = rows.column("value").to_pylist()
    headers, header_sizes = _headers(rows.column("headers"), count)
    fields = zip(
        repeat(topic, count),
        repeat(partition),
        _epochs(epochs, offsets),
        offsets,
        _milliseconds(rows.column("timestamp")),
        rows.column("timestampType").to_pylist(),
        keys,
        values,
        headers,
        repeat(None),
        [-1 if key is None else len(key) for key in keys],
        [-1 if value is None else len(value) for value in values],
        header_sizes,
        strict=False,
    )
    # Without the check that a call of the class makes.
    return list(map(partial(tuple.__new__, kind), fields))


def _milliseconds(timestamps: Any) -> list[int]:
    numbers = timestamps.cast(pa.int64())
    if numbers.null_count:
        return [-1 if number is None else number // 1000 for number in numbers.to_pylist()]
    found: list[int] = (numbers.to_numpy() // 1000).tolist()
    return found


def _epochs(epochs: Sequence[tuple[int, int]], offsets: Sequence[int]) -> Any:
    if len(epochs) <= 1:
        return repeat(epochs[0][1] if epochs else NO_EPOCH)
    return [epoch_at(epochs, offset) for offset in offsets]


def _headers(column: Any, count: int) -> tuple[list[list[tuple[str, bytes | None]]], list[int]]:
    if column.null_count == count:
        return [[] for _ in range(count)], [-1] * count
    headers = [[(one["key"], one["value"]) for one in found or ()] for found in column.to_pylist()]
    sizes = [sum(len(key.encode()) + len(value or b"") for key, value in found) if found else -1 for found in headers]
    return headers, sizes
