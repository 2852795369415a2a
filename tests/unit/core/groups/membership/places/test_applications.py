"""Two members of one program: the second is refused where each would get a part of what both are to read."""

import pytest

from coordinator.core.groups.assignment.comparison import Comparison
from coordinator.core.meter import Meter
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Probe, RegisterConsumerResponse
from coordinator.protocol.parts import Subscription
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

APP = "boot.1.4000.51"


def registering(world: NodeWorld, member_id: str, **facts: object) -> tuple[Member, int]:
    """Send the registration of a member of the program and return it with the number of its request."""
    member = world.joining(member_id, application=APP, **facts)  # type: ignore[arg-type]
    assert member.registration is not None
    return member, member.send(member.registration)


def answer(member: Member, number: int) -> RegisterConsumerResponse:
    response = member.answer(number)
    assert isinstance(response, RegisterConsumerResponse)
    return response


def test_second_member_of_a_program_is_refused_while_the_first_lives() -> None:
    world = NodeWorld()
    first = world.join("m1", application=APP, pid=111)
    second, number = registering(world, "m2")
    assert (first.inbox[-1], second.answer(number)) == (Probe(), None)
    first.ping()
    refused = answer(second, number)
    assert refused.error is ErrorCode.SECOND_MEMBER_OF_APPLICATION
    assert "member m1 already (process 111 on 10.0.0.1, client-m1)" in refused.message
    assert "load the topic once" in refused.message
    assert "a group of its own" in refused.message
    assert "kcoord.share.within.application to true (it has to be set for both)" in refused.message
    assert set(world.group().members) == {"m1"}
    assert len(first.owned) == 4


def test_both_have_to_say_that_they_share() -> None:
    for first_shares, second_shares in ((True, False), (False, True)):
        world = NodeWorld()
        first = world.join("m1", application=APP, shares_application=first_shares)
        second, number = registering(world, "m2", shares_application=second_shares)
        first.ping()
        assert answer(second, number).error is ErrorCode.SECOND_MEMBER_OF_APPLICATION
        assert ("the other member does not set it" in answer(second, number).message) is second_shares


def test_members_that_share_divide_the_partitions() -> None:
    world = NodeWorld()
    first = world.join("m1", application=APP, shares_application=True)
    second = world.join("m2", application=APP, shares_application=True)
    first.stop_all()
    assert (len(first.owned), len(second.owned)) == (2, 2)


@pytest.mark.parametrize("other", [{"application": "boot.1.4000.52"}, {"application": None}, {"topics": ("u",)}])
def test_members_of_other_programs_and_for_other_topics_are_let_in(other: dict[str, object]) -> None:
    world = NodeWorld({"t": 2, "u": 1})
    world.join("m1", application=APP)
    world.join("m2", **{"application": APP, **other})
    assert set(world.group().members) == {"m1", "m2"}


def test_another_group_is_the_way_to_read_a_topic_twice() -> None:
    world = NodeWorld()
    world.join("m1", application=APP)
    assert len(world.join("m2", application=APP, group_id="h").owned) == 4


def test_first_that_is_gone_is_no_hindrance_though_its_claim_is_waited_for() -> None:
    world = NodeWorld({"t": 1})
    first = world.join("m1", application=APP)
    first.run(("t", 0), 100, 101)
    first.close()
    second, number = registering(world, "m2")
    assert answer(second, number).error is ErrorCode.NONE
    world.advance(2_000)
    assert world.owners() == {("t", 0): "m2"}


def test_first_that_ends_while_it_is_probed_makes_room_at_once() -> None:
    world = NodeWorld()
    first = world.join("m1", application=APP)
    second, number = registering(world, "m2")
    first.close()
    assert answer(second, number).error is ErrorCode.NONE


