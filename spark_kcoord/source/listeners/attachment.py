"""``spark_kcoord.attach(spark)``: a finished micro-batch is committed at once, not when the next one is planned.

Spark asks a source for the next micro-batch only at the next trigger, and after the last one never. The listener hears
of each finished micro-batch, after Spark has noted it as done in the commit log, and tells the coordinator, under the
member id and the owner epochs in its end offset. So the last commit of a query that ends, or that has a long trigger
interval, needs no further trigger, and partitions that others wait for are let go. Runs in the user's Spark driver
program and talks to the coordinator itself; the source's own process has another connection.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from coordinator.client.security import Coordinators
from coordinator.protocol.text.addresses import Address
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.options.kinds import SERVERS
from spark_kcoord.options.source_options import coordinators_at, host_ports
from spark_kcoord.source.listeners.divided_sources import say_divided
from spark_kcoord.source.listeners.finished_batches import FinishedBatch, FinishedBatches
from spark_kcoord.source.process.jvm_errors import JVM_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Attachment", "attach"]

_log = logging.getLogger(__name__)

TIMEOUT_S: Final = 120.0
"""The time that a coordinator which is away is waited for, that of option 'kcoord.coordinator.timeout' by default."""

_ASYNC: Final = "AsyncProgressTracking"
"""In the name of Spark's class for queries that go on before their micro-batches are noted as done."""


def attach(
    spark: SparkSession,
    *,
    coordinators: str | None = None,
    timeout_s: float = TIMEOUT_S,
    security: Mapping[str, str] | None = None,
) -> Attachment:
    """Commit each finished micro-batch of the session's kcoord queries at once; call it before they are started.

    `coordinators` (``host:port,…``) is where to ask first; by default the queries' own
    'kcoord.bootstrap.servers'. `timeout_s` is how long a coordinator that is away is waited for. `security` are options
    such as 'kcoord.ssl.ca.location', by which coordinators are spoken to: a query's own never leave it. Calling it
    twice for one session gives the first attachment. Raises OptionError for what cannot be read.

    With Spark Connect the listener runs in the client, so that the client has to reach the coordinator, and end with
    ``attachment.close()``: a listener's thread of Spark keeps the program from ending.

    Example::

        attachment = spark_kcoord.attach(spark)
        query = events.writeStream.trigger(once=True).…start()
        query.awaitTermination()
        attachment.wait(query)      # the group's offsets are those of the query now
    """
    known = _ATTACHED.get(id(spark))
    if known is not None:
        return known
    servers = () if coordinators is None else SERVERS.read("coordinators", coordinators)
    attachment = Attachment(spark, coordinators=servers, timeout_s=timeout_s, security=security)
    spark.streams.addListener(attachment)
    _ATTACHED[id(spark)] = attachment
    atexit.register(attachment.close)
    return attachment


_ATTACHED: Final[dict[int, Attachment]] = {}


