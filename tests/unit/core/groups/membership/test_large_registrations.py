"""A registration may list very many claims and starts: its answer fits a frame, and what it takes is bounded."""

import msgspec
import pytest

from coordinator.core.groups.hard.account import bytes_of_facts
from coordinator.core.groups.membership.registration_size import MAX_REGISTRATION_BYTES, why_too_large
from coordinator.core.groups.soft.shown import Shown
from coordinator.protocol.codec import encode_message
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ListClaims, ListClaimsResponse, RegisterConsumerResponse
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatuses, StartHint
from coordinator.protocol.session import SessionLimits
from tests.helpers.node_world import NodeWorld

LONG = "t" * 249
T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


def listing(world: NodeWorld, name: str, claims: list[Claim], at_once: int = 20_000) -> RegisterConsumerResponse:
    """Register a member that lists claims before."""
    member = world.joining(name, incarnation="again")
    for first in range(0, len(claims), at_once):
        response = member.ask(ListClaims(claims=tuple(claims[first : first + at_once])), ListClaimsResponse)
        assert response.error is ErrorCode.NONE
    return member.register()


@pytest.mark.parametrize(("topic", "count"), [(LONG, 40_000), ("t", 160_000)])
def test_an_answer_about_very_many_claims_fits_a_frame(topic: str, count: int) -> None:
    """The member was let in, and the answer of 22 MB was told as FRAME_TOO_LARGE instead."""
    claims = [Claim(topic, "id", number, 7, 0, 5) for number in range(count)]
    response = listing(NodeWorld({"t": 1}), "m1", claims)
    assert response.error is ErrorCode.NONE
    assert sum(len(closed.places) for closed in response.claims.closed) == count
    assert len(encode_message(response)) < SessionLimits().answer_bytes // 10


def test_claims_that_are_listed_in_several_requests_are_answered_in_their_order() -> None:
    world = NodeWorld({"t": 3})
    member = world.join("m1")
    runs = member.run(T0, 100, 110)
    offered = member.claim(T1, 100, 120)
    member.advance(claims=[offered], keeps_offered=True)
    unknown = member.claim(T2, 100, 105)
    member.close()
    response = listing(world, "m1", [unknown, runs, offered], at_once=1)
    assert response.claims.running == 1
    (closed,) = response.claims.closed
    assert (closed.places, closed.committed) == ((0,), (100,))
    assert "committed, dropped or never made" in closed.why
    (other,) = response.claims.others
    assert (other.partition, other.state, response.claims.places) == (1, ClaimState.OFFERED, (2,))


def test_only_open_claims_that_are_not_listed_are_dropped() -> None:
    world = NodeWorld({"t": 3})
    member = world.join("m1")
    listed, other_range, left_out = (member.run(partition, 100, 110) for partition in (T0, T1, T2))
    member.close()
    again = Claim("t", other_range.topic_id, 1, other_range.owner_epoch, 100, 105)
    response = listing(world, "m1", [listed, again])
    assert response.claims.running == 1
    assert "another range" in response.claims.closed[0].why
    assert set(world.group().claims) == {T0}
    assert left_out.partition not in world.group().claims.rows("t")


def test_a_member_without_claims_is_told_of_none() -> None:
    assert NodeWorld({"t": 1}).joining("m1").register().claims == ClaimStatuses()


def test_a_bad_start_that_was_listed_before_is_refused_with_the_registration() -> None:
    world = NodeWorld({"t": 1})
    member = world.joining("m1")
    for hint in (StartHint("t", "id", 0, -1, from_checkpoint=True), StartHint("t", "id", 1, 5, from_checkpoint=True)):
        assert member.ask(ListClaims(hints=(hint,)), ListClaimsResponse).error is ErrorCode.NONE
    refused = member.register()
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert "the start -1 of t-0 is negative, and an end in a checkpoint never is" in refused.message


def test_what_came_before_is_not_copied_with_every_request() -> None:
    """A request of one claim took 8 ms behind 190,000 others, and as many as a connection may send half a second."""
    shown = Shown()
    count = 40_000
    shown.add(
        [Claim("t", "id", number, 7, 0, 5) for number in range(count)],
        [StartHint("t", "id", number, 5, from_checkpoint=True, owner_epoch=7) for number in range(count)],
    )
    claims, hints = list(shown.claims), shown.hints
    for number in range(count, count + 100):
        shown.add([Claim("t", "id", number, 7, 0, 5)], [StartHint("t", "id", number, 5, from_checkpoint=True)])
    assert [each is before for each, before in zip(shown.claims, claims, strict=False)] == [True] * len(claims)
    assert [each is before for each, before in zip(shown.hints, hints, strict=False)] == [True] * len(hints)
    assert len(shown.claims) == len(claims) + 1, "small ones are put together"
    assert len(shown.hints) == len(hints) + 1
    for column in (shown.claims, shown.hints):
        assert [number for each in column for number in each.partitions] == list(range(count + 100))


def test_claims_of_one_topic_in_several_sets_of_columns_are_answered_as_in_one() -> None:
    world = NodeWorld({"t": 3})
    member = world.join("m1")
    runs = member.run(T0, 100, 110)
    left_out = member.run(T1, 100, 110)
    member.close()
    closed = [Claim("t", "id-t", number, 7, 0, 5) for number in range(10, 20_010)]
    response = listing(world, "m1", [*closed[:9_000], runs, *closed[9_000:]], at_once=7_000)
    assert response.claims.running == 1
    told = sorted(place for each in response.claims.closed for place in each.places)
    assert told == [*range(9_000), *range(9_001, 20_001)]
    assert T1 not in world.group().claims, f"{left_out} was not listed"
    assert T0 in world.group().claims


def test_what_a_registration_takes_at_most_is_never_less_than_what_it_takes() -> None:
    """A registration that is surely small enough is not encoded to be measured."""
    member = NodeWorld({"t": 1}).joining("m1")
    assert member.registration is not None
    for count, greatest in ((180_000, 0), (180_000, 2**63 - 1), (220_000, 2**63 - 1), (400_000, 0)):
        shown = Shown()
        for first in range(0, count, 20_000):
            numbers = range(first, min(count, first + 20_000))
            shown.add((), [StartHint("t", "id", 2**31 - 1 - number, greatest, True, greatest) for number in numbers])
        size = len(msgspec.msgpack.encode(shown.hints))
        assert (why_too_large(member.registration, shown) is not None) is (size > MAX_REGISTRATION_BYTES)


def test_the_account_of_a_member_grows_with_each_start_that_it_shows() -> None:
    world = NodeWorld({"t": 1})
    member = world.joining("m1", hints=[StartHint("t", "id-t", 0, 33, from_checkpoint=True)])
    member.register()
    with_hint = bytes_of_facts(world.group().members["m1"].facts)
    other = NodeWorld({"t": 1})
    other.joining("m1").register()
    assert with_hint > bytes_of_facts(other.group().members["m1"].facts)
