"""The way into a group, what a member says while it is in, and the way out.

All but FindCoordinator are about the member of the connection on which they come.
"""

from typing import Annotated, ClassVar

from coordinator.protocol.errors import (
    ErrorCode,
)
from coordinator.protocol.messages.message import WireMessage, WireRequest, codes
from coordinator.protocol.parts import (
    Claim,
    ClaimStatuses,
    FinalOffset,
    Listed,
    LogPosition,
    LostPosition,
    NodeAddress,
    OwnedPartition,
    PartitionResult,
    ResetPolicy,
    StartHint,
    Subscription,
    TopicOffsets,
    check_count,
    count_named,
)
from coordinator.protocol.vocabulary import Handover, IsolationLevel


class FindCoordinator(WireRequest, frozen=True, tag=1):
    """Ask any node which node coordinates a group.

    `leader_epoch` is that of the coordinator that was known and does not answer. A node of a cluster that cannot do
    better waits a moment for news before it answers.
    """

    refused_with: ClassVar = codes(ErrorCode.INVALID_GROUP_ID, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    group_id: str
    leader_epoch: int | None = None


class FindCoordinatorResponse(WireMessage, frozen=True, tag=101):
    """Answers FindCoordinator.

    `successors` are the ids of the nodes that have the shard's log besides its coordinator, in the order in which one
    of them would be elected in its place; a member that loses its coordinator asks those first. `patience_ms` is for
    how long the coordinator asks whoever registers with it to wait at least, since many others are to register too.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    coordinator: NodeAddress | None = None
    shard: int = 0
    leader_epoch: int = 0
    nodes: tuple[NodeAddress, ...] = ()
    kafka_bootstrap: tuple[str, ...] = ()
    kafka_cluster_id: str | None = None
    successors: tuple[int, ...] = ()
    patience_ms: int = 0


class RegisterConsumer(WireRequest, frozen=True, tag=2):
    """Join a group, or come back to it, on this connection.

    An empty member id asks for a new one. `claims` are those the member still holds or its checkpoint shows; any
    other claim of the same identity is dropped. Those that came before on this connection in ListClaims count as
    named here. Nothing reads `owned`: what a member has it is told anew; leave it empty. No ping interval means a third
    of the session time-out; no reset policy and no claim time-out mean the group's. With `wants_streams` the
    coordinator spreads the member's partitions over its streams. `is_returning` says that the member has been in the
    group before, as its checkpoint or the process itself knows; then topics it brings start at earliest.
    `is_rejoining` says that this very process has been this member: it knows each claim that it has, and one that it
    does not name is a later process's. So is one that began to run after this process had begun, `age_ms` ago. Such a
    claim is not dropped; the registration is refused.

    With `is_leaving` the member comes back for nothing but to leave. Where it is no member any more, and nothing is
    held for it, it is refused with UNKNOWN_MEMBER_ID and the group stays as it is.

    `application` names the program that the member belongs to, the same for each of its members and for those of no
    other program. Two members of one program whose subscriptions overlap halve what each is to read; the second is
    refused, unless both say `shares_application`. A member that does not `commits` reads and writes no offset: its
    policy and its hints are for itself, and it claims nothing.

    `handover` says what becomes of a running claim whose owner is gone: `takeover` closes it when the partition has
    its next owner; `hold` keeps it until the same instance id is back, an operator lets it go, or the claim time-out
    is over. None leaves that to the group.

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
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.SECOND_MEMBER_OF_APPLICATION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
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
    handover: Annotated[str | None, Handover] = Handover.TAKEOVER
    wait_for_topics: bool = False
    claim_timeout_ms: int | None = None
    wants_streams: bool = False
    application: str | None = None
    shares_application: bool = False
    commits: bool = True
    is_returning: bool = False
    isolation_level: Annotated[str, IsolationLevel] = IsolationLevel.READ_UNCOMMITTED
    log: LogPosition | None = None
    is_rejoining: bool = False
    age_ms: int = 0
    is_leaving: bool = False


class RegisterConsumerResponse(WireMessage, frozen=True, tag=102):
    """Answers RegisterConsumer; `held` partitions, which are all that the member has, follow in StartFetcher.

    What it had before and still has it need not stop reading meanwhile; without `held` it owns nothing until told.

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
    held: int | None = None


class ListClaims(WireRequest, frozen=True, tag=31):
    """Name claims and hints of the registration that follows on this connection, when it cannot name them all itself.

    It may be sent several times. What they name counts as if RegisterConsumer had named it. When one is refused because
    too much is listed, so are those after it and RegisterConsumer, since open claims that a member does not show are
    closed; after that the connection may list anew.
    """

    refused_with: ClassVar = codes(ErrorCode.INVALID_REQUEST)

    claims: Listed[Claim] = ()
    hints: Listed[StartHint] = ()


class ListClaimsResponse(WireMessage, frozen=True, tag=131):
    """Answers ListClaims."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""


class Ping(WireRequest, frozen=True, tag=3):
    """Say that the member lives; with auto commit on, the offsets it has finished.

    `unpolled_ms` is for how long its program has asked it for nothing; a member that no program polls leaves it out.
    """

    refused_with: ClassVar = codes(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.INVALID_REQUEST)
    parts_refused_with: ClassVar = codes(
        ErrorCode.FENCED_OWNER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.STATE_LIMIT_REACHED,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )

    member_epoch: int
    offsets: Listed[TopicOffsets] = ()
    unpolled_ms: int | None = None

    def __post_init__(self) -> None:
        if self.offsets:  # most pings have none
            check_count(self.offsets)

    def named(self) -> int:
        """Return how many partitions it names."""
        return count_named(self.offsets) if self.offsets else 0


class PingResponse(WireMessage, frozen=True, tag=103):
    """Answers Ping; how many of its offsets were accepted, and what was refused.

    `withheld` are partitions of the member's target that it does not get because nobody knows where they start:
    OFFSET_OUT_OF_RANGE where the group's policy is none, OFFSET_NOT_AVAILABLE where Kafka has not said. Of very many
    some are named. `successors` are the nodes that would coordinate the group next, of those that live now, in the
    order in which one of them would be elected; None while they are those that this connection was told last.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    member_epoch: int = 0
    group_epoch: int = 0
    refused: tuple[PartitionResult, ...] = ()
    accepted: int = 0
    withheld: tuple[PartitionResult, ...] = ()
    successors: tuple[NodeAddress, ...] | None = None


class FetcherStarted(WireRequest, frozen=True, tag=4):
    """Say that the member has taken over these partitions."""

    refused_with: ClassVar = codes(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.INVALID_REQUEST)
    parts_refused_with: ClassVar = codes(ErrorCode.FENCED_OWNER_EPOCH)

    partitions: Listed[OwnedPartition]

    def named(self) -> int:
        """Return how many partitions it names."""
        return len(self.partitions)


class FetcherStartedResponse(WireMessage, frozen=True, tag=104):
    """Answers FetcherStarted: the partitions that are not the member's under the owner epochs it named."""

    refused: tuple[PartitionResult, ...] = ()


class FetcherStopped(WireRequest, frozen=True, tag=5):
    """Let go of partitions, with final offsets; saying it twice is answered alike."""

    refused_with: ClassVar = codes(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.INVALID_REQUEST)
    parts_refused_with: ClassVar = codes(ErrorCode.INVALID_REQUEST, ErrorCode.OFFSET_METADATA_TOO_LARGE)

    partitions: Listed[FinalOffset]

    def named(self) -> int:
        """Return how many partitions it names."""
        return len(self.partitions)


class FetcherStoppedResponse(WireMessage, frozen=True, tag=105):
    """Answers FetcherStopped, a result a partition in the order asked."""

    results: tuple[PartitionResult, ...] = ()


class ReportOutOfRange(WireRequest, frozen=True, tag=30):
    """Say that Kafka no longer has, or does not have yet, the offset at which the member is to read partitions.

    The coordinator asks Kafka itself. Where neither the position nor the group's offset lies within [log start, high
    watermark], the start is resolved anew by the group's policy and granted under a new owner epoch; claims on the
    partition are closed. Anything else leaves the partition as it is.
    """

    refused_with: ClassVar = codes(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.INVALID_REQUEST)
    parts_refused_with: ClassVar = codes(
        ErrorCode.FENCED_OWNER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.OFFSET_OUT_OF_RANGE
    )

    partitions: Listed[LostPosition]

    def named(self) -> int:
        """Return how many partitions it names."""
        return len(self.partitions)


class ReportOutOfRangeResponse(WireMessage, frozen=True, tag=130):
    """Answers ReportOutOfRange, a result a partition in the order asked; with the policy none it is an error."""

    results: tuple[PartitionResult, ...] = ()


class LeaveGroup(WireRequest, frozen=True, tag=10):
    """Leave the group for good, with final offsets."""

    refused_with: ClassVar = codes(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.INVALID_REQUEST)

    partitions: Listed[FinalOffset] = ()

    def named(self) -> int:
        """Return how many partitions it names."""
        return len(self.partitions)


class LeaveGroupResponse(WireMessage, frozen=True, tag=110):
    """Answers LeaveGroup."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
