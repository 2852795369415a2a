"""Everything that can happen to a member, as frozen values; each carries the monotonic time at which it came.

`now_ms` counts from an arbitrary start and never goes back. A connection is named by the id of the Connect effect that
asked for it, so that what an abandoned connection still brings is recognised and dropped.
"""

from dataclasses import dataclass
from typing import TypeAlias

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.parts import Claim, FinalOffset, LostPosition


@dataclass(frozen=True, slots=True)
class JoinAsked:
    """Somebody wants the member to be in its group; answered with Joined."""

    now_ms: int
    call_id: int


@dataclass(frozen=True, slots=True)
class AdvanceAsked:
    """Commit `finished` and claim `claims`; answered with AdvanceOutcome.

    With `keeps_offered` it is a further portion of a micro-batch and adds to what the portions before have claimed.
    """

    now_ms: int
    call_id: int
    finished: tuple[Claim, ...]
    claims: tuple[Claim, ...]
    keeps_offered: bool = False


@dataclass(frozen=True, slots=True)
class ConfirmAsked:
    """Mark these claims as running where they are still open; answered with a tuple of ClaimStatus."""

    now_ms: int
    call_id: int
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class CommitAsked:
    """Commit offsets under the owner epochs they name; answered with a result for each."""

    now_ms: int
    call_id: int
    offsets: tuple[OffsetToCommit, ...]


@dataclass(frozen=True, slots=True)
class ReportAsked:
    """Kafka does not have the positions of these partitions; answered with a result for each.

    Those whose result is NONE without an offset are not owned any more, and come back with a new start.
    """

    now_ms: int
    call_id: int
    partitions: tuple[LostPosition, ...]


@dataclass(frozen=True, slots=True)
class PositionsNoted:
    """Everything before these offsets is done: with auto commit they go with the next ping. Nothing answers it."""

    now_ms: int
    offsets: tuple[OffsetToCommit, ...]


@dataclass(frozen=True, slots=True)
class ReleaseAsked:
    """Let go of partitions with these final offsets; nothing answers it.

    What is lost with a connection is asked back again after the next registration.
    """

    now_ms: int
    finals: tuple[FinalOffset, ...]


@dataclass(frozen=True, slots=True)
class LeaveAsked:
    """Leave the group for good; answered with None, and the member is closed afterwards."""

    now_ms: int
    call_id: int
    finals: tuple[FinalOffset, ...] = ()


@dataclass(frozen=True, slots=True)
class CloseAsked:
    """Stop at once: no leave, no commit."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Connected:
    """The connection asked for by Connect is open."""

    now_ms: int
    connection_id: int


@dataclass(frozen=True, slots=True)
class BytesReceived:
    """The coordinator sent something, cut anywhere."""

    now_ms: int
    connection_id: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The connection could not be opened, or is gone, with the operating system's reason."""

    now_ms: int
    connection_id: int
    why: str


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed; comes no later than the last WakeAt asked for."""

    now_ms: int


Event: TypeAlias = (
    JoinAsked
    | AdvanceAsked
    | ConfirmAsked
    | CommitAsked
    | ReportAsked
    | PositionsNoted
    | ReleaseAsked
    | LeaveAsked
    | CloseAsked
    | Connected
    | BytesReceived
    | ConnectionLost
    | Ticked
)
