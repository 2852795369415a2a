"""Everything a node wants done, as frozen values.

The order of one step's effects is the order in which they are performed. Persist, then speak: a node returns a Send
only once the records it depends on are durable, so whoever performs effects needs no rule but the order.
"""

from collections.abc import Mapping
from typing import TypeAlias, final

import msgspec

from coordinator.protocol.messages import Push, Response


@final
class Append(msgspec.Struct, frozen=True, gc=False):
    """Write encoded records to a shard's log, the first at `base_offset`; BecameDurable reports completion."""

    shard: int
    base_offset: int
    leader_epoch: int
    records: tuple[bytes, ...]


class WriteSnapshot(msgspec.Struct, frozen=True):
    """Write a piece of the records that rebuild a shard's state as of `end_offset`; SnapshotWritten reports completion.

    The pieces are numbered from 0; the snapshot counts once the last one is written.
    """

    shard: int
    end_offset: int
    leader_epoch: int
    records: tuple[bytes, ...]
    index: int = 0
    is_last: bool = True


@final
class Respond(msgspec.Struct, frozen=True, gc=False):
    """Answer a request. A connection that is gone makes it void."""

    connection_id: int
    correlation_id: int
    response: Response


class SendPush(msgspec.Struct, frozen=True, gc=False):
    """Say something unasked. A connection that is gone makes it void."""

    connection_id: int
    push: Push


class CloseConnection(msgspec.Struct, frozen=True, gc=False):
    """Close a connection once what was sent before has left; ConnectionClosed reports completion."""

    connection_id: int
    why: str


class WatchTopics(msgspec.Struct, frozen=True):
    """The whole set of topics to poll from now on; names that are new are asked about at once (TopicsRead).

    With `lists_all` every topic of the cluster is wanted besides.
    """

    topics: frozenset[str]
    lists_all: bool = False


class OffsetToResolve(msgspec.Struct, frozen=True, gc=False):
    """A partition and EARLIEST, LATEST or a timestamp in milliseconds.

    The log ends at the high watermark, or for somebody who reads committed records only at the last stable offset.
    """

    topic: str
    partition: int
    timestamp_ms: int
    is_read_committed: bool = False


class ResolveOffsets(msgspec.Struct, frozen=True):
    """Ask Kafka where partitions begin, end or were at a time; OffsetsResolved reports completion, also of failure."""

    lookup_id: int
    offsets: tuple[OffsetToResolve, ...]
    asks_topics: bool = False
    """True where the topics are to be asked for first, also those that are polled.

    One may have been made again since the last poll. TopicsRead then comes before the answer.
    """


class WakeAt(msgspec.Struct, frozen=True):
    """Send a Ticked no later than at this time; the latest request counts, and the regular ticks go on."""

    now_ms: int


class Notice(msgspec.Struct, frozen=True, gc=False):
    """A fact worth logging or counting, with its reason; `fields` holds plain values under stable names.

    A warning is about something that a person should look at.
    """

    kind: str
    why: str
    group_id: str = ""
    member_id: str = ""
    fields: tuple[tuple[str, str | int | None], ...] = ()
    is_warning: bool = False


class LoadShard(msgspec.Struct, frozen=True):
    """Read the log of a shard that is led here, after a pause and with all its records on disk.

    ShardRecovered or ShardUnreadable reports completion, under the epoch in which the shard is led: one that is not the
    newest any more is void. Nothing is appended to the log meanwhile. `failed` loads of it in a row came to nothing
    here, each of which read the log or replayed it in vain.
    """

    shard: int
    leader_epoch: int
    after_ms: int = 0
    failed: int = 0


class BugMet(msgspec.Struct, frozen=True):
    """A bug of ours was met and contained: to be said where people look at once, with its traceback.

    `why` names the request's verb and sizes, and nothing that a member has said.
    """

    why: str
    error: Exception


class Audited(msgspec.Struct, frozen=True):
    """Put a line into the audit log, before the answer that it is about is given; the answer does not wait for it.

    `outcome` is done, dry-run, refused, or unanswered where the connection was closed first. `before` and `after` are
    of what was asked for alone; `refused` has the code of each part of it that was not done. `who` is what whoever
    asked called itself, `principal` who it is known to be.
    """

    wall_ms: int
    principal: str
    address: str
    verb: str
    outcome: str
    request_id: str
    group_id: str | None = None
    who: str = ""
    why: str = ""
    error: str = ""
    message: str = ""
    before: Mapping[str, str | int | None] = msgspec.field(default_factory=dict)
    after: Mapping[str, str | int | None] = msgspec.field(default_factory=dict)
    refused: Mapping[str, str | int | None] = msgspec.field(default_factory=dict)


class MirroredTopic(msgspec.Struct, frozen=True, gc=False):
    """Committed offsets of partitions of a topic, in columns."""

    topic: str
    partitions: tuple[int, ...]
    offsets: tuple[int, ...]
    leader_epochs: tuple[int | None, ...]
    metadata: tuple[str, ...]


class MirrorOffsets(msgspec.Struct, frozen=True, gc=False):
    """Write committed offsets of a group to Kafka's group of that name; MirrorAnswered reports completion.

    `deleted` has what the group has no offset of any more, by topic. An attempt has another number than all before.
    """

    shard: int
    group_id: str
    attempt: int
    topics: tuple[MirroredTopic, ...]
    deleted: tuple[tuple[str, tuple[int, ...]], ...] = ()


class MirrorEnded(msgspec.Struct, frozen=True):
    """Write nothing more of what waits to be written of a shard: it is led here no longer, or is loaded anew."""

    shard: int


class Halt(msgspec.Struct, frozen=True):
    """Safety cannot be shown: stop the process, saying why; nothing that was parked is ever sent."""

    why: str


Effect: TypeAlias = (
    Append
    | WriteSnapshot
    | Respond
    | SendPush
    | CloseConnection
    | WatchTopics
    | ResolveOffsets
    | WakeAt
    | Notice
    | LoadShard
    | BugMet
    | Audited
    | MirrorOffsets
    | MirrorEnded
    | Halt
)
