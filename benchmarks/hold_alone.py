"""Things that happen to one member that has all of a very large group, of which the longest step is measured."""

from typing import Final

from benchmarks.hold_cases import CONNECTIONS, portions
from benchmarks.hold_node import Held, case, must_be_done
from coordinator.protocol.claim_columns import advance_of, claims_in_columns
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import ConfirmClaims, FetcherStopped, ListClaims, RegisterConsumer
from coordinator.protocol.parts import Claim, FinalOffset, Subscription

OTHER, HOLDS, WAITS = range(CONNECTIONS, CONNECTIONS + 3)
"""Connections of the member that comes to it, and of two of a group that holds claims."""
MORE_CONNECTIONS: Final = CONNECTIONS + 3
_SESSION_MS: Final = 1_800_000
_HELD_MS: Final = 1_200_000
_OLD_MS: Final = 900_000


def _join(held: Held, group: str, member: str, connection_id: int, *, holds: bool = False) -> None:
    waits = {"handover": "hold", "instance_id": f"i-{member}", "claim_timeout_ms": _HELD_MS} if holds else {}
    subscription = Subscription(("t",))
    request = RegisterConsumer(group, member, member, subscription, "c", 1, _SESSION_MS, 60_000, **waits)  # type: ignore[arg-type]
    held.register(request, connection_id)
    held.advance(5_000)


def _claims(held: Held) -> list[Claim]:
    return [Claim("t", "id", number, held.granted[number], 3, 5) for number in range(held.partitions)]


@case("half of all is taken")
def take_late(held: Held) -> None:
    """Have another member come, and half of all be taken for it that is not let go in time."""
    _join(held, "alone", "other", OTHER)
    held.advance(70_000)


@case("all of another is claimed")
def hold_all(held: Held) -> None:
    """Have a member of a group that holds claims claim all there is and begin to read it."""
    held.granted.clear()
    _join(held, "holds", "m", HOLDS, holds=True)
    for at, some in enumerate(portions(_claims(held), MAX_NAMED)):
        must_be_done(held.ask(advance_of((), some, keeps_offered=at > 0), HOLDS))
        must_be_done(held.ask(ConfirmClaims(claims_in_columns(some)), HOLDS))


@case("2,000 claimed ones are let go")
def let_go(held: Held) -> None:
    """Let go of as much as a request may name, with offsets, while claims on it run."""
    finals = [FinalOffset("t", number, held.granted[number], 9) for number in range(MAX_NAMED)]
    must_be_done(held.ask(FetcherStopped(tuple(finals)), HOLDS))
    held.advance(1_000)


@case("all claims are shown again")
def come_back(held: Held) -> None:
    """Have the member that runs all of that come back on another connection."""
    held.lose(HOLDS)
    for some in portions(_claims(held)):
        must_be_done(held.ask(ListClaims(claims=tuple(some)), HOLDS))
    _join(held, "holds", "m", HOLDS, holds=True)


@case("all claims are left")
def lose(held: Held) -> None:
    """Lose its connection, so that it is gone and its claims wait for it."""
    held.lose(HOLDS)
    held.advance(2_000)


@case("a member joins beside them")
def wait_beside(held: Held) -> None:
    """Have another member join that gets nothing of it."""
    _join(held, "holds", "waits", WAITS, holds=True)


@case("all claims are old")
def grow_old(held: Held) -> None:
    """Have the claims run for so long that it is said."""
    held.pass_time(_OLD_MS)
    held.advance(20_000)


@case("all claims are given up")
def give_up(held: Held) -> None:
    """Have the claims be given up after the claim time-out, and the other member be given all."""
    held.pass_time(_HELD_MS - _OLD_MS)
    held.advance(20_000)


@case("a topic grows by a quarter")
def grow(held: Held) -> None:
    """Have the topic grow by a quarter."""
    held.grow(held.partitions * 5 // 4)
    held.advance(5_000)


@case("a topic is deleted")
def lose_topic(held: Held) -> None:
    """Have the topic be deleted, of which one member has all."""
    held.lose_topic()
    held.advance(70_000)
