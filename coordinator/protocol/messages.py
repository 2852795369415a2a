"""Every message of protocol version 1, and its form on the wire.

A message is a msgpack array that begins with its number. Members and tools send *requests*; each gets exactly one
*response* with its correlation id. The coordinator sends *pushes* (correlation id 0), which get no response: what a
member did about them it says in requests of its own, so that saying it again after a lost connection is harmless.

The format only grows: a new field comes last and has a default; a number is never used again. Absent is None, never 0:
an offset of 0 always means offset 0.
"""

from typing import ClassVar, Final, TypeAlias

from coordinator.protocol import operator_messages as operator
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import READ_UNCOMMITTED, TopicPartition
from coordinator.protocol.message import WireMessage, WireRequest, codes
from coordinator.protocol.operator_messages import OperatorRequest, OperatorResponse
from coordinator.protocol.parts import (
    Claim,
    ClaimStatuses,
    CommittedOffset,
    DescribedUpTo,
    FinalOffset,
    GroupEvent,
    GroupSummary,
    Listed,
    ListedUpTo,
    LogPosition,
    LostPosition,
    MemberDescription,
    NodeAddress,
    Outcomes,
    OwnedPartition,
    PartitionDescription,
    PartitionResult,
    ResetPolicy,
    StartHint,
    Subscription,
    TopicClaims,
    TopicOffsets,
    check_count,
)
from coordinator.protocol.pushes import ClaimsFinished as ClaimsFinished
from coordinator.protocol.pushes import Fenced as Fenced
from coordinator.protocol.pushes import FetcherTaken as FetcherTaken
from coordinator.protocol.pushes import Probe as Probe
from coordinator.protocol.pushes import StartFetcher as StartFetcher
from coordinator.protocol.pushes import StopFetcher as StopFetcher

# ---- requests -------------------------------------------------------------------------------------------------------


class FindCoordinator(WireRequest, frozen=True, tag=1):
    """Ask any node which node coordinates a group."""

    refused_with: ClassVar = codes(ErrorCode.INVALID_GROUP_ID)

    group_id: str


class RegisterConsumer(WireRequest, frozen=True, tag=2):
    """Join a group, or come back to it, on this connection.

    An empty member id asks for a new one. `claims` are those the member still holds or its checkpoint shows; any
    other claim of the same identity is dropped. Those that came before on this connection in ListClaims count as
    named here. Nothing reads `owned`: what a member has it is told anew; leave it empty. No ping interval means a third
    of the session time-out; no reset policy and no claim time-out mean the group's. With `wants_streams` the
    coordinator spreads the member's partitions over its streams. `is_returning` says that the member has been in the
    group before, as its checkpoint or the process itself knows; then topics it brings start at earliest.

    `application` names the program that the member belongs to, the same for each of its members and for those of no
    other program. Two members of one program whose subscriptions overlap halve what each is to read; the second is
    refused, unless both say `shares_application`. A member that does not `commits` reads and writes no offset: its
    policy and its hints are for itself, and it claims nothing.

    `handover` says what becomes of a running claim whose owner is gone: `takeover` closes it when the partition has
    its next owner; `hold` keeps it until the same instance id is back, an operator lets it go, or the claim time-out
    is over.

    `isolation_level` says up to where the member reads: read_uncommitted to the high watermark, read_committed to the
    last stable offset. A start at the end is resolved accordingly.

    `log` is the newest position of the group's log that the member was told, by itself or in its checkpoint. If this
    log never was there, it went back: then every grant of the group is over, and owner epochs begin above all of them.
    """

    refused_with: ClassVar = codes(
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.PARTITION_OWNED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.STATE_LIMIT_REACHED,
        ErrorCode.MEMBER_ID_IN_USE,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.SECOND_MEMBER_OF_APPLICATION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )

    group_id: str
    member_id: str
    incarnation: str
    subscription: Subscription
    client_id: str
    pid: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    instance_id: str | None = None
    streams: int = 1
    assignors: Listed[str] = ()
    ping_interval_ms: int | None = None
    auto_commit: bool = False
    reset_policy: ResetPolicy | None = None
    claims: Listed[Claim] = ()
    hints: Listed[StartHint] = ()
    owned: Listed[OwnedPartition] = ()
    handover: str = "takeover"
    wait_for_topics: bool = False
    claim_timeout_ms: int | None = None
    wants_streams: bool = False
    application: str | None = None
    shares_application: bool = False
    commits: bool = True
    is_returning: bool = False
    isolation_level: str = READ_UNCOMMITTED
    log: LogPosition | None = None


