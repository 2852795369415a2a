"""One streaming query as one member: what the stream reader does in its long-lived process beside the Spark driver.

The planner decides; this room performs its commands by asking the member client and Kafka, and waits for them. It
knows both by their ports only, so that both have fakes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar, assert_never

from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import Claim, ClaimStatus, LostPosition, PartitionResult
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.client import AdvanceOutcome, Assignment, Joined
from spark_kcoord.member.holders import Holder
from spark_kcoord.microbatch import commands
from spark_kcoord.microbatch.commands import Answer, Command, Planning
from spark_kcoord.microbatch.planner import UNLIMITED, BatchPlanner
from spark_kcoord.microbatch.source_report import SourceReport
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.microbatch.topic_watch import reads_all
from spark_kcoord.planning.rate_limit import BatchLimits

__all__ = ["QueryMember", "LogOffsets", "Member"]

_Plan = TypeVar("_Plan")


class Member(Protocol):
    """The member client as this room needs it; every call may raise KcoordError, which ends the query."""

    def join(self) -> Joined:
        """Wait until the member is registered."""

    def assignment(self) -> Assignment:
        """Return what the member owns now, without waiting."""

    def wait_for_assignment(self, *, complete: bool, timeout_s: float) -> Assignment:
        """Wait for any assignment, or for a complete one, and return what there is when time is over."""

    def wait_for_change(self, known: Assignment, *, timeout_s: float) -> Assignment:
        """Wait until the assignment is another than the one known, and return what there is when time is over."""

    def confirm_claims(self, claims: Sequence[Claim]) -> tuple[ClaimStatus, ...]:
        """Mark open claims as running and say of each how it stands."""

    def advance(self, finished: Sequence[Claim], claims: Sequence[Claim]) -> AdvanceOutcome:
        """Commit what is finished, let go of what is wanted back, claim what is next."""

    def report_out_of_range(self, partitions: Sequence[LostPosition]) -> tuple[PartitionResult, ...]:
        """Have partitions start anew whose positions the brokers do not have, if the coordinator finds so too."""

    def holders(self) -> Mapping[TopicPartition, Holder]:
        """Ask the coordinator who has each of the group's partitions."""

    def close(self) -> None:
        """Close the connection; no leave, no commit."""


