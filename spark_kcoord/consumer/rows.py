"""From rows in Arrow to kafka-python's records: the same thirteen fields, the same values, in plain Python.

A deserializer that raises ends the list before its record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import pyarrow as pa

from spark_kcoord.consumer.core.machine import Piece
from spark_kcoord.consumer.errors import RecordDeserializationError
from spark_kcoord.consumer.values import ConsumerRecord
from spark_kcoord.fetch.tailing.fetched import Chunk

__all__ = ["records_of"]

_record = partial(tuple.__new__, ConsumerRecord)
"""Makes a record of thirteen values, without the check that a call of the class makes."""


def records_of(
    piece: Piece, key_deserializer: Any, value_deserializer: Any
) -> tuple[list[Any], RecordDeserializationError | None]:
    """Return the records of a piece, and why they end before its rows do, if so."""
    rows = piece.rows
    count = rows.num_rows
    offsets: list[int] = rows.column("offset").to_pylist()
    keys: list[bytes | None] = rows.column("key").to_pylist()
    values: list[bytes | None] = rows.column("value").to_pylist()
    key_sizes = [-1 if key is None else len(key) for key in keys]
    value_sizes = [-1 if value is None else len(value) for value in values]
    headers, header_sizes = _headers(rows.column("headers"), count)
    error: RecordDeserializationError | None = None
    if key_deserializer is not None or value_deserializer is not None:
        callers = (_caller(key_deserializer, piece.key[0]), _caller(value_deserializer, piece.key[0]))
        keys, values, error = _deserialized(piece.key, offsets, headers, keys, values, callers)
    fields = zip(
        repeat(piece.key[0]),
        repeat(piece.key[1]),
        _epochs(piece.chunk, offsets),
        offsets,
        _milliseconds(rows.column("timestamp")),
        rows.column("timestampType").to_pylist(),
        keys,
        values,
        headers,
        repeat(None),
        key_sizes,
        value_sizes,
        header_sizes,
        strict=False,
    )
    return list(map(_record, fields)), error


def _milliseconds(timestamps: Any) -> list[int]:
    numbers = timestamps.cast(pa.int64())
    if numbers.null_count:
        return [-1 if number is None else number // 1000 for number in numbers.to_pylist()]
    found: list[int] = (numbers.to_numpy() // 1000).tolist()
    return found


def _epochs(chunk: Chunk, offsets: Sequence[int]) -> Any:
    if len(chunk.epochs) <= 1:
        return repeat(chunk.epochs[0][1] if chunk.epochs else -1)
    return [chunk.epoch_at(offset) for offset in offsets]


def _headers(column: Any, count: int) -> tuple[list[list[tuple[str, bytes | None]]], list[int]]:
    if column.null_count == count:
        return [[] for _ in range(count)], [-1] * count
    headers = [[(one["key"], one["value"]) for one in found or ()] for found in column.to_pylist()]
    sizes = [sum(len(key.encode()) + len(value or b"") for key, value in found) if found else -1 for found in headers]
    return headers, sizes


def _deserialized(
    key: tuple[str, int],
    offsets: Sequence[int],
    headers: Sequence[Any],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    callers: tuple[Callable[[Any, bytes | None], Any], Callable[[Any, bytes | None], Any]],
) -> tuple[list[Any], list[Any], RecordDeserializationError | None]:
    of_key, of_value = callers
    made_keys: list[Any] = []
    made_values: list[Any] = []
    for offset, header, one_key, one_value in zip(offsets, headers, keys, values, strict=True):
        what = "key"
        try:
            made_key = of_key(header, one_key)
            what = "value"
            made_values.append(of_value(header, one_value))
        except Exception as error:  # noqa: BLE001 - whatever the program's own function raises is told with its record
            why = (
                f"The {what} of topic '{key[0]}' partition {key[1]} offset {offset} cannot be deserialized: "
                f"{type(error).__name__}: {error}. Seek to offset {offset + 1} to pass it."
            )
            failure = RecordDeserializationError(why, *key, offset)
            failure.__cause__ = error
            return made_keys, made_values, failure
        made_keys.append(made_key)
    return made_keys, made_values, None


def _caller(deserializer: Any, topic: str) -> Callable[[Any, bytes | None], Any]:
    if deserializer is None:
        return lambda _, data: data
    if hasattr(deserializer, "deserialize"):
        return lambda headers, data: deserializer.deserialize(topic, headers, data)
    return lambda _, data: deserializer(data)
