"""The hard state of a shard: what its records say, and nothing else.

Only `replay` changes it, live and loading alike. It holds no time but the wall-clock time of commits and how long nodes
ran, no connections and no deadlines. Indexes (who owns what, which groups know a topic) are part of it and are kept by
the same replay, so that two states made from the same records are equal field by field.
"""

from dataclasses import dataclass, field

import msgspec

from coordinator.core.groups.hard.controls import NO_CONTROLS, Controls
from coordinator.core.groups.hard.facts_index import NO_FACTS, FactsIndex
from coordinator.core.groups.hard.records import GroupEmptied, MemberFacts
from coordinator.core.groups.hard.tables.claim_table import NO_CLAIMS, ClaimTable
from coordinator.core.groups.hard.tables.committed_table import CommittedTable
from coordinator.core.groups.hard.tables.timeline import NO_TIMELINE, Timeline
from coordinator.core.groups.partitions.no_entries import NO_ENTRIES
from coordinator.core.groups.partitions.partition_set import NOTHING, PartitionSet
from coordinator.core.groups.partitions.partition_table import (
    NO_PARTITIONS,
    PartitionTable,
    TopicPartition,
    is_same_topic,
    numbers_by_topic,
)
from coordinator.protocol.parts import ResetPolicy
from coordinator.protocol.vocabulary import Handover


class Grant(msgspec.Struct, frozen=True, gc=False):
    """The owner of a partition, fenced by its owner epoch; partitions that were granted together share one.

    `stop_why` is the reason why the owner has to let go, once it has to. The owner may be gone: then the grant is
    abandoned, the claim on it is running, and it waits for the same identity or for another owner.
    """

    member_id: str
    topic_id: str
    owner_epoch: int
    stop_why: str | None = None
    stream: int | None = None
    """The stream of the owner that reads it, when the owner wants to be told."""
    start: int | None = None
    """The offset at which an owner that commits nothing begins, when the group has none."""
    start_leader_epoch: int | None = None

    @property
    def is_stopping(self) -> bool:
        """True when the owner has been asked to let go."""
        return self.stop_why is not None


class TopicState(msgspec.Struct, frozen=True, gc=False):
    """A topic as the group last saw it; no id and no partitions stand for one that is awaited."""

    topic_id: str
    first_partitions: int
    partitions: int
    by_readers: bool = False
    """Only members that commit nothing have read it."""
    earliest_why: str = ""
    """Why its first partitions start at their beginning too, and not by the policy; empty where the policy counts."""


class MemberState(msgspec.Struct, gc=False):
    """A member: what it said of itself, the epoch it is in and what it is to have.

    Like a session it is in no cycle: left out of the collector's rounds, members by the thousand do not lengthen them.
    """

    facts: MemberFacts
    member_epoch: int = 0
    target: PartitionSet = NOTHING
    """Another set takes its place when it changes: a plan and a snapshot go on with the one before."""


