"""What is remembered of a group while its log is read: members, owners, claims, offsets and what operators decided.

Places are offsets of the log. Nothing here judges; the rules do.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from coordinator.core.groups.hard import operator_records as o
from coordinator.core.groups.hard import records as r
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.limits import Limits
from coordinator.protocol.parts import ResetPolicy
from tests.sim.log.history import History


class ViolationError(AssertionError):
    """A promise was broken; `name` is the anomaly's."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name


class Facts(Protocol):
    """What the rules have to know of the world outside the log."""

    is_calm: bool
    """Connections hold and processes go on: whoever is asked for a partition hears it."""

    def was_delivered(self, claim: "ClaimEntry", topic_id: str) -> bool:
        """Say whether a range was read by this owner and given to its sink."""

    def was_processed(self, owner: "Owner", partition: TopicPartition, from_offset: int, until_offset: int) -> bool:
        """Say whether a consumer that polls had returned all of a range before its latest poll began."""

    def may_come_twice(self, owner: "Owner", partition: TopicPartition) -> bool:
        """Say whether an owner's epoch may have been another one's before the coordinator got another disk."""

    def was_reached(self, topic_id: str, partition: int, offset: int) -> bool:
        """Say whether anybody ever got as far as this offset, or was sent there."""

    def was_answered(self, topic: str, topic_id: str, partition: int, offset: int) -> bool:
        """Say whether Kafka ever named this offset of a partition."""

    def is_missing(self, topic: str, topic_id: str, partition: int, offset: int) -> bool:
        """Say whether Kafka does not have what stands at an offset of a partition."""

    def started(self, topic: str, topic_id: str, partition: int, offset: int) -> None:
        """Take note that the position of a partition is set by decision; no id stands for the topic that there is."""

    def released(self, claim: "ClaimEntry", topic_id: str) -> None:
        """Take note that an operator let go of a claim whose owner is gone."""


@dataclass(slots=True)
class ClaimEntry:
    """One claim's life; places are offsets of the log."""

    partition: TopicPartition
    member_id: str
    owner_epoch: int
    from_offset: int
    until_offset: int
    opened_at: int
    running_at: int | None = None
    closed_at: int | None = None

    @property
    def range(self) -> tuple[int, int]:
        return self.from_offset, self.until_offset


ClaimKey: TypeAlias = tuple[str, TopicPartition, str, int, tuple[int, int]]
"""Group, partition, member, owner epoch and range."""


class LostLog(NamedTuple):
    """A log of which a lost disk, or an old copy that was put back, has kept a beginning."""

    kept: int
    """Where what was kept of it ends in the log that there is."""
    open_claims: frozenset[ClaimKey]
    told: frozenset[str]
    """Processes that lived when it was lost, and had heard of it."""


@dataclass(slots=True)
class Owner:
    """A grant that has not ended; an abandoned one is held by nobody who lives."""

    member_id: str
    topic_id: str
    owner_epoch: int
    is_stopping: bool = False
    is_abandoned: bool = False
    abandoned_at: int | None = None
    claim: ClaimEntry | None = None

    @property
    def has_running_claim(self) -> bool:
        return self.claim is not None and self.claim.running_at is not None


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset written as committed at a place of the log; an operator's has no owner epoch, a deletion no offset."""

    at: int
    topic_id: str
    offset: int | None
    owner_epoch: int | None


@dataclass(slots=True)
class Late:
    """From whom a partition was taken in one life of the coordinator, while its committed offset was this one."""

    life: int
    offset: int | None
    member_ids: set[str] = field(default_factory=set)


