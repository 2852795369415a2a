"""Everything that can happen to the replica of a shard, as frozen values; each carries the monotonic time it came at.

A value of this room is touched once a batch and never once a commit: an append is told when its turn ends, a sync when
it is over. Every report about a log carries its number, every word of a peer the leader epoch it was said in and the
number of the fetch it belongs to. Whatever does not match is dropped, so the network may lose, double and delay.
"""

from enum import Enum
from typing import TypeAlias

import msgspec

from coordinator.core.log.entry import Batch
from coordinator.core.replica.epochs import ReplicaLog


class LeaderAndIsr(msgspec.Struct, frozen=True):
    """The controller has published who leads a shard, with which ISR; `version` is that of the bucket in ZooKeeper.

    A leader epoch that is not above the replica's is a repetition and changes nothing. Without a leader the replica
    waits for the next command. `leader_node_epoch` is the life of the leader's node in which it was elected: another
    life does not lead, for what that one has given to followers may be lost here. `unclean_epoch` is that of the last
    unclean election, 0 if there was none: whoever is not in the ISR and has nothing of that epoch or later begins anew.
    """

    now_ms: int
    shard: int
    leader_epoch: int
    leader: int | None
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    version: int
    leader_node_epoch: int | None = None
    unclean_epoch: int = 0


class StopReplica(msgspec.Struct, frozen=True):
    """The controller wants no replica of the shard here; with `deletes` its log is moved aside."""

    now_ms: int
    shard: int
    leader_epoch: int
    deletes: bool


class ReplicaOpened(msgspec.Struct, frozen=True):
    """The log is open for appends, and this is what it holds, all of it durable: completes OpenReplica, whose number
    it has.

    The records that its snapshot stands for were committed, so they end at the least high watermark there is.
    """

    now_ms: int
    shard: int
    log: ReplicaLog


# ---- from the disk and the shard's own state -----------------------------------------------------------------------


class Appended(msgspec.Struct, frozen=True):
    """A turn has appended records of this leader up to `end`; it is told of before any command that comes after it."""

    now_ms: int
    shard: int
    leader_epoch: int
    end: int


class AppendRefused(msgspec.Struct, frozen=True):
    """Records from `end` on, which this replica counts, were not taken into its log, by a bug of ours."""

    now_ms: int
    shard: int
    end: int


class LogSynced(msgspec.Struct, frozen=True):
    """Records below `end` of the log with this number are on disk."""

    now_ms: int
    shard: int
    log_number: int
    end: int


class LogCut(msgspec.Struct, frozen=True):
    """The cut that gave the log this number is on disk: completes TruncateLog."""

    now_ms: int
    shard: int
    log_number: int


class SnapshotInstalled(msgspec.Struct, frozen=True):
    """The leader's snapshot has replaced the log, which ends with it: completes InstallSnapshot."""

    now_ms: int
    shard: int
    log_number: int
    end: int
    last_epoch: int


class SnapshotFailed(msgspec.Struct, frozen=True):
    """The leader's snapshot did not come, and the log is as it was: the other end of InstallSnapshot.

    The connection broke, or the node that was asked leads no longer or has no snapshot.
    """

    now_ms: int
    shard: int
    log_number: int


class LogStartMoved(msgspec.Struct, frozen=True):
    """A snapshot of the shard is on disk, and the records below `start` are let go.

    `log_number` is the one that the log had when the snapshot was begun: a cut since then takes nothing from a
    snapshot, which holds what was committed, but another log may have taken the place of this one.
    """

    now_ms: int
    shard: int
    log_number: int
    start: int


class ShardLoaded(msgspec.Struct, frozen=True):
    """The shard's state has been replayed up to the record that began this epoch: completes LoadShard."""

    now_ms: int
    shard: int
    leader_epoch: int


# ---- from followers ------------------------------------------------------------------------------------------------


class FetchAsked(msgspec.Struct, frozen=True):
    """A follower wants everything after `end`, where its last record has `last_epoch`, for as long as the epoch lasts.

    `node_epoch` is that of the life the follower's node is in. `fetch` counts the fetches of that follower in this
    epoch; a greater one of the same life replaces the one before.
    """

    now_ms: int
    shard: int
    follower: int
    node_epoch: int
    leader_epoch: int
    fetch: int
    end: int
    last_epoch: int


class FetchEnded(msgspec.Struct, frozen=True):
    """A follower has left this epoch: nothing that it says later belongs to it."""

    now_ms: int
    shard: int
    follower: int
    node_epoch: int
    leader_epoch: int


