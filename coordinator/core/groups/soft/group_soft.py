"""The soft state of one group: what a restart may forget.

The rebalance window, questions to Kafka under way, what was noticed of partitions, and what came too fast for the
timeline. Whatever is here can be rebuilt from hard state and from what members and Kafka say next.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from coordinator.core.groups.hard.tables.claim_table import ClaimPlace, OpenClaims
from coordinator.core.groups.partitions.partition_table import PartitionTable, TopicPartition
from coordinator.core.groups.soft.backlog import Backlog
from coordinator.core.groups.soft.hints import Hints
from coordinator.core.groups.soft.lost_owners import LostOwners
from coordinator.core.groups.soft.sessions import MemberSession
from coordinator.core.groups.soft.staged_target import StagedTarget
from coordinator.core.groups.soft.timeline import Noting


class AskedOffset(NamedTuple):
    """The question to Kafka about a partition of the topic with this id, and for whom it is."""

    topic_id: str
    timestamp_ms: int
    is_read_committed: bool = False


class ResolvedStart(msgspec.Struct, frozen=True, gc=False):
    """Kafka's answer to where a partition starts; it counts while the same question is open."""

    asked: AskedOffset
    offset: int
    leader_epoch: int | None


class LateOwners(msgspec.Struct, frozen=True, gc=False):
    """From whom a partition was taken because they had not let go in time; it counts while the offset is this one."""

    committed: int | None
    member_ids: frozenset[str] = frozenset()
    times: int = 0


class ReadAnew(NamedTuple):
    """The member that starts a partition by policy; it counts while the group's offset is this one."""

    member_id: str
    committed: int | None


class RunningSince(msgspec.Struct, gc=False):
    """Since when claims are being read; it counts for a partition while the claim on it is one of these very ones."""

    place: ClaimPlace
    claims: OpenClaims
    at_ms: int


class BeyondEnd(NamedTuple):
    """Since when Kafka has said that a partition ends before these offsets of its owner and of the group, or of one."""

    position: int | None
    committed: int | None
    at_ms: int


@dataclass(slots=True)
class GroupSoft:
    """The soft state of one group."""

    noting: Noting
    sessions: dict[str, MemberSession] = field(default_factory=dict)
    causes: list[str] = field(default_factory=list)
    """Why the group is about to be rebalanced; not empty while it is."""
    rebalance_by_ms: int | None = None
    """The latest end of the window, while it is open."""
    window_closed_until_ms: int = 0
    """Until when another urgent change waits after a rebalance."""
    planning: Generator[None, None, StagedTarget] | None = None
    """The target that is being computed, turn by turn."""
    staged_target: StagedTarget | None = None
    """The target that is being made the group's, part by part."""
    backlog: Backlog = field(default_factory=Backlog)
    has_news_of_topics: bool = True
    """A topic has changed since the last rebalance, so that grants may be for topics that are no more."""
    hints: Hints | None = None
    """The start hints of all members, once they are asked for and until a member comes or goes."""
    changing_since_ms: int | None = None
    """The time of the first change since the group was last stable."""
    unsettled: set[str] = field(default_factory=set)
    """Members that do not hold exactly their target."""
    lookups: dict[TopicPartition, int] = field(default_factory=dict)
    """The question under way for each partition."""
    read_anew: dict[TopicPartition, ReadAnew] = field(default_factory=dict)
    """Partitions that a member which commits nothing starts by policy, because Kafka does not have its position."""
    lost_owners: LostOwners = field(default_factory=LostOwners)
    unresolved_why: dict[TopicPartition, str] = field(default_factory=dict)
    """Why a partition has no start, as last said."""
    running_since: PartitionTable[RunningSince] = field(default_factory=PartitionTable)
    """Claims whose age has not been said; a claim that is over may still be here."""
    running_long: PartitionTable[RunningSince] = field(default_factory=PartitionTable)
    """Claims whose age has been said; a claim that is over may still be here."""
    ages: Iterator[tuple[TopicPartition, bool]] | None = None
    """The claims whose age is still to be looked at, while it is: see `claim_watch`."""
    running_from_ms: int | None = None
    """From when the claims are counted that ran when the node started, and are in neither of the two tables."""
    is_start_said: bool = False
    """True once the age of those has been said."""
    matched_listing: int | None = None
    """The listing of all topics that the patterns were matched against last."""
    beyond_end: dict[TopicPartition, BeyondEnd] = field(default_factory=dict)
    """Offsets that were found behind the end of a partition, and are to be found there once more; may be over."""
    awaited_since: dict[str, int] = field(default_factory=dict)
    """Since when an identity that is gone is waited for, by those of its partitions that are held; it may be back."""
    late_owners: dict[TopicPartition, LateOwners] = field(default_factory=dict)
    """The members that were late with a partition; one that is over may still be here."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A question to Kafka under way."""

    group_id: str
    asked: dict[TopicPartition, AskedOffset]
    is_for_end: bool = False
    """True when the ends are asked for because nothing lies at or after the wanted timestamps."""
