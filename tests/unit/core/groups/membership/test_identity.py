"""Members that come back, and processes that claim to be the same member."""

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    Ping,
    Probe,
    RegisterConsumerResponse,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.parts import (
    Subscription,
)
from tests.helpers.node_world import NodeWorld

T0, T1, T2, T3 = [("t", number) for number in range(4)]


# ---- coming back ----------------------------------------------------------------------------------------------------


def test_same_process_on_a_new_connection_keeps_what_it_has_and_nobody_notices() -> None:
    world = NodeWorld()
    m1 = world.join("m1")
    before = dict(m1.owned)
    again = world.reconnect(m1)
    assert (again.owned, again.is_complete, world.group().group_epoch) == (before, True, 1)
    assert m1.closed_why == "member m1 has registered on a new connection"


def test_first_start_after_a_registration_is_the_whole_even_when_empty() -> None:
    world = NodeWorld({"t": 1})
    world.join("m1")
    again = world.reconnect(world.join("m2"))
    assert again.inbox[1] == StartFetcher((), is_complete=True, member_epoch=2, group_epoch=2, to_follow=0)


def test_stop_is_said_again_to_a_member_that_comes_back_with_a_full_deadline() -> None:
    world = NodeWorld({"t": 2})
    m1 = world.join("m1", rebalance_timeout_ms=4_000)
    world.join("m2")
    world.advance(3_000)
    again = world.reconnect(m1)
    (stop,) = [push for push in again.inbox if isinstance(push, StopFetcher)]
    assert (stop.deadline_ms, [part.partition for part in stop.partitions]) == (4_000, [1])
    world.advance(3_900)
    assert again.taken == []
    world.advance(100)
    assert again.taken == [("t", 1)]


def test_changed_subscription_at_registration_rebalances() -> None:
    world = NodeWorld({"t": 1, "u": 1})
    m1 = world.join("m1")
    again = world.reconnect(m1, subscription=Subscription(topics=("u",)))
    world.settle()
    assert sorted(again.stopping) == [T0]
    again.stop_all()
    assert sorted(again.owned) == [("u", 0)]


# ---- two processes, one identity ------------------------------------------------------------------------------------


def test_copied_identity_is_refused_while_the_first_lives() -> None:
    world = NodeWorld()
    first = world.join("m1", pid=111)
    copy = world.joining("m1", incarnation="another-process")
    asked = copy.send(copy.registration)  # type: ignore[arg-type]
    assert (first.inbox[-1], copy.answer(asked)) == (Probe(), None)
    first.ping()
    response = copy.answer(asked)
    assert isinstance(response, RegisterConsumerResponse)
    assert response.error is ErrorCode.MEMBER_ID_IN_USE
    assert "process 111 on 10.0.0.1" in response.message
    assert first.closed_why is None


def test_newcomer_takes_the_place_of_a_member_that_does_not_answer_a_probe() -> None:
    world = NodeWorld()
    first = world.join("m1")
    copy = world.joining("m1", incarnation="another-process")
    copy.send(copy.registration)  # type: ignore[arg-type]
    world.advance(1_900)
    assert copy.member_id == ""
    world.advance(100)
    assert copy.member_id == "m1"
    assert (copy.owned, copy.is_complete) == (first.owned, True)
    assert first.closed_why == "another process took the place of member m1: it did not answer a probe"
    assert [event.member_id for event in world.events("member-replaced")] == ["m1"]


def test_probe_that_waits_for_a_slow_disk_takes_none_of_the_time_to_answer_it() -> None:
    world = NodeWorld(is_durable_at_once=False)
    first = world.joining("m1")
    first.send(first.registration)  # type: ignore[arg-type]
    copy = world.joining("m1", incarnation="another-process")
    asked = copy.send(copy.registration)  # type: ignore[arg-type]
    world.advance(5_000)
    assert (first.inbox, copy.answer(asked)) == ([], None)
    world.sync()
    assert Probe() in first.inbox
    world.advance(1_900)
    first.ping()
    world.sync()
    refused = copy.answer(asked)
    assert isinstance(refused, RegisterConsumerResponse)
    assert refused.error is ErrorCode.MEMBER_ID_IN_USE
    assert first.closed_why is None


def test_newcomer_takes_the_place_at_once_when_the_probed_connection_closes() -> None:
    world = NodeWorld()
    first = world.join("m1")
    copy = world.joining("m1", incarnation="another-process")
    copy.send(copy.registration)  # type: ignore[arg-type]
    first.close()
    assert (copy.member_id, copy.owned, world.group().group_epoch) == ("m1", first.owned, 1)


def test_instance_id_stands_for_the_member_that_has_it() -> None:
    world = NodeWorld()
    first = world.join("", instance_id="i1")
    copy = world.joining("", instance_id="i1", incarnation="another-process")
    copy.send(copy.registration)  # type: ignore[arg-type]
    first.close()
    assert copy.member_id == first.member_id
    other = world.joining("somebody", instance_id="i1").register()
    assert other.error is ErrorCode.FENCED_INSTANCE_ID


def test_third_process_is_refused_while_the_second_waits_for_a_probe() -> None:
    world = NodeWorld()
    world.join("m1")
    second = world.joining("m1", incarnation="second")
    second.send(second.registration)  # type: ignore[arg-type]
    assert world.joining("m1", incarnation="third").register().error is ErrorCode.MEMBER_ID_IN_USE


def test_newcomer_is_refused_when_the_probed_process_comes_back_on_another_connection() -> None:
    world = NodeWorld()
    first = world.join("m1")
    copy = world.joining("m1", incarnation="another-process")
    number = copy.send(copy.registration)  # type: ignore[arg-type]
    again = world.reconnect(first)
    refused = copy.answer(number)
    assert isinstance(refused, RegisterConsumerResponse)
    assert refused.error is ErrorCode.MEMBER_ID_IN_USE
    world.advance(3_000)
    assert (again.closed_why, again.ping().error) == (None, ErrorCode.NONE)


def test_probe_ends_when_the_newcomer_goes_away() -> None:
    world = NodeWorld()
    first = world.join("m1")
    copy = world.joining("m1", incarnation="another-process")
    copy.send(copy.registration)  # type: ignore[arg-type]
    copy.close()
    world.advance(3_000)
    assert (first.closed_why, first.ping().error) == (None, ErrorCode.NONE)


def test_late_frames_of_a_replaced_process_are_dropped() -> None:
    world = NodeWorld()
    first = world.join("m1")
    world.reconnect(first)
    said = len(first.inbox)
    first.send(Ping(0))
    assert len(first.inbox) == said
