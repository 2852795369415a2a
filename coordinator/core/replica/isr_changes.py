"""The change of the ISR that its leader makes, and what follows from how the write of it ends.

A follower leaves when it has been behind or without a connection for too long, or drains, as long as enough stay; and
regardless of that when it has lost what it had acknowledged. One joins when its disk has everything that was committed:
what this leader knows of that, and everything before its epoch, of which it may not know. It has to have caught up
besides: one that was late a moment ago would be taken in and out by turns.
"""

from typing import Final

from msgspec.structs import replace

from coordinator.core.replica.effects import ChangeIsr, Effect, ReadIsr, StepDown
from coordinator.core.replica.events import IsrSeen
from coordinator.core.replica.isr import Isr
from coordinator.core.replica.replica import Goal, Leader, Replica, StandingFetch

NOT_IN_ISR: Final = "it is not in its ISR any more"
"""The reason of a leader that was taken out by another's write."""


def considered(replica: Replica, leader: Leader, effects: list[Effect], now_ms: int | None = None) -> Replica:
    """Begin the change of the ISR that is due, unless one is under way; those who are late only as time passes."""
    members = leader.isr.members
    if leader.isr.pending is not None or replica.node not in members:
        return replica
    lost = {fetch.node for fetch in leader.fetches if fetch.has_lost}
    late = {fetch.node for fetch in leader.fetches if is_to_leave(replica, fetch, now_ms)}
    stays = [node for node in members if node not in lost]
    for node in sorted(late.intersection(stays)):
        if len(stays) > least_members(replica):
            stays.remove(node)
    joining = tuple(
        (fetch.node, fetch.node_epoch)
        for fetch in leader.fetches
        if fetch.node not in members and may_join(replica, leader, fetch)
    )
    changed = tuple(sorted([*stays, *(node for node, _ in joining)]))
    if changed == members:
        return replica
    isr = leader.isr.changing_to(changed, joining)
    effects.append(write_of(replica, isr))
    return replace(replica, role=replace(leader, isr=isr, has_to_ask=True))


def least_members(replica: Replica) -> int:
    """Return how many members the ISR keeps: those who are late stay when it would have fewer."""
    return replica.settings.min_insync_replicas


def is_to_leave(replica: Replica, fetch: StandingFetch, now_ms: int | None) -> bool:
    """Return whether a follower is not to be waited for any longer."""
    if fetch.is_draining:
        return True
    if now_ms is None:
        return False
    closed_ms = fetch.closed_since_ms
    if closed_ms is not None and now_ms - closed_ms >= replica.settings.closed_grace_ms:
        return True
    return is_behind(fetch.durable_end, fetch.goal, replica.log.end, now_ms, replica.settings.lag_ms)


def is_behind(durable_end: int, goal: Goal, log_end: int, now_ms: int, most_ms: int) -> bool:
    """Return whether a disk has not had everything for so long; one that keeps up with a busy log reaches its goals."""
    return durable_end < log_end and now_ms - goal.since_ms >= most_ms


def may_join(replica: Replica, leader: Leader, fetch: StandingFetch) -> bool:
    """Return whether everything committed is on a follower's disk, also what this leader does not know to be."""
    is_ready = fetch.is_open and not fetch.is_draining and fetch.refused_ms is None
    return is_ready and fetch.durable_end >= max(replica.high_watermark, leader.epoch_start, fetch.goal.end)


# ---- the end of a write --------------------------------------------------------------------------------------------


def written(leader: Leader) -> Leader:
    """Take the change as made; whoever had lost records is out, and joins like any other."""
    isr = leader.isr.done()
    return replace(leader, isr=isr, fetches=tuple(_forgiven(fetch, isr) for fetch in leader.fetches))


def refused(replica: Replica, leader: Leader, effects: list[Effect]) -> Leader:
    """Read the bucket, which has another version: the change was made before, or never will be."""
    effects.append(ReadIsr(replica.shard, leader.isr.version))
    return replace(leader, isr=leader.isr.refused())


def not_registered(leader: Leader, now_ms: int) -> Leader:
    """Give the change up, and let those who were to join try again when they fetch again, or a while later.

    Which of them it was is not known, and it may be registered as ready again: what this node knows of that is late.
    """
    assert leader.isr.pending is not None, "there is a write that was refused"
    isr, gone = leader.isr.given_up(), {node for node, _ in leader.isr.pending.joining}
    fetches = (replace(fetch, refused_ms=now_ms) if fetch.node in gone else fetch for fetch in leader.fetches)
    return replace(leader, isr=isr, fetches=tuple(_forgiven(fetch, isr) for fetch in fetches))


def tried_again(fetch: StandingFetch, now_ms: int, after_ms: int) -> StandingFetch:
    """Return a fetch whose follower may be tried again, when it was refused long enough ago."""
    is_over = fetch.refused_ms is not None and now_ms - fetch.refused_ms >= after_ms
    return replace(fetch, refused_ms=None) if is_over else fetch


def unknown(replica: Replica, leader: Leader, effects: list[Effect]) -> Leader:
    """Write the same again: only an end that is heard of tells about the write before."""
    isr = leader.isr.asked_again()
    effects.append(write_of(replica, isr))
    return replace(leader, isr=isr)


def seen(replica: Replica, leader: Leader, event: IsrSeen, effects: list[Effect]) -> Leader:
    """Take over what is in ZooKeeper, if it is news; a leader that was taken out of its ISR asks to be replaced."""
    if not leader.isr.is_settled_by(event.version):
        if leader.isr.pending is not None and leader.isr.pending.is_refused:
            effects.append(ReadIsr(replica.shard, leader.isr.version))
        return leader
    isr = leader.isr.seen(event.version, event.isr)
    if replica.node not in isr.members and leader.asked_to_step_down_ms is None:
        effects.append(StepDown(replica.shard, replica.leader_epoch, NOT_IN_ISR))
        leader = replace(leader, asked_to_step_down_ms=event.now_ms)
    return replace(leader, isr=isr, fetches=tuple(_forgiven(fetch, isr) for fetch in leader.fetches))


def _forgiven(fetch: StandingFetch, isr: Isr) -> StandingFetch:
    return replace(fetch, has_lost=False) if fetch.has_lost and fetch.node not in isr.members else fetch


def write_of(replica: Replica, isr: Isr) -> ChangeIsr:
    """Return the write of the change under way, which names the version it expects."""
    assert isr.pending is not None, "a change is under way"
    change = isr.pending
    return ChangeIsr(replica.shard, replica.leader_epoch, isr.version, change.members, change.request, change.joining)
