"""The time of a rebalance: what has changed is gathered in a window, which the first change opens.

A small group has one window of one length. In a large one each change puts its end off, within a bound, and so does a
node that is behind: members that it has not heard yet would have the rebalance done again at once. Partitions that lost
their owner wait for no window, unless one has just ended.
"""

from typing import Final

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.soft.group_soft import GroupSoft
from coordinator.core.groups.soft.timers import Timer, TimerKind

_LOOK_AGAIN_MS: Final = 10
"""The pause after which a window is looked at again that was to end while the node was behind."""


class RebalanceWindow:
    """The windows of the groups of one shard."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def note_change(self, group_id: str, cause: str, *, is_urgent: bool = False) -> None:
        """Have the group rebalanced when the window that the first change opened ends.

        A large group waits until changes pause, within bounds: a rebalance of it is dear, and members come by the
        thousand. An urgent change, by which partitions lost their owner, waits for no window unless one has just ended.
        """
        desk = self._desk
        group, soft = desk.group(group_id), desk.soft_of(group_id)
        assert group is not None, f"group {group_id} is not known"
        limits = desk.limits
        soft.causes.append(cause)
        if soft.changing_since_ms is None:
            soft.changing_since_ms = desk.now_ms
        if soft.rebalance_by_ms is None:
            longest_ms = limits.rebalance_window_max_ms if self.is_large(group) else limits.rebalance_window_ms
            soft.rebalance_by_ms = desk.now_ms + longest_ms
        if is_urgent:
            soft.rebalance_by_ms = min(soft.rebalance_by_ms, max(desk.now_ms, soft.window_closed_until_ms))
        deadline_ms = min(soft.rebalance_by_ms, desk.now_ms + limits.rebalance_window_ms)
        desk.timers.set(Timer(TimerKind.WINDOW, group_id), deadline_ms)

    def look_again(self, group_id: str) -> None:
        """Keep a window that has ended open until the next step, while what the rebalance before began goes on."""
        self._desk.timers.set(Timer(TimerKind.WINDOW, group_id), self._desk.now_ms)

    def put_off(self, group: GroupState, soft: GroupSoft) -> bool:
        """Keep the window of a large group open if the node is behind and the bound allows it; say whether it does."""
        desk = self._desk
        by_ms = soft.rebalance_by_ms
        if not desk.clock.is_behind or by_ms is None or by_ms <= desk.now_ms or not self.is_large(group):
            return False
        deadline_ms = min(by_ms, desk.now_ms + _LOOK_AGAIN_MS)
        desk.timers.set(Timer(TimerKind.WINDOW, group.group_id), deadline_ms)
        return True

    def close(self, group_id: str) -> str:
        """End the window because the rebalance begins now; return what has changed, in words for the timeline."""
        desk = self._desk
        soft = desk.soft_of(group_id)
        why = "; ".join(soft.causes[:5]) + (f"; and {len(soft.causes) - 5} more" if len(soft.causes) > 5 else "")
        soft.causes.clear()
        soft.rebalance_by_ms = None
        soft.window_closed_until_ms = desk.now_ms + desk.limits.rebalance_window_ms
        desk.timers.cancel(Timer(TimerKind.WINDOW, group_id))
        return why

    def is_large(self, group: GroupState) -> bool:
        """True when the group's partitions are more than one slice, or what its members are due so far is."""
        known = (group.topics.get(topic) for topic in group.by_facts.subscribers)
        partitions = sum(topic.partitions for topic in known if topic is not None)
        return max(partitions, group.target_count) > self._desk.limits.slice_partitions
