"""Committed offsets, apart from micro-batches: commit some, read some or all."""

from typing import ClassVar

from coordinator.protocol.errors import (
    ErrorCode,
)
from coordinator.protocol.ids import (
    TopicPartition,
)
from coordinator.protocol.messages.message import WireMessage, WireRequest, codes
from coordinator.protocol.parts import (
    CommittedOffset,
    Listed,
    PartitionResult,
    TopicOffsets,
    check_count,
    count_named,
)


class CommitOffsets(WireRequest, frozen=True, tag=6):
    """Commit offsets, as the owner under its owner epochs or as an operator for partitions nobody owns."""

    refused_with: ClassVar = codes(
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    )
    parts_refused_with: ClassVar = codes(
        ErrorCode.FENCED_OWNER_EPOCH,
        ErrorCode.PARTITION_OWNED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.STATE_LIMIT_REACHED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )

    group_id: str
    offsets: Listed[TopicOffsets]

    def __post_init__(self) -> None:
        check_count(self.offsets)

    def named(self) -> int:
        """Return how many partitions it names."""
        return count_named(self.offsets)


class CommitOffsetsResponse(WireMessage, frozen=True, tag=106):
    """Answers CommitOffsets: how many offsets were accepted, and what was refused, each with its reason."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    refused: tuple[PartitionResult, ...] = ()
    accepted: int = 0


class FetchOffsets(WireRequest, frozen=True, tag=7):
    """Read the committed offsets of some partitions, or of all when none are named.

    They are told in pages, those that are named in the order asked; `after` is the `up_to` of the page before.
    """

    refused_with: ClassVar = codes(ErrorCode.GROUP_ID_NOT_FOUND)

    group_id: str
    partitions: Listed[TopicPartition] | None = None
    after: TopicPartition | None = None


class FetchOffsetsResponse(WireMessage, frozen=True, tag=107):
    """Answers FetchOffsets; a partition without a committed offset is absent.

    `up_to` is there when there are more than one page holds, and is the last partition of this one.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    offsets: tuple[CommittedOffset, ...] = ()
    up_to: TopicPartition | None = None
