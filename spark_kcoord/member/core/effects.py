"""Everything a member wants done, and what its calls are answered with, as frozen values.

The order of one step's effects is the order in which they are performed. At most one connection is wanted at a time.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import Claim, ClaimStatus, LogPosition, PartitionResult
from coordinator.protocol.text.addresses import Address
from spark_kcoord.errors import KcoordError


@dataclass(frozen=True, slots=True)
class Joined:
    """The coordinator's answer when it let the member in; `claims` answers the claims the member listed."""

    member_id: str
    kafka_cluster_id: str | None
    kafka_bootstrap: tuple[str, ...]
    claims: tuple[ClaimStatus, ...]


@dataclass(frozen=True, slots=True)
class AdvanceOutcome:
    """The outcome of an Advance.

    `claimed` are the claims that now stand: exactly these ranges may be read. `finished` and `claims` have one result
    for each claim of the call, in its order; `released` one for each partition that was let go with it. `nodes` are the
    coordinator nodes known by then, and `log` how far the group's log had come, to be remembered.
    """

    claimed: tuple[Claim, ...]
    finished: tuple[PartitionResult, ...]
    claims: tuple[PartitionResult, ...]
    released: tuple[PartitionResult, ...]
    nodes: tuple[Address, ...] = ()
    log: LogPosition | None = None

    @property
    def skipped(self) -> tuple[PartitionResult, ...]:
        """The finished ranges that were not committed, each with its reason and the group's committed offset."""
        return tuple(result for result in self.finished if result.error is not ErrorCode.NONE)


CallResult: TypeAlias = Joined | AdvanceOutcome | tuple[ClaimStatus, ...] | tuple[PartitionResult, ...] | None


class NoticeKind(Enum):
    """Facts about a member worth logging."""

    JOINED = "joined"
    REJOINED = "rejoined"
    DISCONNECTED = "disconnected"
    STARTED = "partitions-started"
    BEGUN = "start-resolved"
    BEGUN_ANEW = "start-resolved-anew"
    STOPPING = "partitions-stopping"
    RELEASED = "partitions-released"
    TAKEN = "partitions-taken"
    FENCED = "fenced"
    SESSION_LOST = "session-lost"
    ID_IN_USE = "member-id-in-use"
    CLAIM_SKIPPED = "claim-skipped"
    CLAIM_REFUSED = "claim-refused"


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection within a time; Connected or ConnectionLost with the same id reports how it went."""

    connection_id: int
    host: str
    port: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Send:
    """Write bytes to a connection; one that is gone makes it void."""

    connection_id: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Give up a connection or the attempt to open it, after what was sent before has been tried; nothing reports it."""

    connection_id: int
    why: str


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a Ticked at this time; the latest request counts, and None means no tick is needed."""

    now_ms: int | None


@dataclass(frozen=True, slots=True)
class Completed:
    """A call is done."""

    call_id: int
    result: CallResult


@dataclass(frozen=True, slots=True)
class Failed:
    """A call is done, in vain."""

    call_id: int
    error: KcoordError


@dataclass(frozen=True, slots=True)
class Notice:
    """A fact worth logging, with its reason."""

    kind: NoticeKind
    why: str


Effect: TypeAlias = Connect | Send | Disconnect | WakeAt | Completed | Failed | Notice
