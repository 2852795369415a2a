"""A replica that leads: it answers fetches, moves the high watermark and the confirmed round, and writes the ISR.

The high watermark is the smallest durable end over the maximal ISR, this node's own among them, and counts a follower
only once its fetch was matched in this epoch. The confirmed round is the greatest one that all others of the maximal
ISR have answered in this epoch. Both decide together what may leave: the first says that it will never be lost, the
second that nobody led a later epoch when it was decided.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from coordinator.core.replica.effects import (
    AnswerFetch,
    BecomeServing,
    BecomeStalled,
    BeginEpoch,
    Effect,
    GateMoved,
    LoadShard,
    PushRecords,
    Resign,
    StepDown,
)
from coordinator.core.replica.epochs import ReplicaLog
from coordinator.core.replica.events import (
    Appended,
    BelowLogStart,
    CutRefused,
    Diverged,
    FetchAnswer,
    FetchAsked,
    FetchEnded,
    LeaderAndIsr,
    LogSynced,
    ProgressMade,
    ShardLoaded,
    Streaming,
    Ticked,
)
from coordinator.core.replica.isr import Isr
from coordinator.core.replica.isr_changes import NOT_IN_ISR, considered, is_behind, tried_again
from coordinator.core.replica.replica import (
    NO_ROUND,
    NOT_MATCHED,
    Declined,
    Goal,
    Leader,
    LeaderPhase,
    Replica,
    StandingFetch,
)

NOBODY_ELSE: Final = 2**62
"""The least durable end of no followers: only the leader's own counts."""


def lead(replica: Replica, command: LeaderAndIsr, effects: list[Effect]) -> Replica:
    """Begin to lead in the epoch of the command, with its record as the first of that epoch.

    A replica that led the epoch before keeps its shard, its sends and their gate; only rounds and fetches begin anew.
    """
    before, epoch, begin = replica.role, command.leader_epoch, replica.log.end
    goes_on = isinstance(before, Leader) and before.phase is not LeaderPhase.LOADING
    effects.append(BeginEpoch(replica.shard, epoch, begin, goes_on, command.unclean_epoch))
    if not goes_on:
        effects.append(LoadShard(replica.shard, epoch, begin + 1))
    log = replica.log.appended(epoch, begin + 1)
    goal = Goal(log.end, command.now_ms)
    kept = {fetch.node: fetch for fetch in before.fetches} if isinstance(before, Leader) else {}
    leader = Leader(
        phase=before.phase if isinstance(before, Leader) else LeaderPhase.LOADING,
        epoch_start=begin,
        isr=Isr(tuple(sorted(command.isr)), command.version),
        fetches=tuple(
            StandingFetch(
                node,
                goal,
                is_draining=node in kept and kept[node].is_draining,
                closed_since_ms=kept[node].closed_since_ms if node in kept else None,
            )
            for node in sorted(command.replicas)
            if node != replica.node
        ),
        own_goal=goal,
    )
    return settled(replace(replica, log=log), leader, effects)


def decline(
    replica: Replica,
    why: str,
    now_ms: int,
    effects: list[Effect],
    *,
    lacks_committed: bool = False,
    wants_epoch: bool = False,
    successor: int | None = None,
) -> Replica:
    """Do not lead in the epoch there is, and follow nobody until a command says whom."""
    effects.append(StepDown(replica.shard, replica.leader_epoch, why, lacks_committed, wants_epoch, successor))
    return replace(replica, role=Declined(why, lacks_committed, now_ms, wants_epoch, successor))


def asked_to_be_replaced(replica: Replica, declined: Declined, event: Ticked, effects: list[Effect]) -> Replica:
    """Ask the controller again: it has changed, or the question was lost."""
    if event.now_ms - declined.asked_ms < replica.settings.step_down_ms:
        return replica
    return decline(
        replica,
        declined.why,
        event.now_ms,
        effects,
        lacks_committed=declined.lacks_committed,
        wants_epoch=declined.wants_epoch,
        successor=declined.successor,
    )


