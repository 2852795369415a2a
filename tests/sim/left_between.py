"""What a node still has to do with a group: nothing of it may be forgotten between two turns.

That a partition is let go of late, or a claim given up late, shows in no log while its owner lives or may come back. So
it is looked whether the node still means to: every stop has its deadline, or is asked for once its member has been told
the partition, and every identity whose claims are held for so long at most is being waited for.
"""

from coordinator.core.groups.hard.held_claims import awaited_owners
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.soft.group_soft import GroupSoft
from coordinator.core.groups.soft.timers import Timer, TimerKind
from coordinator.core.node import Node
from tests.sim.log.state import ViolationError


def nothing_is_forgotten(node: Node, group_id: str) -> None:
    """Raise ViolationError when something that a group is waiting for is due at no time."""
    desk = node._shards[node.shard_of(group_id)].desk
    group, soft = desk.group(group_id), desk.soft.get(group_id)
    if group is None or soft is None:
        return
    for member_id in group.stopping:
        _stops_are_timed(group, soft, member_id)
    if group.claim_timeout_ms is not None:
        awaited = awaited_owners(group)
        missing = set(awaited).difference(soft.awaited_since)
        if missing:
            raise ViolationError("forgotten-claims", f"nobody waits for {sorted(missing)}, whose claims are held")
        if awaited and desk.timers.get(Timer(TimerKind.CLAIM_TIMEOUT, group_id)) is None:
            raise ViolationError("forgotten-claims", f"claims are held for {awaited} and no time is set")


def _stops_are_timed(group: GroupState, soft: GroupSoft, member_id: str) -> None:
    session = soft.sessions.get(member_id)
    if session is None:
        return
    missing = group.stopping[member_id].difference(session.stop_deadlines)
    missing = {partition for partition in missing if partition not in session.untold}
    if missing:
        raise ViolationError("forgotten-stop", f"{member_id} is to let go of {sorted(missing)} at no time")
