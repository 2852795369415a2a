"""Known mistakes of nodes in how a shard comes and goes: loads, resignations, confirmations, installations."""

from dataclasses import replace
from typing import Any

from coordinator.core import events
from coordinator.core.cluster_node.replication import Replication
from coordinator.core.groups.shard import Shard
from coordinator.core.replica import effects as wanted
from coordinator.core.replica import follower, step
from coordinator.core.replica.replica import Leader, Replica
from coordinator.core.shards.loads import Loads
from coordinator.core.shards.shard_rack import ShardRack

Patches = list[tuple[Any, str, Any]]


def deposed_stays_open() -> Patches:
    """A leader that is deposed goes on as if it were not."""
    rightly = Replication.coordinate

    def coordinate(replication: Replication, event: Any) -> None:
        if not isinstance(event, events.LeadershipTaken):
            rightly(replication, event)

    return [(Replication, "coordinate", coordinate)]


def unload_wipes_newer() -> Patches:
    """A shard is taken from its coordinator only after it was given to it again."""
    rightly = Replication.coordinate
    late: dict[int, dict[int, Any]] = {}

    def coordinate(replication: Replication, event: Any) -> None:
        its = late.setdefault(id(replication), {})
        if isinstance(event, events.LeadershipTaken):
            its[event.shard] = event
            return
        rightly(replication, event)
        if isinstance(event, events.LeadershipGiven) and event.shard in its:
            rightly(replication, its.pop(event.shard))

    return [(Replication, "coordinate", coordinate)]


def load_of_former_epoch() -> Patches:
    """A load counts whatever epoch it was begun in."""

    def is_awaited(rack: ShardRack, event: Any) -> bool:
        return rack.loads.is_awaited(event.shard)

    return [(ShardRack, "_is_awaited", is_awaited), (Loads, "begin", _begins_and_keeps)]


def _begins_and_keeps(loads: Loads, index: int) -> None:
    loads.not_led.discard(index)
    loads.waiting.add(index)


def members_expire_at_failover() -> Patches:
    """The session of a member is over when its shard is served by another."""
    rightly = Shard.start

    def start(shard: Shard, incarnation: str) -> Any:
        yield from rightly(shard, incarnation)
        for group_id, soft in shard.desk.soft.items():
            for member_id in soft.sessions:
                shard.desk.sessions.set((group_id, member_id), shard.desk.now_ms)
                soft.sessions[member_id].timeout_ms = 0

    return [(Shard, "start", start)]


def confirms_while_leading() -> Patches:
    """A follower that is to lead goes on to confirm the rounds of the leader before it."""
    rightly = step._leave

    def leave(replica: Replica, effects: list[wanted.Effect]) -> None:
        if isinstance(replica.role, Leader):
            rightly(replica, effects)

    return [(step, "_leave", leave)]


def install_keeps_tail() -> Patches:
    """What a log had above a snapshot that has replaced it is taken for being there."""
    rightly = follower.was_installed

    def was_installed(replica: Replica, event: Any, effects: list[wanted.Effect]) -> Replica:
        after = rightly(replica, event, effects)
        if after is replica:
            return after
        end = max(after.log.end, replica.log.end)
        return replace(after, log=replace(after.log, end=end, durable_end=end))

    return [(follower, "was_installed", was_installed)]
