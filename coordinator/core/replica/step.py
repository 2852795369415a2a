"""One step of a replica: an event in, the value that follows and the effects out.

A command with a greater leader epoch ends everything of the epoch before, in the same step and before anything else.
An equal one is a repetition. Whatever is said of another epoch changes nothing.
"""

from collections.abc import Iterator
from typing import Final, assert_never

from msgspec.structs import replace

from coordinator.core.replica import doubt, follower, isr_changes, leader
from coordinator.core.replica.effects import (
    AnswerFetch,
    DropReplica,
    Effect,
    EndFetch,
    HaltNode,
    OpenReplica,
    Resign,
)
from coordinator.core.replica.epochs import EMPTY_LOG, ReplicaLog
from coordinator.core.replica.events import (
    Appended,
    AppendRefused,
    CutRefused,
    Event,
    Fenced,
    FetchAnswered,
    FetchAsked,
    FetchEnded,
    IsrSeen,
    IsrWritten,
    LeaderAndIsr,
    LogCut,
    LogStartMoved,
    LogSynced,
    NodeRegistered,
    PeerDown,
    PeerDraining,
    PeerUp,
    ProgressMade,
    RecordsPushed,
    ReplicaOpened,
    ShardLoaded,
    SnapshotFailed,
    SnapshotInstalled,
    StopReplica,
    Ticked,
    UnknownEpoch,
    WriteOutcome,
)
from coordinator.core.replica.replica import (
    Absent,
    Declined,
    Doubting,
    Follower,
    FollowerPhase,
    Leader,
    LeaderPhase,
    Offline,
    Opening,
    Replica,
    Settings,
)

ALWAYS: Final = 0
"""The time from which on something is due that is looked at with every tick."""


def step(replica: Replica, event: Event) -> tuple[Replica, list[Effect]]:
    """Take in one event; an equal value comes back when it changes nothing."""
    effects: list[Effect] = []
    match event:
        case LeaderAndIsr():
            replica = _commanded(replica, event, effects)
        case StopReplica():
            replica = _stopped(replica, event, effects)
        case ReplicaOpened():
            replica = _opened(replica, event, effects)
        case LogStartMoved():
            replica = _started(replica, event)
        case FetchAsked():
            replica = _asked(replica, event, effects)
        case AppendRefused():
            replica = _not_taken(replica, event, effects)
        case SnapshotInstalled():
            replica = follower.was_installed(replica, event, effects)
        case SnapshotFailed():
            replica = follower.was_not_installed(replica, event)
        case _:
            if isinstance(replica.role, Leader):
                replica = _leading(replica, replica.role, event, effects)
            elif isinstance(replica.role, Follower):
                replica = _following(replica, replica.role, event, effects)
            elif isinstance(event, LogSynced):
                replica = follower.with_synced(replica, event)
            elif isinstance(replica.role, Doubting):
                replica = doubt.heard(replica, replica.role, event, effects)
            elif isinstance(replica.role, Declined) and isinstance(event, Ticked):
                replica = leader.asked_to_be_replaced(replica, replica.role, event, effects)
    return replica, effects


def _commanded(replica: Replica, command: LeaderAndIsr, effects: list[Effect]) -> Replica:
    if command.leader_epoch <= replica.leader_epoch:
        return replica
    if isinstance(replica.role, Absent | Opening):
        if isinstance(replica.role, Absent):
            effects.append(OpenReplica(replica.shard, replica.log.number))
        return replace(replica, leader_epoch=command.leader_epoch, role=Opening(command))
    return _obeyed(replica, command, effects)


def _opened(replica: Replica, event: ReplicaOpened, effects: list[Effect]) -> Replica:
    if not isinstance(replica.role, Opening) or event.log.number != replica.log.number:
        return replica
    command = replica.role.command
    high_watermark = max(replica.high_watermark, event.log.start)
    log = event.log.renumbered(event.log.number)
    replica = replace(replica, log=log, high_watermark=high_watermark, role=Offline(), is_in_doubt=True)
    return _obeyed(replica, command, effects)


def _obeyed(replica: Replica, command: LeaderAndIsr, effects: list[Effect]) -> Replica:
    """Leave the epoch there was, then take the part that the command gives."""
    if is_older_than(replica.log, command):
        log_epoch = replica.log.last_epoch
        effects.append(
            HaltNode(
                f"shard {replica.shard} is commanded in leader epoch {command.leader_epoch}, but its log has records "
                f"of epoch {log_epoch}: ZooKeeper's data is older than this log; put its newest data back"
            )
        )
        return replica
    if is_void(replica, command):
        return _begun_anew(replica, command, effects)
    goes_on = isinstance(replica.role, Leader) and command.leader == replica.node
    if not goes_on:
        _leave(replica, effects)
        replica = replace(replica, role=Offline())
    replica = replace(replica, leader_epoch=command.leader_epoch)
    if command.leader is None:
        return replica
    if command.leader != replica.node:
        return follower.follow(replica, command.leader, effects)
    if replica.is_replaced:
        why = "a snapshot is taking the place of its log"
        return leader.decline(replica, why, command.now_ms, effects, lacks_committed=True)
    if has_been_led(replica.log, command):
        why = "a former life of this node has led in this epoch, and may have given others what is not in this log"
        return leader.decline(replica, why, command.now_ms, effects)
    return doubt.elected(replica, command, effects)


