"""The records of a shard's log: every change of hard state, and their form on disk.

A record is one byte of format version and a msgpack array that begins with the record's number. As on the wire the
form only grows: a new field last, with a default; a number is never used again, nor is 8, which has gone. A record
that is not understood stops the load of its shard: state that was only half replayed must not be served.
"""

from collections.abc import Iterator
from typing import ClassVar, Final, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from coordinator.core.groups.hard.life_records import LeaderBegan, LogOpened, LogWentBack
from coordinator.core.groups.hard.operator_records import OperatorRecord
from coordinator.core.groups.partitions.in_topics import TopicHints, TopicNumbers
from coordinator.core.groups.partitions.names import one_for_all
from coordinator.protocol.parts import ResetPolicy
from coordinator.protocol.vocabulary import IsolationLevel

FORMAT_VERSION: Final = 1
"""Format of the records written by this code."""


class UnreadableRecordError(Exception):
    """A record on disk is not understood; the shard cannot be loaded."""


class _Part(msgspec.Struct, frozen=True, array_like=True):
    """A piece of a record."""


class MemberFacts(_Part, frozen=True, gc=False):
    """The facts that a member told when it registered; with a pattern, `topics` are those it matches now."""

    member_id: str
    incarnation: str
    instance_id: str | None
    client_id: str
    host: str
    pid: int
    topics: tuple[str, ...]
    streams: int
    assignors: tuple[str, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    ping_interval_ms: int
    auto_commit: bool = False
    hints: tuple[TopicHints, ...] = ()
    pattern: str | None = None
    partitions: tuple[tuple[str, int], ...] = ()
    exclusions: tuple[str, ...] = ()
    wants_streams: bool = False
    application: str | None = None
    shares_application: bool = False
    commits: bool = True
    own_policy: ResetPolicy | None = None
    """The start of a member that commits nothing, without an offset; that of one which commits is the group's."""
    isolation_level: str = IsolationLevel.READ_UNCOMMITTED
    principal: str = ""
    """The principal that registered it, empty for one that did not log in."""


class MemberTarget(_Part, frozen=True):
    """The partitions a member is to have."""

    member_id: str
    topics: tuple[TopicNumbers, ...]


class CommittedPart(_Part, frozen=True, gc=False):
    """A committed offset: the next one to read; the owner epoch is that of the owner who committed it, if one did."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    leader_epoch: int | None
    metadata: str
    commit_ms: int
    owner_epoch: int | None

    def position_of(self, number: int) -> tuple[int, int | None, str]:
        """Return the offset, the leader epoch there, if that is known, and the metadata, as TopicCommit does."""
        assert number == self.partition, f"partition {number} is not the one of {self}"
        return self.offset, self.leader_epoch, self.metadata


MOST_TOGETHER: Final = 32
"""Most partitions of a TopicCommit, and so of a grant: who wants one goes through its column, and all stay while one
does."""


class TopicCommit(_Part, frozen=True, gc=False):
    """Offsets of one topic that were committed at once, in columns by ascending partition; else as CommittedPart.

    An empty column says that there is nothing in it: no owner epochs, no leader epochs, no metadata.
    """

    topic: str
    topic_id: str
    commit_ms: int
    partitions: tuple[int, ...]
    offsets: tuple[int, ...]
    owner_epochs: tuple[int | None, ...] = ()
    leader_epochs: tuple[int | None, ...] = ()
    metadata: tuple[str, ...] = ()

    def cut(self) -> "Iterator[TopicCommit]":
        """Yield the same in pieces of at most MOST_TOGETHER partitions."""
        for begin in range(0, len(self.partitions), MOST_TOGETHER):
            end = begin + MOST_TOGETHER
            yield TopicCommit(
                self.topic,
                self.topic_id,
                self.commit_ms,
                self.partitions[begin:end],
                self.offsets[begin:end],
                self.owner_epochs[begin:end],
                self.leader_epochs[begin:end],
                self.metadata[begin:end],
            )

    def position_of(self, number: int) -> tuple[int, int | None, str]:
        """Return the offset of one of its partitions, the leader epoch there, if that is known, and the metadata."""
        at = self.partitions.index(number)
        return (
            self.offsets[at],
            self.leader_epochs[at] if self.leader_epochs else None,
            self.metadata[at] if self.metadata else "",
        )

    def part(self, number: int) -> CommittedPart:
        """Return what it says of one of its partitions."""
        owner_epoch = self.owner_epochs[self.partitions.index(number)] if self.owner_epochs else None
        return CommittedPart(self.topic, self.topic_id, number, *self.position_of(number), self.commit_ms, owner_epoch)


class ReleasedPart(_Part, frozen=True, gc=False):
    """A partition that its owner let go of."""

    topic: str
    partition: int
    owner_epoch: int


class TopicSteps(_Part, frozen=True, gc=False):
    """The offsets by which each of some partitions of a topic goes on from the committed one, in columns.

    Steps are short where offsets are long. A committed offset of a partition stays while it is claimed, and each claim
    begins at it, so that a step says both what a micro-batch commits and what the next one claims.
    """

    topic: str
    topic_id: str
    partitions: tuple[int, ...]
    """Ascending; none in what is offered where they are those of the topic that are finished."""
    steps: tuple[int, ...]


class _Record(msgspec.Struct, frozen=True, array_like=True, tag_field="type"):
    """A record; each class names its number as its tag."""


class GroupSettings(_Record, frozen=True, tag=1):
    """A group exists, with what its first member set; also ends a group's part of a snapshot."""

    group_id: str
    group_epoch: int
    assignor: str
    reset_policy: ResetPolicy | None
    handover: str
    is_target_stale: bool
    claim_timeout_ms: int | None = None
    owner: str = ""
    """The principal to which the group is charged, in the record that makes it; empty in others, and of old groups."""


class TopicSeen(_Record, frozen=True, tag=2):
    """A group has seen a topic, with its id and size.

    Partitions from `first_partitions` on came after the group first saw the topic and start at its beginning. With
    `earliest_why`, which says why, the others do so too where no checkpoint shows more.
    """

    group_id: str
    topic: str
    topic_id: str
    first_partitions: int
    partitions: int
    by_readers: bool = False
    """Only members that commit nothing have read it, so that the group is yet to see it for the first time."""
    earliest_why: str = ""


class MemberJoined(_Record, frozen=True, tag=3):
    """A member is in the group, or is again, with these facts."""

    group_id: str
    facts: MemberFacts
    member_epoch: int


class MemberRemoved(_Record, frozen=True, tag=4):
    """A member is gone. What it owned is released; with `keeps_running_claims` partitions whose claim runs stay its."""

    group_id: str
    member_id: str
    keeps_running_claims: bool


class TargetsAssigned(_Record, frozen=True, tag=5):
    """A group epoch begins: the targets that changed with it.

    Of a large target there are several, and all but the last leave the target stale. The last does so too when it was
    outdated before it was written.
    """

    group_id: str
    group_epoch: int
    assignor: str
    targets: tuple[MemberTarget, ...]
    """Whole targets, in place of those before; what members lose and gain is as large as what moves."""
    is_stale: bool = False
    lost: tuple[MemberTarget, ...] = ()
    """The partitions that members are to have no longer."""
    gained: tuple[MemberTarget, ...] = ()
    """The partitions that members are to have besides, once all that is lost is."""


class MemberEpochsAdvanced(_Record, frozen=True, tag=6):
    """These members have nothing left to revoke and are in this epoch now."""

    group_id: str
    member_epoch: int
    member_ids: tuple[str, ...]


class StopBegan(_Record, frozen=True, tag=7):
    """A member has to let go of partitions; this stands until it has, or is gone."""

    group_id: str
    member_id: str
    partitions: tuple[tuple[str, int], ...]
    why: str


class Granted(_Record, frozen=True, tag=47):
    """Partitions of one topic are a member's from now on; whatever grants and claims they had before are over.

    The owner epoch of all is the offset of this record in the log, plus what epochs are ahead of offsets. `starts` is
    written as their committed offsets when they had none for this topic id; it has the same partitions, in the same
    order, and so there are MOST_TOGETHER at most.
    """

    group_id: str
    member_id: str
    topic: str
    topic_id: str
    partitions: tuple[int, ...]
    """Ascending."""
    owner_epoch: int
    starts: TopicCommit | None = None
    why: str = ""
    is_read_only: bool = False
    """The member commits nothing: `starts` are its own, and no offset is written."""


class Released(_Record, frozen=True, tag=9):
    """A member let go of partitions, with the final offsets it gave."""

    group_id: str
    member_id: str
    partitions: tuple[ReleasedPart, ...]
    committed: tuple[CommittedPart, ...]


class OffsetsCommitted(_Record, frozen=True, tag=10):
    """Offsets are committed: each partition by itself, or those of a topic together."""

    group_id: str
    committed: tuple[CommittedPart, ...] = ()
    together: tuple[TopicCommit, ...] = ()


class Advanced(_Record, frozen=True, tag=11):
    """A micro-batch is committed and its claims are closed, partitions are let go, and only these claims are offered.

    `finished` moves the committed offsets of partitions on, under the owner epochs of their grants. After that those
    in `finals` are committed, and `released` is let go; `offered` begins at the committed offsets of then. With
    `keeps_offered` the claims that were offered before stay offered.
    """

    group_id: str
    member_id: str
    commit_ms: int
    finished: tuple[TopicSteps, ...] = ()
    offered: tuple[TopicSteps, ...] = ()
    released: tuple[ReleasedPart, ...] = ()
    finals: tuple[CommittedPart, ...] = ()
    keeps_offered: bool = False


class ClaimsRunning(_Record, frozen=True, tag=12):
    """The claims on these partitions are being read."""

    group_id: str
    topics: tuple[TopicNumbers, ...]


class ClaimsClosed(_Record, frozen=True, tag=13):
    """The claims on these partitions are closed without a commit."""

    group_id: str
    topics: tuple[TopicNumbers, ...]


class IdentityAwaited(_Record, frozen=True, tag=40):
    """A member is gone and its running claims are still its; in snapshots, where its removal is not."""

    group_id: str
    member_id: str
    instance_id: str
    """Empty where it had none."""
    principal: str = ""
    """The principal that registered it, empty where it did not log in, and in old snapshots."""


class ClaimsGivenUp(_Record, frozen=True, tag=41):
    """Nobody waits any longer for the owner of these partitions, who is gone: claims are closed, grants over."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]
    why: str


class TopicsMatched(_Record, frozen=True, tag=42):
    """The pattern of these members matches these topics now."""

    group_id: str
    member_ids: tuple[str, ...]
    topics: tuple[str, ...]


class GroupEmptied(_Record, frozen=True, tag=43, gc=False):
    """A group has no members as of this wall-clock and this lived time; when it has one again, that is over."""

    group_id: str
    at_ms: int
    lived_ms: int = 0


class GroupExpired(_Record, frozen=True, tag=44):
    """A group had no members for so long that it is forgotten with all it had."""

    group_id: str
    why: str


class WentOutOfRange(_Record, frozen=True, tag=45):
    """Kafka does not have the offsets of these partitions: they are nobody's, and start anew by the group's policy."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]


class StreamsAssigned(_Record, frozen=True, tag=46):
    """These partitions are read by these streams of their owners; nothing else about them changes."""

    group_id: str
    streams: tuple[tuple[str, int, int], ...]
    """Topic, partition and stream."""


class TimeLived(_Record, frozen=True, tag=48):
    """Nodes of this shard have run for so long, all together; it is of no group."""

    lived_ms: int
    at_ms: int
    """Wall-clock time, with which the next start compares its own."""
    group_id: ClassVar[str] = ""


class RecoveryChanged(_Record, frozen=True, tag=52):
    """A group was forgotten, and waits so long for the checkpoints of former members; without a time, no longer."""

    group_id: str
    wait_ms: int | None


class Taken(_Record, frozen=True, tag=49):
    """Partitions were taken from a member, which had not let go of them in time; their claims are closed with that."""

    group_id: str
    member_id: str
    partitions: tuple[tuple[str, int], ...]
    why: str


class EventsNoted(_Record, frozen=True, tag=58):
    """Entries of a group's timeline, encoded and numbered from `first` on, once so many of its oldest are dropped.

    Without entries `first` is the number that the next one is to have. Nothing else about the group changes.
    """

    group_id: str
    first: int
    entries: tuple[bytes, ...]
    dropped: int = 0


Record: TypeAlias = (
    GroupSettings
    | TopicSeen
    | MemberJoined
    | MemberRemoved
    | TargetsAssigned
    | MemberEpochsAdvanced
    | StopBegan
    | Granted
    | Released
    | OffsetsCommitted
    | Advanced
    | ClaimsRunning
    | ClaimsClosed
    | IdentityAwaited
    | ClaimsGivenUp
    | TopicsMatched
    | GroupEmptied
    | GroupExpired
    | WentOutOfRange
    | StreamsAssigned
    | TimeLived
    | RecoveryChanged
    | Taken
    | EventsNoted
    | LeaderBegan
    | LogOpened
    | LogWentBack
    | OperatorRecord
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)
_PREFIX: Final = bytes([FORMAT_VERSION])


def encode_record(record: Record) -> bytes:
    """Return a record as it is laid in the log."""
    return _PREFIX + _encoder.encode(record)


def decode_record(data: bytes) -> Record:
    """Read a record; raises UnreadableRecordError for an unknown version or number, and for anything malformed."""
    if not data:
        raise UnreadableRecordError("a record is empty; restore the shard from a backup")
    if data[0] != FORMAT_VERSION:
        raise UnreadableRecordError(
            f"a record has format version {data[0]} and this program reads version {FORMAT_VERSION}; start the program "
            "that wrote it, or a newer one"
        )
    try:
        record = _decoder.decode(memoryview(data)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableRecordError(
            f"a record is not understood ({error}); start the program that wrote it, or a newer one"
        ) from error
    if type(record) is OffsetsCommitted:
        topic = topic_id = ""
        for part in record.committed:  # as read, each has a topic's name and id of its own, which it keeps
            if part.topic != topic or part.topic_id != topic_id:
                topic, topic_id = one_for_all(part.topic), one_for_all(part.topic_id)
            force_setattr(part, "topic", topic)
            force_setattr(part, "topic_id", topic_id)
    return record
