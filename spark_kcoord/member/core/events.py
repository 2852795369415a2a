"""Everything that can happen to a member, as frozen values; the step that takes one is told when it happens.

A call is a value of its own: its caller waits for an answer, and `CallMade` gives it the id by which it is answered. A
connection is named by the id of the Connect effect that asked for it, so that what an abandoned connection still brings
is recognised and dropped.
"""

from dataclasses import dataclass
from typing import TypeAlias

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.parts import Claim, FinalOffset, LostPosition
from spark_kcoord.member.settings import MemberSettings


@dataclass(frozen=True, slots=True)
class JoinCall:
    """Somebody wants the member to be in its group; answered with Joined."""


@dataclass(frozen=True, slots=True)
class AdvanceCall:
    """Commit `finished` and claim `claims`; answered with AdvanceOutcome.

    With `keeps_offered` it is a further portion of a micro-batch and adds to what the portions before have claimed.
    """

    finished: tuple[Claim, ...]
    claims: tuple[Claim, ...]
    keeps_offered: bool = False


@dataclass(frozen=True, slots=True)
class ConfirmCall:
    """Mark these claims as running where they are still open; answered with a tuple of ClaimStatus."""

    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class CommitCall:
    """Commit offsets under the owner epochs they name; answered with a result for each."""

    offsets: tuple[OffsetToCommit, ...]


@dataclass(frozen=True, slots=True)
class ReportCall:
    """Kafka does not have the positions of these partitions; answered with a result for each.

    Those whose result is NONE without an offset are not owned any more, and come back with a new start.
    """

    partitions: tuple[LostPosition, ...]


@dataclass(frozen=True, slots=True)
class LeaveCall:
    """Leave the group for good; answered with None, and the member is closed afterwards."""

    finals: tuple[FinalOffset, ...] = ()


AnyCall: TypeAlias = JoinCall | AdvanceCall | ConfirmCall | CommitCall | ReportCall | LeaveCall


@dataclass(frozen=True, slots=True)
class CallMade:
    """Somebody calls, and waits for the Completed or Failed with this id; without a time as long as is usual."""

    call_id: int
    call: AnyCall
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PositionsNoted:
    """Everything before these offsets is done: with auto commit they go with the next ping. Nothing answers it."""

    offsets: tuple[OffsetToCommit, ...]


@dataclass(frozen=True, slots=True)
class ReleaseAsked:
    """Let go of partitions with these final offsets; nothing answers it.

    What is lost with a connection is asked back again after the next registration.
    """

    finals: tuple[FinalOffset, ...]


@dataclass(frozen=True, slots=True)
class Polled:
    """The member's user has asked for records, which shows that it goes on. Nothing answers it."""


@dataclass(frozen=True, slots=True)
class Resubscribed:
    """The member is to read what these settings say; they differ from its own in the subscription alone.

    It registers again, on the connection that it has, and keeps what belongs to both.
    """

    settings: MemberSettings


@dataclass(frozen=True, slots=True)
class CloseAsked:
    """Stop at once: no leave, no commit."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The connection asked for by Connect is open."""

    connection_id: int


@dataclass(frozen=True, slots=True)
class BytesReceived:
    """The coordinator sent something, cut anywhere."""

    connection_id: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The connection could not be opened, or is gone, with the operating system's reason."""

    connection_id: int
    why: str
    is_refused: bool = False
    """True where it could not be opened because the coordinator refused the log-in."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed; comes no later than the last WakeAt asked for."""


Event: TypeAlias = (
    CallMade
    | PositionsNoted
    | ReleaseAsked
    | Polled
    | Resubscribed
    | CloseAsked
    | Connected
    | BytesReceived
    | ConnectionLost
    | Ticked
)