class Attachment(StreamingQueryListener):  # type: ignore[misc]  # pyspark is untyped
    """The listener that `attach` adds to a session; its callbacks return at once.

    Queries with asynchronous progress tracking are left alone, with a warning: Spark says that a micro-batch is done
    before it is noted.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        coordinators: Iterable[str] = (),
        timeout_s: float = TIMEOUT_S,
        security: Mapping[str, str] | None = None,
    ) -> None:
        self._session = spark
        self._pid = os.getpid()
        self._coordinators = coordinators_at(tuple(coordinators), security or {})
        self._timeout_s = timeout_s
        self._finished = FinishedBatches(timeout_s=timeout_s)
        self._left_alone: set[str] = set()
        self._said_divided: set[str] = set()

    def wait(self, query: StreamingQuery, timeout_s: float | None = None) -> None:
        """Wait until the last finished micro-batch of a query is committed, after it has ended or at any time.

        Raises UnreadBatchError when Spark has not read it, KcoordError when the coordinator could not be told, or after
        `timeout_s` (default: that of `attach`).
        """
        progress = query.lastProgress
        if progress is None or str(progress["runId"]) in self._left_alone:
            return
        offsets = _offsets_of(progress, self._coordinators)
        if not any(_is_news(progress["sources"][place], offset) for place, (offset, _) in offsets.items()):
            # Spark reports a trigger that found nothing new under the number of the next micro-batch, of which no
            # listener is told. The source was asked from where on there is more, and has committed up to there.
            return
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        self._finished.wait(str(progress["runId"]), int(progress["batchId"]), timeout_s)

    def close(self) -> None:
        """Commit what still waits, for a few seconds, and stop listening; in a forked child do nothing.

        The connection to Spark is the parent's, and so are its thread and its listener.
        """
        if os.getpid() != self._pid:
            return
        _ATTACHED.pop(id(self._session), None)
        atexit.unregister(self.close)
        self._finished.close()
        try:
            self._session.streams.removeListener(self)
        except JVM_ERRORS as error:
            _log.debug("Spark has ended before its listener: %s", error)

    # ---- Spark's callbacks ------------------------------------------------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 (Spark's name)
        """Look whether the query may be followed."""
        if _is_asynchronous(self._session, str(event.id)):
            self._left_alone.add(str(event.runId))
            _log.warning(
                "query %s uses asynchronous progress tracking: its micro-batches are not committed by the listener, "
                "because Spark goes on before they are noted as done",
                event.name or event.id,
            )

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Have a finished micro-batch committed."""
        progress = event.progress
        run_id = str(progress.runId)
        if run_id in self._left_alone:
            return
        offsets = _offsets_of(progress, self._coordinators)
        divided = say_divided(offset for offset, _ in offsets.values()) if len(offsets) > 1 else None
        if divided is not None and run_id not in self._said_divided:
            self._said_divided.add(run_id)
            _log.error("query %s: %s", progress.name or progress.id, divided)
        if offsets:
            unread = frozenset(place for place in offsets if progress["sources"][place]["numInputRows"] == 0)
            self._finished.add(FinishedBatch(run_id, int(progress.batchId), offsets, unread))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: there was no micro-batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Forget the run; what of it still waits is committed."""
        self._left_alone.discard(str(event.runId))
        self._said_divided.discard(str(event.runId))
        self._finished.forget(str(event.runId))


def _offsets_of(
    progress: Mapping[str, Any], coordinators: Coordinators
) -> Mapping[int, tuple[StreamOffset, tuple[Address, ...]]]:
    """Return the end offsets of the kcoord sources of a progress report, each with whom to tell.

    These are `coordinators` or, where these are none, the query's own: those it was given first, then those it has met.
    All are spoken to as `coordinators` are.
    """
    found = {}
    for place, source in enumerate(progress["sources"]):
        offset = StreamOffset.from_progress(source["endOffset"])
        told = dict.fromkeys((*host_ports(offset.coordinators), *offset.nodes)) if offset is not None else ()
        named = coordinators or Coordinators(told, coordinators.security)
        if offset is not None and named:
            found[place] = (offset, named)
    return found


def _is_news(source: Mapping[str, Any], end: StreamOffset) -> bool:
    """Say whether a source of a progress report has gone on, to `end`."""
    return StreamOffset.from_progress(source["startOffset"]) != end


def _is_asynchronous(spark: SparkSession, query_id: str) -> bool:
    """Say whether Spark goes on before a query's micro-batches are noted; a client of Spark Connect cannot see it."""
    if not hasattr(spark, "_jsparkSession"):
        return False
    try:
        query = spark._jsparkSession.streams().get(query_id)
        return query is not None and _ASYNC in query.streamingQuery().getClass().getName()
    except JVM_ERRORS as error:
        _log.debug("the kind of query %s cannot be seen: %s", query_id, error)
        return False
