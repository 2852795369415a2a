"""The conversation of a shard's leader with its followers.

Every message names the leader epoch it was said in, and those of one fetch its number, so that nothing else has to be
matched: one that is lost is said again after the next contact, one that is late changes nothing.
"""

from typing import Annotated, TypeAlias

import msgspec

from coordinator.protocol.messages.message import WireMessage
from coordinator.protocol.peer_messages.ranges import (
    Count,
    LastEpoch,
    LeaderEpoch,
    Listed,
    Offset,
    Part,
    Record,
    Shard,
    Why,
)

# ---- of a follower ---------------------------------------------------------------------------------------------------


class ReplicaFetch(WireMessage, frozen=True, tag=310):
    """Asks for all that follows `end`, where the follower's last record has `last_epoch`, while the epoch lasts."""

    shard: Shard
    leader_epoch: LeaderEpoch
    fetch: Count
    end: Offset
    last_epoch: LastEpoch


class ShardProgress(Part, frozen=True):
    """The end of what a follower has on its disk of one shard."""

    shard: Shard
    leader_epoch: LeaderEpoch
    fetch: Count
    durable_end: Offset


class ReplicaProgress(WireMessage, frozen=True, tag=311):
    """All that is on a follower's disk, and the last round of the leader that it has seen in this contact, or 0."""

    round: Count
    shards: Listed[ShardProgress] = ()


class ReplicaStop(WireMessage, frozen=True, tag=312):
    """The follower has left this leader epoch, and whatever it says later does not count for it."""

    shard: Shard
    leader_epoch: LeaderEpoch


class CutRefused(WireMessage, frozen=True, tag=313):
    """The follower was told to cut records that it knows to be committed: those below `high_watermark`."""

    shard: Shard
    leader_epoch: LeaderEpoch
    high_watermark: Offset


class FetchSnapshot(WireMessage, frozen=True, tag=314):
    """Asks for a piece of the leader's snapshot: the one at `position`, in bytes, of the one that ends at `end`.

    The first piece is at 0, of the newest snapshot if `end` is None. `log_number` is the follower's, and comes back.
    """

    shard: Shard
    leader_epoch: LeaderEpoch
    log_number: Count
    end: Offset | None
    position: Count


# ---- of a leader -----------------------------------------------------------------------------------------------------


class Streaming(Part, frozen=True, tag_field="type", tag=0):
    """The follower's log is the begin of the leader's: pushes follow."""


class Diverged(Part, frozen=True, tag_field="type", tag=1):
    """It is not: `epoch` is the greatest one of the leader's log that is not above the follower's, `end` its end."""

    epoch: LastEpoch
    end: Offset


class BelowLogStart(Part, frozen=True, tag_field="type", tag=2):
    """The logs differ below the leader's `start`, which a snapshot stands for."""

    start: Offset


class Fenced(Part, frozen=True, tag_field="type", tag=3):
    """The epoch is over, or the node that was asked does not lead in it."""


class UnknownEpoch(Part, frozen=True, tag_field="type", tag=4):
    """The node that was asked has not heard of the epoch yet."""


FetchAnswer: TypeAlias = Streaming | Diverged | BelowLogStart | Fenced | UnknownEpoch


class ReplicaFetchAnswer(WireMessage, frozen=True, tag=320):
    """Answers a fetch."""

    shard: Shard
    leader_epoch: LeaderEpoch
    fetch: Count
    answer: FetchAnswer


class RecordBatch(Part, frozen=True):
    """Records that follow one another, the first at `base_offset`, all of one leader epoch."""

    base_offset: Offset
    leader_epoch: LeaderEpoch
    records: Annotated[tuple[Record, ...], msgspec.Meta(min_length=1)]


class ShardRecords(Part, frozen=True):
    """A push to one fetch: what follows in the leader's log, or nothing, and its high watermark."""

    shard: Shard
    leader_epoch: LeaderEpoch
    fetch: Count
    high_watermark: Offset
    batches: Listed[RecordBatch] = ()


class ReplicaRecords(WireMessage, frozen=True, tag=321):
    """Pushes to fetches of one follower, and the round that they begin; 0 if they begin none."""

    round: Count
    shards: Listed[ShardRecords]


class Confirm(WireMessage, frozen=True, tag=322):
    """Begins a round that no records carry: the follower answers at once, by ReplicaProgress."""

    round: Count


class SnapshotPiece(WireMessage, frozen=True, tag=323):
    """A piece of the snapshot that ends at `end`, after a record of `last_epoch`; the next one is at `next_position`.

    Pieces are numbered from 0 by `index`.
    """

    shard: Shard
    leader_epoch: LeaderEpoch
    log_number: Count
    end: Offset
    last_epoch: LeaderEpoch
    index: Count
    is_last: bool
    next_position: Count
    records: tuple[Record, ...]


class SnapshotRefused(WireMessage, frozen=True, tag=324):
    """No piece of a snapshot is to be had: the node does not lead in this epoch, or has that snapshot no longer."""

    shard: Shard
    leader_epoch: LeaderEpoch
    log_number: Count
    why: Why
