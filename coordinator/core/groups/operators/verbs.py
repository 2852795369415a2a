"""The acts of operators on running groups: pause, drain, delete, release; resets are in a file of their own.

Every verb is checked against the group as it is, recorded with who and why, and put on the group's timeline. A dry run
goes the same way up to the record. What follows for owners is `reconciler`'s business.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import assert_never

from coordinator.core.events import OffsetsResolved
from coordinator.core.groups.bounds.allowance import why_no_room, why_no_room_for_resets
from coordinator.core.groups.bounds.expiry import Expiry
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.account import bytes_of_decree
from coordinator.core.groups.hard.controls import Decree, say_by
from coordinator.core.groups.hard.held_claims import why_left
from coordinator.core.groups.hard.operator_records import (
    ClaimsReleased,
    DrainChanged,
    GroupDeleted,
    OffsetsDeleted,
    PauseChanged,
)
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.operators.control_pages import describe_controls
from coordinator.core.groups.operators.resets import Resets
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation.reconciler import Reconciler
from coordinator.core.groups.soft.timeline import EventKind, Partitions
from coordinator.core.groups.status import group_status
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import ErrorResponse, Response
from coordinator.protocol.messages.operators import (
    CancelResets,
    ChangeDrain,
    ChangeDrainResponse,
    ChangePause,
    ChangePauseResponse,
    DeleteGroup,
    DeleteGroupResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    DescribeControls,
    DescribeControlsResponse,
    OperatorRequest,
    ReleaseClaims,
    ReleaseClaimsResponse,
    ResetOffsets,
)
from coordinator.protocol.parts import PartitionResult

MAX_WHO_LENGTH = 250
"""Longest name of somebody who does something to a group, in characters."""

MAX_WHY_LENGTH = 1000
"""Longest reason, in characters."""


class Operators:
    """The operators of the groups of one shard."""

    def __init__(self, desk: Desk, reconciler: Reconciler, expiry: Expiry, new_lookup_id: Callable[[], int]) -> None:
        self._desk = desk
        self._reconciler = reconciler
        self._resets = Resets(desk, reconciler, expiry, new_lookup_id)

    def handle(self, connection_id: int, correlation_id: int, request: OperatorRequest) -> None:
        """Answer a request of an operator."""
        desk = self._desk
        refusal = self._why_refused(request, desk.connections[connection_id].owner)
        if refusal is not None:
            desk.respond(connection_id, correlation_id, ErrorResponse(*refusal))
            return
        group = desk.group(request.group_id)
        if isinstance(request, ResetOffsets):
            self._resets.handle(connection_id, correlation_id, group, request)
            return
        assert group is not None
        response: Response
        match request:
            case ChangePause():
                response = self._change_pause(group, request)
            case ChangeDrain():
                response = self._change_drain(group, request)
            case CancelResets():
                response = self._resets.cancel(group, request)
            case DeleteOffsets():
                response = self._delete_offsets(group, request)
            case DeleteGroup():
                response = self._delete_group(group, request)
            case ReleaseClaims():
                response = self._release_claims(group, request)
            case DescribeControls():
                response = self._describe_controls(group, request)
            case _:
                assert_never(request)
        desk.respond(connection_id, correlation_id, response)

    def _describe_controls(self, group: GroupState, request: DescribeControls) -> DescribeControlsResponse:
        found, up_to = describe_controls(group.controls, request.after, self._desk.limits.page_items)
        self._desk.meter.note(len(found))
        return DescribeControlsResponse(controls=found, up_to=up_to)

    def awaits(self, lookup_id: int) -> bool:
        """True when an answer of Kafka is meant for an operator."""
        return self._resets.awaits(lookup_id)

    def handle_resolved(self, event: OffsetsResolved) -> None:
        """Take in an answer of Kafka that an operator waits for."""
        self._resets.handle_resolved(event)

    def _why_refused(self, request: OperatorRequest, owner: str) -> tuple[ErrorCode, str] | None:
        makes_group = isinstance(request, ResetOffsets) and request.new_group is not None
        if self._desk.group(request.group_id) is None and not makes_group:
            return ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {request.group_id[:250]!r}"
        if isinstance(request, DescribeControls):
            return None
        if not request.who or len(request.who) > MAX_WHO_LENGTH or not request.who.isprintable():
            return ErrorCode.INVALID_REQUEST, f"say who asks, in 1 to {MAX_WHO_LENGTH} printable characters"
        if len(request.why) > MAX_WHY_LENGTH or not (request.why == "" or request.why.isprintable()):
            return ErrorCode.INVALID_REQUEST, f"say why in at most {MAX_WHY_LENGTH} printable characters"
        named = len(_named(request))
        if named > MAX_NAMED:
            why = f"{named} partitions are named and at most {MAX_NAMED} may be; ask for the rest in further requests"
            return ErrorCode.INVALID_REQUEST, why
        self._desk.meter.note(named)
        return self._why_no_room(request, owner)

    def _why_no_room(self, request: OperatorRequest, owner: str) -> tuple[ErrorCode, str] | None:
        """Say why there is no room for what a request would have the group remember."""
        group = self._desk.group(request.group_id)
        if isinstance(request, ResetOffsets):
            return why_no_room_for_resets(self._desk, group, request, owner)
        if isinstance(request, DescribeControls):
            return None
        assert group is not None
        decree = Decree(request.who, request.why, 0)
        controls, more = group.controls, 0
        match request:
            case ChangePause(is_paused=True, partitions=None):
                more = 0 if controls.group_pause is not None else bytes_of_decree("", decree)
            case ChangePause(is_paused=True):
                named = [one for one in request.partitions or () if one not in controls.paused]
                more = sum(bytes_of_decree(topic, decree) for topic, _ in named)
            case ChangeDrain(is_drained=True):
                more = 0 if request.member_id in controls.drained else bytes_of_decree(request.member_id, decree)
        return why_no_room(self._desk, group, more, may_use_reserve=True)

    # ---- pause and resume -------------------------------------------------------------------------------------------

    def _change_pause(self, group: GroupState, request: ChangePause) -> ChangePauseResponse:
        desk, controls = self._desk, group.controls
        touched: tuple[TopicPartition, ...]
        is_large = request.partitions is None and group.target_count + len(group.grants) > MAX_NAMED
        if request.partitions is None:
            is_news = (controls.group_pause is not None) != request.is_paused
            known = islice(group.grants, MAX_NAMED) if is_large else set(group.target_owners) | set(group.grants)
            touched = tuple(partition for partition in sorted(known) if is_news and partition not in controls.paused)
        else:
            unknown = [partition for partition in request.partitions if not _is_known(group, partition)]
            if unknown and request.is_paused:
                why = f"the group does not know {_names(unknown)}; name partitions that it reads"
                return ChangePauseResponse(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=why)
            touched = tuple(
                dict.fromkeys(
                    partition for partition in request.partitions if (partition in controls.paused) != request.is_paused
                )
            )
            is_news = bool(touched)
        if is_news and not request.is_dry_run:
            named = None if request.partitions is None else touched
            desk.journal.decide(
                PauseChanged(group.group_id, named, request.is_paused, request.who, request.why, desk.clock.wall_ms)
            )
            kind = EventKind.PAUSED if request.is_paused else EventKind.RESUMED
            what = "" if named is not None else "the whole group, "
            partitions: Partitions = group.grants if is_large else touched
            desk.note(group.group_id, kind, what + say_by(request.who, request.why), partitions=partitions)
            if is_large:
                self._reconciler.look_at_all(group.group_id)
            else:
                self._bring_about(group, touched)
        count = len(group.grants) if is_large and is_news else 0
        return ChangePauseResponse(partitions=touched, partition_count=count)

    def _bring_about(self, group: GroupState, partitions: Sequence[TopicPartition]) -> None:
        """Stop and grant as what has been decided wants, and tell all whose share it changes."""
        owners = {group.grants[partition].member_id for partition in partitions if partition in group.grants}
        owners |= {group.target_owners[partition] for partition in partitions if partition in group.target_owners}
        self._reconciler.unsettle(group.group_id, owners)
        self._reconciler.reconcile(group.group_id, partitions, owners)

    # ---- drain ------------------------------------------------------------------------------------------------------

    def _change_drain(self, group: GroupState, request: ChangeDrain) -> ChangeDrainResponse:
        desk = self._desk
        if request.member_id not in group.members:
            why = f"group {group.group_id} has no member {request.member_id[:250]!r}; list its members"
            return ChangeDrainResponse(error=ErrorCode.UNKNOWN_MEMBER_ID, message=why)
        owned = tuple(group.owned_by(request.member_id).in_order())
        is_news = (request.member_id in group.controls.drained) != request.is_drained
        if is_news and not request.is_dry_run:
            desk.journal.decide(
                DrainChanged(
                    group.group_id,
                    request.member_id,
                    request.is_drained,
                    request.who,
                    request.why,
                    desk.clock.wall_ms,
                )
            )
            by = say_by(request.who, request.why)
            kind = EventKind.DRAINED if request.is_drained else EventKind.UNDRAINED
            desk.note(group.group_id, kind, by, member_id=request.member_id, partitions=owned)
            self._reconciler.window.note_change(group.group_id, f"{request.member_id} was {kind} {by}")
        return ChangeDrainResponse(partitions=owned)

    # ---- deletion ---------------------------------------------------------------------------------------------------

    def _delete_offsets(self, group: GroupState, request: DeleteOffsets) -> DeleteOffsetsResponse:
        desk = self._desk
        results = []
        deleted: list[TopicPartition] = []
        for partition in dict.fromkeys(request.partitions):
            grant, committed = group.grants.get(partition), group.offsets.get(partition)
            if grant is not None:
                why = f"{grant.member_id} owns it; pause it, or have its owner leave"
                if grant.member_id not in group.members:
                    why = why_left(group, grant.member_id)
                offset = committed.offset if committed is not None else None
                results.append(PartitionResult(*partition, ErrorCode.PARTITION_OWNED, why, offset))
            elif committed is None:
                why = "the group has no committed offset for it"
                results.append(PartitionResult(*partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why))
            else:
                deleted.append(partition)
                results.append(PartitionResult(*partition, committed=committed.offset))
        if deleted and not request.is_dry_run:
            desk.journal.decide(
                OffsetsDeleted(group.group_id, tuple(deleted), request.who, request.why, desk.clock.wall_ms)
            )
            why = say_by(request.who, request.why)
            desk.note(group.group_id, EventKind.OFFSETS_DELETED, why, partitions=deleted)
        return DeleteOffsetsResponse(results=tuple(results))

    def _delete_group(self, group: GroupState, request: DeleteGroup) -> DeleteGroupResponse:
        desk, group_id = self._desk, group.group_id
        if group.members:
            state = group_status(group, desk.soft.get(group_id))
            why = (
                f"group {group_id} has {len(group.members)} members and its state is {state}; a group is deleted when "
                "it is Empty"
            )
            return DeleteGroupResponse(error=ErrorCode.NON_EMPTY_GROUP, message=why)
        if not request.is_dry_run:
            desk.note(group_id, EventKind.GROUP_DELETED, say_by(request.who, request.why), partitions=group.offsets)
            desk.journal.decide(GroupDeleted(group_id, request.who, request.why, desk.clock.wall_ms))
            for lookup_id in [known for known, lookup in desk.lookups.items() if lookup.group_id == group_id]:
                del desk.lookups[lookup_id]
            desk.forget_group(group)
        return DeleteGroupResponse()

    # ---- claims -----------------------------------------------------------------------------------------------------

    def _release_claims(self, group: GroupState, request: ReleaseClaims) -> ReleaseClaimsResponse:
        desk = self._desk
        results = []
        released: list[TopicPartition] = []
        for partition in dict.fromkeys(request.partitions):
            grant, committed = group.grants.get(partition), group.offsets.get(partition)
            offset = committed.offset if committed is not None else None
            if grant is None or not group.claims.is_running(partition):
                why = "no claim on it is running"
                results.append(PartitionResult(*partition, ErrorCode.CLAIM_CLOSED, why, offset))
            elif grant.member_id in group.members:
                facts = group.members[grant.member_id].facts
                why = f"its owner {grant.member_id} lives, as process {facts.pid} on {facts.host}; stop or drain it"
                results.append(PartitionResult(*partition, ErrorCode.PARTITION_OWNED, why, offset))
            else:
                released.append(partition)
                results.append(PartitionResult(*partition, committed=offset))
        if released and not request.is_dry_run:
            desk.journal.decide(
                ClaimsReleased(group.group_id, tuple(released), request.who, request.why, desk.clock.wall_ms)
            )
            why = say_by(request.who, request.why)
            desk.note(group.group_id, EventKind.CLAIM_RELEASED, why, partitions=released)
            self._reconciler.window.note_change(group.group_id, "running claims were released")
            self._reconciler.reconcile(group.group_id, released, ())
        return ReleaseClaimsResponse(results=tuple(results))


def _named(request: OperatorRequest) -> Sequence[object]:
    """Return the partitions that a request names."""
    if isinstance(request, ResetOffsets):
        return request.targets
    return getattr(request, "partitions", None) or ()


def _is_known(group: GroupState, partition: TopicPartition) -> bool:
    seen = group.topics.get(partition[0])
    in_topic = seen is not None and 0 <= partition[1] < seen.partitions
    return in_topic or partition in group.offsets or partition in group.grants


def _names(partitions: Sequence[TopicPartition]) -> str:
    first = ", ".join(f"{topic[:250]}-{number}" for topic, number in partitions[:5])
    return f"{first} and {len(partitions) - 5} more" if len(partitions) > 5 else first
