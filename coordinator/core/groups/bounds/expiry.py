"""The end of a group without members: its offsets after their retention, one that never committed sooner.

Since when a group is empty is hard state in lived time (see `lived_time`), which no wall clock can push forward. A
group is never forgotten while it has members, while a rebalance is due, or while a running claim is held for somebody.
"""

from coordinator.core.groups.bounds.lived_time import LivedTime
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.held_claims import awaited_owners
from coordinator.core.groups.hard.records import GroupEmptied, GroupExpired
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.core.groups.soft.timers import Timer, TimerKind


def forgotten_in_ms(desk: Desk, group: GroupState) -> int | None:
    """Return after how much of the node's running time a group without members is forgotten."""
    due_ms = None if group.members else desk.timers.get(Timer(TimerKind.EXPIRY, group.group_id))
    return None if due_ms is None else max(0, due_ms - desk.now_ms)


class Expiry:
    """The expiry of the groups of one shard."""

    def __init__(self, desk: Desk, lived: LivedTime) -> None:
        self._desk = desk
        self._lived = lived

    def start(self, group: GroupState) -> None:
        """Go on waiting after a load."""
        if group.members:
            return
        if group.emptied is None:
            self.note_used(group)
        else:
            self._wait(group)

    def note_used(self, group: GroupState) -> None:
        """Begin to wait if the group has no members: it has just lost the last, or somebody else committed for it."""
        if not group.members:
            self._desk.journal.decide(GroupEmptied(group.group_id, self._desk.clock.wall_ms, self._lived.now_ms))
            self._wait(group)

    def _retention_ms(self, group: GroupState) -> int:
        limits = self._desk.limits
        return limits.offsets_retention_ms if group.offsets else limits.empty_group_retention_ms

    def _wait(self, group: GroupState) -> None:
        self._wait_for(group, self._left_ms(group))

    def _left_ms(self, group: GroupState) -> int:
        assert group.emptied is not None, f"group {group.group_id} does not say since when it is empty"
        return group.emptied.lived_ms + self._retention_ms(group) - self._lived.now_ms

    def _wait_for(self, group: GroupState, left_ms: int) -> None:
        timer = Timer(TimerKind.EXPIRY, group.group_id)
        self._desk.timers.set(timer, self._desk.now_ms + max(self._desk.limits.tick_ms, left_ms))

    def is_due(self, group: GroupState) -> None:
        """Forget the group if it is time; otherwise wait for what is left."""
        desk = self._desk
        if group.members or group.emptied is None:
            return
        if self._left_ms(group) > 0:
            self._wait(group)
            return
        soft = desk.soft.get(group.group_id)
        if (soft is not None and soft.causes) or awaited_owners(group):
            self._wait_for(group, desk.limits.empty_group_retention_ms)
            return
        what = f"its {len(group.offsets)} offsets are" if group.offsets else "and never committed, it is"
        why = f"it has had no members for {self._retention_ms(group) // 1000} s; {what} forgotten"
        desk.note(group.group_id, EventKind.GROUP_EXPIRED, why, partitions=group.offsets)
        desk.journal.decide(GroupExpired(group.group_id, why))
        desk.forget_group(group)