class ProgressMade(msgspec.Struct, frozen=True):
    """A follower has everything below `durable_end` on its disk, and has seen the node's round `round`."""

    now_ms: int
    shard: int
    follower: int
    node_epoch: int
    leader_epoch: int
    fetch: int
    durable_end: int
    round: int


class CutRefused(msgspec.Struct, frozen=True):
    """A follower was told to cut below a high watermark that it knows: this leader lacks committed records."""

    now_ms: int
    shard: int
    follower: int
    leader_epoch: int
    high_watermark: int


# ---- from the leader -----------------------------------------------------------------------------------------------


class Streaming(msgspec.Struct, frozen=True):
    """The follower's log is the begin of the leader's: pushes follow."""


class Diverged(msgspec.Struct, frozen=True):
    """It is not: `epoch` is the greatest one of the leader's log that is not above the follower's, `end` its end."""

    epoch: int
    end: int


class BelowLogStart(msgspec.Struct, frozen=True):
    """The logs differ below the leader's `start`, or the follower ends there: a snapshot stands for those records."""

    start: int


class Fenced(msgspec.Struct, frozen=True):
    """The fetch is of an epoch that is over, or was asked of a node that does not lead in it."""


class UnknownEpoch(msgspec.Struct, frozen=True):
    """The node that was asked has not heard of this epoch yet: it is asked again a little later."""


FetchAnswer: TypeAlias = Streaming | Diverged | BelowLogStart | Fenced | UnknownEpoch


class FetchAnswered(msgspec.Struct, frozen=True):
    """The leader's answer to a fetch: completes AskFetch. BelowLogStart may come again while it stands."""

    now_ms: int
    shard: int
    leader_epoch: int
    fetch: int
    answer: FetchAnswer


class RecordsPushed(msgspec.Struct, frozen=True):
    """The leader pushes what follows in its log, or nothing, and its high watermark."""

    now_ms: int
    shard: int
    leader_epoch: int
    fetch: int
    batches: tuple[Batch, ...]
    high_watermark: int


# ---- from ZooKeeper ------------------------------------------------------------------------------------------------


class WriteOutcome(Enum):
    """The end of a conditional write, as far as it is known."""

    DONE = "done"
    """It is in ZooKeeper, under the version that follows the one it named."""
    VERSION_MISMATCH = "version mismatch"
    """It named another version than there was."""
    NOT_REGISTERED = "not registered"
    """A follower to be taken in is not ready any more under the registration it fetched with."""
    UNKNOWN = "unknown"
    """The connection broke: it may have been done, and it may still arrive. Reported once writing is possible again."""


class IsrWritten(msgspec.Struct, frozen=True):
    """A write of the ISR has ended: completes ChangeIsr."""

    now_ms: int
    shard: int
    request: int
    outcome: WriteOutcome


class IsrSeen(msgspec.Struct, frozen=True):
    """The shard's entry as read from ZooKeeper: completes ReadIsr, and comes whenever the bucket has changed.

    Reads may lag: a version that is not above the one known tells nothing.
    """

    now_ms: int
    shard: int
    leader_epoch: int
    version: int
    isr: tuple[int, ...]


# ---- peers and time ------------------------------------------------------------------------------------------------


class PeerUp(msgspec.Struct, frozen=True):
    """There is a connection to a peer."""

    now_ms: int
    peer: int


class PeerDown(msgspec.Struct, frozen=True):
    """The connection to a peer has ended; nothing more comes that was sent on it."""

    now_ms: int
    peer: int


class PeerDraining(msgspec.Struct, frozen=True):
    """A peer drains, or does no longer: while it does it is in no ISR that its leaders can help."""

    now_ms: int
    peer: int
    is_draining: bool


class NodeRegistered(msgspec.Struct, frozen=True):
    """This node is registered anew, and its fetches are to be asked under its new node epoch."""

    now_ms: int


class Ticked(msgspec.Struct, frozen=True):
    """Time has passed. `waiting_since_ms` is when the oldest of the shard's sends that has not left was decided."""

    now_ms: int
    waiting_since_ms: int | None = None


Event: TypeAlias = (
    LeaderAndIsr
    | StopReplica
    | ReplicaOpened
    | Appended
    | AppendRefused
    | LogSynced
    | LogCut
    | SnapshotInstalled
    | SnapshotFailed
    | LogStartMoved
    | ShardLoaded
    | FetchAsked
    | FetchEnded
    | ProgressMade
    | CutRefused
    | FetchAnswered
    | RecordsPushed
    | IsrWritten
    | IsrSeen
    | PeerUp
    | PeerDown
    | PeerDraining
    | NodeRegistered
    | Ticked
)