def test_first_that_does_not_answer_a_probe_loses_its_connection_and_then_its_place() -> None:
    world = NodeWorld()
    first = world.join("m1", application=APP)
    second, number = registering(world, "m2")
    world.advance(2_000)
    assert answer(second, number).error is ErrorCode.NONE
    assert first.closed_why is not None
    world.advance(10_000)
    assert set(world.group().members) <= {"m2"}


def test_first_that_comes_back_finds_its_place_taken() -> None:
    world = NodeWorld({"t": 1})
    first = world.join("m1", application=APP)
    first.run(("t", 0), 100, 101)
    first.close()
    second = world.join("m2", application=APP)
    again, number = registering(world, "m1")
    second.ping()
    assert answer(again, number).error is ErrorCode.SECOND_MEMBER_OF_APPLICATION


def test_same_member_as_another_process_is_no_second_member() -> None:
    world = NodeWorld()
    first = world.join("m1", application=APP)
    again, number = registering(world, "m1", incarnation="restarted")
    first.close()
    assert answer(again, number).error is ErrorCode.NONE
    assert world.reconnect(again).owned == again.owned


def test_second_is_refused_after_a_restart_of_the_coordinator() -> None:
    world = NodeWorld()
    first = world.join("m1", application=APP)
    world.restart()
    world.poll_topics()
    again = world.reconnect(first)
    second, number = registering(world, "m2")
    again.ping()
    assert answer(second, number).error is ErrorCode.SECOND_MEMBER_OF_APPLICATION


def test_first_keeps_its_place_over_a_restart_of_the_coordinator_until_its_session_is_over() -> None:
    world = NodeWorld()
    world.join("m1", application=APP)
    world.restart()
    world.poll_topics()
    second, number = registering(world, "m2")
    assert answer(second, number).error is ErrorCode.SECOND_MEMBER_OF_APPLICATION
    world.advance(10_500)
    third, number = registering(world, "m2")
    assert answer(third, number).error is ErrorCode.NONE


def test_successor_of_a_member_that_is_gone_comes_back_first_after_a_restart() -> None:
    world = NodeWorld({"t": 1})
    first = world.join("m1", application=APP)
    first.run(("t", 0), 100, 101)
    first.close()
    second, number = registering(world, "m2")
    assert answer(second, number).error is ErrorCode.NONE
    world.restart()
    world.poll_topics()
    again, number = registering(world, "m2", incarnation=second.registration.incarnation)  # type: ignore[union-attr]
    assert answer(again, number).error is ErrorCode.NONE


TOPICS, OTHER, PATTERN = Subscription(("t", "u")), Subscription(("v",)), Subscription(pattern="t.*")


def do_overlap(one: Subscription, another: Subscription) -> bool | None:
    world = NodeWorld({"t": 1})
    world.join("m1", subscription=one, wait_for_topics=True)
    return Comparison(Meter()).overlap(another, "m1", world.group().members["m1"].facts)


@pytest.mark.parametrize(
    ("one", "another", "do"),
    [
        (TOPICS, TOPICS, True),
        (TOPICS, OTHER, False),
        (TOPICS, Subscription(("u", "v"), exclusions=("u",)), False),
        (TOPICS, PATTERN, True),
        (PATTERN, OTHER, False),
        (TOPICS, Subscription(pattern="t.*", exclusions=("t",)), False),
        (PATTERN, Subscription(pattern="v.*"), True),
        (PATTERN, Subscription(partitions=(("t", 0),)), True),
        (TOPICS, Subscription(partitions=(("t", 0),)), True),
        (OTHER, Subscription(partitions=(("t", 0),)), False),
        (Subscription(partitions=(("t", 0),)), Subscription(partitions=(("t", 1),)), False),
        (Subscription(partitions=(("t", 0), ("t", 1))), Subscription(partitions=(("t", 1),)), True),
    ],
)
def test_subscriptions_overlap_where_they_may_have_a_partition_in_common(
    one: Subscription, another: Subscription, do: bool
) -> None:
    assert do_overlap(one, another) is do_overlap(another, one) is do
