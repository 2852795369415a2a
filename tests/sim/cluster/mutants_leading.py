"""Known mistakes of nodes in how a shard comes to them and goes."""

from typing import Any

from coordinator.core import events
from coordinator.core.cluster_node.replication import Replication
from coordinator.core.groups.shard import Shard

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


def members_expire_at_failover() -> Patches:
    """The session of a member is over when its shard is served by another."""
    rightly = Shard.start

    def start(shard: Shard, incarnation: str, unclean_epoch: int = 0) -> Any:
        yield from rightly(shard, incarnation, unclean_epoch)
        for group_id, soft in shard.desk.soft.items():
            for member_id in soft.sessions:
                shard.desk.sessions.set((group_id, member_id), shard.desk.now_ms)
                soft.sessions[member_id].timeout_ms = 0

    return [(Shard, "start", start)]
