"""What operators ask of a running group: messages 50 to 69 and their responses, 150 to 169.

Any connection may send them. Each names who asks and why, which the coordinator records and shows on the group's
timeline. With `is_dry_run`, which is the default, the response says what would be done and nothing is changed.
"""

from typing import TypeAlias

import msgspec

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import ControlDescription, Listed, PartitionResult, ResetResult, ResetTarget


class _Message(msgspec.Struct, frozen=True, array_like=True, tag_field="type"):
    """A message; each class names its number as its tag."""


class ChangePause(_Message, frozen=True, tag=50):
    """Pause partitions, or the whole group when none are named, or have them run again.

    The pause of a group and the pauses of single partitions are kept apart: each ends only by itself.
    """

    group_id: str
    partitions: Listed[tuple[str, int]] | None
    is_paused: bool
    who: str
    why: str = ""
    is_dry_run: bool = True


class ChangeDrain(_Message, frozen=True, tag=51):
    """Have a member keep no partitions, until this is taken back or the member is gone."""

    group_id: str
    member_id: str
    is_drained: bool
    who: str
    why: str = ""
    is_dry_run: bool = True


class ResetOffsets(_Message, frozen=True, tag=52):
    """Set committed offsets, also of partitions that members own: those are pending until their owners have let go.

    `release_claims` lets a reset pass over the running claim of an owner that is gone.
    """

    group_id: str
    targets: Listed[ResetTarget]
    who: str
    why: str = ""
    release_claims: bool = False
    is_dry_run: bool = True


class CancelResets(_Message, frozen=True, tag=53):
    """Drop pending resets, all of the group's when no partitions are named."""

    group_id: str
    partitions: Listed[tuple[str, int]] | None
    who: str
    why: str = ""
    is_dry_run: bool = True


class DeleteOffsets(_Message, frozen=True, tag=54):
    """Delete the committed offsets of partitions that nobody owns."""

    group_id: str
    partitions: Listed[tuple[str, int]]
    who: str
    why: str = ""
    is_dry_run: bool = True


class DeleteGroup(_Message, frozen=True, tag=55):
    """Delete a group that has no members, with all that is known of it."""

    group_id: str
    who: str
    why: str = ""
    is_dry_run: bool = True


class ReleaseClaims(_Message, frozen=True, tag=56):
    """Close running claims whose owner is gone, without a commit; their partitions are anybody's then."""

    group_id: str
    partitions: Listed[tuple[str, int]]
    who: str
    why: str = ""
    is_dry_run: bool = True


class DescribeControls(_Message, frozen=True, tag=57):
    """List what operators have decided about a group and what stands: pauses, drained members, pending resets."""

    group_id: str


class ChangePauseResponse(_Message, frozen=True, tag=150):
    """Answers ChangePause with the partitions whose state changes."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    partitions: tuple[tuple[str, int], ...] = ()


class ChangeDrainResponse(_Message, frozen=True, tag=151):
    """Answers ChangeDrain with the partitions that the member has now."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    partitions: tuple[tuple[str, int], ...] = ()


class ResetOffsetsResponse(_Message, frozen=True, tag=152):
    """Answers ResetOffsets, a result a target in the order asked."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    results: tuple[ResetResult, ...] = ()


class CancelResetsResponse(_Message, frozen=True, tag=153):
    """Answers CancelResets, a result a partition."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    results: tuple[PartitionResult, ...] = ()


class DeleteOffsetsResponse(_Message, frozen=True, tag=154):
    """Answers DeleteOffsets, a result a partition in the order asked; `committed` is the offset before."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    results: tuple[PartitionResult, ...] = ()


class DeleteGroupResponse(_Message, frozen=True, tag=155):
    """Answers DeleteGroup."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""


class ReleaseClaimsResponse(_Message, frozen=True, tag=156):
    """Answers ReleaseClaims, a result a partition in the order asked."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    results: tuple[PartitionResult, ...] = ()


class DescribeControlsResponse(_Message, frozen=True, tag=157):
    """Answers DescribeControls: pauses, then drained members, then pending resets."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    controls: tuple[ControlDescription, ...] = ()


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
