"""The next leader of a shard, and the in-sync set it has: the rules of choice alone.

Every choice is a new entry with the next leader epoch, or None where nothing is to be changed. Only a member of the
in-sync set is ever chosen, except by `elect_unclean`, for which a person asks. Electing too early is safe, so whether
a node is dead need not be certain here; what must hold is who may be chosen.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

import msgspec.structs

from coordinator.core.cluster.znodes import LogEnd, ShardEntry

MOST_UNCLEAN_EPOCH: Final = 2**17
"""No unclean election begins from this leader epoch on: 2**36 owner epochs are left out for each one before it, and
sinks may store owner epochs as numbers that are exact below 2**53 only."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The state of the nodes, as far as it is known, while one shard is decided upon.

    `live` are registered in ZooKeeper, with the node epochs of that, and not known to be dead otherwise, as one is to
    which connections are refused. `eligible` are those of them that may be given this shard now: ready, answering, and
    able to load it. `lacking` are nodes that have said that they lack records of this shard which they had
    acknowledged: they leave its in-sync set whatever becomes of its size.
    """

    live: Mapping[int, int]
    eligible: Set[int]
    lacking: Set[int] = frozenset()


def elect(entry: ShardEntry, candidates: Candidates, min_insync: int, changed_by: str = "") -> ShardEntry | None:
    """Elect another leader, for the present one is gone or has stepped down: the first replica that may be chosen.

    Nobody there leaves the shard without a leader and its in-sync set as it was, but for members that are lacking: its
    other members have all that was acknowledged, and one of them is waited for.
    """
    leader = _first(entry, candidates)
    return _chosen(entry, leader, candidates, min_insync, changed_by)


def elect_longest(
    entry: ShardEntry,
    candidates: Candidates,
    min_insync: int,
    log_ends: Mapping[int, LogEnd],
    changed_by: str = "",
) -> ShardEntry | None:
    """Elect when the whole cluster has started: of those that may be chosen the one whose log reaches furthest.

    Any member is right if disks keep what they promise. This one is right even if one of them did not.
    """
    possible = [node for node in entry.replicas if may_lead(entry, candidates, node)]
    nothing = LogEnd(leader_epoch=0, end=0)
    leader = max(possible, key=lambda node: log_ends.get(node, nothing), default=None)  # the first of equal ones
    return _chosen(entry, leader, candidates, min_insync, changed_by)


def is_waited_for(entry: ShardEntry, candidates: Candidates) -> bool:
    """Say whether a member of the in-sync set is missing that might come yet, after the whole cluster has started."""
    return any(node not in candidates.live and node not in candidates.lacking for node in entry.isr)


def give_back(
    entry: ShardEntry, candidates: Candidates, long_in_sync: Set[int], changed_by: str = ""
) -> ShardEntry | None:
    """Give the leadership to the preferred replica, if it has been in sync for long enough and may be chosen."""
    preferred = entry.replicas[0]
    if entry.leader in (None, preferred) or preferred not in long_in_sync:
        return None
    if not may_lead(entry, candidates, preferred):
        return None
    return _next(entry, preferred, candidates.live[preferred], entry.isr, changed_by)


def move_away(entry: ShardEntry, candidates: Candidates, changed_by: str = "") -> ShardEntry | None:
    """Give the leadership to another node while its leader is well, as when that one drains, if one may have it."""
    if entry.leader is None:
        return None
    others = Candidates(candidates.live, candidates.eligible - {entry.leader}, candidates.lacking)
    leader = _first(entry, others)
    return None if leader is None else _next(entry, leader, candidates.live[leader], entry.isr, changed_by)


def hand_over(entry: ShardEntry, node: int, candidates: Candidates, changed_by: str = "") -> ShardEntry | None:
    """Give the leadership to the member that the leader names, also one that drains: no other has what that one has."""
    if node not in entry.isr or node not in candidates.live or node in candidates.lacking:
        return None
    return _next(entry, node, candidates.live[node], entry.isr, changed_by)


def why_not_unclean(
    entry: ShardEntry, node: int, leader_epoch: int, candidates: Candidates, last_resort: Candidates
) -> str:
    """Say why a replica that is not in sync is not to lead, though a person wants it to; empty if it may.

    It may where nobody else can: the shard is without a leader in the epoch that the person has seen, and no member of
    the in-sync set may be elected, not even of the `last_resort`, who are late or being drained.
    """
    if entry.leader_epoch != leader_epoch:
        return f"it is in leader epoch {entry.leader_epoch} by now, and not in {leader_epoch}: look at it again"
    if entry.leader is not None:
        return f"node {entry.leader} leads it: only a shard that nobody can lead is given to one that lacks records"
    able = _first(entry, last_resort)
    if able is not None:
        return f"node {able} is in sync and about to lead it"
    if node not in entry.replicas:
        return f"node {node} is none of its replicas, which are {', '.join(map(str, entry.replicas))}"
    if node not in candidates.live or node not in candidates.eligible:
        return f"node {node} is not there, is being drained or does not answer"
    if entry.leader_epoch >= MOST_UNCLEAN_EPOCH:
        return f"it is in leader epoch {entry.leader_epoch}, after which owner epochs would be too great to be stored"
    return ""


def elect_unclean(
    entry: ShardEntry,
    node: int,
    leader_epoch: int,
    candidates: Candidates,
    last_resort: Candidates,
    changed_by: str = "",
) -> ShardEntry | None:
    """Elect the replica that a person names, alone in sync, whatever it lacks; None if that may not be."""
    if why_not_unclean(entry, node, leader_epoch, candidates, last_resort):
        return None
    elected = _next(entry, node, candidates.live[node], (node,), changed_by)
    return msgspec.structs.replace(elected, unclean_epoch=elected.leader_epoch)


def is_led(entry: ShardEntry, candidates: Candidates) -> bool:
    """Say whether a shard's leader lives, in the life in which it was elected, and has not said that it cannot lead."""
    if entry.leader is None or entry.leader in candidates.lacking:
        return False
    return candidates.live.get(entry.leader) == entry.leader_node_epoch


def may_lead(entry: ShardEntry, candidates: Candidates, node: int) -> bool:
    """Say whether a node may be elected for a shard: a member of its in-sync set that lives and is able to."""
    return (
        node in entry.isr and node in candidates.live and node in candidates.eligible and node not in candidates.lacking
    )


def _first(entry: ShardEntry, candidates: Candidates) -> int | None:
    return next((node for node in entry.replicas if may_lead(entry, candidates, node)), None)


def _chosen(
    entry: ShardEntry, leader: int | None, candidates: Candidates, min_insync: int, changed_by: str
) -> ShardEntry | None:
    """Return the entry under a new leader, or without one; None if it says so already."""
    members = tuple(node for node in entry.isr if node not in candidates.lacking)
    if leader is None:
        is_as_before = entry.leader is None and members == entry.isr
        return None if is_as_before else _next(entry, None, None, members, changed_by)
    alive = tuple(node for node in members if node in candidates.live)
    dead = tuple(node for node in members if node not in candidates.live)
    # With too few alive to commit anything nobody leaves: whoever comes back first may be the one that is missed.
    isr = alive if len(alive) >= min_insync else alive + dead
    return _next(entry, leader, candidates.live[leader], isr, changed_by)


def _next(
    entry: ShardEntry, leader: int | None, node_epoch: int | None, isr: tuple[int, ...], changed_by: str
) -> ShardEntry:
    return msgspec.structs.replace(
        entry,
        leader=leader,
        leader_node_epoch=node_epoch,
        leader_epoch=entry.leader_epoch + 1,
        isr=isr,
        changed_by=changed_by,
    )
