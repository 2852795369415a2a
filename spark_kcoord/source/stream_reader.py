"""The streaming reader: Spark's calls on one side, a member of a consumer group on the other.

Which process runs what: `initialOffset`, `latestOffset`, `partitions`, `commit`, `stop` and the other calls about
offsets run in one long-lived process beside the Spark driver, where the member's session lives; `read` runs in the
executors' workers on a copy made from a pickle that holds the options alone. So nothing is opened in `__init__`, and
the session is made by the first call that needs it, which shows the identity the checkpoint carries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.source_options import SourceOptions
from spark_kcoord.planning.rate_limit import BatchLimits
from spark_kcoord.source.batch_reader import plan_input_partitions, read_input_partition
from spark_kcoord.source.process.early_imports import EarlyImports
from spark_kcoord.source.process.told_alone import told_alone

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_kcoord.member.client import MemberClient
    from spark_kcoord.microbatch.query_member import QueryMember
    from spark_kcoord.microbatch.source_report import SourceReport
    from spark_kcoord.microbatch.stream_offset import StreamOffset

__all__ = ["KcoordStreamReader"]

NO_LIMIT: Final = 2**63 - 1
"""The default read limit where no option limits: Spark's ReadAllAvailable then stands for Trigger.Once alone."""

BEFORE_OFFSETS: Final = (
    "spark_kcoord.microbatch.stream_offset",
    "spark_kcoord.source.process.application",
    "spark_kcoord.source.process.application_names",
    "spark_kcoord.source.joining",
)
"""The modules that calls about offsets need; executors have none of them."""


class KcoordStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # untyped
    """One streaming query as one member of a group.

    Errors are KcoordError: they end the query and name the option, the partition or both offsets.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._imports = EarlyImports(*BEFORE_OFFSETS)
        self._session: QueryMember | None = None
        self._client: MemberClient | None = None
        self._servers: tuple[str, ...] = ()
        self._is_available_now = False
        self._limits = BatchLimits(
            min_offsets=options.min_offsets_per_trigger,
            max_delay_s=options.max_trigger_delay_ms / 1000,
            max_bytes=options.max_bytes_per_trigger,
        )
        self._is_stopped = False
        self._read_last: tuple[dict[str, Any], StreamOffset] | None = None
        self._reported: tuple[SourceReport, dict[str, Any]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Give executors the options and nothing that is open."""
        return {"_options": self._options}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Make a reader again from its options."""
        self.__init__(state["_options"])  # type: ignore[misc]

    # ---- beside the Spark driver ------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return an offset without an identity, and open nothing.

        Spark calls this for a new checkpoint, but also before it replays the first micro-batch of an old one, whose
        identity only the next call shows.
        """
        self._imports.wait()
        from spark_kcoord.microbatch.stream_offset import StreamOffset

        return StreamOffset(cluster="", group=self._options.group, member="").to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of option maxOffsetsPerTrigger, or one that never limits.

        Spark asks this first, then reads the checkpoint; what follows is imported meanwhile.
        """
        self._imports.begin()
        return ReadMaxRows(self._options.max_offsets_per_trigger or NO_LIMIT)

    @told_alone
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Have the next call freeze the ends of every partition: it shows which nodes the checkpoint remembers."""
        self._is_available_now = True

    @told_alone
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Commit everything up to `start`, claim the next ranges and return them, or `start` when nothing is new."""
        self._imports.wait()
        from spark_kcoord.microbatch.stream_offset import StreamOffset

        if self._read_last is None or self._read_last[0] != start:
            self._read_last = (start, StreamOffset.from_json(start))
        offset = self._read_last[1]
        session = self._joined(offset, is_finished=True)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        is_everything = isinstance(limit, ReadAllAvailable)
        latest = session.next_offset(
            offset,
            None if most == NO_LIMIT else most,
            is_single_run=is_everything or self._is_available_now,
            others=BatchLimits() if is_everything else self._limits,
        )
        return start if latest == offset else replace(latest, coordinators=self._options.coordinators).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return where the partitions end and how the member fares, for Spark's progress reports."""
        if self._session is None:
            return None
        report = self._session.report()
        if self._reported is None or self._reported[0] is not report:
            self._reported = (report, report.to_json())
        return self._reported[1]

    @told_alone
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return tasks for the claims of `end` that are still open; `start` tells nothing that `end` does not."""
        if start == end:
            return []
        self._imports.wait()
        from spark_kcoord.microbatch.stream_offset import StreamOffset

        offset = StreamOffset.from_json(end)
        session = self._joined(offset, is_finished=False)
        ranges = (
            TopicRange(
                topic=claim.topic,
                topic_id=claim.topic_id or None,
                partition=claim.partition,
                start=claim.from_offset,
                end=claim.until_offset,
            )
            for claim in session.readable(offset)
        )
        return plan_input_partitions(self._options, ranges, self._servers)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark says this late and never for the last micro-batch, latestOffset says it in time."""

    def stop(self) -> None:
        """Close the connections: no leave and no commit, since Spark calls this in the middle of a batch too."""
        self._is_stopped = True
        session, self._session = self._session, None
        if session is not None:
            session.close()
        elif self._client is not None:
            self._client.close()

    # ---- in the executors -------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task's ranges as Arrow record batches."""
        return read_input_partition(self._options, partition)

    # ---- joining ----------------------------------------------------------------------------------------------------

    def _joined(self, first: StreamOffset, *, is_finished: bool) -> QueryMember:
        if self._session is None:
            if self._is_stopped:
                raise KcoordError("The query has been stopped.")
            from spark_kcoord.source.joining import freeze_ends, join_group, new_member
            from spark_kcoord.source.process.application import application_above
            from spark_kcoord.source.process.application_names import name_above

            first.must_belong_to(cluster=None, group=self._options.group)
            frozen = freeze_ends(self._options, first.nodes) if self._is_available_now else None
            self._client = new_member(
                self._options, first, is_finished=is_finished, application=application_above(), name=name_above()
            )
            self._session, self._servers = join_group(self._options, self._client, first, frozen)
        return self._session
