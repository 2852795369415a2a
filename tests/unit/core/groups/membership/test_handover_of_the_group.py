"""A member that leaves the hand-over to its group: it fits every one, and changes none."""

from coordinator.protocol.errors import ErrorCode
from tests.helpers.node_world import NodeWorld

HOLD = {"handover": "hold", "instance_id": "i1"}


def handover_of(world: NodeWorld) -> str:
    group = world.group("g")
    assert group is not None
    return group.handover


def test_a_member_that_leaves_the_hand_over_to_the_group_joins_one_that_holds() -> None:
    world = NodeWorld()
    world.join("m1", **HOLD)
    world.join("m2", handover=None)
    assert handover_of(world) == "hold"


def test_it_does_not_change_the_hand_over_of_a_group_that_is_empty() -> None:
    world = NodeWorld()
    world.join("m1", **HOLD).leave()
    world.join("m2", handover=None)
    assert handover_of(world) == "hold"


def test_a_group_that_it_makes_hands_over_by_take_over() -> None:
    world = NodeWorld()
    world.join("m1", handover=None)
    assert handover_of(world) == "takeover"


def test_a_claim_time_out_needs_a_member_that_says_hold() -> None:
    refused = NodeWorld().joining("m1", handover=None, claim_timeout_ms=60_000).register()
    assert refused.error is ErrorCode.INVALID_REQUEST