@dataclass(slots=True)
class GroupState:
    """A group. `is_target_stale` says that something changed since its target was computed.

    Groups are many, and most have offsets and nothing else: what those do not need is one and the same empty value for
    all of them (NOTHING, NO_...), which replay exchanges for one of the group's own before it first changes it.
    """

    group_id: str
    group_epoch: int = 0
    assignor: str = ""
    reset_policy: ResetPolicy | None = None
    handover: str = Handover.TAKEOVER
    claim_timeout_ms: int | None = None
    owner: str = ""
    """The principal that made it, or the address it was made from; empty where that is not known."""
    is_target_stale: bool = False
    emptied: GroupEmptied | None = None
    """Since when it has no members, while it has none."""
    topics: dict[str, TopicState] = field(default_factory=lambda: NO_ENTRIES)
    members: dict[str, MemberState] = field(default_factory=lambda: NO_ENTRIES)
    grants: PartitionTable[Grant] = field(default_factory=lambda: NO_PARTITIONS)
    claims: ClaimTable = field(default_factory=lambda: NO_CLAIMS)
    """The ranges that owners read or are to read; only of partitions that are granted."""
    offsets: CommittedTable = field(default_factory=CommittedTable)
    by_policy: PartitionSet = NOTHING
    """Partitions that start by the policy alone, whatever members show: their offset was taken from them, because Kafka
    does not have it or because an operator deleted it. So what a member shows counts for the first start only.
    Another set takes its place when it changes."""
    was_forgotten: bool = False
    """Its first member had been in it before: what members remember counts, and no topic starts by the policy."""
    epochs_from: int = 0
    """Owner epochs that were told before the log went back are below; zero if it is not known to have gone back."""
    recovery_ms: int | None = None
    """The time for which it waits for the checkpoints of former members, while it does; see `recovery`."""
    controls: Controls = field(default_factory=lambda: NO_CONTROLS)
    """The decisions of operators."""
    timeline: Timeline = field(default_factory=lambda: NO_TIMELINE)
    """Told to people: each event with its reason; it has limits of its own and is in no account."""
    target_owners: PartitionTable[str] = field(default_factory=lambda: NO_PARTITIONS)
    """Index: who is to have a partition."""
    target_count: int = 0
    """Account: how many partitions somebody is to have."""
    owned: dict[str, PartitionSet] = field(default_factory=lambda: NO_ENTRIES)
    """Index: what each owner has, members or not; no empty sets."""
    stopping: dict[str, set[TopicPartition]] = field(default_factory=lambda: NO_ENTRIES)
    """Index: what each owner has to let go of; no empty sets."""
    awaited: dict[str, str] = field(default_factory=lambda: NO_ENTRIES)
    """The instance ids of members that are gone and whose running claims are still theirs."""
    left_by: dict[str, str] = field(default_factory=lambda: NO_ENTRIES)
    """The principals of members that are gone and whose running claims are still theirs, of those who logged in."""
    by_facts: FactsIndex = field(default_factory=lambda: NO_FACTS)
    """Index: its members by what they said of themselves."""
    facts_bytes: int = 0
    """Account: what its members said of themselves; see `account`."""
    topics_bytes: int = 0
    """Account: the topics it has seen."""
    counted_owner: str = ""
    """Account: to whom its shard has charged it, empty for nobody yet."""
    counted_bytes: int = 0
    """Account: all of it, as its shard has counted it."""
    counted_offsets: int = 0
    """Account: its offsets, as its shard has counted them."""

    def wanted_owner(self, partition: TopicPartition) -> str | None:
        """Return who is to have a partition now: nobody while it is paused."""
        controls = self.controls
        if (controls.paused or controls.group_pause) and controls.pause_of(partition):
            return None
        return self.target_owners.get(partition)

    def due_to(self, member_id: str) -> PartitionSet:
        """Return what a member is to have now, to read: its target without what is paused."""
        target, paused = self.members[member_id].target, self.controls.paused
        if self.controls.group_pause:
            return NOTHING
        if not paused:
            return target
        due = target.copy()
        for topic, numbers in numbers_by_topic(paused).items():
            due.discard_all(topic, sorted(numbers))
        return due

    def owned_by(self, member_id: str) -> PartitionSet:
        """Return what a member has now, to read, including what it has to let go of."""
        return self.owned.get(member_id, NOTHING)

    def grant_of(self, topic: str, partition: int, member_id: str, owner_epoch: int) -> Grant | None:
        """Return the grant of a partition if it is this member's under this owner epoch."""
        grant = self.grants.get((topic, partition))
        if grant is None or grant.member_id != member_id or grant.owner_epoch != owner_epoch:
            return None
        return grant

    def committed_offset(self, partition: TopicPartition, topic_id: str) -> int | None:
        """Return the committed offset of a partition of this very topic, if there is one."""
        committed = self.offsets.place_of(partition)
        if committed is None or not is_same_topic(committed.topic_id, topic_id):
            return None
        return committed.position_of(partition[1])[0]


@dataclass(slots=True)
class ShardState:
    """All groups of a shard."""

    groups: dict[str, GroupState] = field(default_factory=dict)
    groups_of_topic: dict[str, set[str]] = field(default_factory=dict)
    """Index: the groups that have seen a topic, or have offsets of it."""
    groups_with_patterns: set[str] = field(default_factory=set)
    """Index: the groups that subscribe by patterns."""
    bytes_of: dict[str, int] = field(default_factory=dict)
    """Account: what the groups of each principal take; no zeros."""
    groups_of: dict[str, int] = field(default_factory=dict)
    """Account: how many groups each principal has; no zeros."""
    lived_ms: int = 0
    """The time for which nodes ran, as last written down; see `lived_time`."""
    lived_at_ms: int | None = None
    """The time of that by the wall clock."""
    lives: dict[str, int] = field(default_factory=dict)
    """The places at which nodes went on with this log, by incarnation, the newest last; counted as owner epochs are."""
    epochs_ahead: int = 0
    """By how much owner epochs are ahead of offsets of the log; it only grows."""
