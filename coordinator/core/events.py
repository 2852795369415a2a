"""Everything that can happen to a node, as frozen values; when it happened is said to `step` beside it.

That time counts from an arbitrary start and never goes back; it is never written to disk. Wall-clock time comes with
the tick alone and serves timestamps and the expiry of offsets, never sessions.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from coordinator.core.security.acl import Acl
from coordinator.core.security.principal import ANONYMOUS, Principal
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages import Request
from coordinator.protocol.text.addresses import Address


class ConnectionOpened(msgspec.Struct, frozen=True):
    """A peer's hello has been accepted, and it has logged in where that is asked for.

    `host` is its address as the operating system sees it, `principal` the one that it acts for as long as it lasts.
    """

    connection_id: int
    host: str
    principal: Principal = ANONYMOUS


class ConnectionClosed(msgspec.Struct, frozen=True):
    """A connection is gone, from either side; nothing more comes from it and nothing can be sent to it."""

    connection_id: int
    why: str


class RequestArrived(msgspec.Struct, frozen=True, gc=False):
    """A request came on a connection.

    `fresh_id` is a random id that has never been used: the member id of a member that names none.
    """

    connection_id: int
    correlation_id: int
    request: Request
    fresh_id: str = ""


class Ticked(msgspec.Struct, frozen=True):
    """Time has passed; comes at least every 100 ms and at the time a node asked for by WakeAt.

    `is_behind` is true while more has been said to the node, as registrations are, than it has had time to hear.
    """

    wall_ms: int
    is_behind: bool = False


class BecameDurable(msgspec.Struct, frozen=True, gc=False):
    """Records of a shard below `end_offset` are on disk, in its log with this number: completes Append."""

    shard: int
    end_offset: int
    log_number: int = 0


class SnapshotWritten(msgspec.Struct, frozen=True):
    """A piece of a snapshot is on disk, with `is_whole` the last one: completes WriteSnapshot.

    `log_number` is the one that the log had when the snapshot was begun.
    """

    shard: int
    end_offset: int
    is_whole: bool = True
    log_number: int = 0


class DiskFailed(msgspec.Struct, frozen=True):
    """The disk refused to write or sync; nothing more may be promised."""

    why: str

    @property
    def halts_for(self) -> str:
        """Return why the node ends."""
        return f"the disk failed, so nothing more can be promised: {self.why}"


class LeadershipGiven(msgspec.Struct, frozen=True):
    """This node leads a shard from now on, in an epoch above all those in which anybody has led it.

    An epoch that is not above the last one given here is old news and changes nothing. With `log_end` the record of the
    epoch is appended there at once, and is loaded with all before it; without, it follows what is loaded.
    `unclean_epoch` is that of the last unclean election, 0 if there was none: what was granted before it and is lost
    may be known to others yet.
    """

    shard: int
    leader_epoch: int
    log_end: int | None = None
    unclean_epoch: int = 0


class StandbyFed(msgspec.Struct, frozen=True):
    """Committed records of a shard that is followed here, for its standby to replay at once; they are few.

    They are a part of a snapshot that ends at `offset`, or follow what was fed before, from `offset` on. With
    `is_complete` the standby has all records below the end of these. `leader_epoch` is that of the last one.
    """

    shard: int
    leader_epoch: int
    offset: int
    records: Sequence[bytes]
    is_snapshot: bool = False
    is_complete: bool = True


class StandbyDropped(msgspec.Struct, frozen=True):
    """A shard's standby counts for nothing any more: its log is another one, or not here."""

    shard: int


class LeadershipGoesOn(msgspec.Struct, frozen=True):
    """This node leads a shard that it leads in the next epoch as well: what is done and waits stays as it is.

    The record of the epoch is appended at `log_end`.
    """

    shard: int
    leader_epoch: int
    log_end: int


class GateMoved(msgspec.Struct, frozen=True):
    """Records of a shard below `high_watermark` are committed, and rounds are confirmed, in the epoch it is led in.

    Without a round this node is the whole in-sync set, so that what waits now needs none.
    """

    shard: int
    leader_epoch: int
    high_watermark: int
    confirmed_round: int | None


class ShardStalled(msgspec.Struct, frozen=True):
    """The decisions of a shard do not leave: nothing more is decided for it until ShardServes."""

    shard: int


