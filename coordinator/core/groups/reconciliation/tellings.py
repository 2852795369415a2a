"""Telling members what they have: all of it when they register, and what is new after a reconciliation.

The streams of a member that wants to be told them are decided here too, for they follow what it has. Who owns a
partition is hard state and decided by reconciliation.
"""

from collections.abc import Collection, Sequence

from coordinator.core.groups.assignment.streams import assign_streams
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation.pushes import start_fetchers
from coordinator.core.groups.reconciliation.round_report import Round
from coordinator.core.groups.soft.group_soft import GroupSoft
from coordinator.core.groups.soft.timers import Timer, TimerKind
from coordinator.core.groups.status import is_complete


class Tellings:
    """The pushes that tell the members of one shard what they have."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def begin(self, group_id: str, member_id: str) -> list[TopicPartition]:
        """Begin to tell a member that has just registered all it has, and return what is told now, in order.

        What is not named by the end it does not have. One push is for one turn.
        """
        group, session = self._desk.group(group_id), self._desk.soft_of(group_id).sessions[member_id]
        assert group is not None, f"group {group_id} is not known"
        self._assign_streams(group, member_id)
        session.untold = group.owned_by(member_id).copy()
        return self.go_on(group, member_id)

    def go_on(self, group: GroupState, member_id: str) -> list[TopicPartition]:
        """Tell a member more of what it had when it registered and still has, and return that, in order.

        What it has lost meanwhile it was told when it lost it.
        """
        desk, soft = self._desk, self._desk.soft_of(group.group_id)
        untold = soft.sessions[member_id].untold
        some = untold.take(desk.limits.push_max_partitions)
        told = [one for one in some if (grant := group.grants.get(one)) is not None and grant.member_id == member_id]
        self._push(group, soft, member_id, told, complete=is_complete(group, member_id))
        if untold:
            desk.timers.set(Timer(TimerKind.TELL, group.group_id, member_id), desk.now_ms)
        return told

    def news(self, turn: Round, member_id: str) -> None:
        """Tell a member what a round has granted it, and that it has all it is to have once it has."""
        group, soft = turn.group, turn.soft
        granted: Collection[TopicPartition] = turn.granted.get(member_id, ())
        if group.members[member_id].facts.wants_streams:
            restreamed = self._assign_streams(group, member_id)
            granted = (*granted, *sorted(restreamed.difference(granted)))
        complete = is_complete(group, member_id)
        if complete:
            soft.unsettled.discard(member_id)
        session = soft.sessions[member_id]
        if granted or (complete and not session.is_told_complete and not session.untold):
            self._push(group, soft, member_id, granted, turn.notes.get(member_id, ()), complete=complete)

    def _assign_streams(self, group: GroupState, member_id: str) -> frozenset[TopicPartition]:
        """Spread a member's partitions over its streams, if it wants it, and return those that change theirs."""
        record = assign_streams(group, member_id)
        if record is None:
            return frozenset()
        self._desk.journal.decide(record)
        return frozenset((topic, number) for topic, number, _ in record.streams)

    def _push(
        self,
        group: GroupState,
        soft: GroupSoft,
        member_id: str,
        partitions: Collection[TopicPartition],
        notes: Sequence[str] = (),
        *,
        complete: bool,
    ) -> None:
        desk, session = self._desk, soft.sessions[member_id]
        most, catalog, to_follow = desk.limits.push_max_partitions, desk.catalog, len(session.untold)
        complete = complete and not to_follow
        for push in start_fetchers(
            group, member_id, partitions, catalog, most, is_complete=complete, notes=notes, to_follow=to_follow
        ):
            desk.push(session.connection_id, push)
        session.is_told_complete = complete
