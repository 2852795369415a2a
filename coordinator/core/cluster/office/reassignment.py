"""Moves the replicas of a shard to other nodes, while it is led and what it has acknowledged is on as many disks.

The shard's entry holds the whole state, so the next controller goes on with it. First the new replicas are added; they
follow, and the leader takes them into the in-sync set. When that holds all that are to stay, one of these leads. It
says that it does, and the others leave the set and the replicas, all at once: those that leave delete their logs, so
none goes for a node that is in the set and died a moment ago. Whoever is given another set before that goes there from
where it is, or back.
"""

from collections.abc import Sequence, Set
from typing import Final

import msgspec.structs

from coordinator.core.cluster.office.election import Candidates, may_lead
from coordinator.core.cluster.znodes import ShardEntry

NO_SUCH_SHARD: Final = "there is no such shard, or its entry in ZooKeeper cannot be read"


def target_of(entry: ShardEntry) -> tuple[int, ...]:
    """Return the replicas that a shard has, or is to have when its reassignment is done."""
    return tuple(node for node in entry.replicas if node not in entry.removing)


def why_not(entry: ShardEntry | None, target: Sequence[int], min_insync: int, ready: Set[int]) -> str:
    """Say why a shard cannot be given these replicas; empty if it can."""
    if entry is None:
        return NO_SUCH_SHARD
    twice = next((node for node in target if target.count(node) > 1), None)
    if twice is not None:
        return f"node {twice} is named twice: name {len(set(target))} nodes, or others"
    if not target or len(target) < min_insync:
        return (
            f"replicas would be {len(target)}, fewer than the {min_insync} that have to be in sync "
            "(min_insync_replicas): name more nodes"
        )
    missing = [node for node in target if node not in entry.replicas and node not in ready]
    if missing:
        return (
            f"node {missing[0]} is not there, is being drained or refuses connections of other nodes, so it cannot be "
            "a new replica: `kcoord cluster status` says which"
        )
    return ""


def begin(entry: ShardEntry, target: Sequence[int], changed_by: str = "") -> ShardEntry:
    """Return the entry with the new replicas added; a set that differs in its order alone is there at once.

    A replica that a former reassignment was adding and that is not wanted any more is dropped, unless it is in sync.
    """
    before = [node for node in entry.replicas if node not in entry.adding or node in entry.isr]
    whole = {node for node in entry.replicas if node not in entry.adding}
    replicas = (*target, *(node for node in before if node not in target))
    return msgspec.structs.replace(
        entry,
        replicas=replicas,
        adding=tuple(node for node in target if node not in whole),
        removing=tuple(node for node in replicas if node not in target),
        leader_epoch=entry.leader_epoch + 1,
        changed_by=changed_by,
    )


def finish(
    entry: ShardEntry, candidates: Candidates, min_insync: int, *, knows: bool, changed_by: str = ""
) -> ShardEntry | None:
    """Return the entry with the new replicas alone, if it may be so now; None if not, or if nothing is under way.

    With replicas that are added the whole new set has to be in sync. Where none is, as when a reassignment is taken
    back, the rest has to be as many as may commit. A leader that leaves is followed first, by one that stays: the first
    that may lead. `knows` says that the leader has acknowledged that it leads in this epoch: until then nobody goes.
    """
    target = target_of(entry)
    if not _can_end(entry, target, min_insync):
        return None
    isr = tuple(node for node in entry.isr if node in target)
    if entry.leader not in target:
        leader = next((node for node in target if may_lead(entry, candidates, node)), None)
        if leader is None:
            return None
        return msgspec.structs.replace(
            entry,
            leader=leader,
            leader_node_epoch=candidates.live[leader],
            leader_epoch=entry.leader_epoch + 1,
            changed_by=changed_by,
        )
    if not knows:
        return None
    return msgspec.structs.replace(
        entry,
        leader_epoch=entry.leader_epoch + 1,
        isr=isr,
        replicas=target,
        adding=(),
        removing=(),
        changed_by=changed_by,
    )


def waits_for_word(entry: ShardEntry, min_insync: int) -> bool:
    """Say whether a reassignment can end as soon as the leader, which stays, has acknowledged that it leads."""
    target = target_of(entry)
    return entry.leader in target and _can_end(entry, target, min_insync)


def _can_end(entry: ShardEntry, target: Sequence[int], min_insync: int) -> bool:
    """Say whether a reassignment is under way and enough of those that are to stay are in sync."""
    in_sync = sum(node in target for node in entry.isr)
    return bool(entry.adding or entry.removing) and in_sync >= (len(target) if entry.adding else min_insync)