class ShardServes(msgspec.Struct, frozen=True):
    """The decisions of a shard have left: requests are answered again, and every deadline begins anew."""

    shard: int


class LeadershipTaken(msgspec.Struct, frozen=True):
    """This node leads a shard no longer, for a reason to show to people."""

    shard: int
    why: str


class ShardRecovered(msgspec.Struct, frozen=True):
    """A shard's log has been read: completes LoadShard, of the same leader epoch.

    A piece says whether it is of the snapshot, with the end of that, or of the log, with its first record's offset.
    `last_epoch` is the leader epoch of the log's last record, 0 for one without any.
    """

    shard: int
    leader_epoch: int
    last_epoch: int
    pieces: Iterable[tuple[bool, int, Sequence[bytes]]]


class ShardUnreadable(msgspec.Struct, frozen=True):
    """A shard's log could not be read: completes LoadShard too."""

    shard: int
    leader_epoch: int
    why: str


class AppendRefused(msgspec.Struct, frozen=True):
    """Records were not taken into a shard's log, which ends at `end_offset`, by a bug of ours: the disk is well."""

    shard: int
    end_offset: int
    error: Exception


class TopicMetadata(msgspec.Struct, frozen=True):
    """A topic as Kafka has it; `leaders` has one broker id a partition, None while it has no leader.

    One that `is_internal` is Kafka's own, as `__consumer_offsets` is: it is read where it is named.
    """

    topic: str
    topic_id: str
    leaders: tuple[int | None, ...]
    is_internal: bool = False

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return len(self.leaders)


class TopicsRead(msgspec.Struct, frozen=True):
    """Kafka's answer about watched topics: completes WatchTopics, then comes again whenever it was polled.

    A name that was asked for and is in neither mapping was not asked in this round. `absent` are topics that Kafka
    says do not exist, which is told of polls alone and not of lookups; `refused` names topics Kafka would not speak
    about, with the reason. When it `is_whole`, it names every topic of the cluster, Kafka's own internal ones too.
    """

    topics: Mapping[str, TopicMetadata]
    absent: frozenset[str]
    refused: Mapping[str, str]
    brokers: Mapping[int, Address]
    cluster_id: str | None
    is_whole: bool = False


class ResolvedOffset(msgspec.Struct, frozen=True, gc=False):
    """One answer to ResolveOffsets; `offset` is None when Kafka could not say, and `why` tells the reason.

    `is_absent` says that Kafka has no such topic or partition, which asking again does not mend.
    """

    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None = None
    why: str = ""
    is_absent: bool = False


class OffsetsResolved(msgspec.Struct, frozen=True, gc=False):
    """Completes ResolveOffsets, with an answer for every partition asked about.

    `topics` has the topics asked about that Kafka has, those too that nobody watches, as they were just before.
    """

    lookup_id: int
    offsets: tuple[ResolvedOffset, ...]
    topics: Mapping[str, TopicMetadata] = {}


class EndOffsetsRead(msgspec.Struct, frozen=True):
    """Ends of partitions of watched topics, polled for lag; a partition that could not be read is absent."""

    ends: Mapping[TopicPartition, int]


class KafkaFailed(msgspec.Struct, frozen=True):
    """Kafka could not be asked about topics; comes again with every failed round until it answers.

    `why` is a whole sentence that names the addresses: it is shown to members that wait.
    """

    why: str


class RulesChanged(msgspec.Struct, frozen=True):
    """The rules of who may do what are others from now on, on a node that asks for rights."""

    acl: Acl


class AuditLogFailed(msgspec.Struct, frozen=True):
    """Lines of the audit log cannot be written, so that nothing more is to be changed by anybody's word."""

    why: str


class AuditLogWorks(msgspec.Struct, frozen=True):
    """All lines of the audit log are written again."""


Event: TypeAlias = (
    ConnectionOpened
    | ConnectionClosed
    | RequestArrived
    | Ticked
    | BecameDurable
    | SnapshotWritten
    | DiskFailed
    | LeadershipGiven
    | LeadershipTaken
    | LeadershipGoesOn
    | StandbyFed
    | StandbyDropped
    | GateMoved
    | ShardStalled
    | ShardServes
    | ShardRecovered
    | ShardUnreadable
    | AppendRefused
    | TopicsRead
    | OffsetsResolved
    | EndOffsetsRead
    | KafkaFailed
    | RulesChanged
)
