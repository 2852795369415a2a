"""One node of the small model: a real replica value, what is in its log, and what a single event does to both.

Disk and loads are instant here: a cut is on disk when it is asked for, and a shard is loaded when its epoch begins.
Times do not matter, and neither do the numbers of requests, so both are made equal wherever they differ.
"""

from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec.structs import replace

from coordinator.core.log.entry import Batch
from coordinator.core.replica import effects as o
from coordinator.core.replica import events as i
from coordinator.core.replica.epochs import ReplicaLog
from coordinator.core.replica.replica import Declined, Doubting, Follower, Goal, Leader, Offline, Replica, Settings
from coordinator.core.replica.step import step

SHARD: Final = 0
NEVER_MS: Final = 10**9
NO_TIME: Final = Goal(0, 0)


def settings_with(min_insync: int) -> Settings:
    """Return settings in which whoever is behind is late at once, and nothing else depends on time."""
    return Settings(
        min_insync_replicas=min_insync,
        lag_ms=0,
        closed_grace_ms=0,
        fetch_retry_ms=0,
        stall_ms=NEVER_MS,
        step_down_ms=NEVER_MS,
        doubt_ms=NEVER_MS,
    )


class BrokenInvariantError(AssertionError):
    """The replicas did what must never happen; the message begins with the name of the invariant."""


class Node(msgspec.Struct, frozen=True):
    """A replica and the records in its log, each told by its epoch; those below `synced` are really on disk.

    `life` counts its restarts; what it is told from `obeys_from` on is meant for this life. One that `is_copy` was
    started with an older copy of its directory, which nobody knows.
    """

    replica: Replica
    records: tuple[int, ...]
    synced: int = 0
    life: int = 0
    obeys_from: int = 0
    is_copy: bool = False


class Confirm(msgspec.Struct, frozen=True):
    """The leader's question whether it is still followed, under a round."""

    leader: int
    leader_epoch: int
    round: int


Said = i.Event | Confirm


@dataclass(slots=True)
class Reaction:
    """All that a step of one node has done; `late` are reports of the disk about what has been cut since.

    With `needs_no_round` nothing that waits needs one any more; with `resigns` nothing that waits is ever said.
    """

    node: Node
    messages: list[tuple[int, Said]]
    writes: list[o.ChangeIsr]
    late: list[tuple[int, int]]
    committed: tuple[int, ...] | None = None
    reads_above: int | None = None
    needs_no_round: bool = False
    resigns: bool = False
    cuts: list[o.TruncateLog] = field(default_factory=list)


def react(node: Node, event: Said) -> Reaction:
    """Have a node take in one event, and perform all of its effects that concern nobody else."""
    reaction = Reaction(node, [], [], [])
    if isinstance(event, Confirm):
        _confirm(node, event, reaction)
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
    was_led, is_led = isinstance(node.replica.role, Leader), isinstance(replica.role, Leader)
    _check(is_led or not was_led or reaction.resigns, "SentIsDropped", replica)
    if _records_of(replica) != records:
        raise BrokenInvariantError(f"TrueImage: {replica.log} is not {records}")
    synced = node.synced
    if isinstance(event, i.LogSynced) and event.log_number == node.replica.log.number:
        synced = event.end
    cuts = [cut.end for cut in reaction.cuts]
    reaction.node = replace(node, replica=_normal(replica), records=tuple(records), synced=min([synced, *cuts]))
    return reaction


def _step(replica: Replica, event: i.Event) -> tuple[Replica, list[o.Effect]]:
    try:
        return step(replica, event)
    except AssertionError as error:
        raise BrokenInvariantError(f"NoBug: {error}, upon {event} at {replica}") from error


def restarted(node: Node, records: tuple[int, ...], obeys_from: int, *, is_copy: bool = False) -> Node:
    """Return a node in its next life, of which nothing is left but the records on its disk."""
    log = ReplicaLog()
    for end, epoch in enumerate(records, 1):
        log = log.appended(epoch, end)
    former = node.replica
    log = log.synced(len(records))
    replica = Replica(SHARD, former.node, former.settings, log, 0, 0, Offline(), is_in_doubt=True)
    return Node(replica, records, len(records), node.life + 1, obeys_from, node.is_copy or is_copy)


def _confirm(node: Node, event: Confirm, reaction: Reaction) -> None:
    replica = node.replica
    if not replica.confirms(event.leader, event.leader_epoch):
        return
    fetch = replica.role.fetch if isinstance(replica.role, Follower) else 1
    progress = i.ProgressMade(0, SHARD, replica.node, node.life, event.leader_epoch, fetch, -1, event.round)
    reaction.messages.append((event.leader, progress))


