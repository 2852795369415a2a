"""OpenTelemetry, as a consumer uses it: one span and one duration an operation, and a count of records.

A span is made when its operation is over, with the times that it had: only then is it known whether there was anything,
and links are to be given to a sampler. Providers and the propagator are those that the program has set. Nothing that
they raise ends a call of the program.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Final

from opentelemetry.context import Context, get_current
from opentelemetry.metrics import get_meter
from opentelemetry.propagate import extract
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, get_current_span, get_tracer

from spark_kcoord.consumer.telemetry.facts import (
    COMMIT,
    MOST_LINKS,
    POLL,
    SCHEMA_URL,
    Attributes,
    Delivery,
    Headers,
    Key,
    Operation,
    Source,
    client_attributes,
    destination,
    header_text,
    span_name,
)

__all__ = ["Begun", "Over", "Recorder"]

_log = logging.getLogger(__name__)

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""The bounds of durations that the conventions ask for."""

_NOT_OF_METRICS: Final = frozenset({"messaging.client.id"})
_NOT_OF_DURATIONS: Final = _NOT_OF_METRICS | {"messaging.destination.partition.id"}
"""Attributes that would make a series of each client, and a histogram of each partition."""


@dataclass(frozen=True, slots=True)
class Over:
    """An operation that is over: ns since 1970 at its ends, and the context that it was begun in."""

    began_ns: int
    ended_ns: int
    context: Context


@dataclass(frozen=True, slots=True)
class Begun:
    """An operation that was begun: ns since 1970, of a clock that is never set, and the context of its caller."""

    began_ns: int
    at_ns: int
    context: Context

    def over(self) -> Over:
        """Return it as one that is over now; the clock of the machine may have been set meanwhile."""
        return Over(self.began_ns, self.began_ns + time.monotonic_ns() - self.at_ns, self.context)


class Recorder:
    """The spans and metrics of one consumer."""

    def __init__(self, group_id: str | None, client_id: str) -> None:
        version = metadata.version("kcoord")
        self._tracer = get_tracer("kcoord", version, schema_url=SCHEMA_URL)
        meter = get_meter("kcoord", version, schema_url=SCHEMA_URL)
        self._durations = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Duration of polls that returned records, and of commits.",
            explicit_bucket_boundaries_advisory=BOUNDS_S,
        )
        self._messages = meter.create_counter(
            "messaging.client.consumed.messages",
            unit="{message}",
            description="Records that the program was given.",
        )
        self._base = {operation: client_attributes(operation, group_id, client_id) for operation in (POLL, COMMIT)}
        self._has_failed = False

    def begin(self) -> Begun:
        """Begin an operation of the caller's context."""
        return Begun(time.time_ns(), time.monotonic_ns(), get_current())

    def delivered(self, over: Over, delivery: Delivery) -> None:
        """Record a poll that returned records; one that returned none is not recorded."""
        if not delivery.counts:
            return
        with self._apart():
            links = links_of(delivery.sources)
            self._record(POLL, over, tuple(delivery.counts), delivery.attributes(), links, None)
            counted = _without(self._base[POLL], _NOT_OF_METRICS)
            for key, count in delivery.counts.items():
                self._messages.add(count, counted | destination([key]))

    def committed(self, over: Over, keys: Collection[Key]) -> None:
        """Record a commit of partitions; one of none is not recorded."""
        if keys:
            with self._apart():
                self._record(COMMIT, over, keys, {}, (), None)

    def failed(self, operation: Operation, over: Over, keys: Collection[Key], error: str | None) -> None:
        """Record an operation that failed with its `error.type`; one that failed without is not recorded."""
        if error is not None:
            with self._apart():
                self._record(operation, over, keys, {}, (), error)

    def _record(
        self,
        operation: Operation,
        over: Over,
        keys: Collection[Key],
        more: Attributes,
        links: Sequence[Link],
        error: str | None,
    ) -> None:
        common = self._base[operation] | destination(keys) | ({} if error is None else {"error.type": error})
        span = self._tracer.start_span(
            span_name(operation, keys),
            over.context,
            SpanKind.CLIENT,
            common | more,
            links,
            over.began_ns,
            record_exception=False,
            set_status_on_exception=False,
        )
        if error is not None:
            # Without the message: a deserializer's may quote a value.
            span.set_status(Status(StatusCode.ERROR))
        span.end(over.ended_ns)
        self._durations.record((over.ended_ns - over.began_ns) / 1e9, _without(common, _NOT_OF_DURATIONS))

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Let nothing end a call of the program that its own telemetry raises; the first is told."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - a propagator, sampler, processor or exporter of the program's
            if not self._has_failed:
                self._has_failed = True
                _log.warning("spans or metrics of a consumer are lost: %s", type(error).__name__, exc_info=error)


def links_of(sources: Sequence[Source]) -> list[Link]:
    """Return links to the spans in which records were produced, as far as their headers name them."""
    links = []
    for source in sources[:MOST_LINKS]:
        # Of an empty context: the span that the program is in is not what produced a record.
        span = get_current_span(extract(source.headers, Context(), _GETTER)).get_span_context()
        if span.is_valid:
            links.append(Link(span, source.attributes()))
    return links


class _HeaderGetter(Getter[Headers]):
    """Reads a propagator's fields out of the headers of a record."""

    def get(self, carrier: Headers, key: str) -> list[str] | None:
        """Return the header of a name."""
        found = header_text(carrier, key)
        return None if found is None else [found]

    def keys(self, carrier: Headers) -> list[str]:
        """Return the names of all headers."""
        return [name for name, _ in carrier]


_GETTER: Final = _HeaderGetter()


def _without(attributes: Attributes, names: Collection[str]) -> Attributes:
    return {name: value for name, value in attributes.items() if name not in names}
