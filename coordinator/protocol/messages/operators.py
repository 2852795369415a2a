"""The requests of operators to a running group: messages 50 to 69 and their responses, 150 to 169.

Any connection may send them. Each names who asks and why, which the coordinator records and shows on the group's
timeline. With `is_dry_run`, which is the default, the response says what would be done and nothing is changed.
"""

from typing import ClassVar, TypeAlias

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages.message import WireMessage, WireRequest, codes
from coordinator.protocol.parts import (
    ControlDescription,
    ControlsUpTo,
    Listed,
    NewGroup,
    PartitionResult,
    ResetResult,
    ResetTarget,
)


class ChangePause(WireRequest, frozen=True, tag=50):
    """Pause partitions, or the whole group when none are named, or have them run again.

    The pause of a group and the pauses of single partitions are kept apart: each ends only by itself.
    """

    refused_with: ClassVar = codes(
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.STATE_LIMIT_REACHED,
    )

    group_id: str
    partitions: Listed[TopicPartition] | None
    is_paused: bool
    who: str
    why: str = ""
    is_dry_run: bool = True


class ChangeDrain(WireRequest, frozen=True, tag=51):
    """Have a member keep no partitions, until this is taken back or the member is gone."""

    refused_with: ClassVar = codes(
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STATE_LIMIT_REACHED,
    )

    group_id: str
    member_id: str
    is_drained: bool
    who: str
    why: str = ""
    is_dry_run: bool = True


class ResetOffsets(WireRequest, frozen=True, tag=52):
    """Set committed offsets, also of partitions that members own: those are pending until their owners have let go.

    `release_claims` lets a reset pass over the running claim of an owner that is gone. Where there is no such group,
    `new_group` has it made, also without any offsets; of a group that there is it changes nothing.
    """

    refused_with: ClassVar = codes(
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.STATE_LIMIT_REACHED,
    )
    parts_refused_with: ClassVar = codes(
        ErrorCode.PARTITION_OWNED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )

    group_id: str
    targets: Listed[ResetTarget]
    who: str
    why: str = ""
    release_claims: bool = False
    is_dry_run: bool = True
    new_group: NewGroup | None = None


class CancelResets(WireRequest, frozen=True, tag=53):
    """Drop pending resets, all of the group's when no partitions are named.

    Of very many it drops some, and `after` is the `up_to` of the answer before.
    """

    refused_with: ClassVar = codes(ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST)
    parts_refused_with: ClassVar = codes(ErrorCode.INVALID_REQUEST)

    group_id: str
    partitions: Listed[TopicPartition] | None
    who: str
    why: str = ""
    is_dry_run: bool = True
    after: tuple[str, int] | None = None


class DeleteOffsets(WireRequest, frozen=True, tag=54):
    """Delete the committed offsets of partitions that nobody owns."""

    refused_with: ClassVar = codes(ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST)
    parts_refused_with: ClassVar = codes(ErrorCode.PARTITION_OWNED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    group_id: str
    partitions: Listed[TopicPartition]
    who: str
    why: str = ""
    is_dry_run: bool = True


class DeleteGroup(WireRequest, frozen=True, tag=55):
    """Delete a group that has no members, with all that is known of it."""

    refused_with: ClassVar = codes(ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST, ErrorCode.NON_EMPTY_GROUP)

    group_id: str
    who: str
    why: str = ""
    is_dry_run: bool = True


class ReleaseClaims(WireRequest, frozen=True, tag=56):
    """Close running claims whose owner is gone, without a commit; their partitions are anybody's then."""

    refused_with: ClassVar = codes(ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST)
    parts_refused_with: ClassVar = codes(ErrorCode.CLAIM_CLOSED, ErrorCode.PARTITION_OWNED)

    group_id: str
    partitions: Listed[TopicPartition]
    who: str
    why: str = ""
    is_dry_run: bool = True


class DescribeControls(WireRequest, frozen=True, tag=57):
    """List what operators have decided about a group and what stands: pauses, drained members, pending resets.

    It is told in pages; `after` is the `up_to` of the page before.
    """

    refused_with: ClassVar = codes(ErrorCode.GROUP_ID_NOT_FOUND)

    group_id: str
    after: ControlsUpTo | None = None


class ChangePauseResponse(WireMessage, frozen=True, tag=150):
    """Answers ChangePause with the partitions whose state changes; of a large group it names only some."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    partitions: tuple[TopicPartition, ...] = ()
    partition_count: int = 0


class ChangeDrainResponse(WireMessage, frozen=True, tag=151):
    """Answers ChangeDrain with the partitions that the member has now."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    partitions: tuple[TopicPartition, ...] = ()


class ResetOffsetsResponse(WireMessage, frozen=True, tag=152):
    """Answers ResetOffsets, a result a target in the order asked."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    results: tuple[ResetResult, ...] = ()


class CancelResetsResponse(WireMessage, frozen=True, tag=153):
    """Answers CancelResets, a result a partition; `up_to` is there when more are pending than one request drops."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    results: tuple[PartitionResult, ...] = ()
    up_to: tuple[str, int] | None = None


class DeleteOffsetsResponse(WireMessage, frozen=True, tag=154):
    """Answers DeleteOffsets, a result a partition in the order asked; `committed` is the offset before."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    results: tuple[PartitionResult, ...] = ()


class DeleteGroupResponse(WireMessage, frozen=True, tag=155):
    """Answers DeleteGroup."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""


class ReleaseClaimsResponse(WireMessage, frozen=True, tag=156):
    """Answers ReleaseClaims, a result a partition in the order asked."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    results: tuple[PartitionResult, ...] = ()


class DescribeControlsResponse(WireMessage, frozen=True, tag=157):
    """Answers DescribeControls: pauses, then drained members, then pending resets.

    `up_to` is there when there are more than one page holds: where this one ends.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    controls: tuple[ControlDescription, ...] = ()
    up_to: ControlsUpTo | None = None


OperatorRequest: TypeAlias = (
    ChangePause
    | ChangeDrain
    | ResetOffsets
    | CancelResets
    | DeleteOffsets
    | DeleteGroup
    | ReleaseClaims
    | DescribeControls
)
OperatorResponse: TypeAlias = (
    ChangePauseResponse
    | ChangeDrainResponse
    | ResetOffsetsResponse
    | CancelResetsResponse
    | DeleteOffsetsResponse
    | DeleteGroupResponse
    | ReleaseClaimsResponse
    | DescribeControlsResponse
)
