"""Everything the replica of a shard wants done, as frozen values, to be performed in their order.

The order matters where a replica leaves an epoch: what ends the old one comes before anything of the new one.
"""

from typing import TypeAlias

import msgspec

from coordinator.core.log.entry import Batch
from coordinator.core.replica.events import FetchAnswer

# ---- the log -------------------------------------------------------------------------------------------------------


class OpenReplica(msgspec.Struct, frozen=True):
    """Open the shard's log, or make an empty one, under a number; ReplicaOpened reports completion."""

    shard: int
    log_number: int


class DropReplica(msgspec.Struct, frozen=True):
    """Close the shard's log, and with `deletes` move it aside; nothing reports completion.

    `void` says why a log counts for nothing though a replica of the shard is to be here; empty where none is to be.
    """

    shard: int
    deletes: bool
    void: str = ""


class AppendBatches(msgspec.Struct, frozen=True):
    """Write the leader's records to a follower's log; LogSynced reports completion."""

    shard: int
    log_number: int
    batches: tuple[Batch, ...]


class TruncateLog(msgspec.Struct, frozen=True):
    """Take what is at or above `end` from the log, durably, after all appends so far; LogCut reports completion."""

    shard: int
    end: int
    log_number: int


class InstallSnapshot(msgspec.Struct, frozen=True):
    """Fetch the leader's snapshot and put it in the place of the log, which gets this number in the same moment.

    The log stays as it is until the snapshot is on disk whole. SnapshotInstalled or SnapshotFailed reports the end,
    also when the shard has another leader meanwhile.
    """

    shard: int
    leader: int
    leader_epoch: int
    log_number: int


# ---- leading -------------------------------------------------------------------------------------------------------


class BeginEpoch(msgspec.Struct, frozen=True):
    """Append the record that begins a leader epoch, at `base_offset`, before anything else of that epoch.

    No Appended reports it: the replica has counted it. With `goes_on` this node led the epoch before as well, so the
    shard's state and what waits to be said stay; else ShardLoaded is awaited. `unclean_epoch` is that of the last
    unclean election, 0 if there was none: no owner epoch of before it is granted again.
    """

    shard: int
    leader_epoch: int
    base_offset: int
    goes_on: bool
    unclean_epoch: int = 0


class LoadShard(msgspec.Struct, frozen=True):
    """Replay the shard's log up to `end`, with the record that begins the epoch; ShardLoaded reports completion.

    What is still under way of a load of a former epoch is void.
    """

    shard: int
    leader_epoch: int
    end: int


class BecomeServing(msgspec.Struct, frozen=True):
    """Answer requests for the shard: it is loaded, or what it said has left again after a stall.

    Every member gets a full session time-out from now and every stop a full deadline.
    """

    shard: int
    leader_epoch: int


class BecomeStalled(msgspec.Struct, frozen=True):
    """Decide nothing more for the shard until BecomeServing: refuse requests, and let no timer of it run."""

    shard: int
    leader_epoch: int


class GateMoved(msgspec.Struct, frozen=True):
    """Let go what waits in this epoch for records below `high_watermark` and for rounds up to `confirmed_round`.

    Without one the leader is its whole ISR: no round is needed by what waits now. What is decided later is not covered
    by that: `needed_round` of `leader.py` says what each decision has to wait for.
    """

    shard: int
    leader_epoch: int
    high_watermark: int
    confirmed_round: int | None


class Resign(msgspec.Struct, frozen=True):
    """This node leads the shard no longer: nothing that waits is ever said, in the same step."""

    shard: int
    leader_epoch: int


class StepDown(msgspec.Struct, frozen=True):
    """Ask the controller for another leader; `lacks_committed` says that this replica is to leave the ISR as well.

    With `wants_epoch` the same one may lead, in another epoch: this one has records that its log did not take. With
    `cannot_load` it goes on trying to load its log where nobody else can lead. The `successor`, if there is one, is the
    member of the ISR that is to lead, for its log reaches further. It comes again from time to time until there is a
    command: there may have been no controller to hear it.
    """

    shard: int
    leader_epoch: int
    why: str
    lacks_committed: bool = False
    wants_epoch: bool = False
    successor: int | None = None
    cannot_load: bool = False


