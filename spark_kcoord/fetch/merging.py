"""Fewer and larger record batches from many small ones, since each costs Spark as much as a thousand rows do.

Batches that are not small pass as they are, without a copy; order is kept. Nothing is held back longer than the
batches that are there already take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

__all__ = ["merge_small"]

_SMALL_ROWS: Final = 1_000
_SMALL_BYTES: Final = 64 << 10
_ENOUGH_ROWS: Final = 10_000
_ENOUGH_BYTES: Final = 1 << 20


def merge_small(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``batches``, which have one schema, small batches merged with the small ones beside them."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        batch_bytes = batch.nbytes
        is_small = batch.num_rows <= _SMALL_ROWS and batch_bytes <= _SMALL_BYTES
        if is_small:
            waiting.append(batch)
            rows += batch.num_rows
            size += batch_bytes
        if waiting and (not is_small or rows >= _ENOUGH_ROWS or size >= _ENOUGH_BYTES):
            yield _merged(waiting)
            waiting = []
            rows = size = 0
        if not is_small:
            yield batch
    if waiting:
        yield _merged(waiting)


def _merged(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (merged,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return merged