def is_older_than(log: ReplicaLog, command: LeaderAndIsr) -> bool:
    """Return whether a command is of an epoch that is over, as the log shows that has records of a later one."""
    return command.leader_epoch < log.last_epoch


def is_void(replica: Replica, command: LeaderAndIsr) -> bool:
    """Return whether an unclean election has made a log void: it has what the leader lacks, and nothing since.

    A member of the ISR is the leader that was elected so, or has copied that one. Without a leader it is too early.
    """
    is_elsewhere = command.leader not in (None, replica.node) and replica.node not in command.isr
    return is_elsewhere and replica.log.end > 0 and replica.log.last_epoch < command.unclean_epoch


def _begun_anew(replica: Replica, command: LeaderAndIsr, effects: list[Effect]) -> Replica:
    """Move a void log aside, where a person still finds it for a while, and follow with an empty one."""
    _leave(replica, effects)
    number = replica.log.number + 1
    void = (
        f"it ends at {replica.log.end} in leader epoch {replica.log.last_epoch}, and in epoch {command.unclean_epoch} "
        "a person had a replica lead that lacked records: what only this log has was given up then"
    )
    effects += [DropReplica(replica.shard, deletes=True, void=void), OpenReplica(replica.shard, number)]
    log, epoch = EMPTY_LOG.renumbered(number), command.leader_epoch
    return Replica(replica.shard, replica.node, replica.settings, log, epoch, role=Opening(command))


def has_been_led(log: ReplicaLog, command: LeaderAndIsr) -> bool:
    """Return whether the epoch that a replica is to begin is in its log already, so that it would begin twice."""
    return command.leader_epoch == log.last_epoch


def _leave(replica: Replica, effects: list[Effect]) -> None:
    """End what the replica has to do with its epoch."""
    if isinstance(replica.role, Leader):
        effects.append(Resign(replica.shard, replica.leader_epoch))
    elif isinstance(replica.role, Follower):
        effects.append(EndFetch(replica.shard, replica.role.leader, replica.leader_epoch))


def _stopped(replica: Replica, event: StopReplica, effects: list[Effect]) -> Replica:
    if event.leader_epoch < replica.leader_epoch or isinstance(replica.role, Absent):
        return replica
    _leave(replica, effects)
    effects.append(DropReplica(replica.shard, event.deletes))
    log = EMPTY_LOG.renumbered(replica.log.number + 1)
    return Replica(replica.shard, replica.node, replica.settings, log, event.leader_epoch)


def _started(replica: Replica, event: LogStartMoved) -> Replica:
    is_there = not isinstance(replica.role, Absent | Opening)
    if not is_there or not replica.log.is_about(event.log_number):
        return replica
    return replace(replica, log=replica.log.started_at(event.start))


def _not_taken(replica: Replica, event: AppendRefused, effects: list[Effect]) -> Replica:
    """Count what is not in the log no longer; a leader needs another epoch, since others may have it in this one."""
    if isinstance(replica.role, Absent | Opening) or event.end >= replica.log.end:
        return replica
    replica = replace(replica, log=replica.log.without(event.end))
    if isinstance(replica.role, Leader):
        _leave(replica, effects)
        why = "its log did not take records that followers may have"
        return leader.decline(replica, why, event.now_ms, effects, wants_epoch=True)
    if isinstance(replica.role, Follower):
        return follower.asking_again(replica, replica.role, event.now_ms)
    return replica


def _asked(replica: Replica, event: FetchAsked, effects: list[Effect]) -> Replica:
    if event.leader_epoch == replica.leader_epoch and isinstance(replica.role, Leader):
        return leader.asked(replica, event, effects)
    if event.leader_epoch == replica.leader_epoch and isinstance(replica.role, Doubting):
        return doubt.asked(replica, replica.role, event, effects)
    is_early = event.leader_epoch > replica.leader_epoch or isinstance(replica.role, Opening)
    answer = UnknownEpoch() if is_early else Fenced()
    effects.append(AnswerFetch(replica.shard, event.follower, event.leader_epoch, event.fetch, answer))
    return replica


