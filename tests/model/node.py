"""One node of the small model: a real replica value, what is in its log, and what a single event does to both.

Disk and loads are instant here: a cut is on disk when it is asked for, and a shard is loaded when its epoch begins.
Times do not matter, and neither do the numbers of requests, so both are made equal wherever they differ.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from coordinator.core.log.entry import Batch
from coordinator.core.replica import effects as o
from coordinator.core.replica import events as i
from coordinator.core.replica.replica import Follower, Goal, Leader, Replica, Settings
from coordinator.core.replica.step import step

SHARD: Final = 0
MIN_INSYNC: Final = 2
NEVER_MS: Final = 10**9
SETTINGS: Final = Settings(
    min_insync_replicas=MIN_INSYNC,
    lag_ms=0,
    closed_grace_ms=0,
    fetch_retry_ms=0,
    stall_ms=NEVER_MS,
    step_down_ms=NEVER_MS,
)
NO_TIME: Final = Goal(0, 0)


class BrokenInvariantError(AssertionError):
    """The replicas did what must never happen; the message begins with the name of the invariant."""


@dataclass(frozen=True, slots=True)
class Node:
    """A replica and the records in its log, each told by its epoch; those below `synced` are really on disk."""

    replica: Replica
    records: tuple[int, ...]
    synced: int = 0


@dataclass(frozen=True, slots=True)
class Confirm:
    """The leader's question whether it is still followed, under a round."""

    leader: int
    leader_epoch: int
    round: int


Said = i.Event | Confirm


@dataclass(slots=True)
class Reaction:
    """All that a step of one node has done; `late` are reports of the disk about what has been cut since."""

    node: Node
    messages: list[tuple[int, Said]]
    writes: list[o.ChangeIsr]
    late: list[tuple[int, int]]
    committed: tuple[int, ...] | None = None
    reads_isr: bool = False
    cuts: list[o.TruncateLog] = field(default_factory=list)


def react(node: Node, event: Said) -> Reaction:
    """Have a node take in one event, and perform all of its effects that concern nobody else."""
    reaction = Reaction(node, [], [], [])
    if isinstance(event, Confirm):
        _confirm(node.replica, event, reaction)
        return reaction
    replica, records, steps = node.replica, list(node.records), [event]
    if isinstance(event, i.Appended):
        records.append(event.leader_epoch)
    while steps:
        before = replica
        replica, effects = _step(replica, steps.pop(0))
        _check_step(before, replica)
        for effect in effects:
            _perform(effect, before, replica, records, steps, reaction)
    if _records_of(replica) != records:
        raise BrokenInvariantError(f"TrueImage: {replica.log} is not {records}")
    synced = node.synced
    if isinstance(event, i.LogSynced) and event.log_number == node.replica.log.number:
        synced = event.end
    cuts = [cut.end for cut in reaction.cuts]
    reaction.node = Node(_normal(replica), tuple(records), min([synced, *cuts]))
    return reaction


def _step(replica: Replica, event: i.Event) -> tuple[Replica, list[o.Effect]]:
    try:
        return step(replica, event)
    except AssertionError as error:
        raise BrokenInvariantError(f"NoBug: {error}, upon {event} at {replica}") from error


def _confirm(replica: Replica, event: Confirm, reaction: Reaction) -> None:
    if not replica.confirms(event.leader, event.leader_epoch):
        return
    fetch = replica.role.fetch if isinstance(replica.role, Follower) else 1
    progress = i.ProgressMade(0, SHARD, replica.node, 0, event.leader_epoch, fetch, -1, event.round)
    reaction.messages.append((event.leader, progress))