@dataclass(slots=True)
class GroupModel:
    """One group, with the history of what is asked about later."""

    group_epoch: int = 0
    is_target_in_parts: bool = False
    """More parts of the target of this epoch may follow."""
    handover: str = "takeover"
    claim_timeout_ms: int | None = None
    reset_policy: ResetPolicy | None = None
    entries: list[bytes] = field(default_factory=list)
    """Its timeline."""
    last_sequence: int = 0
    resets: dict[TopicPartition, o.PlannedReset] = field(default_factory=dict)
    is_paused: bool = False
    paused: set[TopicPartition] = field(default_factory=set)
    drained: set[str] = field(default_factory=set)
    by_policy: set[TopicPartition] = field(default_factory=set)
    facts: dict[str, r.MemberFacts] = field(default_factory=dict)
    member_epochs: dict[str, int] = field(default_factory=dict)
    targets: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    topics: dict[str, tuple[str, int]] = field(default_factory=dict)
    owners: dict[TopicPartition, Owner] = field(default_factory=dict)
    former_owners: dict[TopicPartition, str] = field(default_factory=dict)
    commits: dict[TopicPartition, list[Commit]] = field(default_factory=dict)
    claims: dict[tuple[TopicPartition, int], list[ClaimEntry]] = field(default_factory=dict)
    ended: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    stopped: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    joined_at: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """Places where a process became a member, by member and incarnation."""
    removed_at: dict[str, list[int]] = field(default_factory=dict)
    instances: dict[str, str | None] = field(default_factory=dict)
    """The instance id of everybody who ever was a member."""
    late: dict[TopicPartition, Late] = field(default_factory=dict)
    """Who was late with a partition, as last seen."""
    history: History = field(default_factory=History)
    emptied_at: int | None = None
    """Where it lost its last member, or was last committed to without members."""
    was_forgotten: bool = False
    """The first member that it had in this life and that commits had been in it before."""
    has_begun: bool = False
    """A member that commits was in it in this life."""
    is_recovering: bool = False
    looked_at: set[str] = field(default_factory=set)
    """Topics that members have brought that commit."""
    just_seen: set[str] = field(default_factory=set)
    """Topics that were seen for the first time by whoever joins next."""
    never_by_policy: set[str] = field(default_factory=set)
    """Topics that somebody brought who had been in the group before, or that came into a group that was forgotten."""

    def committed(self, partition: TopicPartition, topic_id: str) -> int | None:
        """Return the committed offset of a partition of this very topic."""
        commits = self.commits.get(partition)
        if not commits or commits[-1].topic_id not in {"", topic_id}:
            return None
        return commits[-1].offset

    def is_held(self, partition: TopicPartition) -> bool:
        """Say whether a partition waits for an owner that is gone and left a running claim."""
        owner = self.owners.get(partition)
        return owner is not None and self.handover == "hold" and owner.is_abandoned and owner.has_running_claim

    def is_paused_now(self, partition: TopicPartition) -> bool:
        return self.is_paused or partition in self.paused

    def is_superseded(self, member_id: str, incarnation: str, end: int) -> bool:
        """Say whether a process that was let in when the log ended here has been removed or replaced since."""
        if any(at >= end for at in self.removed_at.get(member_id, ())):
            return True
        return any(
            name == member_id and process != incarnation and places[-1] >= end
            for (name, process), places in self.joined_at.items()
        )


class Log(Protocol):
    """The log as its rules see it."""

    shard: int
    limits: Limits
    records: list[Any]
    newest_epoch: int
    leader_epoch: int
    epochs_ahead: int
    lives: list[str]
    places: dict[int, int]
    lost: list[LostLog]
    newest_lived_at: int | None
    is_reading_again: bool
    handovers: int
    resets: int
    takings: int
    life: int
    facts: Facts
    groups: dict[str, GroupModel]
    known_members: dict[str, set[str]]
    known_before: list[tuple[int, dict[str, set[str]]]]
    times_ms: list[int]

    def excused(self, name: str) -> None:
        """Count what breaks a rule and is excused, by the name of the excuse."""

    def broken(self, name: str, at: int, why: str) -> ViolationError:
        """Return the violation of a rule at a place of the log."""


Rule = Any
"""A function of the log, the group, the place and the record; raises ViolationError for what makes no sense there."""
