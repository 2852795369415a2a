"""Messages of a coordinator to a member that did not ask; a push gets no response.

A member answers one by requests of its own, so that saying it again after a lost connection is harmless.
"""

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages.message import WireMessage
from coordinator.protocol.parts import Claim, OwnedPartition, StartPartition


class StartFetcher(WireMessage, frozen=True, tag=200):
    """Partitions the member owns from now on.

    `is_complete` says that with this message the member holds the whole of its target assignment, which may be
    empty; a long list comes in several messages and only the last can be complete. A partition the member already
    has under the same owner epoch changes nothing but, where it names another, the stream that reads it. `notes` say
    which of them the group had no offset of, where they start and why. `to_follow` counts those of which it had been
    said at the registration that they follow, and that are still to be told: with 0 there are none.
    """

    partitions: tuple[StartPartition, ...]
    is_complete: bool
    member_epoch: int
    group_epoch: int
    notes: tuple[str, ...] = ()
    to_follow: int | None = None


class StopFetcher(WireMessage, frozen=True, tag=201):
    """Partitions the member must let go of within `deadline_ms` from now, and why."""

    partitions: tuple[OwnedPartition, ...]
    deadline_ms: int
    why: str


class Probe(WireMessage, frozen=True, tag=202):
    """Asks whether the member behind this connection still lives; any message from it is the answer."""


class Fenced(WireMessage, frozen=True, tag=203):
    """The member is no longer one: it must stop reading, forget what it owned, and may register again."""

    error: ErrorCode
    why: str


class ClaimsFinished(WireMessage, frozen=True, tag=204):
    """These claims of the member were committed by FinishClaims and are closed."""

    claims: tuple[Claim, ...]


class FetcherTaken(WireMessage, frozen=True, tag=205):
    """These partitions are not the member's any more, because it did not let go of them in time.

    Their claims are closed. It stays a member, and keeps whatever else it has.
    """

    partitions: tuple[OwnedPartition, ...]
    why: str