class LogOffsets(Protocol):
    """The brokers, asked where partitions begin and end."""

    def end_offsets(
        self, partitions: Sequence[TopicPartition], *, timeout_s: float | None = None
    ) -> Mapping[TopicPartition, int]:
        """Return the exclusive end of each partition.

        Raises UnknownTopicError naming topics that are gone, KafkaAwayError after `timeout_s` (None: soon) without an
        answer, another KcoordError when Kafka refuses.
        """

    def high_watermarks(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return where the log of each partition ends, whatever the isolation level; raises as `end_offsets`, soon."""

    def earliest_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offset of each partition; raises as `end_offsets`, soon."""

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Return the id of each topic that exists, empty where Kafka names none or does not describe the topic.

        Raises KafkaAwayError without an answer, another KcoordError when Kafka refuses whatever it is asked.
        """

    def log_ends(self) -> Mapping[TopicPartition, int]:
        """Return the high watermarks as last known, asking nobody; what is not known is absent."""

    def bytes_per_offset(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, float]:
        """Return how many bytes an offset takes at each position, leaving out what is not known.

        Raises KafkaAwayError without an answer, another KcoordError when Kafka refuses.
        """

    def close(self) -> None:
        """Close the connections."""


_Reported: TypeAlias = tuple[
    Mapping[TopicPartition, int], Mapping[TopicPartition, int], tuple[int, int | None, int], SourceReport
]
"""A report with what it was made of."""


class QueryMember:
    """A joined member and the plan of its micro-batches.

    `first` is the stream offset of the first call of this process; its member id, claims and ends were given to the
    coordinator at the join. Used by one thread, Spark's. Raises KcoordError when a command cannot be performed.
    """

    def __init__(
        self,
        member: Member,
        kafka: LogOffsets,
        joined: Joined,
        *,
        group_id: str,
        fail_on_data_loss: bool,
        rebalance_timeout_s: float,
        kafka_timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
        first_kafka_timeout_s: float = 0.0,
        is_committing: bool = True,
        reads: Callable[[str, int], bool] = reads_all,
    ) -> None:
        self._member = member
        self._kafka = kafka
        self._clock = clock
        self._joined = joined
        self._group_id = group_id
        self._ends: Mapping[TopicPartition, int] = {}
        self._has_frozen = False
        self._commits = 0
        self._commit_ms: int | None = None
        self._member_epochs: set[int] = set()
        self._reported: _Reported | None = None
        self._planner = BatchPlanner(
            joined,
            group_id=group_id,
            fail_on_data_loss=fail_on_data_loss,
            rebalance_timeout_s=rebalance_timeout_s,
            kafka_timeout_s=kafka_timeout_s,
            clock=clock,
            first_kafka_timeout_s=first_kafka_timeout_s,
            is_committing=is_committing,
            reads=reads,
        )

    @property
    def identity(self) -> StreamOffset:
        """The stream offset of a query that has joined and read nothing yet."""
        return self._planner.identity

    def freeze_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Read no further than these ends in this run, and only partitions assigned when its first batch is made."""
        self._ends, self._has_frozen = dict(ends), True
        self._planner.freeze_ends(ends)

    def next_offset(
        self, start: StreamOffset, limit: int | None, *, is_single_run: bool, others: BatchLimits = UNLIMITED
    ) -> StreamOffset:
        """Commit the finished micro-batch `start`, claim the next ranges and return them; see the planner."""
        return self._carry_out(self._planner.next_offset(start, limit, is_single_run=is_single_run, others=others))

    def readable(self, end: StreamOffset) -> tuple[Claim, ...]:
        """Return the claims of a micro-batch that are still open, marking them as running; see the planner."""
        return self._carry_out(self._planner.readable(end))

    def report(self) -> SourceReport:
        """Return where the partitions end, as last known, and what the member has gone through; asks nobody.

        An end is the high watermark, whatever the isolation level, so that lag behind an open transaction is seen.
        It is the same report until something changes: Spark asks for it with every look, a hundred times a second.
        """
        log_ends = self._kafka.log_ends()
        fares = (self._commits, self._commit_ms, len(self._member_epochs))
        if self._reported is not None:
            ends, known_log_ends, fared, report = self._reported
            if fared == fares and _same(ends, self._ends) and _same(known_log_ends, log_ends):
                return report
        report = SourceReport(
            group=self._group_id,
            member=self._joined.member_id,
            ends={key: max(end, log_ends.get(key, end)) for key, end in self._ends.items()},
            commits=self._commits,
            commit_ms=self._commit_ms,
            rebalances=max(0, len(self._member_epochs) - 1),
        )
        self._reported = (self._ends, log_ends, fares, report)
        return report

    def close(self) -> None:
        """Close all connections; the coordinator sees a closed connection and nothing else."""
        self._member.close()
        self._kafka.close()

    def _carry_out(self, planning: Planning[_Plan]) -> _Plan:
        try:
            command = next(planning)
            while True:
                try:
                    answer = self._answer(command)
                except KcoordError as error:
                    command = planning.throw(error)
                else:
                    command = planning.send(answer)
        except StopIteration as planned:
            plan: _Plan = planned.value
            return plan

    def _answer(self, command: Command) -> Answer:
        match command:
            case commands.ReadAssignment():
                return self._noted(self._member.assignment())
            case commands.AwaitChange(known, timeout_s):
                return self._noted(self._member.wait_for_change(known, timeout_s=timeout_s))
            case commands.AwaitAssignment(complete, timeout_s):
                return self._noted(self._member.wait_for_assignment(complete=complete, timeout_s=timeout_s))
            case commands.ReadEnds(partitions, timeout_s):
                ends = self._kafka.end_offsets(partitions, timeout_s=timeout_s)
                # A run with frozen ends asks no more about what it has read to them, and is behind there too.
                self._ends = {**self._ends, **ends} if self._has_frozen else ends
                return ends
            case commands.ReadSizes(positions):
                return self._kafka.bytes_per_offset(positions)
            case commands.AskAdvance(finished, claims):
                return self._advance(finished, claims)
            case commands.AskConfirm(claims):
                return self._member.confirm_claims(claims)
            case commands.ReadStarts(partitions):
                return self._kafka.earliest_offsets(partitions)
            case commands.ReadHighWatermarks(partitions):
                return self._kafka.high_watermarks(partitions)
            case commands.ReadTopicIds(topics):
                return self._kafka.topic_ids(topics)
            case commands.AskReport(partitions):
                return self._member.report_out_of_range(partitions)
            case commands.AskHolders():
                return self._member.holders()
            case _:
                assert_never(command)

    def _noted(self, assignment: Assignment) -> Assignment:
        if assignment.partitions:
            self._member_epochs.add(assignment.member_epoch)
        return assignment

    def _advance(self, finished: Sequence[Claim], claims: Sequence[Claim]) -> AdvanceOutcome:
        began = self._clock()
        outcome = self._member.advance(finished, claims)
        if finished:
            self._commits += 1
            self._commit_ms = round((self._clock() - began) * 1000)
        return outcome


def _same(one: Mapping[TopicPartition, int], other: Mapping[TopicPartition, int]) -> bool:
    """True when ends have not changed, which of those that are remembered is seen without a look at each."""
    return one is other or one == other