def _perform(
    effect: o.Effect, before: Replica, after: Replica, records: list[int], steps: list[i.Event], reaction: Reaction
) -> None:
    me, life = after.node, reaction.node.life
    match effect:
        case o.BeginEpoch():
            _check(effect.base_offset == len(records), "TrueImage", effect)
            records.append(effect.leader_epoch)
        case o.LoadShard():
            steps.append(i.ShardLoaded(0, SHARD, effect.leader_epoch))
        case o.AppendBatches():
            _check(effect.batches[0].base_offset == len(records), "TrueImage", effect)
            records += [batch.leader_epoch for batch in effect.batches for _ in batch.records]
        case o.TruncateLog():
            _check(effect.end >= before.high_watermark, "NoCutBelowHighWatermark", effect)
            reaction.cuts.append(effect)
            if before.log.durable_end < len(records):
                reaction.late.append((len(records), before.log.number))
            del records[effect.end :]
            steps.append(i.LogCut(0, SHARD, effect.log_number))
        case o.RefuseCut():
            raise BrokenInvariantError(f"NoCutBelowHighWatermark: {me} is told to cut below {effect.high_watermark}")
        case o.StepDown() if effect.successor is None:
            raise BrokenInvariantError(f"CommittedForEver: {me} steps down, since {effect.why}")
        case o.GateMoved():
            reaction.committed = tuple(records[: effect.high_watermark])
            reaction.needs_no_round |= effect.confirmed_round is None
        case o.Resign():
            reaction.resigns = True
        case o.PushRecords():
            batches = tuple(Batch(offset, records[offset], (b"",)) for offset in range(effect.begin, effect.end))
            push = i.RecordsPushed(0, SHARD, effect.leader_epoch, effect.fetch, batches, effect.high_watermark)
            reaction.messages.append((effect.follower, push))
        case o.AnswerFetch() if not isinstance(effect.answer, i.Fenced | i.UnknownEpoch):
            answer = i.FetchAnswered(0, SHARD, effect.leader_epoch, effect.fetch, effect.answer)
            reaction.messages.append((effect.follower, answer))
        case o.AskFetch():
            ask = i.FetchAsked(0, SHARD, me, life, effect.leader_epoch, effect.fetch, effect.end, effect.last_epoch)
            reaction.messages.append((effect.leader, ask))
        case o.ReportProgress():
            progress = i.ProgressMade(0, SHARD, me, life, effect.leader_epoch, effect.fetch, effect.durable_end, 0)
            reaction.messages.append((effect.leader, progress))
        case o.ChangeIsr():
            reaction.writes.append(effect)
        case o.ReadIsr():
            reaction.reads_above = effect.above_version
        case _:
            pass


def _check_step(before: Replica, after: Replica) -> None:
    _check(after.leader_epoch >= before.leader_epoch, "MonotonicEpochs", before, after)
    _check(after.high_watermark >= before.high_watermark, "MonotonicHighWatermark", before, after)
    if isinstance(after.role, Leader):
        lost = any(fetch.has_lost and fetch.node_epoch == 0 for fetch in after.role.fetches)
        _check(not lost, "StrongIsr", after)


def _check(holds: bool, invariant: str, *what: object) -> None:
    """Raise unless an invariant holds; the words are made only then, for they cost more than a step."""
    if not holds:
        raise BrokenInvariantError(f"{invariant}: {', '.join(map(str, what))}")


def _records_of(replica: Replica) -> list[int]:
    ends = [first for _, first in replica.log.epochs[1:]] + [replica.log.end]
    return [epoch for (epoch, first), end in zip(replica.log.epochs, ends, strict=False) for _ in range(first, end)]


def _normal(replica: Replica) -> Replica:
    if isinstance(replica.role, Declined):
        return replace(replica, role=replace(replica.role, why=""))
    if isinstance(replica.role, Doubting):
        asked = sorted(replica.role.asked, key=lambda it: it.follower)
        return replace(replica, role=replace(replica.role, asked=tuple(asked)))
    if not isinstance(replica.role, Leader):
        return replica
    role = replica.role
    pending = role.isr.pending and replace(role.isr.pending, request=1)
    isr = replace(role.isr, pending=pending, requests=1 if pending else 0)
    fetches = tuple(replace(fetch, goal=NO_TIME, refused_ms=None) for fetch in role.fetches)
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
    elif isinstance(role, Doubting):
        command = replace(role.command, leader=names[replica.node], isr=renamed_set(role.command.isr, names))
        waiting = sorted((replace(it, follower=names[it.follower]) for it in role.asked), key=lambda it: it.follower)
        role = replace(role, command=command, asked=tuple(waiting))
    elif isinstance(role, Declined) and role.successor is not None:
        role = replace(role, successor=names[role.successor])
    return replace(node, replica=replace(replica, node=names[replica.node], role=role))


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
    if isinstance(role, Doubting):
        command = replace(role.command, version=max(role.command.version - 1, -2))
        return replace(node, replica=replace(node.replica, role=replace(role, command=command)))
    if not isinstance(role, Leader):
        return node
    isr = replace(role.isr, version=max(role.isr.version - 1, -2))
    return replace(node, replica=replace(node.replica, role=replace(role, isr=isr)))