class Ping(WireRequest, frozen=True, tag=3):
    """Say that the member lives; with auto commit on, the offsets it has finished."""

    refused_with: ClassVar = codes(ErrorCode.UNKNOWN_MEMBER_ID)
    parts_refused_with: ClassVar = codes(
        ErrorCode.FENCED_OWNER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.STATE_LIMIT_REACHED,
    )

    member_epoch: int
    offsets: Listed[TopicOffsets] = ()

    def __post_init__(self) -> None:
        check_count(self.offsets)


class FetcherStarted(WireRequest, frozen=True, tag=4):
    """Say that the member has taken over these partitions."""

    refused_with: ClassVar = codes(ErrorCode.UNKNOWN_MEMBER_ID)
    parts_refused_with: ClassVar = codes(ErrorCode.FENCED_OWNER_EPOCH)

    partitions: Listed[OwnedPartition]


class FetcherStopped(WireRequest, frozen=True, tag=5):
    """Let go of partitions, with final offsets; saying it twice is answered alike."""

    refused_with: ClassVar = codes(ErrorCode.UNKNOWN_MEMBER_ID)
    parts_refused_with: ClassVar = codes(ErrorCode.INVALID_REQUEST, ErrorCode.OFFSET_METADATA_TOO_LARGE)

    partitions: Listed[FinalOffset]


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
        ErrorCode.INVALID_REQUEST,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.STATE_LIMIT_REACHED,
    )

    group_id: str
    offsets: Listed[TopicOffsets]

    def __post_init__(self) -> None:
        check_count(self.offsets)


class FetchOffsets(WireRequest, frozen=True, tag=7):
    """Read the committed offsets of some partitions, or of all when none are named.

    They are told in pages, those that are named in the order asked; `after` is the `up_to` of the page before.
    """

    refused_with: ClassVar = codes(ErrorCode.GROUP_ID_NOT_FOUND)

    group_id: str
    partitions: Listed[TopicPartition] | None = None
    after: TopicPartition | None = None


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


class ConfirmClaims(WireRequest, frozen=True, tag=9):
    """Ask about claims and mark those still open as running."""

    refused_with: ClassVar = codes(ErrorCode.UNKNOWN_MEMBER_ID)

    claims: Listed[TopicClaims]

    def __post_init__(self) -> None:
        check_count(self.claims)


class LeaveGroup(WireRequest, frozen=True, tag=10):
    """Leave the group for good, with final offsets."""

    refused_with: ClassVar = codes(ErrorCode.UNKNOWN_MEMBER_ID)

    partitions: Listed[FinalOffset] = ()


class ListGroups(WireRequest, frozen=True, tag=11):
    """List the groups of this node, in pages; `after` is the `up_to` of the page before."""

    after: ListedUpTo | None = None


class DescribeGroup(WireRequest, frozen=True, tag=12):
    """Describe one group: members, partitions, offsets, ends and claims, in pages.

    `after` is the `up_to` of the page before.
    """

    refused_with: ClassVar = codes(ErrorCode.GROUP_ID_NOT_FOUND)

    group_id: str
    after: DescribedUpTo | None = None


class ListGroupEvents(WireRequest, frozen=True, tag=13):
    """Read a group's timeline after a sequence number: for a further page, the `up_to` of the one before."""

    refused_with: ClassVar = codes(ErrorCode.GROUP_ID_NOT_FOUND)

    group_id: str
    after_sequence: int = 0


class ReportOutOfRange(WireRequest, frozen=True, tag=30):
    """Say that Kafka no longer has, or does not have yet, the offset at which the member is to read partitions.

    The coordinator asks Kafka itself. Where neither the position nor the group's offset lies within [log start, high
    watermark], the start is resolved anew by the group's policy and granted under a new owner epoch; claims on the
    partition are closed. Anything else leaves the partition as it is.
    """

    refused_with: ClassVar = codes(ErrorCode.UNKNOWN_MEMBER_ID)
    parts_refused_with: ClassVar = codes(
        ErrorCode.FENCED_OWNER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.OFFSET_OUT_OF_RANGE
    )

    partitions: Listed[LostPosition]


class ListClaims(WireRequest, frozen=True, tag=31):
    """Name claims and hints of the registration that follows on this connection, when it cannot name them all itself.

    It may be sent several times. What they name counts as if RegisterConsumer had named it. When one is refused because
    too much is listed, so are those after it and RegisterConsumer, since open claims that a member does not show are
    closed; after that the connection may list anew.
    """

    refused_with: ClassVar = codes(ErrorCode.INVALID_REQUEST)

    claims: Listed[Claim] = ()
    hints: Listed[StartHint] = ()