class GoesOnInDoubt(msgspec.Struct, frozen=True):
    """Say aloud that this node leads with a log that may be an older copy, and that nobody could be asked."""

    shard: int
    leader_epoch: int
    why: str


class AnswerFetch(msgspec.Struct, frozen=True):
    """Answer a follower's fetch; one that stands again, if the log has come to begin above what was pushed to it."""

    shard: int
    follower: int
    leader_epoch: int
    fetch: int
    answer: FetchAnswer


class PushRecords(msgspec.Struct, frozen=True):
    """Send a follower the records from `begin` to `end`, which may be none, and the high watermark.

    Pushes of one fetch leave in their order. Whoever sends them keeps at most `replica.window_bytes` ahead of what the
    follower has reported; the rest follows when it reports more.
    """

    shard: int
    follower: int
    leader_epoch: int
    fetch: int
    begin: int
    end: int
    high_watermark: int


class ChangeIsr(msgspec.Struct, frozen=True):
    """Write the ISR into the shard's bucket in ZooKeeper if that has `expected_version`; IsrWritten reports the end.

    Each of `joining`, with the node epoch of its fetch, has to be registered as ready under it still: one multi, in
    which the version comes first, so that a refusal for a registration says that the version was the expected one.
    """

    shard: int
    leader_epoch: int
    expected_version: int
    isr: tuple[int, ...]
    request: int
    joining: tuple[tuple[int, int], ...] = ()


class ReadIsr(msgspec.Struct, frozen=True):
    """Read the shard's bucket, again until its version is above this one; IsrSeen reports completion."""

    shard: int
    above_version: int


# ---- following -----------------------------------------------------------------------------------------------------


class AskFetch(msgspec.Struct, frozen=True):
    """Ask the leader for everything after `end`; FetchAnswered reports completion, RecordsPushed follow."""

    shard: int
    leader: int
    leader_epoch: int
    fetch: int
    end: int
    last_epoch: int


class EndFetch(msgspec.Struct, frozen=True):
    """Tell a leader that its epoch is over here. On one connection it comes before any later word about the shard."""

    shard: int
    leader: int
    leader_epoch: int


class ReportProgress(msgspec.Struct, frozen=True):
    """Tell the leader what is on this disk; the last round seen goes with it."""

    shard: int
    leader: int
    leader_epoch: int
    fetch: int
    durable_end: int


class RefuseCut(msgspec.Struct, frozen=True):
    """Tell the leader that it lacks records which were committed: those below `high_watermark`."""

    shard: int
    leader: int
    leader_epoch: int
    high_watermark: int


class CommittedTo(msgspec.Struct, frozen=True):
    """Records below `high_watermark` are committed and will never be cut: they may be replayed."""

    shard: int
    high_watermark: int


class Remember(msgspec.Struct, frozen=True):
    """Keep a greater controller epoch on disk; it is durable before any later effect is performed."""

    controller_epoch: int


class HaltNode(msgspec.Struct, frozen=True):
    """Safety cannot be shown: stop the process, saying why."""

    why: str


Effect: TypeAlias = (
    OpenReplica
    | DropReplica
    | AppendBatches
    | TruncateLog
    | InstallSnapshot
    | BeginEpoch
    | LoadShard
    | BecomeServing
    | BecomeStalled
    | GateMoved
    | Resign
    | StepDown
    | GoesOnInDoubt
    | AnswerFetch
    | PushRecords
    | ChangeIsr
    | ReadIsr
    | AskFetch
    | EndFetch
    | ReportProgress
    | RefuseCut
    | CommittedTo
    | Remember
    | HaltNode
)
