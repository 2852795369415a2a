"""The rows of chunks, cut by offset and by bytes; of rows only what an Arrow table offers is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coordinator.protocol.ids import TopicPartition
from spark_kcoord.fetch.tailing.fetched import Chunk

__all__ = ["Piece", "last_offset", "rows_before", "within"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that one call returns of one partition, the offset after them, and the leader epochs of its chunk."""

    key: TopicPartition
    rows: Any
    next_offset: int
    chunk: Chunk


def last_offset(rows: Any) -> int:
    """Return the offset of the last row."""
    offset: int = rows.column("offset")[-1].as_py()
    return offset


def rows_before(chunk: Chunk, position: int) -> int:
    """Return how many rows of a chunk come before a position."""
    if position <= chunk.start:
        return 0
    if position >= chunk.next_offset:
        return int(chunk.rows.num_rows)
    offsets, low, high = chunk.rows.column("offset"), 0, chunk.rows.num_rows
    # As in most logs each offset has a row; in a damaged one another row may have it twice.
    at = position - chunk.start
    if high == chunk.next_offset - chunk.start and offsets[at].as_py() == position:
        return at
    while low < high:
        middle = (low + high) // 2
        if offsets[middle].as_py() < position:
            low = middle + 1
        else:
            high = middle
    return low


def within(rows: Any, most: int, *, is_first: bool) -> Any:
    """Return about as many of the first rows as have so many bytes, one at least where nothing else is returned."""
    if rows.nbytes <= most:
        return rows
    return rows.slice(0, max(rows.num_rows * most // rows.nbytes, int(is_first)))
