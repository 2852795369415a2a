"""The pieces that messages are made of: plain frozen values, each a msgpack array on the wire.

As with the messages, the form only grows (a new field last, with a default), and absent is None, never 0.
"""

from enum import IntEnum
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import (
    MAX_INCARNATION_LENGTH,
    MAX_LIST_ITEMS,
    MAX_OFFSET,
    MAX_PARTITION,
    MAX_TOPIC_LENGTH,
    TopicPartition,
)
from coordinator.protocol.vocabulary import (
    ControlKind,
    EventKind,
    GroupStatus,
    Handover,
    IsolationLevel,
    MemberStatus,
    NodeStatus,
    PolicyKind,
    ResetKind,
    ShardStatus,
)

_Item = TypeVar("_Item")
Listed: TypeAlias = Annotated[tuple[_Item, ...], msgspec.Meta(max_length=MAX_LIST_ITEMS)]
"""A list in a request: one that is longer than MAX_LIST_ITEMS is refused before any item of it is made."""
Offset: TypeAlias = Annotated[int, msgspec.Meta(le=MAX_OFFSET)]
"""An offset that a peer says; one that Kafka could not have is no message at all."""
LeaderEpoch: TypeAlias = Annotated[int, msgspec.Meta(le=MAX_PARTITION)]
"""A leader epoch that a peer says, likewise."""


class _Part(msgspec.Struct, frozen=True, array_like=True):
    """A piece of a message."""


class NodeAddress(_Part, frozen=True):
    """The address at which one coordinator node listens for members."""

    node_id: int
    host: str
    port: int


class Subscription(_Part, frozen=True):
    """The subscription of a member: exactly one of topics, a pattern or explicit partitions; less the exclusions."""

    topics: Listed[str] = ()
    pattern: str | None = None
    partitions: Listed[TopicPartition] = ()
    exclusions: Listed[str] = ()


class Claim(_Part, frozen=True, gc=False):
    """Offsets [from_offset, until_offset) of one partition that a Spark member reads under one owner epoch."""

    topic: str
    topic_id: str
    partition: int
    owner_epoch: int
    from_offset: Offset
    until_offset: Offset


class TopicClaims(_Part, frozen=True, gc=False):
    """Claims on partitions of one topic, in columns: what comes at one place of each list is about one partition.

    Raises ValueError when the lists are not equally long.
    """

    topic: Annotated[str, msgspec.Meta(max_length=MAX_TOPIC_LENGTH)]
    topic_id: str
    partitions: Listed[int]
    owner_epochs: Listed[int]
    from_offsets: Listed[Offset]
    until_offsets: Listed[Offset]

    def __post_init__(self) -> None:
        count = len(self.partitions)
        if len(self.owner_epochs) != count or len(self.from_offsets) != count or len(self.until_offsets) != count:
            raise ValueError(f"the columns of {count} claims of a topic are not equally long")


class StartHint(_Part, frozen=True, gc=False):
    """The start of a partition for which the group has no committed offset.

    From a checkpoint it is the exclusive end of what was finished; from an option it may also be EARLIEST or LATEST.
    An empty topic id stands for whichever the topic has now. A checkpoint's hint goes before an option's, and among
    those of checkpoints that of the greatest owner epoch, under which the member had the partition.
    """

    topic: str
    topic_id: str
    partition: int
    offset: int
    from_checkpoint: bool
    owner_epoch: int | None = None


class ResetPolicy(_Part, frozen=True):
    """The start of a partition when neither the group nor a hint says; a time belongs to the kind `timestamp`."""

    kind: Annotated[str, PolicyKind]
    timestamp_ms: int | None = None


class LogPosition(_Part, frozen=True, gc=False):
    """The position of the log of a group's shard when a member was told something, as it shows at its next start.

    The incarnation is that of the node that wrote there; ends are counted as owner epochs are. A log that does not know
    the incarnation, or in which it ends below, is not the one that was told of: it went back, or is another one.
    """

    incarnation: Annotated[str, msgspec.Meta(max_length=MAX_INCARNATION_LENGTH)]
    end: Offset


class OwnedPartition(_Part, frozen=True, gc=False):
    """One partition under one owner epoch."""

    topic: str
    partition: int
    owner_epoch: int


class StartPartition(_Part, frozen=True, gc=False):
    """A partition granted to a member: read from `offset` on; the owner epoch fences every commit.

    `stream` says which of the member's streams, counted from 0, is to read it, when the member wants to be told.
    """

    topic: str
    topic_id: str
    partition: int
    owner_epoch: int
    offset: int
    leader_epoch: int | None = None
    leader_host: str | None = None
    leader_port: int | None = None
    stream: int | None = None


class FinalOffset(_Part, frozen=True, gc=False):
    """A partition that a member has stopped; the offset, when given, is committed with the release."""

    topic: str
    partition: int
    owner_epoch: int
    offset: Offset | None = None
    leader_epoch: LeaderEpoch | None = None
    metadata: str = ""


