"""What members are told of what they have: all of it when they register, and what is new after each reconciliation.

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
from coordinator.core.groups.status import is_complete


class Tellings:
    """The pushes that tell the members of one shard what they have."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def whole(self, group_id: str, member_id: str, owned: Collection[TopicPartition]) -> None:
        """Tell a member that has just registered all it has, in order; what is not named it does not have."""
        group, soft = self._desk.group(group_id), self._desk.soft_of(group_id)
        assert group is not None, f"group {group_id} is not known"
        self._assign_streams(group, member_id)
        self._push(group, soft, member_id, owned, complete=is_complete(group, member_id))

    def news(self, turn: Round, member_id: str) -> None:
        """Tell a member what a round has granted it, and that it has all it is to have once it has."""
        granted: Collection[TopicPartition] = turn.granted.get(member_id, ())
        if restreamed := self._assign_streams(turn.group, member_id):
            granted = (*granted, *sorted(restreamed.difference(granted)))
        complete = is_complete(turn.group, member_id)
        if complete:
            turn.soft.unsettled.discard(member_id)
        if granted or (complete and not turn.soft.sessions[member_id].is_told_complete):
            self._push(turn.group, turn.soft, member_id, granted, turn.notes.get(member_id, ()), complete=complete)

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
        most = desk.limits.push_max_partitions
        catalog = desk.catalog
        for push in start_fetchers(group, member_id, partitions, catalog, most, is_complete=complete, notes=notes):
            desk.push(session.connection_id, push)
        session.is_told_complete = complete