class FinishClaims(WireRequest, frozen=True, tag=32):
    """Commit finished micro-batches of a member that cannot say so itself now, on any connection.

    Spark tells its listeners that a micro-batch is done before it asks the source for the next, or never asks. The
    claims are those of the stream offset; each is committed as if the member had named it finished in an Advance, if it
    is running under its owner epoch. The member is told by ClaimsFinished and lets go of what is wanted back; what a
    member that is gone held is free at once. After a start of the node the member has to be back first: it alone knows
    which of its claims it has left out since the log was written, if that is an old copy.
    """

    refused_with: ClassVar = codes(ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    parts_refused_with: ClassVar = codes(
        ErrorCode.FENCED_OWNER_EPOCH, ErrorCode.CLAIM_CLOSED, ErrorCode.CLAIM_NOT_RUNNING
    )

    group_id: str
    member_id: str
    claims: Listed[TopicClaims]

    def __post_init__(self) -> None:
        check_count(self.claims)


class BeginClaims(WireRequest, frozen=True, tag=33):
    """Mark open claims of a member as running, on any connection, for somebody else who has planned to read them.

    Spark plans a batch read in a process of its own, which is not the member's. The answer is that of ConfirmClaims.
    With `is_question` nothing is marked: how each claim stands is answered alone.
    """

    refused_with: ClassVar = codes(ErrorCode.GROUP_ID_NOT_FOUND)

    group_id: str
    member_id: str
    claims: Listed[TopicClaims]
    is_question: bool = False

    def __post_init__(self) -> None:
        check_count(self.claims)


# ---- responses ------------------------------------------------------------------------------------------------------


class ErrorResponse(WireMessage, frozen=True, tag=100):
    """Refuses any request: for a message that is not known here, or one that is not allowed on this connection."""

    error: ErrorCode
    message: str


class FindCoordinatorResponse(WireMessage, frozen=True, tag=101):
    """Answers FindCoordinator."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    coordinator: NodeAddress | None = None
    shard: int = 0
    leader_epoch: int = 0
    nodes: tuple[NodeAddress, ...] = ()
    kafka_bootstrap: tuple[str, ...] = ()
    kafka_cluster_id: str | None = None


class RegisterConsumerResponse(WireMessage, frozen=True, tag=102):
    """Answers RegisterConsumer; partitions follow in StartFetcher.

    `log` is how far the group's log has come. Every owner epoch and every `log_end` that follows on this connection
    says that it has come further: a member keeps the greatest, and shows it when it registers again.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    member_id: str = ""
    member_epoch: int = 0
    group_epoch: int = 0
    session_timeout_ms: int = 0
    ping_interval_ms: int = 0
    claims: ClaimStatuses = ClaimStatuses()
    kafka_cluster_id: str | None = None
    kafka_bootstrap: tuple[str, ...] = ()
    log: LogPosition | None = None


class PingResponse(WireMessage, frozen=True, tag=103):
    """Answers Ping; how many of its offsets were accepted, and what was refused."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    member_epoch: int = 0
    group_epoch: int = 0
    refused: tuple[PartitionResult, ...] = ()
    accepted: int = 0


class FetcherStartedResponse(WireMessage, frozen=True, tag=104):
    """Answers FetcherStarted: the partitions that are not the member's under the owner epochs it named."""

    refused: tuple[PartitionResult, ...] = ()


class FetcherStoppedResponse(WireMessage, frozen=True, tag=105):
    """Answers FetcherStopped, a result a partition in the order asked."""

    results: tuple[PartitionResult, ...] = ()


class CommitOffsetsResponse(WireMessage, frozen=True, tag=106):
    """Answers CommitOffsets: how many offsets were accepted, and what was refused, each with its reason."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    refused: tuple[PartitionResult, ...] = ()
    accepted: int = 0


class FetchOffsetsResponse(WireRequest, frozen=True, tag=107):
    """Answers FetchOffsets; a partition without a committed offset is absent.

    `up_to` is there when there are more than one page holds, and is the last partition of this one.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    offsets: tuple[CommittedOffset, ...] = ()
    up_to: TopicPartition | None = None


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


class ConfirmClaimsResponse(WireMessage, frozen=True, tag=109):
    """Answers ConfirmClaims, a status a claim in the order asked."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    claims: ClaimStatuses = ClaimStatuses()
    log_end: int | None = None


class LeaveGroupResponse(WireMessage, frozen=True, tag=110):
    """Answers LeaveGroup."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""


class ListGroupsResponse(WireRequest, frozen=True, tag=111):
    """Answers ListGroups, sorted by group id within a page.

    `up_to` is there when there are more groups. A group that is there all the while is on one page.
    """

    groups: tuple[GroupSummary, ...] = ()
    up_to: ListedUpTo | None = None


class DescribeGroupResponse(WireRequest, frozen=True, tag=112):
    """Answers DescribeGroup; members by id, then partitions by topic and number.

    `up_to` is there when there is more. Every page says what holds for the group as of itself: what changes between
    two pages may be on both of them as it was at each.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    group_id: str = ""
    state: str = ""
    group_epoch: int = 0
    assignor: str = ""
    reset_policy: ResetPolicy | None = None
    handover: str = ""
    members: tuple[MemberDescription, ...] = ()
    partitions: tuple[PartitionDescription, ...] = ()
    forgotten_in_ms: int | None = None
    up_to: DescribedUpTo | None = None
    bytes: int = 0
    kafka_failure: str = ""


class ListGroupEventsResponse(WireMessage, frozen=True, tag=113):
    """Answers ListGroupEvents, oldest first; the node keeps a bounded number a group.

    `up_to` is there when there are more than one page holds: the sequence number at which this one ends.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    events: tuple[GroupEvent, ...] = ()
    up_to: int | None = None


class ReportOutOfRangeResponse(WireMessage, frozen=True, tag=130):
    """Answers ReportOutOfRange, a result a partition in the order asked; with the policy none it is an error."""

    results: tuple[PartitionResult, ...] = ()


class ListClaimsResponse(WireMessage, frozen=True, tag=131):
    """Answers ListClaims."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""


class FinishClaimsResponse(WireMessage, frozen=True, tag=132):
    """Answers FinishClaims, a result a claim in the order asked; saying it twice is answered alike."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    results: Outcomes = Outcomes()


class BeginClaimsResponse(WireMessage, frozen=True, tag=133):
    """Answers BeginClaims, a status a claim in the order asked."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    claims: ClaimStatuses = ClaimStatuses()


Request: TypeAlias = (
    FindCoordinator
    | RegisterConsumer
    | Ping
    | FetcherStarted
    | FetcherStopped
    | CommitOffsets
    | FetchOffsets
    | Advance
    | ConfirmClaims
    | LeaveGroup
    | ListGroups
    | DescribeGroup
    | ListGroupEvents
    | ReportOutOfRange
    | ListClaims
    | FinishClaims
    | BeginClaims
    | OperatorRequest
)
Response: TypeAlias = (
    ErrorResponse
    | FindCoordinatorResponse
    | RegisterConsumerResponse
    | PingResponse
    | FetcherStartedResponse
    | FetcherStoppedResponse
    | CommitOffsetsResponse
    | FetchOffsetsResponse
    | AdvanceResponse
    | ConfirmClaimsResponse
    | LeaveGroupResponse
    | ListGroupsResponse
    | DescribeGroupResponse
    | ListGroupEventsResponse
    | ReportOutOfRangeResponse
    | ListClaimsResponse
    | FinishClaimsResponse
    | BeginClaimsResponse
    | OperatorResponse
)
Push: TypeAlias = StartFetcher | StopFetcher | Probe | Fenced | ClaimsFinished | FetcherTaken
Message: TypeAlias = Request | Response | Push

RESPONSE_OF: Final[dict[type[Request], type[Response]]] = {
    FindCoordinator: FindCoordinatorResponse,
    RegisterConsumer: RegisterConsumerResponse,
    Ping: PingResponse,
    FetcherStarted: FetcherStartedResponse,
    FetcherStopped: FetcherStoppedResponse,
    CommitOffsets: CommitOffsetsResponse,
    FetchOffsets: FetchOffsetsResponse,
    Advance: AdvanceResponse,
    ConfirmClaims: ConfirmClaimsResponse,
    LeaveGroup: LeaveGroupResponse,
    ListGroups: ListGroupsResponse,
    DescribeGroup: DescribeGroupResponse,
    ListGroupEvents: ListGroupEventsResponse,
    ReportOutOfRange: ReportOutOfRangeResponse,
    ListClaims: ListClaimsResponse,
    FinishClaims: FinishClaimsResponse,
    BeginClaims: BeginClaimsResponse,
    operator.ChangePause: operator.ChangePauseResponse,
    operator.ChangeDrain: operator.ChangeDrainResponse,
    operator.ResetOffsets: operator.ResetOffsetsResponse,
    operator.CancelResets: operator.CancelResetsResponse,
    operator.DeleteOffsets: operator.DeleteOffsetsResponse,
    operator.DeleteGroup: operator.DeleteGroupResponse,
    operator.ReleaseClaims: operator.ReleaseClaimsResponse,
    operator.DescribeControls: operator.DescribeControlsResponse,
}
"""The response that answers each request; any request may be answered by ErrorResponse instead."""