def _leading(replica: Replica, role: Leader, event: Event, effects: list[Effect]) -> Replica:
    match event:
        case Appended():
            return leader.appended(replica, event, effects)
        case LogSynced():
            return leader.synced(replica, event, effects)
        case ProgressMade():
            return leader.progressed(replica, event, effects)
        case FetchEnded():
            return leader.fetch_ended(replica, event)
        case CutRefused():
            return leader.cut_refused(replica, event, effects)
        case ShardLoaded():
            return leader.loaded(replica, event, effects)
        case IsrWritten():
            return _isr_written(replica, role, event, effects)
        case IsrSeen():
            if event.leader_epoch != replica.leader_epoch:
                return replica
            role = isr_changes.seen(replica, role, event, effects)
            return leader.settled(replica, role, effects)
        case PeerUp():
            return leader.peer_up(replica, event.peer)
        case PeerDown():
            return leader.peer_down(replica, event.peer, event.now_ms)
        case PeerDraining():
            return leader.peer_draining(replica, event.peer, effects, is_draining=event.is_draining)
        case Ticked():
            return leader.ticked(replica, event, effects)
        case _:
            return replica  # said of an epoch in which this replica followed


def _isr_written(replica: Replica, role: Leader, event: IsrWritten, effects: list[Effect]) -> Replica:
    pending = role.isr.pending
    if pending is None or event.request != pending.request or pending.is_refused:
        return replica
    match event.outcome:
        case WriteOutcome.DONE:
            role = isr_changes.written(role)
        case WriteOutcome.VERSION_MISMATCH:
            role = isr_changes.refused(replica, role, effects)
        case WriteOutcome.NOT_REGISTERED:
            role = isr_changes.not_registered(role, event.now_ms)
        case WriteOutcome.UNKNOWN:
            role = isr_changes.unknown(replica, role, effects)
        case _:
            assert_never(event.outcome)
    return leader.settled(replica, role, effects)


def _following(replica: Replica, role: Follower, event: Event, effects: list[Effect]) -> Replica:
    match event:
        case FetchAnswered():
            return follower.answered(replica, event, effects)
        case RecordsPushed():
            return follower.pushed(replica, event, effects)
        case LogSynced():
            return follower.synced(replica, event, effects)
        case LogCut():
            return follower.was_cut(replica, event, effects)
        case PeerUp(_, peer) if peer == role.leader and role.phase in _ASKING:
            return follower.ask(replica, effects)
        case NodeRegistered() if role.phase in _REGISTERING:
            return follower.ask(replica, effects)
        case PeerDown(_, peer) if peer == role.leader and role.phase is FollowerPhase.FOLLOWING:
            return replace(replica, role=replace(role, phase=FollowerPhase.MATCHING))
        case Ticked():
            return follower.ask_after_pause(replica, event.now_ms, effects)
        case _:
            return replica  # said of an epoch in which this replica led


_ASKING = (FollowerPhase.MATCHING, FollowerPhase.REFUSING)
_REGISTERING = (*_ASKING, FollowerPhase.FOLLOWING)


# ---- when time matters ----------------------------------------------------------------------------------------------


def due_ms(replica: Replica) -> int | None:
    """Return from when on time alone may change something here, None if it never does while nothing else happens.

    Before it a `Ticked` changes nothing, as long as no send of the shard waits; `stalls_ms` is about one that does.
    """
    match replica.role:
        case Leader():
            return min(_times_of_a_leader(replica, replica.role), default=None)
        case Doubting(command):
            return command.now_ms + replica.settings.doubt_ms
        case Follower(ask_again_ms=again_ms):
            return again_ms
        case Declined(asked_ms=asked_ms):
            return asked_ms + replica.settings.step_down_ms
        case _:
            return None


def stalls_ms(settings: Settings, waiting_since_ms: int) -> int:
    """Return from when on a leader is to know that what it has decided since then has not left."""
    return waiting_since_ms + min(settings.stall_ms or settings.step_down_ms, settings.step_down_ms)


def _times_of_a_leader(replica: Replica, role: Leader) -> Iterator[int]:
    settings, members = replica.settings, role.isr.members
    if role.phase is LeaderPhase.STALLED or replica.node not in members:
        yield ALWAYS
    if replica.log.durable_end < replica.log.end:
        yield role.own_goal.since_ms + settings.step_down_ms
    for fetch in role.fetches:
        if fetch.refused_ms is not None:
            yield fetch.refused_ms + settings.lag_ms
        if role.isr.pending is not None or fetch.node not in members:
            continue
        if fetch.is_draining or fetch.has_lost:
            yield ALWAYS
        if fetch.closed_since_ms is not None:
            yield fetch.closed_since_ms + settings.closed_grace_ms
        if fetch.durable_end < replica.log.end:
            yield fetch.goal.since_ms + settings.lag_ms


class Ticks:
    """The time at which each replica is next changed by time alone, looked up once for each value of it."""

    def __init__(self) -> None:
        self._due: dict[int, tuple[Replica, int | None]] = {}

    def matters(self, shard: int, replica: Replica, waiting_since_ms: int | None, now_ms: int) -> bool:
        """Return True when a tick at this time, in ms, changes the replica; `waiting_since_ms` is the oldest send's."""
        seen = self._due.get(shard)
        if seen is None or seen[0] is not replica:
            seen = self._due[shard] = replica, due_ms(replica)
        due = seen[1]
        if due is not None and due <= now_ms:
            return True
        return waiting_since_ms is not None and stalls_ms(replica.settings, waiting_since_ms) <= now_ms
