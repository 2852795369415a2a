"""A member and a Kafka as a query's Spark driver sees them: they answer as told and remember what they were asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatus, LostPosition, PartitionResult
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.client import AdvanceOutcome, AssignedPartition, Assignment, Joined
from spark_kcoord.member.holders import Holder
from spark_kcoord.microbatch.query_member import Member, QueryMember
from spark_kcoord.microbatch.topic_watch import reads_all

OK = ErrorCode.NONE


def owned(
    partition: int, start: int, epoch: int = 7, *, is_stopping: bool = False, topic_id: str = "id"
) -> AssignedPartition:
    """Return a partition of the topic t that the member owns and has read up to its start."""
    return AssignedPartition(
        topic="t",
        topic_id=topic_id,
        partition=partition,
        owner_epoch=epoch,
        start=start,
        position=start,
        is_stopping=is_stopping,
        has_claim=False,
    )


def claim(partition: int, start: int, until: int, epoch: int = 7, topic_id: str = "id") -> Claim:
    """Return a claim on a partition of the topic t."""
    return Claim("t", topic_id, partition, epoch, start, until)


@dataclass
class FakeMember:
    """Answers what it is told to, and remembers what it was asked."""

    partitions: tuple[AssignedPartition, ...] = ()
    is_complete: bool = True
    advanced: list[tuple[tuple[Claim, ...], tuple[Claim, ...]]] = field(default_factory=list)
    refused: Mapping[int, ErrorCode] = field(default_factory=dict)
    lost: frozenset[int] = frozenset()
    closed_claims: frozenset[int] = frozenset()
    unread: frozenset[int] = frozenset()
    committed: int = 99
    waits: list[tuple[bool, float]] = field(default_factory=list)
    is_closed: bool = False
    reported: list[LostPosition] = field(default_factory=list)
    report_error: ErrorCode = ErrorCode.NONE
    report_committed: int | None = None
    granted_anew: tuple[AssignedPartition, ...] = ()
    nodes: tuple[tuple[str, int], ...] = ()
    finished: tuple[Claim, ...] = ()
    changes: list[tuple[AssignedPartition, ...]] = field(default_factory=list)
    """The partitions it owns after each wait for a change."""
    changes_awaited: list[float] = field(default_factory=list)
    held_by: Mapping[tuple[str, int], Holder] = field(default_factory=dict)
    last_grants: Mapping[str, int] = field(default_factory=dict)

    def join(self) -> Joined:
        return Joined(member_id="m-1", kafka_cluster_id="c", kafka_bootstrap=("127.0.0.1:1",), claims=())

    def assignment(self) -> Assignment:
        return Assignment(
            partitions=self.partitions,
            is_complete=self.is_complete,
            member_epoch=1,
            finished=self.finished,
            last_grants=self.last_grants,
        )

    def wait_for_assignment(self, *, complete: bool, timeout_s: float) -> Assignment:
        self.waits.append((complete, timeout_s))
        return self.assignment()

    def wait_for_change(self, known: Assignment, *, timeout_s: float) -> Assignment:
        self.changes_awaited.append(timeout_s)
        if self.changes:
            self.partitions = self.changes.pop(0)
        return self.assignment()

    def holders(self) -> Mapping[tuple[str, int], Holder]:
        return self.held_by

    def confirm_claims(self, claims: Sequence[Claim]) -> tuple[ClaimStatus, ...]:
        return tuple(
            ClaimStatus(
                c.topic,
                c.partition,
                c.owner_epoch,
                ClaimState.CLOSED if c.partition in self.closed_claims else ClaimState.RUNNING,
                why="taken over by m-2" if c.partition in self.closed_claims else "",
                committed=self.committed,
            )
            for c in claims
        )

    def advance(self, finished: Sequence[Claim], claims: Sequence[Claim]) -> AdvanceOutcome:
        self.advanced.append((tuple(finished), tuple(claims)))
        return AdvanceOutcome(
            finished=tuple(
                PartitionResult(c.topic, c.partition, ErrorCode.CLAIM_CLOSED, "taken over by m-2", self.committed)
                if c.partition in self.lost
                else PartitionResult(
                    c.topic, c.partition, ErrorCode.CLAIM_NOT_RUNNING if c.partition in self.unread else OK
                )
                for c in finished
            ),
            claimed=tuple(c for c in claims if c.partition not in self.refused),
            claims=tuple(PartitionResult(c.topic, c.partition, self.refused.get(c.partition, OK)) for c in claims),
            released=(),
            nodes=self.nodes,
        )

    def report_out_of_range(self, partitions: Sequence[LostPosition]) -> tuple[PartitionResult, ...]:
        self.reported.extend(partitions)
        named = {(part.partition, part.owner_epoch) for part in partitions}
        if self.report_error is OK and self.report_committed is None:
            self.partitions = tuple(p for p in self.partitions if (p.partition, p.owner_epoch) not in named)
            self.partitions += self.granted_anew
        return tuple(
            PartitionResult("t", part.partition, self.report_error, "the policy", self.report_committed)
            for part in partitions
        )

    def close(self) -> None:
        self.is_closed = True


@dataclass
class FakeEnds:
    """Kafka's ends, beginnings and record sizes of topic t by partition, as told; remembers what was asked."""

    ends: dict[int, int] = field(default_factory=dict)
    marks: dict[int, int] = field(default_factory=dict)
    """High watermarks, where they are not the ends."""
    marks_asked: int = 0
    asked: int = 0
    failures: list[KcoordError] = field(default_factory=list)
    patience: list[float | None] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    starts_asked: list[tuple[int, ...]] = field(default_factory=list)
    sizes: dict[int, float] | KcoordError = field(default_factory=dict)
    sampled: list[dict[tuple[str, int], int]] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=lambda: {"t": "id"})
    ids_asked: list[tuple[str, ...]] = field(default_factory=list)
    ids_failures: list[KcoordError] = field(default_factory=list)

    def end_offsets(
        self, partitions: Sequence[tuple[str, int]], *, timeout_s: float | None = None
    ) -> Mapping[tuple[str, int], int]:
        self.asked += 1
        self.patience.append(timeout_s)
        if self.failures:
            raise self.failures.pop(0)
        return {key: self.ends[key[1]] for key in partitions if key[1] in self.ends}

    def high_watermarks(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        self.marks_asked += 1
        known = self.ends | self.marks
        return {key: known[key[1]] for key in partitions if key[1] in known}

    def log_ends(self) -> Mapping[tuple[str, int], int]:
        return {("t", number): mark for number, mark in self.marks.items()}

    def earliest_offsets(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        self.starts_asked.append(tuple(number for _, number in partitions))
        return {key: self.starts.get(key[1], 0) for key in partitions}

    def bytes_per_offset(self, positions: Mapping[tuple[str, int], int]) -> Mapping[tuple[str, int], float]:
        self.sampled.append(dict(positions))
        if isinstance(self.sizes, KcoordError):
            raise self.sizes
        return {key: self.sizes[key[1]] for key in positions if key[1] in self.sizes}

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        self.ids_asked.append(tuple(topics))
        if self.ids_failures:
            raise self.ids_failures.pop(0)
        return {name: self.ids[name] for name in topics if name in self.ids}

    def close(self) -> None:
        pass


class StrictMember(FakeMember):
    """Refuses claims that do not begin at the committed offset, as the coordinator does."""

    def advance(self, finished: Sequence[Claim], claims: Sequence[Claim]) -> AdvanceOutcome:
        begins = {owned.partition: owned.start for owned in self.partitions}
        begins |= {c.partition: c.until_offset for c in finished if c.partition not in self.lost}
        self.refused = {c.partition: ErrorCode.INVALID_REQUEST for c in claims if c.from_offset != begins[c.partition]}
        return super().advance(finished, claims)


def a_session(
    member: Member,
    ends: Mapping[int, int] | FakeEnds,
    *,
    fail: bool = True,
    clock: Callable[[], float] = lambda: 0.0,
    first_kafka_timeout_s: float = 0.0,
    is_committing: bool = True,
    reads: Callable[[str, int], bool] = reads_all,
) -> QueryMember:
    """Return a session of group g that has joined; `ends` alone stand for a Kafka that answers with them."""
    return QueryMember(
        member,
        ends if isinstance(ends, FakeEnds) else FakeEnds(dict(ends)),
        member.join(),
        group_id="g",
        fail_on_data_loss=fail,
        rebalance_timeout_s=30.0,
        kafka_timeout_s=120.0,
        clock=clock,
        first_kafka_timeout_s=first_kafka_timeout_s,
        is_committing=is_committing,
        reads=reads,
    )
