"""The attributes, names and links of a consumer's spans, as the conventions for messaging have them, without a library.

Names are those of OpenTelemetry's semantic conventions 1.44, which are in Development for messaging. No attribute holds
a key, a value or a header of a record: of headers only those are read that the propagator asks for by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow.compute as pc

from spark_kcoord.consumer.core.chunk_rows import Piece
from spark_kcoord.consumer.errors import ConsumerClosedError, ConsumerError, InterruptedPollError

__all__ = [
    "COMMIT",
    "MOST_LINKS",
    "POLL",
    "SCHEMA_URL",
    "Attributes",
    "Delivery",
    "Headers",
    "Key",
    "Operation",
    "Source",
    "client_attributes",
    "delivery_of_records",
    "delivery_of_rows",
    "destination",
    "error_type",
    "header_text",
    "named_in",
    "span_name",
]

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the conventions whose names are used, as telemetry says it of itself."""

MOST_LINKS: Final = 128
"""The most links of a span, which is also what an SDK keeps unless told otherwise."""

MOST_HEADER_BYTES: Final = 512
"""The longest header that is read for a link: what W3C has a `tracestate` be at least passed on with."""

Key: TypeAlias = tuple[str, int]
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
Attributes: TypeAlias = dict[str, str | int]


@dataclass(frozen=True, slots=True)
class Operation:
    """One kind of operation: its name in Kafka's words, and its type in those of the conventions."""

    name: str
    type: str


POLL: Final = Operation("poll", "receive")
COMMIT: Final = Operation("commit", "settle")


@dataclass(frozen=True, slots=True)
class Source:
    """A record whose headers may name the span in which it was produced."""

    topic: str
    partition: int
    offset: int
    headers: Headers

    def attributes(self) -> Attributes:
        """Return the attributes of the link to that span."""
        return {**destination([(self.topic, self.partition)]), "messaging.kafka.offset": self.offset}


@dataclass(frozen=True, slots=True)
class Delivery:
    """The records that a program was given: how many of each partition, and the first ones that have headers.

    `offset` is that of the only record, None where there are several or none.
    """

    counts: Mapping[Key, int]
    sources: tuple[Source, ...] = ()
    offset: int | None = None

    def attributes(self) -> Attributes:
        """Return the attributes that say what was delivered."""
        made: Attributes = {"messaging.batch.message_count": sum(self.counts.values())}
        if self.offset is not None:
            made["messaging.kafka.offset"] = self.offset
        return made


def delivery_of_records(records: Iterable[Any]) -> Delivery:
    """Return what a program was given as records."""
    counts: dict[Key, int] = {}
    sources: list[Source] = []
    offset = None
    for record in records:
        key = (record.topic, record.partition)
        counts[key] = counts.get(key, 0) + 1
        offset = record.offset
        if record.headers and len(sources) < MOST_LINKS:
            sources.append(Source(*key, record.offset, record.headers))
    return Delivery(counts, tuple(sources), offset if sum(counts.values()) == 1 else None)


def delivery_of_rows(pieces: Sequence[Piece]) -> Delivery:
    """Return what a program was given as rows, which become Python objects only where they have headers and a place."""
    counts: dict[Key, int] = {}
    sources: list[Source] = []
    for piece in pieces:
        counts[piece.key] = counts.get(piece.key, 0) + piece.rows.num_rows
        headers, offsets = piece.rows.column("headers"), piece.rows.column("offset")
        have_some = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
        for at in np.flatnonzero(have_some)[: MOST_LINKS - len(sources)]:
            found = [(one["key"], one["value"]) for one in headers[int(at)].as_py()]
            sources.append(Source(*piece.key, offsets[int(at)].as_py(), found))
    if sum(counts.values()) != 1:
        return Delivery(counts, tuple(sources))
    (offset,) = (offset for piece in pieces for offset in piece.rows.column("offset").to_pylist())
    return Delivery(counts, tuple(sources), offset)


def client_attributes(operation: Operation, group_id: str | None, client_id: str) -> Attributes:
    """Return the attributes of every span of a consumer; `messaging.client.id` is last."""
    made: Attributes = {
        "messaging.system": "kafka",
        "messaging.operation.name": operation.name,
        "messaging.operation.type": operation.type,
    }
    if group_id is not None:
        made["messaging.consumer.group.name"] = group_id
    made["messaging.client.id"] = client_id
    return made


def destination(keys: Collection[Key]) -> Attributes:
    """Return the topic and the partition, each where it is one."""
    made: Attributes = {}
    topics = {topic for topic, _ in keys}
    if len(topics) == 1:
        made["messaging.destination.name"] = next(iter(topics))
    if len(set(keys)) == 1:
        made["messaging.destination.partition.id"] = str(next(iter(keys))[1])
    return made


def span_name(operation: Operation, keys: Collection[Key]) -> str:
    """Return the name of a span: its operation, and the topic where it is one."""
    topics = {topic for topic, _ in keys}
    return f"{operation.name} {next(iter(topics))}" if len(topics) == 1 else operation.name


def named_in(offsets: Any) -> list[Key]:
    """Return the partitions that a program gave offsets of; none where that is no mapping of partitions."""
    if not isinstance(offsets, Mapping):
        return []
    return [(key[0], key[1]) for key in offsets if isinstance(key, tuple) and len(key) == 2]


def error_type(error: Exception) -> str | None:
    """Return the `code` of an operation that failed, None where the program ended it by `interrupt` or `close`."""
    if isinstance(error, InterruptedPollError | ConsumerClosedError):
        return None
    return error.code if isinstance(error, ConsumerError) else "_OTHER"


def header_text(headers: Headers, name: str) -> str | None:
    """Return the last header of a name as text, None without one or where it is longer than one for links may be."""
    for known, value in reversed(headers):
        if known == name and value is not None:
            return value.decode("utf-8", "replace") if len(value) <= MOST_HEADER_BYTES else None
    return None
