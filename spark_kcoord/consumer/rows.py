"""The records of a program: rows made into kafka-python's named tuples, and its deserializers applied to them.

A deserializer that raises ends the list before its record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spark_kcoord.consumer.core.chunk_rows import Piece
from spark_kcoord.consumer.errors import RecordDeserializationError
from spark_kcoord.consumer.values import ConsumerRecord
from spark_kcoord.fetch.decoding.decode import chosen_decoder

__all__ = ["records_of"]


def records_of(
    piece: Piece, key_deserializer: Any, value_deserializer: Any
) -> tuple[list[Any], RecordDeserializationError | None]:
    """Return the records of a piece, and why they end before its rows do, if so."""
    make = chosen_decoder().decoder.records
    records = make(piece.rows, *piece.key, piece.chunk.epochs, ConsumerRecord)
    if key_deserializer is None and value_deserializer is None:
        return records, None
    topic = piece.key[0]
    return _deserialized(records, _caller(key_deserializer, topic), _caller(value_deserializer, topic))


def _deserialized(
    records: Sequence[Any],
    of_key: Callable[[Any, bytes | None], Any],
    of_value: Callable[[Any, bytes | None], Any],
) -> tuple[list[Any], RecordDeserializationError | None]:
    made: list[Any] = []
    for record in records:
        what = "key"
        try:
            key = of_key(record.headers, record.key)
            what = "value"
            value = of_value(record.headers, record.value)
        except Exception as error:  # noqa: BLE001 - whatever the program's own function raises is told with its record
            why = (
                f"The {what} of topic '{record.topic}' partition {record.partition} offset {record.offset} cannot be "
                f"deserialized: {type(error).__name__}: {error}. Seek to offset {record.offset + 1} to pass it."
            )
            failure = RecordDeserializationError(why, record.topic, record.partition, record.offset)
            failure.__cause__ = error
            return made, failure
        made.append(record._replace(key=key, value=value))
    return made, None


def _caller(deserializer: Any, topic: str) -> Callable[[Any, bytes | None], Any]:
    if deserializer is None:
        return lambda _, data: data
    if hasattr(deserializer, "deserialize"):
        return lambda headers, data: deserializer.deserialize(topic, headers, data)
    return lambda _, data: deserializer(data)
