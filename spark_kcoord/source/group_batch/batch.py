"""``spark_kcoord.batch``: a batch read as a member of a group, committed when its block ends well.

The member lives in the user's Spark driver program: it joins when the block is entered, claims what it was assigned up
to ends that are fixed then, keeps its session alive from a background thread while Spark works, and leaves when the
block ends. Only a block without an error commits, and only when Spark has planned to read what it claimed. A program
that dies in its block commits nothing: its claims are taken over, or wait for it under ``kcoord.handover=hold``.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from pyspark.sql import functions as sf

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import Claim, PartitionResult
from spark_kcoord.errors import KcoordError, UnreadBatchError
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.member.settings import BOOTSTRAP_OPTION
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.microbatch.unread.batches import show_claims
from spark_kcoord.options.source_options import SourceOptions, parse_options
from spark_kcoord.planning.rate_limit import BatchLimits
from spark_kcoord.source.group_batch.blocks import note_ended, over
from spark_kcoord.source.group_batch.claimed_ranges import ClaimedRangesSource, claim_options
from spark_kcoord.source.group_batch.planned_claims import not_planned
from spark_kcoord.source.joining import freeze_ends, join_group, new_member, options_at
from spark_kcoord.source.process.application import application_of
from spark_kcoord.source.process.application_names import name_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_kcoord.member.client import Assignment, MemberClient
    from spark_kcoord.microbatch.query_member import QueryMember

__all__ = ["GroupBatch", "batch"]

_log = logging.getLogger(__name__)

ASSIGNMENT_TIMEOUT_S: Final = 60.0
"""The time that other members of the group have to let go of partitions that belong to this one."""

OptionValue: TypeAlias = str | float | bool | None
"""The value of an option, as Spark's readers take it."""

REBALANCE_TIMEOUT: Final = "1h"
"""A block may take longer than a micro-batch."""

_SAY_EVERY_S: Final = 5.0


def batch(
    spark: SparkSession, options: Mapping[str, OptionValue], *, assignment_timeout_s: float = ASSIGNMENT_TIMEOUT_S
) -> GroupBatch:
    """Return a block in which what the group has not committed yet is a DataFrame, as a member of the group.

    `options` are those of a stream of ``format("kcoord")`` ('maxOffsetsPerTrigger' and 'maxBytesPerTrigger' limit the
    whole batch), except that 'startingOffsets' is earliest by default and 'kcoord.rebalance.timeout', within which the
    block must end once another member wants its partitions, one hour. 'endingOffsets', 'endingOffsetsByTimestamp' and
    'endingTimestamp' say up to where is read and committed, at most to the end of the log; what the group has
    committed beyond stays so. Several such blocks share a group as queries do.

    Example::

        with spark_kcoord.batch(spark, {"kcoord.bootstrap.servers": "127.0.0.1:9292",
                                        "kcoord.group.id": "nightly", "subscribe": "events"}) as events:
            events.rows.write.mode("append").parquet("/data/events")

    Entering it raises KcoordError when no coordinator or Kafka can be reached, when the coordinator refuses, and when
    the other members let go of no partition within `assignment_timeout_s`; leaving it when something could not be
    committed, naming the ranges, and UnreadBatchError, with nothing committed, when there are rows and no action read
    them or Spark took them out of its plan. An error in the block goes on, and nothing is committed.
    """
    given = _as_text(options)
    names = {name.lower() for name in given}
    if not any(name.startswith("starting") for name in names):
        given["startingOffsets"] = "earliest"
    if "kcoord.rebalance.timeout" not in names:
        given["kcoord.rebalance.timeout"] = REBALANCE_TIMEOUT
    return GroupBatch(spark, given, parse_options(given, "group batch"), assignment_timeout_s)


def _as_text(options: Mapping[str, OptionValue]) -> dict[str, str]:
    """Return options as Spark's readers take them: numbers and booleans as text, and no None."""
    named = {name: value for name, value in options.items() if value is not None}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in named.items()}


