"""``spark_kcoord.LagListener``: how far each kcoord source of a session's queries is behind, and how its member fares.

Everything it says comes with Spark's progress reports, so it opens no connection and asks nobody: the end offsets of
the micro-batch, and the source's own report of where the partitions ended when it was planned. What is not known is
None, never 0.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spark_kcoord.fetch.topic_range import TopicPartition
from spark_kcoord.microbatch.source_report import SourceReport
from spark_kcoord.microbatch.stream_offset import StreamOffset

__all__ = ["LagListener", "LagReport"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LagReport:
    """One source of one query after a micro-batch.

    The offsets behind are counted by partition, from the end of the micro-batch to the end of the partition when it
    was planned. `commit_ms` is the time of the member's last commit, `commits` and `rebalances` count in this run.
    """

    query: str
    run_id: str
    batch_id: int
    source: int
    group: str
    member: str
    partitions: int
    min_behind: int | None
    max_behind: int | None
    avg_behind: float | None
    total_behind: int | None
    commit_ms: int | None
    commits: int | None
    rebalances: int | None

    def __str__(self) -> str:
        if self.total_behind is None:
            behind = "behind by an unknown number of offsets"
        else:
            behind = (
                f"{self.total_behind:,} offsets behind (min {self.min_behind:,}, max {self.max_behind:,}, "
                f"average {self.avg_behind:,.1f} a partition)"
            )
        commit = "no commit yet" if self.commit_ms is None else f"commit {self.commit_ms} ms"
        return (
            f"query {self.query}, batch {self.batch_id}, group {self.group}: {behind}, {self.partitions} partitions, "
            f"{commit}, {'unknown' if self.rebalances is None else self.rebalances} rebalances"
        )


class LagListener(StreamingQueryListener):  # type: ignore[misc]  # pyspark is untyped
    """Add it with ``spark.streams.addListener(LagListener())``: a line of the log for each micro-batch with news.

    `on_report` is called with each report, on Spark's listener thread: return soon. `latest` has the newest reports.
    """

    def __init__(self, on_report: Callable[[LagReport], None] | None = None) -> None:
        self._on_report = on_report
        self._lock = threading.Lock()
        self._latest: dict[TopicPartition, LagReport] = {}

    def latest(self) -> list[LagReport]:
        """Return the newest report of each source of each query that runs, by query and source."""
        with self._lock:
            return [self._latest[key] for key in sorted(self._latest)]

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 (Spark's name)
        """Do nothing: there is nothing to report yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Report each kcoord source of the query."""
        progress = event.progress
        for place, source in enumerate(progress.sources):
            report = lag_report(
                progress.name or str(progress.id),
                str(progress.runId),
                int(progress.batchId),
                place,
                source.endOffset,
                source.latestOffset,
            )
            if report is None:
                continue
            with self._lock:
                self._latest[report.run_id, place] = report
            _log.info("%s", report)
            if self._on_report is not None:
                self._on_report(report)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: what was reported last still holds."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Forget the query."""
        with self._lock:
            for key in [key for key in self._latest if key[0] == str(event.runId)]:
                del self._latest[key]


def lag_report(
    query: str, run_id: str, batch_id: int, source: int, end: str | None, latest: str | None
) -> LagReport | None:
    """Return the report of a source from its end offset and its latest offset as Spark gives them.

    None for another source than kcoord's. Raises KcoordError for a damaged offset.
    """
    offset = StreamOffset.from_progress(end)
    if offset is None:
        return None
    reported = SourceReport.from_progress(latest)
    ends = reported.ends if reported is not None else {}
    behind = [
        max(0, ends[one.topic, one.partition] - one.until_offset)
        for one in offset.ranges
        if (one.topic, one.partition) in ends
    ]
    return LagReport(
        query=query,
        run_id=run_id,
        batch_id=batch_id,
        source=source,
        group=offset.group,
        member=offset.member,
        partitions=len(offset.ranges),
        min_behind=min(behind, default=None),
        max_behind=max(behind, default=None),
        avg_behind=fmean(behind) if behind else None,
        total_behind=sum(behind) if behind else None,
        commit_ms=reported.commit_ms if reported is not None else None,
        commits=reported.commits if reported is not None else None,
        rebalances=reported.rebalances if reported is not None else None,
    )
