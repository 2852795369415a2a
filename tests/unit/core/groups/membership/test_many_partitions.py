"""What does not fit into one frame comes in several requests, and means the same."""

from coordinator.core.limits import Limits
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ErrorResponse, ListClaims, ListClaimsResponse, Ping
from coordinator.protocol.parts import ClaimState, ClaimStatuses, StartHint
from tests.helpers.node_world import NodeWorld

T0, T1 = ("t", 0), ("t", 1)


def test_claims_listed_before_the_registration_count_as_named_by_it() -> None:
    world = NodeWorld({"t": 2})
    member = world.join("m1")
    first, second = member.claim(T0, 100, 110), member.claim(T1, 100, 120)
    member.advance(claims=[first, second])
    member.confirm(first, second)
    member.close()
    again = world.joining("m1", incarnation="second", claims=[second])
    assert again.ask(ListClaims(claims=(first,)), ListClaimsResponse) == ListClaimsResponse()
    assert again.register().claims == ClaimStatuses(running=2)
    assert [status.state for status in again.confirm(first, second).claims] == [ClaimState.RUNNING, ClaimState.RUNNING]


def test_hints_listed_before_the_registration_count_as_named_by_it() -> None:
    world = NodeWorld({"t": 1})
    member = world.joining("m1")
    member.ask(ListClaims(hints=(StartHint("t", "id-t", 0, 33, from_checkpoint=True),)), ListClaimsResponse)
    member.register()
    assert member.owned[T0].offset == 33


def test_what_was_listed_is_for_the_next_registration_of_its_connection_only() -> None:
    world = NodeWorld({"t": 1})
    stranger, member = world.connect(), world.joining("m1")
    stranger.ask(ListClaims(hints=(StartHint("t", "id-t", 0, 33, from_checkpoint=True),)), ListClaimsResponse)
    member.register()
    assert member.owned[T0].offset == 100


def test_claims_cannot_be_listed_after_the_registration() -> None:
    world = NodeWorld({"t": 1})
    response = world.join("m1").ask(ListClaims(), ListClaimsResponse)
    assert response.error is ErrorCode.INVALID_REQUEST
    assert "before the registration" in response.message


def test_too_many_listed_claims_are_refused() -> None:
    world = NodeWorld({"t": 1}, limits=Limits(listed_max=2))
    member = world.joining("m1")
    hints = tuple(StartHint("t", "id-t", number, 1, from_checkpoint=True) for number in range(2))
    assert member.ask(ListClaims(hints=hints), ListClaimsResponse) == ListClaimsResponse()
    refused = member.ask(ListClaims(hints=hints), ListClaimsResponse)
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert refused.message.startswith("more than 2 claims or hints are listed")


def test_a_registration_of_which_a_list_was_refused_is_refused_with_the_reason_of_that() -> None:
    """It was accepted with what was listed after that, and claims that the member meant to show were dropped."""
    world = NodeWorld({"t": 3}, limits=Limits(listed_max=2))
    member = world.join("m1")
    runs = [member.run(("t", number), 100, 110) for number in range(3)]
    member.close()
    again = world.joining("m1", incarnation="second")
    assert again.ask(ListClaims(claims=tuple(runs[:2])), ListClaimsResponse).error is ErrorCode.NONE
    too_many = again.ask(ListClaims(claims=tuple(runs[2:])), ListClaimsResponse)
    after_it = again.ask(ListClaims(claims=tuple(runs[:1])), ListClaimsResponse)
    assert (too_many.error, after_it) == (ErrorCode.INVALID_REQUEST, too_many)
    refused = again.register()
    assert (refused.error, refused.message) == (ErrorCode.INVALID_REQUEST, too_many.message)
    assert set(world.group().claims) == {("t", 0), ("t", 1), ("t", 2)}


def test_after_the_refused_registration_a_connection_may_list_anew() -> None:
    world = NodeWorld({"t": 1}, limits=Limits(listed_max=1))
    member = world.joining("m1")
    hint = StartHint("t", "id-t", 0, 33, from_checkpoint=True)
    assert member.ask(ListClaims(hints=(hint, hint)), ListClaimsResponse).error is ErrorCode.INVALID_REQUEST
    assert member.register().error is ErrorCode.INVALID_REQUEST
    assert member.ask(ListClaims(hints=(hint,)), ListClaimsResponse).error is ErrorCode.NONE
    assert member.register().error is ErrorCode.NONE
    assert member.owned[T0].offset == 33


def test_a_connection_that_only_listed_claims_is_no_member() -> None:
    world = NodeWorld({"t": 1})
    member = world.joining("m1")
    member.ask(ListClaims(), ListClaimsResponse)
    assert member.ask(Ping(0), ErrorResponse).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_second_part_of_an_advance_keeps_what_the_first_has_claimed() -> None:
    world = NodeWorld({"t": 2})
    member = world.join("m1")
    first, second = member.claim(T0, 100, 110), member.claim(T1, 100, 120)
    member.advance(claims=[first])
    member.advance(claims=[second], keeps_offered=True)
    assert [status.state for status in member.confirm(first, second).claims] == [ClaimState.RUNNING, ClaimState.RUNNING]


def test_an_advance_that_is_no_second_part_replaces_what_was_claimed() -> None:
    world = NodeWorld({"t": 2})
    member = world.join("m1")
    first, second = member.claim(T0, 100, 110), member.claim(T1, 100, 120)
    member.advance(claims=[first])
    member.advance(claims=[second])
    assert [status.state for status in member.confirm(first, second).claims] == [ClaimState.CLOSED, ClaimState.RUNNING]