def loaded(replica: Replica, event: ShardLoaded, effects: list[Effect]) -> Replica:
    """Serve, unless what was loaded is of a former epoch."""
    leader = leader_of(replica)
    if event.leader_epoch != replica.leader_epoch or leader.phase is not LeaderPhase.LOADING:
        return replica
    effects.append(BecomeServing(replica.shard, replica.leader_epoch))
    return replace(replica, role=replace(leader, phase=LeaderPhase.SERVING))


# ---- the log -------------------------------------------------------------------------------------------------------


def appended(replica: Replica, event: Appended, effects: list[Effect]) -> Replica:
    """Push to every open fetch what a turn has appended; those that had everything are given a new goal."""
    leader = leader_of(replica)
    if event.leader_epoch != replica.leader_epoch or event.end <= replica.log.end:
        return replica
    old_end, goal = replica.log.end, Goal(event.end, event.now_ms)
    replica = replace(replica, log=replica.log.appended(event.leader_epoch, event.end))
    fetches = []
    for fetch in leader.fetches:
        aimed = replace(fetch, goal=goal) if fetch.durable_end >= old_end else fetch
        fetches.append(_pushed(replica, aimed, effects))
    own_goal = goal if replica.log.durable_end >= old_end else leader.own_goal
    return replace(replica, role=replace(leader, fetches=tuple(fetches), own_goal=own_goal))


def synced(replica: Replica, event: LogSynced, effects: list[Effect]) -> Replica:
    """Count this node's own disk."""
    if event.log_number != replica.log.number:
        return replica
    log = replica.log.synced(event.end)
    if log is replica.log:
        return replica
    leader = leader_of(replica)
    if log.durable_end >= leader.own_goal.end:
        leader = replace(leader, own_goal=Goal(log.end, event.now_ms))
    return settled(replace(replica, log=log), leader, effects)


def _pushed(replica: Replica, fetch: StandingFetch, effects: list[Effect]) -> StandingFetch:
    if not fetch.is_open or fetch.sent_end >= replica.log.end:
        return fetch
    effects.append(_push_of(replica, fetch))
    return replace(fetch, sent_end=replica.log.end)


def _push_of(replica: Replica, fetch: StandingFetch) -> PushRecords:
    return PushRecords(
        replica.shard,
        fetch.node,
        replica.leader_epoch,
        fetch.fetch,
        fetch.sent_end,
        replica.log.end,
        replica.high_watermark,
    )


def told_high_watermark(replica: Replica, follower: int) -> PushRecords | None:
    """Return the push of no records that tells a follower the high watermark, with a round that no record carries."""
    fetch = _fetch_of(leader_of(replica), follower)
    if fetch is None or not fetch.is_open:
        return None
    return replace(_push_of(replica, fetch), begin=fetch.sent_end, end=fetch.sent_end)


# ---- fetches -------------------------------------------------------------------------------------------------------


def asked(replica: Replica, event: FetchAsked, effects: list[Effect]) -> Replica:
    """Open a fetch of this epoch if its log is the begin of this one, else say from where on it differs."""
    leader = leader_of(replica)
    fetch = _fetch_of(leader, event.follower)
    if fetch is None or (event.node_epoch, event.fetch) <= (fetch.node_epoch, fetch.fetch):
        return replica  # no replica of this shard, or asked twice
    answer = answer_to(replica.log, event)
    fetch = StandingFetch(
        fetch.node,
        fetch.goal,
        event.node_epoch,
        event.fetch,
        is_open=isinstance(answer, Streaming),
        has_lost=fetch.has_lost or _has_lost(replica, leader, event),
        is_draining=fetch.is_draining,
        sent_end=event.end,
        round=fetch.round,
    )
    effects.append(AnswerFetch(replica.shard, event.follower, event.leader_epoch, event.fetch, answer))
    fetch = _pushed(replica, fetch, effects)
    return settled(replica, with_fetch(leader, fetch), effects)


def answer_to(log: ReplicaLog, event: FetchAsked) -> FetchAnswer:
    """Compare the follower's end and the epoch of its last record with this log."""
    if event.end >= log.start and log.continues(event.end, event.last_epoch):
        return Streaming()
    epoch, end = log.end_of(event.last_epoch)
    if event.end < log.start or end < log.start:
        return BelowLogStart(log.start)
    return Diverged(epoch, end)


