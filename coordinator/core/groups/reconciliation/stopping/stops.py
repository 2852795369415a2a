"""Stops in progress as members see them: the pushes that ask for partitions, and the deadline of each.

Which partitions a member has to let go of is hard state and decided by reconciliation. The deadlines are soft: after a
load, or when a member comes back, each counts in full anew.
"""

from collections.abc import Collection, Iterable

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation.pushes import stop_fetchers
from coordinator.core.groups.reconciliation.stopping import patience
from coordinator.core.groups.soft.timers import Timer, TimerKind


class Stops:
    """The stops in progress of the groups of one shard."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def push(self, group_id: str, member_id: str, partitions: Collection[TopicPartition]) -> None:
        """Ask a member to let go of partitions within the time it has for each, counted from now.

        Of a partition that it is still to be told it is asked after that: it would take the grant for a new one.
        """
        if not partitions:
            return
        desk = self._desk
        group, soft = desk.group(group_id), desk.soft_of(group_id)
        assert group is not None, f"group {group_id} is not known"
        session = soft.sessions[member_id]
        session.is_told_complete = False
        if session.untold:
            partitions = [partition for partition in partitions if partition not in session.untold]
        by_timeout: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            by_timeout.setdefault(patience.timeout_ms(group, soft, partition), []).append(partition)
        for timeout_ms, stopping in by_timeout.items():
            session.stop_deadlines.update(dict.fromkeys(stopping, desk.now_ms + timeout_ms))
            for push in stop_fetchers(group, stopping, timeout_ms, desk.limits.push_max_partitions):
                desk.push(session.connection_id, push)
        self.set_timer(group_id, member_id)

    def forget(self, group_id: str, member_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Drop the deadlines of partitions that a member has let go of."""
        session = self._desk.session_of(group_id, member_id)
        if session is not None and session.stop_deadlines:
            for partition in partitions:
                session.stop_deadlines.pop(partition, None)
                session.overstaying_since_ms.pop(partition, None)
            self.set_timer(group_id, member_id)

    def set_timer(self, group_id: str, member_id: str) -> None:
        """Have the earliest deadline of a member's stops looked at."""
        timer = Timer(TimerKind.STOP, group_id, member_id)
        deadlines = self._desk.soft_of(group_id).sessions[member_id].stop_deadlines
        if deadlines:
            self._desk.timers.set(timer, min(deadlines.values()))
        else:
            self._desk.timers.cancel(timer)
