"""The doubt in a log that was read from disk: it may be older than what its node has acknowledged.

A directory that was put back from a copy looks like any other one that was closed. Nothing in it says that it lacks
what was acknowledged after the copy was made; only other replicas know. So a log is in doubt from when it is opened
until something of an epoch that began later is known to be committed and in it. A node that is elected with such a log
leads only when enough members of the in-sync set have fetched from it and none of these has more. What was acknowledged
is on `min_insync_replicas` disks or more, so of that many members one has it, as long as fewer were put back. Nothing
is appended before: an epoch that was begun with an old log would make it look like the newest.
"""

from msgspec.structs import replace

from coordinator.core.replica import leader
from coordinator.core.replica.effects import Effect, GoesOnInDoubt
from coordinator.core.replica.epochs import ReplicaLog
from coordinator.core.replica.events import (
    Event,
    FetchAsked,
    LeaderAndIsr,
    LogSynced,
    NodeRegistered,
    PeerDown,
    Ticked,
)
from coordinator.core.replica.follower import with_synced
from coordinator.core.replica.replica import Doubting, Offline, Replica


def elected(replica: Replica, command: LeaderAndIsr, effects: list[Effect]) -> Replica:
    """Lead, as soon as others were heard if the log is in doubt."""
    if not replica.is_in_doubt:
        return leader.lead(replica, command, effects)
    if _is_enough(replica, command, heard=()):
        if len(command.replicas) > 1:
            effects.append(_goes_on(replica, "there is nobody whose word it has to wait for"))
        return _lead(replica, Doubting(command), command.now_ms, effects)
    return replace(replica, role=Doubting(command))


def asked(replica: Replica, role: Doubting, event: FetchAsked, effects: list[Effect]) -> Replica:
    """Hear how far another log reaches: let its node lead if that is further, else lead when enough were heard."""
    command = role.command
    others = tuple(each for each in role.asked if each.follower != event.follower)
    newest = max((each.node_epoch, each.fetch) for each in (*role.asked, event) if each.follower == event.follower)
    if event.follower not in command.replicas or (event.node_epoch, event.fetch) < newest:
        return replica
    if event.follower in command.isr and reaches_further(replica.log, event):
        return _yielded(replica, event, effects)
    role = Doubting(command, (*others, event))
    if _is_enough(replica, command, [each.follower for each in role.asked]):
        return _lead(replica, role, event.now_ms, effects)
    return replace(replica, role=role)


def heard(replica: Replica, role: Doubting, event: Event, effects: list[Effect]) -> Replica:
    """Take in anything else that happens meanwhile."""
    match event:
        case LogSynced():
            return with_synced(replica, event)
        case PeerDown(_, peer):
            return replace(replica, role=replace(role, asked=tuple(it for it in role.asked if it.follower != peer)))
        case NodeRegistered():
            return replace(replica, role=Offline())  # what a former life was elected for nobody leads
        case Ticked(now_ms) if now_ms - role.command.now_ms >= replica.settings.doubt_ms:
            waited_ms = now_ms - role.command.now_ms
            effects.append(_goes_on(replica, f"too few of its in-sync set were heard for {waited_ms} ms"))
            return _lead(replica, role, now_ms, effects)
        case _:
            return replica


def reaches_further(log: ReplicaLog, event: FetchAsked) -> bool:
    """Return whether a follower's log may have what was committed and is not in this one.

    Of two logs, the one whose last record is of a later epoch has all that was committed before that; of the same
    epoch, the longer one has all of the other.
    """
    return (event.last_epoch, event.end) > (log.last_epoch, log.end)


def _is_enough(replica: Replica, command: LeaderAndIsr, heard: list[int] | tuple[int, ...]) -> bool:
    """Return whether as many members were heard as may commit, this one among them, or all that there are."""
    members = len({*heard, replica.node}.intersection(command.isr))
    return members >= min(replica.settings.min_insync_replicas, len(command.isr))


def _lead(replica: Replica, role: Doubting, now_ms: int, effects: list[Effect]) -> Replica:
    replica = leader.lead(replace(replica, is_in_doubt=False), replace(role.command, now_ms=now_ms), effects)
    for each in role.asked:
        replica = leader.asked(replica, each, effects)
    return replica


def _yielded(replica: Replica, event: FetchAsked, effects: list[Effect]) -> Replica:
    why = (
        f"the log of node {event.follower}, in sync, ends at {event.end} in epoch {event.last_epoch}, and the one that "
        f"node {replica.node} was started with at {replica.log.end} in epoch {replica.log.last_epoch}: what it lacks "
        "was never committed, or its directory is an older copy"
    )
    return leader.decline(replica, why, event.now_ms, effects, successor=event.follower)


def _goes_on(replica: Replica, why: str) -> GoesOnInDoubt:
    return GoesOnInDoubt(replica.shard, replica.leader_epoch, why)