def _has_lost(replica: Replica, leader: Leader, event: FetchAsked) -> bool:
    """Return whether a member of the ISR asks for what it must have had: its disk has not kept it."""
    return event.follower in leader.isr.maximal and event.end < replica.high_watermark


def fetch_ended(replica: Replica, event: FetchEnded) -> Replica:
    """Push nothing more to a follower that has left this epoch, and count nothing more of this fetch."""
    leader = leader_of(replica)
    fetch = _fetch_of(leader, event.follower)
    if fetch is None or event.leader_epoch != replica.leader_epoch or event.node_epoch < fetch.node_epoch:
        return replica
    return replace(replica, role=with_fetch(leader, replace(fetch, is_open=False)))


def progressed(replica: Replica, event: ProgressMade, effects: list[Effect]) -> Replica:
    """Count what a follower has on its disk, and the round that it has answered."""
    leader = leader_of(replica)
    fetch = _fetch_of(leader, event.follower)
    if fetch is None or not _is_current(replica, fetch, event):
        return replica
    durable_end = max(fetch.durable_end, min(event.durable_end, fetch.sent_end))
    goal = fetch.goal
    if durable_end >= goal.end:
        goal = Goal(replica.log.end, event.now_ms)
    fetch = replace(fetch, durable_end=durable_end, round=max(fetch.round, event.round), goal=goal)
    return settled(replica, with_fetch(leader, fetch), effects)


def _is_current(replica: Replica, fetch: StandingFetch, event: ProgressMade) -> bool:
    is_same_fetch = (event.node_epoch, event.fetch) == (fetch.node_epoch, fetch.fetch)
    return is_same_fetch and fetch.is_open and event.leader_epoch == replica.leader_epoch


def cut_refused(replica: Replica, event: CutRefused, effects: list[Effect]) -> Replica:
    """Step down: a follower knows of committed records that are not in this log."""
    if event.leader_epoch != replica.leader_epoch:
        return replica
    why = f"node {event.follower} has records committed up to {event.high_watermark} that this log does not have"
    effects.append(Resign(replica.shard, replica.leader_epoch))
    return decline(replica, why, event.now_ms, effects, lacks_committed=True)


# ---- what follows from it ------------------------------------------------------------------------------------------


def settled(replica: Replica, leader: Leader, effects: list[Effect]) -> Replica:
    """Return a replica that leads so: the gate moved as far as it goes, and the change of the ISR begun that is due."""
    high_watermark = max(replica.high_watermark, committed_end(replica, leader))
    has_to_ask, confirmed_round = has_others(replica, leader), leader.confirmed_round
    if has_to_ask:
        confirmed_round = max(confirmed_round, round_of_all(replica, leader))
    before = replica.high_watermark, leader.confirmed_round, leader.has_to_ask
    if (high_watermark, confirmed_round, has_to_ask) != before:
        confirmed = confirmed_round if has_to_ask else None
        effects.append(GateMoved(replica.shard, replica.leader_epoch, high_watermark, confirmed))
        leader = replace(leader, confirmed_round=confirmed_round, has_to_ask=has_to_ask)
    replica = replace(replica, high_watermark=high_watermark, role=leader)
    return considered(replica, leader, effects)


def has_others(replica: Replica, leader: Leader) -> bool:
    """Return whether anybody else is, or may be, in the ISR, and so might have been elected since."""
    return leader.isr.maximal != (replica.node,)


def needed_round(replica: Replica, next_round: int) -> int:
    """Return the round that a decision of this moment waits for: none while nobody else could have been elected."""
    return next_round if has_others(replica, leader_of(replica)) else NO_ROUND


def committed_end(replica: Replica, leader: Leader) -> int:
    """Return the end that is durable on the whole maximal ISR, NOT_MATCHED while that is not known or not enough."""
    if leader.isr.smallest() < replica.settings.min_insync_replicas:
        return NOT_MATCHED
    return min(own_durable_end(replica), _least_of_others(leader, replica.node, lambda fetch: fetch.durable_end))


def own_durable_end(replica: Replica) -> int:
    """Return what this node's disk has: the leader's own counts like any other."""
    return replica.log.durable_end


def round_of_all(replica: Replica, leader: Leader) -> int:
    """Return the greatest round that every other member of the maximal ISR has answered in this epoch."""
    return _least_of_others(leader, replica.node, lambda fetch: fetch.round)


