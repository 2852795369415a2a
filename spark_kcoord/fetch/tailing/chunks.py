"""From the raw records of one answer to chunks of rows: pure, and without loss where a batch cannot be read.

What comes before a bad batch comes first; then the trouble, with the offset at which the batch begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.decoding.decode import AbortedTransaction, DecodedBatch, decode, end_of
from spark_kcoord.fetch.decoding.record_set import batches
from spark_kcoord.fetch.tailing.fetched import NO_EPOCH, Chunk, Trouble
from spark_kcoord.fetch.topic_range import TopicPartition

__all__ = ["chunks_of"]

_MOST_BYTES: Final = 4 << 20
"""Bytes of one chunk; one batch may be larger."""
_BYTES_PER_ROW: Final = 32
_COUNTED: Final = frozenset({"key", "value", "headers"})


def chunks_of(
    key: TopicPartition,
    token: int,
    records: bytes | memoryview,
    start: int,
    end: int,
    *,
    columns: tuple[str, ...],
    aborted: tuple[AbortedTransaction, ...] | None,
    check_crcs: bool,
    ends: tuple[int, int],
    topic_id: str | None = None,
) -> Iterator[Chunk | Trouble]:
    """Yield the offsets [start, end) of a record set in order; `ends` are the log's readable end and high watermark.

    A trouble is the last that is yielded.
    """
    epochs = _epochs(records, f"topic '{key[0]}' partition {key[1]}")
    position = start

    def decoded(until: int) -> DecodedBatch:
        return decode(
            records,
            *key,
            position,
            until,
            columns=columns,
            aborted=aborted,
            check_crcs=check_crcs,
            max_bytes=_MOST_BYTES,
        )

    while position < end:
        try:
            found = decoded(end)
        except KcoordError as error:
            before, bad_at = _before_the_bad_one(records, position, end, decoded)
            if before is None:
                yield Trouble(key, token, max(position, bad_at), error, is_of_record=True)
                return
            found = before
        if found.next_offset <= position:
            why = f"topic '{key[0]}' partition {key[1]}: nothing can be decoded at offset {position}."
            yield Trouble(key, token, position, KcoordError(why), is_of_record=True)
            return
        rows = found.rows if found.rows.num_rows else None
        size = 0 if rows is None else _size(rows)
        yield Chunk(key, token, position, found.next_offset, rows, size, epochs, *ends, topic_id)
        position = found.next_offset


def _before_the_bad_one(
    records: bytes | memoryview, position: int, end: int, decoded: Callable[[int], DecodedBatch]
) -> tuple[DecodedBatch | None, int]:
    """Return what can be decoded from a position on, a batch at least, or None and where the bad batch begins."""
    try:
        for batch in batches(memoryview(records), ""):
            if batch.next_offset <= position:
                continue
            try:
                return decoded(min(batch.next_offset, end)), position
            except KcoordError:
                return None, batch.base_offset
    except KcoordError:
        return None, position
    return None, position


def _epochs(records: bytes | memoryview, where: str) -> tuple[tuple[int, int], ...]:
    """Return up to which offset each leader epoch of a record set goes; nothing where it has none."""
    try:
        last = end_of(records, where)
        if last is None or last.leader_epoch == NO_EPOCH:
            return ()
        first = next(batches(memoryview(records), where))
        if first.leader_epoch == last.leader_epoch:
            return ((last.next_offset, last.leader_epoch),)
        found: dict[int, int] = {}
        for batch in batches(memoryview(records), where):
            found[batch.leader_epoch] = batch.next_offset
    except (KcoordError, StopIteration):
        return ()
    return tuple(sorted((until, epoch) for epoch, until in found.items()))


def _size(rows: pa.RecordBatch) -> int:
    counted = sum(rows.column(name).nbytes for name in rows.schema.names if name in _COUNTED)
    return int(counted) + _BYTES_PER_ROW * rows.num_rows
