"""Micro-batches: ranges are claimed, begun and finished, by their member or by somebody else of its program.

A claim is known by its partition, its owner epoch and its range, so that saying one of these again changes nothing.
"""

from typing import ClassVar

from coordinator.protocol.errors import (
    ErrorCode,
)
from coordinator.protocol.messages.message import WireMessage, WireRequest, codes
from coordinator.protocol.parts import (
    ClaimStatuses,
    FinalOffset,
    Listed,
    Outcomes,
    TopicClaims,
    check_count,
    count_named,
)


class Advance(WireRequest, frozen=True, tag=8):
    """Commit the finished micro-batch, let go of partitions and claim the next ranges, as one record.

    It is keyed by `finished`, the claims of the stream offset it answers, which carry the owner epochs written in
    that stream offset. The same `finished` again replaces whatever was offered. An empty `claims` only commits.

    A micro-batch with too many partitions for one request comes in several, each with its own partitions; all but the
    first have `keeps_offered`, so that they add to what the ones before have claimed.
    """

    refused_with: ClassVar = codes(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.INVALID_REQUEST)
    parts_refused_with: ClassVar = codes(
        ErrorCode.CLAIM_CLOSED,
        ErrorCode.CLAIM_NOT_RUNNING,
        ErrorCode.FENCED_OWNER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    )

    finished: Listed[TopicClaims]
    claims: Listed[TopicClaims]
    released: Listed[FinalOffset] = ()
    keeps_offered: bool = False

    def __post_init__(self) -> None:
        check_count(self.finished)
        check_count(self.claims)

    def named(self) -> int:
        """Return how many partitions the longest of its lists names."""
        return max(count_named(self.finished), count_named(self.claims), len(self.released))


class AdvanceResponse(WireMessage, frozen=True, tag=108):
    """Answers Advance: what became of each finished, claimed and released partition, in the order asked.

    A finished range that was not committed now says why and does not refuse the rest; one that was committed before
    is answered with NONE, and one that nobody has asked to be read is not committed. A range that was not claimed says
    why: it must not be read.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    finished: Outcomes = Outcomes()
    claims: Outcomes = Outcomes()
    released: Outcomes = Outcomes()
    log_end: int | None = None


class ConfirmClaims(WireRequest, frozen=True, tag=9):
    """Ask about claims and mark those still open as running."""

    refused_with: ClassVar = codes(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.INVALID_REQUEST)

    claims: Listed[TopicClaims]

    def __post_init__(self) -> None:
        check_count(self.claims)

    def named(self) -> int:
        """Return how many partitions it names."""
        return count_named(self.claims)


class ConfirmClaimsResponse(WireMessage, frozen=True, tag=109):
    """Answers ConfirmClaims, a status a claim in the order asked."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    claims: ClaimStatuses = ClaimStatuses()
    log_end: int | None = None


class FinishClaims(WireRequest, frozen=True, tag=32):
    """Commit finished micro-batches of a member that cannot say so itself now, on any connection.

    Spark tells its listeners that a micro-batch is done before it asks the source for the next, or never asks. The
    claims are those of the stream offset; each is committed as if the member had named it finished in an Advance, if it
    is running under its owner epoch. The member is told by ClaimsFinished and lets go of what is wanted back; what a
    member that is gone held is free at once. After a start of the node the member has to be back first: it alone knows
    which of its claims it has left out since the log was written, if that is an old copy.
    """

    refused_with: ClassVar = codes(
        ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.INVALID_REQUEST
    )
    parts_refused_with: ClassVar = codes(
        ErrorCode.FENCED_OWNER_EPOCH, ErrorCode.CLAIM_CLOSED, ErrorCode.CLAIM_NOT_RUNNING
    )

    group_id: str
    member_id: str
    claims: Listed[TopicClaims]

    def __post_init__(self) -> None:
        check_count(self.claims)

    def named(self) -> int:
        """Return how many partitions it names."""
        return count_named(self.claims)


class FinishClaimsResponse(WireMessage, frozen=True, tag=132):
    """Answers FinishClaims, a result a claim in the order asked; saying it twice is answered alike."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    results: Outcomes = Outcomes()


class BeginClaims(WireRequest, frozen=True, tag=33):
    """Mark open claims of a member as running, on any connection, for somebody else who has planned to read them.

    Spark plans a batch read in a process of its own, which is not the member's. The answer is that of ConfirmClaims.
    With `is_question` nothing is marked: how each claim stands is answered alone.
    """

    refused_with: ClassVar = codes(ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST)

    group_id: str
    member_id: str
    claims: Listed[TopicClaims]
    is_question: bool = False

    def __post_init__(self) -> None:
        check_count(self.claims)

    def named(self) -> int:
        """Return how many partitions it names."""
        return count_named(self.claims)


class BeginClaimsResponse(WireMessage, frozen=True, tag=133):
    """Answers BeginClaims, a status a claim in the order asked."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    claims: ClaimStatuses = ClaimStatuses()
