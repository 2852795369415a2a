"""Commits of offsets by members and by operators: what becomes a record, what is refused, and how many are accepted.

What may be committed is decided in `committed_offsets`; claims are committed elsewhere, by what finishes them.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from coordinator.core.groups.bounds.allowance import (
    Refused,
    growth_of_offsets,
    offsets_with_room,
    why_no_more_groups,
)
from coordinator.core.groups.bounds.expiry import Expiry
from coordinator.core.groups.bounds.known_ends import without_beyond_end
from coordinator.core.groups.bounds.unknown_topics import without_unknown_topics
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.records import CommittedPart, GroupSettings, OffsetsCommitted, TopicCommit
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.offsets import committed_offsets
from coordinator.core.groups.offsets.topic_ids import TopicIds
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation.read_only import why_read_only
from coordinator.core.groups.reconciliation.reconciler import Reconciler
from coordinator.core.groups.soft.sessions import Connection, MemberSession, Owned
from coordinator.core.security.acl import Operation, ResourceKind
from coordinator.core.security.authorizer import refusal
from coordinator.core.security.rights import Asked
from coordinator.protocol.columns import one_by_one
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import why_bad_id
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse, ErrorResponse
from coordinator.protocol.parts import PartitionResult, TopicOffsets


class Commits:
    """The commits in the groups of one shard."""

    def __init__(self, desk: Desk, reconciler: Reconciler, expiry: Expiry, topic_ids: TopicIds) -> None:
        self._desk = desk
        self._topic_ids = topic_ids
        self._reconciler = reconciler
        self._expiry = expiry

    def commit(self, connection: Connection, request: CommitOffsets) -> CommitOffsetsResponse | ErrorResponse:
        """Return the answer to CommitOffsets of a member or of an operator, with what it says decided."""
        if connection.member_id is None:
            may, forbidden = self._forbidden(connection, request.offsets)
            if not forbidden:
                return self._by_operator(connection, request)
            if not may:
                return CommitOffsetsResponse(refused=forbidden)
            response = self._by_operator(connection, replace(request, offsets=may))
            if isinstance(response, ErrorResponse) or response.error is not ErrorCode.NONE:
                return response
            return replace(response, refused=(*forbidden, *response.refused))
        if connection.group_id != request.group_id:
            why = f"this connection is a member of group {connection.group_id}; commit for another on another one"
            return CommitOffsetsResponse(error=ErrorCode.INVALID_REQUEST, message=why)
        group = self._desk.group(request.group_id)
        assert group is not None
        refused, accepted = self.by_member(group, connection, request.offsets)
        return CommitOffsetsResponse(refused=refused, accepted=accepted)

    def by_member(
        self, group: GroupState, connection: Connection, asked: Sequence[TopicOffsets]
    ) -> tuple[tuple[PartitionResult, ...], int]:
        """Commit for a member, as one record unless a topic is named twice; return the refused and how many are not."""
        member_id, session = connection.member_id, connection.session
        assert member_id is not None
        assert session is not None
        read_only = why_read_only(group, member_id)
        if read_only is not None:
            return _refused_all(group, asked, read_only), 0
        wall_ms = self._desk.clock.wall_ms
        forbidden: tuple[PartitionResult, ...] = ()
        if self._desk.authorizer is not None:
            asked, forbidden = self._forbidden(connection, asked)
        asked, beyond_end = without_beyond_end(self._desk, connection, group, asked)
        refused = [*forbidden, *beyond_end]
        accepted = 0
        parts: list[CommittedPart] = []
        together: list[TopicCommit] = []
        seen: dict[str, None] = {}
        for topic in asked:
            if topic.topic in seen:  # what comes later follows what was committed before it
                self._decide(group, parts, together)
                parts, together = [], []
                seen.clear()
            seen[topic.topic] = None
            topic_id = _owned_topic_id(group, member_id, session, topic)
            pieces = (
                committed_offsets.commit_together(group, topic_id, topic, wall_ms) if topic_id is not None else None
            )
            if pieces is not None:
                accepted += len(topic.partitions)
                together += pieces
                continue
            committed, results = committed_offsets.commit_by_owner(group, member_id, one_by_one((topic,)), wall_ms)
            committed, no_room = offsets_with_room(self._desk, group, committed, growth_of_offsets(group, parts))
            results = _with_refusals(group, results, no_room)
            not_accepted = _refusals(results)
            accepted += len(results) - len(not_accepted)
            refused += not_accepted
            parts += committed
        self._decide(group, parts, together)
        return tuple(refused), accepted

    def _forbidden(
        self, connection: Connection, asked: Sequence[TopicOffsets]
    ) -> tuple[Sequence[TopicOffsets], tuple[PartitionResult, ...]]:
        """Return the topics whose offsets the principal of a connection may commit, and the refusal of the others.

        A refusal does not tell what is committed of a topic.
        """
        authorizer = self._desk.authorizer
        if authorizer is None:
            return asked, ()
        may = authorizer.matcher(connection.principal, Operation.READ, ResourceKind.TOPIC).allows
        forbidden = [topic for topic in asked if not may(topic.topic)]
        if not forbidden:
            return asked, ()
        refused = []
        for topic in forbidden:
            why = refusal(connection.principal, Asked(Operation.READ, ResourceKind.TOPIC, topic.topic))
            refused += [PartitionResult(topic.topic, number, why.error, why.message) for number in topic.partitions]
        return tuple(topic for topic in asked if may(topic.topic)), tuple(refused)

    def _decide(self, group: GroupState, parts: Sequence[CommittedPart], together: Sequence[TopicCommit]) -> None:
        if parts or together:
            self._desk.journal.decide(OffsetsCommitted(group.group_id, tuple(parts), tuple(together)))

    def _by_operator(self, connection: Connection, request: CommitOffsets) -> CommitOffsetsResponse | ErrorResponse:
        desk, group_id = self._desk, request.group_id
        if any(epoch is not None for asked in request.offsets for epoch in asked.owner_epochs):
            why = "an owner epoch is named, but no member is registered on this connection; register first"
            return ErrorResponse(error=ErrorCode.UNKNOWN_MEMBER_ID, message=why)
        if why_bad := why_bad_id(group_id):
            why = f"the group id is not allowed: {why_bad}"
            return CommitOffsetsResponse(error=ErrorCode.INVALID_GROUP_ID, message=why)
        group = desk.group(group_id)
        is_new = group is None
        if group is None:
            no_more = why_no_more_groups(desk, connection)
            if no_more is not None:
                return CommitOffsetsResponse(*no_more)
            group = GroupState(group_id, owner=connection.owner)
        topic_ids = {
            asked.topic: topic.topic_id
            for asked in request.offsets
            if (topic := desk.catalog.topic(asked.topic)) is not None
        }
        may_be, of_unknown = without_unknown_topics(desk, connection, group, request.offsets)
        can_be, beyond_end = without_beyond_end(desk, connection, group, may_be)
        asked = one_by_one(can_be)
        committed, results = committed_offsets.commit_by_operator(group, asked, topic_ids, desk.clock.wall_ms)
        committed, no_room = offsets_with_room(desk, group, committed, is_new_group=is_new)
        results = _with_refusals(group, results, no_room)
        if committed:
            if is_new:
                settings = GroupSettings(group_id, 0, "", None, group.handover, False, owner=group.owner)
                desk.journal.decide(settings)
            desk.journal.decide(OffsetsCommitted(group_id, committed))
            self._topic_ids.note(committed)
            self._expiry.note_used(desk.journal.state.groups[group_id])
            if not is_new and group.members:  # else nobody waits for an offset, and to look would keep something
                partitions = [(part.topic, part.partition) for part in committed]
                self._reconciler.reconcile(group_id, partitions, ())
        refused = _refusals(results)
        return CommitOffsetsResponse(refused=(*of_unknown, *beyond_end, *refused), accepted=len(results) - len(refused))


def _owned_topic_id(group: GroupState, member_id: str, session: MemberSession, asked: TopicOffsets) -> str | None:
    """Return what `offsets.owned_topic_id` does, without looking again at partitions that have not changed hands."""
    owned = session.owned
    if (
        owned is not None
        and owned.grants_changes == group.grants.changes
        and owned.owner_epochs == asked.owner_epochs
        and owned.partitions == asked.partitions
        and owned.topic == asked.topic
    ):
        return owned.topic_id
    topic_id = committed_offsets.owned_topic_id(group, member_id, asked)
    if topic_id is not None:
        session.owned = Owned(group.grants.changes, asked.topic, topic_id, asked.partitions, asked.owner_epochs)
    return topic_id


def _refused_all(group: GroupState, asked: Sequence[TopicOffsets], why: str) -> tuple[PartitionResult, ...]:
    results = []
    for wish in one_by_one(asked):
        committed = group.offsets.get((wish.topic, wish.partition))
        offset = committed.offset if committed is not None else None
        results.append(committed_offsets.refused((wish.topic, wish.partition), ErrorCode.INVALID_REQUEST, why, offset))
    return tuple(results)


def _with_refusals(
    group: GroupState, results: tuple[PartitionResult, ...], refused: Mapping[TopicPartition, Refused]
) -> tuple[PartitionResult, ...]:
    """Return the results with those refused for which there is no room."""
    if not refused:
        return results
    told = []
    for result in results:
        partition = (result.topic, result.partition)
        if partition in refused and result.error is ErrorCode.NONE:
            before = group.offsets.get(partition)
            committed = before.offset if before is not None else None
            result = committed_offsets.refused(partition, *refused[partition], committed)
        told.append(result)
    return tuple(told)


def _refusals(results: Sequence[PartitionResult]) -> tuple[PartitionResult, ...]:
    return tuple(result for result in results if result.error is not ErrorCode.NONE)
