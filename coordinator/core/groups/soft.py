"""The soft state of groups: what a restart may forget.

Connections, deadlines, the rebalance window, questions to Kafka under way, and the timeline. Whatever is here can be
rebuilt from hard state and from what members and Kafka say next.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import msgspec

from coordinator.core.groups.backlog import Backlog
from coordinator.core.groups.claim_table import ClaimPlace, OpenClaims
from coordinator.core.groups.partition_table import PartitionTable, TopicPartition
from coordinator.core.groups.plan import Plan
from coordinator.core.groups.shown import Shown
from coordinator.core.groups.starts import Hints
from coordinator.core.groups.timeline import Timeline
from coordinator.protocol.messages import RegisterConsumer


class TimerKind(Enum):
    """What is due when a timer is."""

    GRACE = "grace"
    """A member without a connection has not come back."""
    PROBE = "probe"
    """The old connection of a member that two processes claim to be did not answer."""
    STOP = "stop"
    """A member has not let go of a partition in time."""
    WINDOW = "window"
    """The changes gathered so far become one rebalance."""
    SLICE = "slice"
    """More of the group is to be looked at."""
    REST = "rest"
    """More registrations are to be looked at, or members to be removed; of no group."""
    LOOKUP = "lookup"
    """Partitions without a known start are looked at again."""
    CLAIM_AGE = "claim age"
    """Some claim of the group may have run for long."""
    CLAIM_TIMEOUT = "claim time-out"
    """Some owner that is gone may have been waited for long enough."""
    EXPIRY = "expiry"
    """A group may have been without members for long enough to be forgotten."""
    LIVED = "lived"
    """How long nodes ran is to be written down; of no group."""
    RECOVERY = "recovery"
    """A group that was forgotten has waited long enough for the checkpoints of its members."""
    REGISTRATION = "registration"
    """Kafka did not say in time whether a member's topics exist; `subject` is the connection."""


class Timer(NamedTuple):
    """The key of one deadline; `subject` is a member id or, for a registration, a connection id."""

    kind: TimerKind
    group_id: str
    subject: str | int = ""


@dataclass(slots=True)
class Connection:
    """One open connection. It is bound to a member from its registration until the member is gone."""

    connection_id: int
    host: str
    group_id: str | None = None
    member_id: str | None = None
    is_registering: bool = False
    is_closing: bool = False
    listed: Shown | None = None
    """Claims and hints that came before the registration they belong to."""
    listed_bytes: int = 0
    may_wait_for: frozenset[int] = frozenset()
    """Shards that may owe it the answer to a request which is answered in a later step."""
    session: "MemberSession | None" = None
    """The session of the member it is bound to: every message from it is noted there."""

    def bind(self, group_id: str, member_id: str, session: "MemberSession") -> None:
        """Make it a member's connection."""
        self.group_id, self.member_id, self.session = group_id, member_id, session

    def unbind(self) -> None:
        """Make it nobody's connection."""
        self.group_id = self.member_id = self.session = None


class Registration(msgspec.Struct, frozen=True):
    """A registration that could not be answered at once; `topics` are those that it names.

    The claims and the starts that count are those in `shown`: some came before the request, which came `at_ms`.
    """

    connection_id: int
    correlation_id: int
    request: RegisterConsumer
    fresh_id: str
    topics: tuple[str, ...]
    shown: Shown
    at_ms: int


class Owned(msgspec.Struct, frozen=True, gc=False):
    """Partitions that a member was found to own and to have no claim on, while the group's grants do not change."""

    grants_changes: int
    topic: str
    topic_id: str
    partitions: tuple[int, ...]
    owner_epochs: tuple[int | None, ...]


class MemberSession(msgspec.Struct, gc=False):
    """What is known of a member's connection; `newcomer` waits while the connection is probed."""

    connection_id: int | None
    last_heard_ms: int
    timeout_ms: int
    """The member's session time-out, as its facts have it."""
    disconnected_ms: int | None = None
    why_disconnected: str = ""
    is_told_complete: bool = False
    stop_deadlines: dict[TopicPartition, int] = msgspec.field(default_factory=dict)
    overstaying_since_ms: dict[TopicPartition, int] = msgspec.field(default_factory=dict)
    """Since when a partition has been wanted back whose owner is waited for beyond the stop's deadline."""
    newcomer: Registration | None = None
    owned: Owned | None = None
    """What the member committed last, which is most often what it commits next."""

    @property
    def is_awaited(self) -> bool:
        """True when the log knows the member and it has not come back since the node started."""
        return self.connection_id is None and self.disconnected_ms is None

    @property
    def ends_ms(self) -> int:
        """When the session is over unless the member says something."""
        return self.last_heard_ms + self.timeout_ms


