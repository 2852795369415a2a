"""Every word that travels: texts of messages that stand for one of a few things, each list of them an enum.

On the wire a word is text, and a field that holds one names its enum as an annotation: `Annotated[str, Handover]`. A
newer peer may say words that this end does not know. A coordinator refuses a request that says one; in an answer it is
handed over as it came, so that it is shown and not lost. A word is never used again for something else.

Numbers that travel are ErrorCode (`errors`) and ClaimState (`parts`).
"""

from enum import StrEnum
from typing import Final


class Handover(StrEnum):
    """The ways in which a running claim is handed on when its owner is gone."""

    TAKEOVER = "takeover"
    """The claim is closed, once the partition has its next owner."""
    HOLD = "hold"
    """It is kept for the same instance id, until an operator lets it go or the claim time-out is over."""


class IsolationLevel(StrEnum):
    """The records that a member reads; the names are Kafka's."""

    READ_UNCOMMITTED = "read_uncommitted"
    """Every record below the high watermark."""
    READ_COMMITTED = "read_committed"
    """Those up to the last stable offset, without aborted transactions."""


class PolicyKind(StrEnum):
    """The starts of a partition of which neither the group nor a hint says anything."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    NONE = "none"
    """It is not read until somebody commits an offset for it."""


class ResetKind(StrEnum):
    """The places to which an operator sets a committed offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    """The committed offset, or the end where there is none."""
    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    """Milliseconds since 1970."""
    DURATION = "duration"
    """Milliseconds before now."""
    SHIFT = "shift"
    """Records from the committed offset, back if negative."""


class ControlKind(StrEnum):
    """The decisions of operators that stand, in the order in which they are told."""

    GROUP_PAUSED = "group-paused"
    PARTITION_PAUSED = "partition-paused"
    MEMBER_DRAINED = "member-drained"
    RESET_PENDING = "reset-pending"


class AssignorName(StrEnum):
    """The assignors that come with kcoord; a coordinator may have been given others by its configuration."""

    STICKY = "sticky"
    RANGE = "range"
    ROUND_ROBIN = "round-robin"


class GroupStatus(StrEnum):
    """The states of a group, by how far it is on the way to its target."""

    EMPTY = "Empty"
    """It has no members; its offsets and abandoned claims stay. A member that joins leads out."""
    ASSIGNING = "Assigning"
    """A change came and waits for others; what is owned stays owned. The window's end leads out."""
    RECOVERING = "Recovering"
    """It was forgotten, and waits for what the checkpoints of its members show; nothing without an offset is granted.
    A session time-out leads out, or checkpoints that show every partition."""
    RECONCILING = "Reconciling"
    """Some member does not hold exactly its target. Releases and grants lead out, or the next change."""
    STABLE = "Stable"
    """Every member holds exactly its target. A change leads out."""


class MemberStatus(StrEnum):
    """The states of a member, by how far it is on the way to its target."""

    STABLE = "Stable"
    """It holds its target. Everything is answered; a new target leads out."""
    UNREVOKED_PARTITIONS = "UnrevokedPartitions"
    """It has to let go of partitions, and keeps its epoch until it has. Commits and finished claims of what it has
    are accepted, new claims on what it must let go are not. Letting go leads out, or the deadline, which fences it."""
    UNRELEASED_PARTITIONS = "UnreleasedPartitions"
    """It waits for partitions: others have not let go, or a start is not known. Everything is answered for what it
    has. The grants lead out, or a new target."""


class NodeStatus(StrEnum):
    """The states of a node of a cluster, as ZooKeeper has them."""

    READY = "ready"
    """It may be given shards to lead."""
    DRAINING = "draining"
    """It is being emptied: it leads nothing more where another node can."""
    GONE = "gone"
    """It has no session with ZooKeeper. It may follow on; it is elected for nothing."""


class ShardStatus(StrEnum):
    """The states of a shard on one node."""

    SERVING = "serving"
    """The node leads it and answers requests about it."""
    LOADING = "loading"
    """The node leads it and reads its log; requests are told to come again."""
    STALLED = "stalled"
    """The node leads it, and what it has decided does not leave: others in the in-sync set do not confirm it."""
    FOLLOWING = "following"
    """The node has a replica that takes what the leader sends."""
    CATCHING_UP = "catching-up"
    """The node has a replica that is brought to where it can follow."""
    DECLINED = "declined"
    """The node was to lead it and cannot; it asks for another leader."""
    OFFLINE = "offline"
    """The node has a replica, and there is no leader."""
    ELSEWHERE = "elsewhere"
    """The node has no replica of it."""


class EventKind(StrEnum):
    """The entries of a group's timeline."""

    MEMBER_JOINED = "member-joined"
    MEMBER_RETURNED = "member-returned"
    MEMBER_REPLACED = "member-replaced"
    MEMBER_LEFT = "member-left"
    MEMBER_EXPIRED = "member-expired"
    REBALANCE = "rebalance"
    STABLE = "stable"
    GRANTED = "granted"
    RELEASED = "released"
    TAKEN_OVER = "taken-over"
    TAKEN_LATE = "taken-late"
    CLAIM_SKIPPED = "claim-skipped"
    CLAIM_HELD = "claim-held"
    CLAIM_GIVEN_UP = "claim-given-up"
    GROUP_EXPIRED = "group-expired"
    CLAIM_OLD = "claim-old"
    START_RESOLVED = "start-resolved"
    START_UNRESOLVED = "start-unresolved"
    OUT_OF_RANGE = "out-of-range"
    RECOVERING = "recovering"
    RECOVERED = "recovered"
    LOG_WENT_BACK = "log-went-back"
    TOPIC_GROWN = "topic-grown"
    TOPIC_DELETED = "topic-deleted"
    TOPIC_RECREATED = "topic-recreated"
    TOPICS_LEFT_OUT = "topics-left-out"
    PAUSED = "paused"
    RESUMED = "resumed"
    DRAINED = "drained"
    UNDRAINED = "undrained"
    RESET_PLANNED = "reset-planned"
    RESET_APPLIED = "reset-applied"
    RESET_CANCELLED = "reset-cancelled"
    OFFSETS_DELETED = "offsets-deleted"
    GROUP_DELETED = "group-deleted"
    CLAIM_RELEASED = "claim-released"


VOCABULARY: Final[tuple[type[StrEnum], ...]] = (
    Handover,
    IsolationLevel,
    PolicyKind,
    ResetKind,
    ControlKind,
    AssignorName,
    GroupStatus,
    MemberStatus,
    NodeStatus,
    ShardStatus,
    EventKind,
)
"""Every list of words, in the order of docs/PROTOCOL.md."""