class TopicOffsets(_Part, frozen=True, gc=False):
    """Offsets of one topic to commit, in columns: what comes at one place of each list is about one partition.

    An offset is the next one to read. An empty list of owner epochs, leader epochs or metadata says that none of the
    partitions has any; without an owner epoch an offset is only for a partition that nobody owns, and `topic_id` says
    of which life of the topic it is, where that is known. Raises ValueError when the lists, but for those three where
    they are empty, are not equally long.
    """

    topic: Annotated[str, msgspec.Meta(max_length=MAX_TOPIC_LENGTH)]
    partitions: Listed[int]
    offsets: Listed[Offset]
    owner_epochs: Listed[int | None] = ()
    leader_epochs: Listed[LeaderEpoch | None] = ()
    metadata: Listed[str] = ()
    topic_id: str = ""

    def __post_init__(self) -> None:
        count = len(self.partitions)
        if (
            len(self.offsets) != count
            or (self.owner_epochs and len(self.owner_epochs) != count)
            or (self.leader_epochs and len(self.leader_epochs) != count)
            or (self.metadata and len(self.metadata) != count)
        ):
            raise ValueError(f"the columns of {count} partitions of a topic are not equally long")


def count_named(topics: tuple[TopicOffsets, ...] | tuple[TopicClaims, ...]) -> int:
    """Return how many partitions columns name; a topic without any counts as one."""
    if not topics:
        return 0
    return len(topics[0].partitions) if len(topics) == 1 else sum([len(topic.partitions) or 1 for topic in topics])


def check_count(topics: tuple[TopicOffsets, ...] | tuple[TopicClaims, ...]) -> None:
    """Raise ValueError when a request names more partitions in all than any list of one may have items."""
    if len(topics) > 1 and (count := sum([len(topic.partitions) for topic in topics])) > MAX_LIST_ITEMS:
        raise ValueError(f"{count} partitions are named and at most {MAX_LIST_ITEMS} may be")


class CommittedOffset(_Part, frozen=True, gc=False):
    """A committed offset as the group has it; `commit_ms` is wall-clock time."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    leader_epoch: int | None
    metadata: str
    commit_ms: int


class LostPosition(_Part, frozen=True, gc=False):
    """A partition under the owner epoch of its grant, and where its owner is to read; None where that is not known."""

    topic: str
    partition: int
    owner_epoch: int
    position: Offset | None = None


class PartitionResult(_Part, frozen=True, gc=False):
    """The outcome of one partition of a request; `committed` is the group's offset afterwards, if it has one."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    committed: int | None = None


class Outcomes(_Part, frozen=True, gc=False):
    """The outcomes of the claims or partitions that one list of a request names, in its order.

    What came out as it was asked is only counted: a finished claim is committed up to its end, the group's offset of an
    offered one is its beginning, a released partition has the offset that came with it. Of the others each has its
    result, and its place in the list, counted from 0.
    """

    as_asked: int = 0
    others: tuple[PartitionResult, ...] = ()
    places: tuple[int, ...] = ()


class ClaimState(IntEnum):
    """The state of a claim at the coordinator."""

    CLOSED = 0
    """It is committed, taken over, reset or released: its range must not be read."""
    OFFERED = 1
    """It may still be replaced or dropped."""
    RUNNING = 2
    """Its range is being read; the partition is not handed to anyone before it is done or its owner is dead."""


class ClaimStatus(_Part, frozen=True, gc=False):
    """The state of one claim that was asked about, with the reason when it is closed."""

    topic: str
    partition: int
    owner_epoch: int
    state: ClaimState
    why: str = ""
    committed: int | None = None


class ClosedClaims(_Part, frozen=True, gc=False):
    """Claims that were asked about and are closed for the same reason, by their places in the list.

    `committed` are the group's offsets, one for each; empty where there is none of any.
    """

    why: str
    places: tuple[int, ...]
    committed: tuple[int | None, ...] = ()


class ClaimStatuses(_Part, frozen=True, gc=False):
    """The states of claims that were asked about, in the order asked.

    Those that run, of which the group's offset is the beginning, are only counted. Each of the others has its status,
    and its place in the list, counted from 0; or it is among those that are `closed`, which may be very many.
    """

    running: int = 0
    others: tuple[ClaimStatus, ...] = ()
    places: tuple[int, ...] = ()
    closed: tuple[ClosedClaims, ...] = ()


class ListedUpTo(_Part, frozen=True):
    """The end of a page of the list of groups: at this group of this shard."""

    shard: int
    group_id: str


class DescribedUpTo(_Part, frozen=True):
    """The end of a page of a group's description: at this member or, with a topic, at this partition."""

    member_id: str = ""
    topic: str = ""
    partition: int = -1


