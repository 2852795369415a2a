"""Resets of committed offsets: asked of Kafka, planned in a record, done once nobody owns the partition.

A reset is computed when it is asked for and not again: what a dry run shows is what is written. A partition that a
member owns is stopped there first; until it has let go, or is fenced for not doing so, the reset is pending and can be
cancelled. Doing it is `reconciler`'s business, in the place where it would grant the partition.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from coordinator.core.effects import OffsetToResolve, ResolveOffsets
from coordinator.core.events import OffsetsResolved, ResolvedOffset, TopicMetadata
from coordinator.core.groups.bounds.allowance import why_no_more_groups, why_no_room_for_resets
from coordinator.core.groups.bounds.expiry import Expiry
from coordinator.core.groups.bounds.settings import why_bad_settings
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.controls import say_by
from coordinator.core.groups.hard.held_claims import why_left
from coordinator.core.groups.hard.operator_records import PlannedReset, ResetsCancelled, ResetsPlanned
from coordinator.core.groups.hard.records import GroupSettings, TopicSeen
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.operators.reset_rules import NoOffset, new_offset, to_ask, why_bad_target
from coordinator.core.groups.partitions.partition_table import TopicPartition, is_same_topic
from coordinator.core.groups.reconciliation.reconciler import Reconciler
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_NAMED, why_bad_id
from coordinator.protocol.messages import ErrorResponse
from coordinator.protocol.messages.operators import (
    CancelResets,
    CancelResetsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import PartitionResult, ResetResult, ResetTarget


@dataclass(slots=True)
class _Question:
    """A reset that waits for Kafka."""

    connection_id: int
    correlation_id: int
    request: ResetOffsets
    group: GroupState
    """The group as it was asked about, which is not a later one of the same name."""
    is_new: bool
    """True where the group is to be made, and is known to nobody until then."""
    wall_ms: int
    answers: dict[TopicPartition, dict[int, ResolvedOffset]] = field(default_factory=dict)
    topics: dict[str, TopicMetadata] = field(default_factory=dict)
    """The topics that Kafka was asked about, as it has them."""
    open_lookups: int = 0


class Resets:
    """The resets of the groups of one shard."""

    def __init__(self, desk: Desk, reconciler: Reconciler, expiry: Expiry, new_lookup_id: Callable[[], int]) -> None:
        self._desk = desk
        self._expiry = expiry
        self._reconciler = reconciler
        self._new_lookup_id = new_lookup_id
        self._lookups: dict[int, tuple[_Question, dict[TopicPartition, int]]] = {}

    # ---- asked for --------------------------------------------------------------------------------------------------

    def handle(self, connection_id: int, correlation_id: int, found: GroupState | None, request: ResetOffsets) -> None:
        """Answer ResetOffsets, at once or when Kafka has said what the partitions hold."""
        refusal = self._why_not_made(connection_id, request) if found is None else None
        refusal = refusal or self._why_not_asked(request)
        if refusal is not None:
            response = ResetOffsetsResponse(error=refusal[0], message=refusal[1])
            self._desk.respond(connection_id, correlation_id, response)
            return
        group = found or GroupState(request.group_id)
        wall_ms = self._desk.clock.wall_ms
        question = _Question(connection_id, correlation_id, request, group, found is None, wall_ms)
        by_timestamp: list[dict[TopicPartition, int]] = []
        for target in request.targets:
            partition = (target.topic, target.partition)
            asked = to_ask(target, self._committed(group, partition), question.wall_ms)
            for index, timestamp_ms in enumerate(asked):
                if index == len(by_timestamp):
                    by_timestamp.append({})
                by_timestamp[index][partition] = timestamp_ms
        question.open_lookups = len(by_timestamp)
        for index, wanted in enumerate(by_timestamp):  # the first one names every topic
            lookup_id = self._new_lookup_id()
            self._lookups[lookup_id] = (question, wanted)
            self._desk.effects.append(
                ResolveOffsets(
                    lookup_id,
                    tuple(OffsetToResolve(*partition, at) for partition, at in wanted.items()),
                    asks_topics=index == 0,
                )
            )
        if not by_timestamp:
            self._decide(question)

    def _why_not_made(self, connection_id: int, request: ResetOffsets) -> tuple[ErrorCode, str] | None:
        """Say why a group cannot be made."""
        desk = self._desk
        assert request.new_group is not None, "a reset without it is refused where there is no group"
        if why_bad := why_bad_id(request.group_id):
            return ErrorCode.INVALID_GROUP_ID, f"the group id is not allowed: {why_bad}"
        if why_bad := why_bad_settings(request.new_group, desk.limits):
            return ErrorCode.INVALID_REQUEST, why_bad
        return why_no_more_groups(desk, desk.connections[connection_id])

    def _why_not_asked(self, request: ResetOffsets) -> tuple[ErrorCode, str] | None:
        if not request.targets and request.new_group is None:
            return ErrorCode.INVALID_REQUEST, "no partition is named; name at least one"
        if len({(target.topic, target.partition) for target in request.targets}) < len(request.targets):
            return ErrorCode.INVALID_REQUEST, "a partition is named twice; name each one once"
        for target in request.targets:
            why = why_bad_target(target)
            if why is not None:
                return ErrorCode.INVALID_REQUEST, why
        most = self._desk.limits.reset_lookups_max
        if len(self._lookups) >= most:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{most} questions of resets wait for Kafka already; try again"
        return None

    # ---- answered ---------------------------------------------------------------------------------------------------

    def awaits(self, lookup_id: int) -> bool:
        """True when an answer of Kafka is meant for a reset."""
        return lookup_id in self._lookups

    def handle_resolved(self, event: OffsetsResolved) -> None:
        """Take in an answer of Kafka; with the last one the reset is decided."""
        question, wanted = self._lookups.pop(event.lookup_id)
        found = {(answer.topic, answer.partition): answer for answer in event.offsets}
        for partition, timestamp_ms in wanted.items():
            answer = found.get(partition) or ResolvedOffset(*partition, None, why="it gave no answer")
            question.answers.setdefault(partition, {})[timestamp_ms] = answer
        question.topics.update(event.topics)
        question.open_lookups -= 1
        if not question.open_lookups and question.connection_id in self._desk.connections:
            self._decide(question)

    def _decide(self, question: _Question) -> None:
        desk, request, group = self._desk, question.request, question.group
        refusal = self._why_another(question)
        if refusal is None and question.is_new:  # others may have been made while Kafka was asked
            refusal = why_no_more_groups(desk, desk.connections[question.connection_id])
        if refusal is not None:
            response = ResetOffsetsResponse(error=refusal[0], message=refusal[1])
            desk.respond(question.connection_id, question.correlation_id, response)
            return
        owner = desk.connections[question.connection_id].owner
        no_room = why_no_room_for_resets(desk, None if question.is_new else group, request, owner)
        if no_room is not None:  # others have taken it while Kafka was asked
            desk.respond(question.connection_id, question.correlation_id, ErrorResponse(*no_room))
            return
        planned: dict[TopicPartition, PlannedReset] = {}
        results = [self._plan(group, target, question, planned) for target in request.targets]
        if not request.is_dry_run:
            if question.is_new and (planned or not request.targets):
                group = self._made(request, owner)
            if planned:
                self._carry_out(group, question, planned)
                results = [_as_done(group, result) for result in results]
        desk.respond(question.connection_id, question.correlation_id, ResetOffsetsResponse(results=tuple(results)))

    def _why_another(self, question: _Question) -> tuple[ErrorCode, str] | None:
        """Say that the group is not the one any more that was asked about."""
        found, group_id = self._desk.group(question.request.group_id), question.request.group_id
        if question.is_new:
            if found is None:
                return None
            why = f"group {group_id} was made by others while the partitions were looked up; ask again"
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, why
        if found is question.group:
            return None
        return ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} was deleted meanwhile"

    def _made(self, request: ResetOffsets, owner: str) -> GroupState:
        """Make a group as its first member would, but that nobody has named its topics yet."""
        desk, settings = self._desk, request.new_group
        assert settings is not None, "a group that is to be made has settings"
        desk.journal.decide(
            GroupSettings(
                request.group_id,
                0,
                "",
                settings.reset_policy,
                settings.handover,
                is_target_stale=False,
                claim_timeout_ms=settings.claim_timeout_ms,
                owner=owner,
            )
        )
        group = desk.journal.state.groups[request.group_id]
        self._expiry.note_used(group)
        return group

    def _plan(
        self, group: GroupState, target: ResetTarget, question: _Question, planned: dict[TopicPartition, PlannedReset]
    ) -> ResetResult:
        partition = (target.topic, target.partition)
        asked = question.topics.get(target.topic) if partition in question.answers else None
        old = self._committed(group, partition, asked)
        grant = group.grants.get(partition)
        is_gone = grant is not None and grant.member_id not in group.members
        if grant is not None and is_gone and group.claims.is_running(partition) and not question.request.release_claims:
            why = why_left(group, grant.member_id)
            return ResetResult(*partition, ErrorCode.PARTITION_OWNED, why, old)
        topic_id = self._desk.topic_id_now(group, target.topic, asked)
        if topic_id and not is_same_topic(target.topic_id, topic_id):
            why = (
                f"topic {target.topic} was deleted and made again: its id was {target.topic_id[:50]}, and is {topic_id}"
                "; name an offset of the topic as it is now"
            )
            return ResetResult(*partition, ErrorCode.UNKNOWN_TOPIC_ID, why, old)
        found = new_offset(target, old, question.answers.get(partition, {}), question.wall_ms)
        if isinstance(found, NoOffset):
            return ResetResult(*partition, found.error, found.why, old)
        committed = group.offsets.get(partition)
        planned[partition] = PlannedReset(
            target.topic,
            topic_id or target.topic_id or (committed.topic_id if committed is not None else ""),
            target.partition,
            found.offset,
            found.leader_epoch,
            question.request.release_claims,
        )
        return ResetResult(
            *partition,
            message=found.remark,
            old_offset=old,
            new_offset=found.offset,
            is_pending=grant is not None and not is_gone,
        )

    def _committed(
        self, group: GroupState, partition: TopicPartition, asked: TopicMetadata | None = None
    ) -> int | None:
        """Return the committed offset of a partition of the topic as it is now."""
        topic_id = self._desk.topic_id_now(group, partition[0], asked)
        return group.committed_offset(partition, topic_id) if topic_id else group.offsets.offset_of(partition)

    def _carry_out(self, group: GroupState, question: _Question, planned: dict[TopicPartition, PlannedReset]) -> None:
        desk, request = self._desk, question.request
        self._look_at_topics_made_again(group, {topic for topic, _ in planned}, question.topics)
        desk.journal.decide(
            ResetsPlanned(group.group_id, tuple(planned.values()), request.who, request.why, desk.clock.wall_ms)
        )
        owners = {group.grants[partition].member_id for partition in planned if partition in group.grants}
        owned = [
            partition
            for partition in planned
            if (grant := group.grants.get(partition)) is not None and grant.member_id in group.members
        ]
        if owned:
            why = f"{say_by(request.who, request.why)}; waits until the owners have let go"
            desk.note(group.group_id, EventKind.RESET_PLANNED, why, partitions=owned)
        self._reconciler.reconcile(group.group_id, planned, ())
        self._reconciler.unsettle(group.group_id, owners)
        self._expiry.note_used(group)

    def _look_at_topics_made_again(
        self, group: GroupState, topics: Iterable[str], as_asked: Mapping[str, TopicMetadata]
    ) -> None:
        """Have the group see topics that nobody reads as they are now; their resets would be dropped as older ones'."""
        desk = self._desk
        for topic in sorted(topics):
            seen, known = group.topics.get(topic), desk.catalog.topic(topic) or as_asked.get(topic)
            if seen is None or known is None or desk.topic_id_now(group, topic, known) == seen.topic_id:
                continue
            desk.journal.decide(TopicSeen(group.group_id, topic, known.topic_id, 0, known.partitions))
            why = f"topic {topic} was deleted and made again, and offsets of it as it is now are set"
            desk.note(group.group_id, EventKind.TOPIC_RECREATED, why)
            if group.members:  # a topic that is seen anew outdates the target, also of members that do not read it
                self._reconciler.window.note_change(group.group_id, f"topic {topic} changed")

    # ---- cancelled --------------------------------------------------------------------------------------------------

    def cancel(self, group: GroupState, request: CancelResets) -> CancelResetsResponse:
        """Drop pending resets; what was asked back for them is given back when it has been let go.

        Of all those of a group as many as one request may name: the tool asks again for the rest.
        """
        wanted, up_to = _named(group, request)
        self._desk.meter.note(len(wanted))
        found = tuple(dict.fromkeys(partition for partition in wanted if partition in group.controls.resets))
        if found and not request.is_dry_run:
            self._desk.journal.decide(
                ResetsCancelled(group.group_id, found, request.who, request.why, self._desk.clock.wall_ms)
            )
            why = say_by(request.who, request.why)
            self._desk.note(group.group_id, EventKind.RESET_CANCELLED, why, partitions=found)
            self._reconciler.reconcile(group.group_id, found, ())
        return CancelResetsResponse(results=tuple(self._cancel_results(group, wanted, found)), up_to=up_to)

    def _cancel_results(
        self, group: GroupState, wanted: Iterable[TopicPartition], found: tuple[TopicPartition, ...]
    ) -> Iterable[PartitionResult]:
        cancelled = set(found)
        for partition in wanted:
            committed = self._committed(group, partition)
            if partition in cancelled:
                yield PartitionResult(*partition, committed=committed)
            else:
                why = "no reset of it is pending"
                yield PartitionResult(*partition, ErrorCode.INVALID_REQUEST, why, committed)


def _named(group: GroupState, request: CancelResets) -> tuple[Sequence[TopicPartition], TopicPartition | None]:
    """Return the partitions whose resets are to be dropped, and where they end if there are more pending."""
    if request.partitions is not None:
        return request.partitions, None
    pending, after = group.controls.resets, request.after
    if not request.is_dry_run:  # what is dropped is not there any more when the rest is asked for
        some = sorted(islice(pending, MAX_NAMED))
        return some, some[-1] if len(pending) > MAX_NAMED else None
    behind = [partition for partition in pending if after is None or partition > after]
    some = heapq.nsmallest(MAX_NAMED, behind)
    return some, some[-1] if len(behind) > MAX_NAMED else None


def _as_done(group: GroupState, result: ResetResult) -> ResetResult:
    """Return a result as it is once the reset has been decided."""
    is_pending = (result.topic, result.partition) in group.controls.resets
    if result.error is not ErrorCode.NONE or result.is_pending == is_pending:
        return result
    return ResetResult(
        result.topic,
        result.partition,
        message=result.message,
        old_offset=result.old_offset,
        new_offset=result.new_offset,
        is_pending=is_pending,
    )
