"""A member changes its subscription on the connection that it has: it keeps what belongs to both, and nobody loses."""

from msgspec.structs import replace

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Ping, PingResponse, RegisterConsumerResponse
from coordinator.protocol.parts import Subscription
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld


def registered_again(member: Member, **changes: object) -> RegisterConsumerResponse:
    assert member.registration is not None
    asked = member.send(replace(member.registration, member_id=member.member_id, **changes))
    response = member.answer(asked)
    assert isinstance(response, RegisterConsumerResponse)
    return response


def test_a_member_registers_again_on_its_connection_and_keeps_its_owner_epochs() -> None:
    world = NodeWorld(topics={"t": 4, "u": 1})
    member = world.join("m1")
    world.advance(1_000)
    before = {key: part.owner_epoch for key, part in member.owned.items()}
    response = registered_again(member, subscription=Subscription(topics=("t", "u")))
    world.advance(1_000)
    assert (response.error, response.member_id) == (ErrorCode.NONE, member.member_id)
    after = {key: part.owner_epoch for key, part in member.owned.items()}
    assert {key: after[key] for key in before} == before
    assert sorted(after) == [("t", 0), ("t", 1), ("t", 2), ("t", 3), ("u", 0)]
    assert isinstance(member.answer(member.send(Ping(1))), PingResponse)


def test_a_connection_registers_no_other_member() -> None:
    world = NodeWorld()
    member = world.join("m1")
    assert registered_again(member, incarnation="another").error is ErrorCode.INVALID_REQUEST
    assert registered_again(member, group_id="other").error is ErrorCode.INVALID_REQUEST
    assert member.closed_why is None