def _perform(
    effect: o.Effect, before: Replica, after: Replica, records: list[int], steps: list[i.Event], reaction: Reaction
) -> None:
    me = after.node
    match effect:
        case o.BeginEpoch():
            _check(effect.base_offset == len(records), "TrueImage", "an epoch begins at the end of the log")
            records.append(effect.leader_epoch)
        case o.LoadShard():
            steps.append(i.ShardLoaded(0, SHARD, effect.leader_epoch))
        case o.AppendBatches():
            _check(effect.batches[0].base_offset == len(records), "TrueImage", "an append continues the log")
            records += [batch.leader_epoch for batch in effect.batches for _ in batch.records]
        case o.TruncateLog():
            _check(effect.end >= before.high_watermark, "NoCutBelowHighWatermark", f"{me} cuts to {effect.end}")
            reaction.cuts.append(effect)
            if before.log.durable_end < len(records):
                reaction.late.append((len(records), before.log.number))
            del records[effect.end :]
            steps.append(i.LogCut(0, SHARD, effect.log_number))
        case o.RefuseCut():
            raise BrokenInvariantError(f"NoCutBelowHighWatermark: {me} is told to cut below {effect.high_watermark}")
        case o.StepDown():
            raise BrokenInvariantError(f"CommittedForEver: {me} steps down, since {effect.why}")
        case o.GateMoved():
            reaction.committed = tuple(records[: effect.high_watermark])
        case o.PushRecords():
            batches = tuple(Batch(offset, records[offset], (b"",)) for offset in range(effect.begin, effect.end))
            push = i.RecordsPushed(0, SHARD, effect.leader_epoch, effect.fetch, batches, effect.high_watermark)
            reaction.messages.append((effect.follower, push))
        case o.AnswerFetch() if not isinstance(effect.answer, i.Fenced | i.UnknownEpoch):
            answer = i.FetchAnswered(0, SHARD, effect.leader_epoch, effect.fetch, effect.answer)
            reaction.messages.append((effect.follower, answer))
        case o.AskFetch():
            ask = i.FetchAsked(0, SHARD, me, 0, effect.leader_epoch, effect.fetch, effect.end, effect.last_epoch)
            reaction.messages.append((effect.leader, ask))
        case o.ReportProgress():
            progress = i.ProgressMade(0, SHARD, me, 0, effect.leader_epoch, effect.fetch, effect.durable_end, 0)
            reaction.messages.append((effect.leader, progress))
        case o.ChangeIsr():
            reaction.writes.append(effect)
        case o.ReadIsr():
            reaction.reads_isr = True
        case _:
            pass


def _check_step(before: Replica, after: Replica) -> None:
    _check(after.leader_epoch >= before.leader_epoch, "MonotonicEpochs", f"{before} to {after}")
    _check(after.high_watermark >= before.high_watermark, "MonotonicHighWatermark", f"{before} to {after}")
    if isinstance(after.role, Leader):
        _check(not any(f.has_lost for f in after.role.fetches), "StrongIsr", f"a member has lost records at {after}")


def _check(holds: bool, invariant: str, what: str) -> None:
    if not holds:
        raise BrokenInvariantError(f"{invariant}: {what}")


def _records_of(replica: Replica) -> list[int]:
    ends = [first for _, first in replica.log.epochs[1:]] + [replica.log.end]
    return [epoch for (epoch, first), end in zip(replica.log.epochs, ends, strict=False) for _ in range(first, end)]


def _normal(replica: Replica) -> Replica:
    if not isinstance(replica.role, Leader):
        return replica
    role = replica.role
    pending = role.isr.pending and replace(role.isr.pending, request=1)
    isr = replace(role.isr, pending=pending, requests=1 if pending else 0)
    fetches = tuple(replace(fetch, goal=NO_TIME) for fetch in role.fetches)
    return replace(replica, role=replace(role, isr=isr, fetches=fetches, own_goal=NO_TIME))


# ---- nodes by other names ------------------------------------------------------------------------------------------

Names = tuple[int, ...]
"""The new name of each node."""


def renamed(node: Node, names: Names) -> Node:
    """Return the same node where every node has another name."""
    replica, role = node.replica, node.replica.role
    if isinstance(role, Follower):
        role = replace(role, leader=names[role.leader])
    elif isinstance(role, Leader):
        isr = role.isr
        pending = isr.pending and replace(
            isr.pending,
            members=renamed_set(isr.pending.members, names),
            joining=tuple(sorted((names[n], epoch) for n, epoch in isr.pending.joining)),
        )
        fetches = sorted((replace(f, node=names[f.node]) for f in role.fetches), key=lambda fetch: fetch.node)
        isr = replace(isr, members=renamed_set(isr.members, names), pending=pending)
        role = replace(role, isr=isr, fetches=tuple(fetches))
    return Node(replace(replica, node=names[replica.node], role=role), node.records, node.synced)


def renamed_set(members: tuple[int, ...], names: Names) -> tuple[int, ...]:
    """Return the new names of a set of nodes."""
    return tuple(sorted(names[member] for member in members))


def renamed_said(said: Said, names: Names) -> Said:
    """Return the same message where every node has another name."""
    match said:
        case Confirm():
            return replace(said, leader=names[said.leader])
        case i.FetchAsked() | i.ProgressMade():
            return replace(said, follower=names[said.follower])
        case _:
            return said


def one_version_later(node: Node) -> Node:
    """Return the node once its bucket has another version; versions count back from the one there is."""
    role = node.replica.role
    if not isinstance(role, Leader):
        return node
    isr = replace(role.isr, version=max(role.isr.version - 1, -2))
    return replace(node, replica=replace(node.replica, role=replace(role, isr=isr)))