class ControlsUpTo(_Part, frozen=True):
    """The end of a page of what operators decided: at this kind of control, of this partition or this member."""

    kind: Annotated[str, ControlKind]
    name: str = ""
    partition: int = -1


class NodeDescription(_Part, frozen=True):
    """One node of a cluster as another one knows it; without an address if it has registered none.

    `node_epoch` counts its lives. `is_heard` says that the node which tells of it is in contact with it.
    """

    node_id: int
    status: Annotated[str, NodeStatus]
    host: str = ""
    port: int = 0
    node_epoch: int | None = None
    rack: str = ""
    release: str = ""
    is_heard: bool = False


class ShardDescription(_Part, frozen=True, gc=False):
    """One shard as one node knows it; `status` is how it is there.

    `replicas` and `isr` are empty, and the offsets absent, where the node does not know them: a leader knows all, the
    controller all but the offsets, another replica its own offsets.
    """

    shard: int
    status: Annotated[str, ShardStatus]
    leader_epoch: int = 0
    leader: int | None = None
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    log_end: int | None = None
    high_watermark: int | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """The replicas that come and go in a reassignment; empty where the node does not know them, as all but the
    controller do not."""
    last_epoch: int | None = None
    """The leader epoch of the last record of its log."""


class ShardReplicas(_Part, frozen=True):
    """The replicas that a shard is to have, the preferred leader first."""

    shard: int
    replicas: Listed[int]


class UncleanLeader(_Part, frozen=True):
    """A replica that is to lead a shard though it is not in sync, in the place of nobody in this leader epoch."""

    shard: int
    node_id: int
    leader_epoch: int


class ShardChange(_Part, frozen=True):
    """A shard as it is and as it is to be, or why it is not to be so.

    `replicas` are those that it has, or has begun to get; `leader` is the one that it has.
    """

    shard: int
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    replicas: tuple[int, ...] = ()
    new_replicas: tuple[int, ...] = ()
    leader: int | None = None
    new_leader: int | None = None


class GroupSummary(_Part, frozen=True):
    """One line of the list of groups; `bytes` is what the group's state takes."""

    group_id: str
    state: Annotated[str, GroupStatus]
    group_epoch: int
    members: int
    bytes: int = 0


class MemberDescription(_Part, frozen=True, gc=False):
    """One member as an operator sees it.

    `unpolled_ms` is for how long its program had not polled it as of its last ping; of a query it is absent.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    pid: int
    state: Annotated[str, MemberStatus]
    member_epoch: int
    streams: int
    connected: bool
    owned: int
    target: int
    commits: bool = True
    isolation_level: Annotated[str, IsolationLevel] = IsolationLevel.READ_UNCOMMITTED
    unpolled_ms: int | None = None


class PartitionDescription(_Part, frozen=True, gc=False):
    """One partition of a group as an operator sees it; what is not known is absent."""

    topic: str
    partition: int
    committed: int | None = None
    end_offset: int | None = None
    member_id: str | None = None
    owner_epoch: int | None = None
    is_stopping: bool = False
    claim: Claim | None = None
    claim_state: ClaimState | None = None
    leader_epoch: int | None = None
    stream: int | None = None


class GroupEvent(_Part, frozen=True):
    """One entry of a group's timeline: what happened, to whom and why. `at_ms` is wall-clock time.

    Of many partitions only some are named; `partition_count` says how many there are.
    """

    sequence: int
    at_ms: int
    kind: Annotated[str, EventKind]
    member_id: str
    why: str
    group_epoch: int
    partitions: tuple[TopicPartition, ...] = ()
    duration_ms: int | None = None
    partition_count: int = 0


class ResetTarget(_Part, frozen=True):
    """A partition whose committed offset is to be set, and where to.

    The value is what the kind says that it is: an offset, a time, a duration or a number of records. With a topic's id
    it counts for that very topic: one that was deleted and made again since is refused.
    """

    topic: str
    partition: int
    kind: Annotated[str, ResetKind]
    value: int | None = None
    topic_id: str = ""


class NewGroup(_Part, frozen=True):
    """The settings of a group that is made where there is none: those that its first member would set."""

    reset_policy: ResetPolicy | None = None
    handover: Annotated[str, Handover] = Handover.TAKEOVER
    claim_timeout_ms: int | None = None


class ResetResult(_Part, frozen=True):
    """The outcome of one target of a reset: the offset before and after; nothing changes while it is pending."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    old_offset: int | None = None
    new_offset: int | None = None
    is_pending: bool = False


class ControlDescription(_Part, frozen=True):
    """One thing that an operator has decided and that stands."""

    kind: Annotated[str, ControlKind]
    who: str
    why: str
    at_ms: int
    topic: str = ""
    partition: int | None = None
    member_id: str = ""
    offset: int | None = None