def _least_of_others(leader: Leader, node: int, of: Callable[[StandingFetch], int]) -> int:
    known = {fetch.node: of(fetch) for fetch in leader.fetches}
    others = (known.get(member, NOT_MATCHED) for member in leader.isr.maximal if member != node)
    return min(others, default=NOBODY_ELSE)


# ---- time ----------------------------------------------------------------------------------------------------------


def ticked(replica: Replica, event: Ticked, effects: list[Effect]) -> Replica:
    """Take out of the ISR those who are behind, and see whether this leader is of any use."""
    leader, settings = leader_of(replica), replica.settings
    waited_ms = 0 if event.waiting_since_ms is None else event.now_ms - event.waiting_since_ms
    if leader.phase is LeaderPhase.SERVING and waited_ms >= settings.stall_ms > 0:
        effects.append(BecomeStalled(replica.shard, replica.leader_epoch))
        leader = replace(leader, phase=LeaderPhase.STALLED)
    elif leader.phase is LeaderPhase.STALLED and waited_ms < settings.stall_ms:
        effects.append(BecomeServing(replica.shard, replica.leader_epoch))
        leader = replace(leader, phase=LeaderPhase.SERVING, asked_to_step_down_ms=None)
    why = ""
    if waited_ms >= settings.step_down_ms:
        why = f"what it decided {waited_ms} ms ago has not left"
    elif is_behind(replica.log.durable_end, leader.own_goal, replica.log.end, event.now_ms, settings.step_down_ms):
        why = f"its own disk is {settings.step_down_ms} ms behind"
    elif replica.node not in leader.isr.members:
        why = NOT_IN_ISR
    asked_ms = leader.asked_to_step_down_ms
    if why and (asked_ms is None or event.now_ms - asked_ms >= settings.step_down_ms):
        effects.append(StepDown(replica.shard, replica.leader_epoch, why))
        leader = replace(leader, asked_to_step_down_ms=event.now_ms)
    fetches = tuple(tried_again(fetch, event.now_ms, settings.lag_ms) for fetch in leader.fetches)
    if fetches != leader.fetches:
        leader = replace(leader, fetches=fetches)
    if leader is not replica.role:
        replica = replace(replica, role=leader)
    return considered(replica, leader, effects, now_ms=event.now_ms)


def peer_down(replica: Replica, peer: int, now_ms: int) -> Replica:
    """Push nothing more to a peer without a connection; it fetches again when it has one."""
    leader = leader_of(replica)
    fetch = _fetch_of(leader, peer)
    if fetch is None or fetch.closed_since_ms is not None:
        return replica
    return replace(replica, role=with_fetch(leader, replace(fetch, is_open=False, closed_since_ms=now_ms)))


def peer_up(replica: Replica, peer: int) -> Replica:
    """Count the time without a connection no longer."""
    leader = leader_of(replica)
    fetch = _fetch_of(leader, peer)
    if fetch is None or fetch.closed_since_ms is None:
        return replica
    return replace(replica, role=with_fetch(leader, replace(fetch, closed_since_ms=None)))


def peer_draining(replica: Replica, peer: int, effects: list[Effect], *, is_draining: bool) -> Replica:
    """Let a peer that drains out of the ISR, and not in again."""
    leader = leader_of(replica)
    fetch = _fetch_of(leader, peer)
    if fetch is None or fetch.is_draining == is_draining:
        return replica
    changed = replace(fetch, is_draining=is_draining, refused_ms=None)
    return settled(replica, with_fetch(leader, changed), effects)


def with_fetch(leader: Leader, changed: StandingFetch) -> Leader:
    """Return the leader with one of its fetches in the place of the one of the same node."""
    return replace(leader, fetches=tuple(changed if fetch.node == changed.node else fetch for fetch in leader.fetches))


def _fetch_of(leader: Leader, node: int) -> StandingFetch | None:
    for fetch in leader.fetches:
        if fetch.node == node:
            return fetch
    return None


def leader_of(replica: Replica) -> Leader:
    """Return the role of a replica that leads."""
    assert isinstance(replica.role, Leader), "only a leader is asked this"
    return replica.role