class AskedOffset(NamedTuple):
    """What Kafka is asked about a partition of the topic with this id, and for whom."""

    topic_id: str
    timestamp_ms: int
    is_read_committed: bool = False


class ResolvedStart(msgspec.Struct, frozen=True, gc=False):
    """Kafka's answer to where a partition starts; it counts while the same question is open."""

    asked: AskedOffset
    offset: int
    leader_epoch: int | None


class LostOwner(msgspec.Struct, frozen=True, gc=False):
    """When and why a partition lost its owner."""

    at_ms: int
    why: str


class LateOwners(msgspec.Struct, frozen=True, gc=False):
    """From whom a partition was taken because they had not let go in time; it counts while the offset is this one."""

    committed: int | None
    member_ids: frozenset[str] = frozenset()
    times: int = 0


class ReadAnew(NamedTuple):
    """Which member starts a partition by policy; it counts while the group's offset is this one."""

    member_id: str
    committed: int | None


class RunningSince(msgspec.Struct, gc=False):
    """Since when claims are being read; it counts for a partition while the claim on it is one of these very ones."""

    place: ClaimPlace
    claims: OpenClaims
    at_ms: int


class BeyondEnd(NamedTuple):
    """Since when Kafka has said that a partition ends before these offsets of its owner and of the group."""

    position: int | None
    committed: int | None
    at_ms: int


@dataclass(slots=True)
class GroupSoft:
    """The soft state of one group."""

    timeline: Timeline
    sessions: dict[str, MemberSession] = field(default_factory=dict)
    causes: list[str] = field(default_factory=list)
    """Why the group is about to be rebalanced; not empty while it is."""
    rebalance_by_ms: int | None = None
    """When the window ends at the latest, while it is open."""
    window_closed_until_ms: int = 0
    """Until when another urgent change waits after a rebalance."""
    planning: Generator[None, None, Plan] | None = None
    """The target that is being computed, turn by turn."""
    plan: Plan | None = None
    """The target that is being made the group's, part by part."""
    backlog: Backlog = field(default_factory=Backlog)
    has_news_of_topics: bool = True
    """A topic has changed since the last rebalance, so that grants may be for topics that are no more."""
    hints: Hints | None = None
    """The start hints of all members, once they are asked for and until a member comes or goes."""
    changing_since_ms: int | None = None
    """When the first change came since the group was last stable."""
    unsettled: set[str] = field(default_factory=set)
    """Members that do not hold exactly their target."""
    lookups: dict[TopicPartition, int] = field(default_factory=dict)
    """The question under way for each partition."""
    read_anew: dict[TopicPartition, ReadAnew] = field(default_factory=dict)
    """Partitions that a member which commits nothing starts by policy, because Kafka does not have its position."""
    lost_owners: PartitionTable[LostOwner] = field(default_factory=PartitionTable)
    unresolved_why: dict[TopicPartition, str] = field(default_factory=dict)
    """Why a partition has no start, as last said."""
    running_since: PartitionTable[RunningSince] = field(default_factory=PartitionTable)
    """Claims whose age has not been said; a claim that is over may still be here."""
    running_from_ms: int | None = None
    """From when the claims are counted that ran when the node started, and are not in `running_since`."""
    matched_listing: int | None = None
    """The listing of all topics that the patterns were matched against last."""
    beyond_end: dict[TopicPartition, BeyondEnd] = field(default_factory=dict)
    """Offsets that were found behind the end of a partition, and are to be found there once more; may be over."""
    awaited_since: dict[TopicPartition, int] = field(default_factory=dict)
    """Since when a held partition waits for its owner; one that is over may still be here."""
    late_owners: dict[TopicPartition, LateOwners] = field(default_factory=dict)
    """Who was late with a partition; one that is over may still be here."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A question to Kafka under way."""

    group_id: str
    asked: dict[TopicPartition, AskedOffset]
    is_for_end: bool = False
    """True when the ends are asked for because nothing lies at or after the wanted timestamps."""