class GroupBatch:
    """The batch that `batch` returns; `rows` and `ranges` are there inside of its block."""

    ranges: tuple[TopicRange, ...]
    """The claimed ranges by topic and partition; none when there is nothing new."""
    is_complete: bool
    """True if it got all it was to get; if not, other members still hold some of its partitions."""

    def __init__(
        self, spark: SparkSession, given: Mapping[str, str], options: SourceOptions, assignment_timeout_s: float
    ) -> None:
        self._spark = spark
        self._given = given
        self._options = options
        self._assignment_timeout_s = assignment_timeout_s
        self._client: MemberClient | None = None
        self._session: QueryMember | None = None
        self._claims: tuple[Claim, ...] = ()
        self._member_id = ""
        self._block = secrets.token_hex(4)
        self._frame: DataFrame | None = None

    @property
    def rows(self) -> DataFrame:
        """The records of the ranges, with the columns of ``format("kcoord")``.

        Lazy as every DataFrame: read it inside of the block. Afterwards it raises KcoordError, as do actions on what
        was made of it.
        """
        if self._frame is None:
            raise over() if self._client is not None else KcoordError("Enter the block first: with … as new: new.rows.")
        return self._frame

    @property
    def records(self) -> int:
        """The number of offsets in the ranges; compacted topics have fewer records."""
        return sum(one.end - one.start for one in self.ranges)

    def __enter__(self) -> Self:
        """Join, wait for partitions, claim what is new and make the DataFrame."""
        if self._client is not None:
            raise KcoordError("This batch has been entered before: make a new one with spark_kcoord.batch().")
        options, start = self._options, StreamOffset(cluster="", group=self._options.group, member="")
        try:
            frozen = freeze_ends(options)
            client = self._client = new_member(
                options,
                start,
                is_finished=True,
                application=application_of(self._spark),
                name=name_of(self._spark),
                plans_itself=False,
            )
            session, servers = join_group(options, client, start, frozen)
            self._session = session
            assignment = self._wait_for_partitions(client)
            self.is_complete = assignment.is_complete
            _say_starts(options.group, assignment.notes)
            offset = session.next_offset(
                start,
                options.max_offsets_per_trigger,
                is_single_run=False,
                others=BatchLimits(max_bytes=options.max_bytes_per_trigger),
            )
            self._claims, self._member_id = offset.claims, offset.member
            self.ranges = tuple(
                TopicRange(c.topic, c.topic_id or None, c.partition, c.from_offset, c.until_offset)
                for c in self._claims
            )
            self._frame = self._rows(servers, options_at(options, client.coordinators).coordinators)
        except BaseException:
            self._let_go()
            raise
        _log.info("group %s: %s records of %d partitions to read", options.group, f"{self.records:,}", len(self.ranges))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit if the block ended well, and leave the group in any case."""
        try:
            if error is None:
                self._commit()
            else:
                _log.warning("group %s: the block failed, nothing is committed", self._options.group)
        finally:
            self._frame = None
            self._let_go()
            note_ended(self._spark, self._block)

    def _wait_for_partitions(self, client: MemberClient) -> Assignment:
        deadline_s = time.monotonic() + self._assignment_timeout_s
        while True:
            remaining_s = max(0.0, deadline_s - time.monotonic())
            assignment = client.wait_for_assignment(complete=True, timeout_s=min(remaining_s, _SAY_EVERY_S))
            if assignment.is_complete:
                return assignment
            if remaining_s <= 0:
                break
            _log.info(
                "group %s: %d partitions so far, waiting up to %.0f s for those that others have to let go",
                self._options.group,
                len(assignment.partitions),
                remaining_s,
            )
        if not assignment.partitions:
            raise KcoordError(
                f"The other members of group '{self._options.group}' let go of no partition within "
                f"{self._assignment_timeout_s:g} s: their micro-batches or batches are still running. Wait longer with "
                "assignment_timeout_s, or see who holds what with kcoord group describe."
            )
        return assignment

    def _rows(self, servers: Sequence[str], coordinators: Sequence[str]) -> DataFrame:
        self._spark.dataSource.register(ClaimedRangesSource)
        found = {"kafka.bootstrap.servers": ",".join(servers), BOOTSTRAP_OPTION: ",".join(coordinators)}
        options = {name: text for name, text in self._given.items() if name.lower() not in found}
        reader = self._spark.read.format(ClaimedRangesSource.name()).options(**options, **found)
        member_id = self._member_id if self._options.is_committing else None
        rows = reader.options(**claim_options(self._claims, block=self._block, member_id=member_id)).load()
        return _without_pushed_filters(rows, self._block)

    def _commit(self) -> None:
        if not self._claims or not self._options.is_committing:
            return
        assert self._client is not None
        asking = options_at(self._options, self._client.coordinators)
        unread = not_planned(asking, self._member_id, self._claims)
        if unread:
            raise UnreadBatchError(
                f"Nothing of group '{self._options.group}' is committed, because no action in the block read "
                f"{show_claims(unread)}, or Spark left them out of its plan because it saw that they could not matter "
                "(a join with an empty table, a filter that is never true, limit(0)). Write or collect the rows inside "
                "of the block; where an action may leave them out, call rows.head(1) in the block beside it. Where "
                "they are to be passed over unread, reset the group's offsets instead (kcoord group reset-offsets)."
            )
        outcome = self._client.advance(self._claims, ())
        failed = [
            (claim, result)
            for claim, result in zip(self._claims, outcome.finished, strict=True)
            if result.error is not ErrorCode.NONE
        ]
        if failed:
            raise KcoordError(
                f"{len(failed)} of {len(self._claims)} ranges of group '{self._options.group}' were not committed, so "
                f"what the block wrote of them is read again by another member: {_show(failed)}. If the block took "
                "longer than option 'kcoord.rebalance.timeout' while another member wanted its partitions, raise that."
            )
        _log.info("group %s: %s records committed", self._options.group, f"{self.records:,}")

    def _let_go(self) -> None:
        """Leave the group, so that what was claimed and not committed is free at once."""
        client, session = self._client, self._session
        if client is None:
            return
        try:
            client.leave()
        except KcoordError as error:
            _log.warning("group %s: it could not leave and is found dead soon: %s", self._options.group, error)
        if session is not None:
            session.close()
        else:
            client.close()


def _without_pushed_filters(rows: DataFrame, block: str) -> DataFrame:
    """Return the rows behind a step of the plan through which Spark pushes no filter into their source.

    With `spark.sql.python.filterPushdown.enabled` Spark plans a source that it pushes filters into while it optimizes,
    which `explain()` and `cache()` do too: the claims would count as read without an action. Metrics are of all rows
    that they observe, so that no filter may come before them; this one is a literal, which is computed once.
    """
    return rows.observe(f"kcoord-block-{block}", sf.lit(block).alias("block"))


def _say_starts(group: str, notes: Sequence[str]) -> None:
    """Say where partitions start that the group has no offset of: if they had one, it was forgotten."""
    for note in notes:
        _log.warning(
            "group %s: %s. That is so in a first batch; if batches have read them before, the group was forgotten "
            "(expired, deleted, or the coordinator's disk was lost) and starts over here.",
            group,
            note,
        )


def _show(failed: Sequence[tuple[Claim, PartitionResult]]) -> str:
    shown = [
        f"{claim.topic}-{claim.partition} [{claim.from_offset}, {claim.until_offset}) ({result.message}; the group's "
        f"offset is {result.committed})"
        for claim, result in failed[:5]
    ]
    return ", ".join(shown) + (f" and {len(failed) - 5} more" if len(failed) > 5 else "")
