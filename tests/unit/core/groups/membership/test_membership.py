"""Who is in a group: joining, dying, leaving, and what a restart of the coordinator keeps."""

import pytest
from msgspec.structs import replace

from coordinator.core.effects import WatchTopics
from coordinator.core.limits import Limits
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    ErrorResponse,
    Fenced,
    FetcherStarted,
    FetcherStartedResponse,
    Ping,
    RegisterConsumerResponse,
)
from coordinator.protocol.parts import (
    FinalOffset,
    OwnedPartition,
    ResetPolicy,
    StartHint,
    Subscription,
)
from tests.helpers.node_world import NodeWorld

T0, T1, T2, T3 = [("t", number) for number in range(4)]


# ---- what a registration may say ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "error", "words"),
    [
        (
            {"group_id": "a/b"},
            ErrorCode.INVALID_GROUP_ID,
            "group id is not allowed: it is or contains a path separator",
        ),
        ({"member_id": "m\n1"}, ErrorCode.INVALID_REQUEST, "member id is not allowed: it contains a control"),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST, "instance id is not allowed: it is empty"),
        ({"incarnation": " x"}, ErrorCode.INVALID_REQUEST, "incarnation is not allowed: it begins or ends"),
        ({"session_timeout_ms": 999}, ErrorCode.INVALID_SESSION_TIMEOUT, "choose one from 1000 to 1800000 ms"),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT, "choose one from 1000 to 1800000 ms"),
        ({"rebalance_timeout_ms": 0}, ErrorCode.INVALID_REQUEST, "choose one from 1000 to 86400000 ms"),
        ({"streams": 0}, ErrorCode.INVALID_REQUEST, "choose from 1 to 10000"),
        ({"topics": ()}, ErrorCode.INVALID_REQUEST, "names no topic"),
        ({"topics": ("a b",)}, ErrorCode.INVALID_REQUEST, "'a b' is no name of a Kafka topic"),
        ({"subscription": Subscription(pattern="(?=a)")}, ErrorCode.INVALID_REQUEST, "lookaround is not supported"),
        ({"handover": "later"}, ErrorCode.INVALID_REQUEST, "'later' is not known; use one of takeover, hold"),
        ({"handover": "hold"}, ErrorCode.INVALID_REQUEST, "set kcoord.instance.id"),
        ({"claim_timeout_ms": 5_000}, ErrorCode.INVALID_REQUEST, "belongs to the hand-over hold"),
        (
            {"handover": "hold", "instance_id": "i", "claim_timeout_ms": 999},
            ErrorCode.INVALID_REQUEST,
            "a claim time-out of 999 ms is not allowed; choose one from 1000 to 2592000000 ms",
        ),
        ({"reset_policy": ResetPolicy("newest")}, ErrorCode.INVALID_REQUEST, "use one of earliest, latest"),
        ({"reset_policy": ResetPolicy("timestamp")}, ErrorCode.INVALID_REQUEST, "a timestamp belongs to"),
        ({"reset_policy": ResetPolicy("latest", 5)}, ErrorCode.INVALID_REQUEST, "a timestamp belongs to"),
        ({"reset_policy": ResetPolicy("timestamp", -5)}, ErrorCode.INVALID_REQUEST, "is negative"),
        ({"reset_policy": ResetPolicy("timestamp", 2**63)}, ErrorCode.INVALID_REQUEST, "later than Kafka can say"),
        ({"hints": (StartHint("t", "", 2**40, 5, True),)}, ErrorCode.INVALID_REQUEST, "more than Kafka can number"),
        ({"hints": (StartHint("t", "", 0, 2**63, True),)}, ErrorCode.INVALID_REQUEST, "more than Kafka can count"),
        ({"hints": (StartHint("t", "", 0, -3, False),)}, ErrorCode.INVALID_REQUEST, "the start -3 of t-0"),
        ({"hints": (StartHint("t", "", 0, -1, True),)}, ErrorCode.INVALID_REQUEST, "an end in a checkpoint never is"),
        ({"assignors": ("magic",)}, ErrorCode.UNSUPPORTED_ASSIGNOR, "name one of sticky, range, round-robin"),
        ({"topics": ("missing",)}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "set kcoord.wait.for.topics to true"),
    ],
)
def test_bad_registration_is_refused_with_what_to_do(facts: dict[str, object], error: ErrorCode, words: str) -> None:
    world = NodeWorld()
    response = world.joining(**facts).register()  # type: ignore[arg-type]
    assert (response.error, words in response.message) == (error, True), response.message
    assert world.state(0).groups == world.state(1).groups == {}


def test_ping_interval_is_a_third_of_the_session_unless_a_shorter_one_is_wished() -> None:
    world = NodeWorld()
    member = world.joining("m1", session_timeout_ms=9_000)
    assert member.register().ping_interval_ms == 3_000


def test_member_without_an_id_gets_a_fresh_one() -> None:
    world = NodeWorld()
    assert world.join().member_id == "fresh-2"


def test_group_full_refuses_newcomers_and_not_members() -> None:
    world = NodeWorld(limits=Limits(group_max_members=1))
    m1 = world.join("m1")
    refused = world.joining("m2").register()
    assert (refused.error, "at most 1" in refused.message) == (ErrorCode.GROUP_MAX_SIZE_REACHED, True)
    assert world.reconnect(m1).member_id == "m1"


def test_assignor_must_be_common_to_all() -> None:
    world = NodeWorld()
    world.join("m1", assignors=("range",))
    refused = world.joining("m2", assignors=("sticky",)).register()
    assert (refused.error, "name one of range" in refused.message) == (ErrorCode.UNSUPPORTED_ASSIGNOR, True)


def test_reset_policy_conflict_is_refused_naming_both() -> None:
    world = NodeWorld()
    world.join("m1", reset_policy=ResetPolicy("earliest"))
    refused = world.joining("m2", reset_policy=ResetPolicy("timestamp", 5)).register()
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert "timestamp 5 differs from earliest" in refused.message
    world.join("m3")
    world.join("m4", reset_policy=ResetPolicy("earliest"))


def test_registration_of_another_member_on_a_connection_is_refused() -> None:
    world = NodeWorld()
    member = world.join("m1")
    assert member.registration is not None
    member.registration = replace(member.registration, member_id="m2")
    assert member.register().error is ErrorCode.INVALID_REQUEST


def test_requests_of_a_connection_without_a_member_are_refused() -> None:
    world = NodeWorld()
    assert world.connect().ask(Ping(0), ErrorResponse).error is ErrorCode.UNKNOWN_MEMBER_ID


# ---- topics ---------------------------------------------------------------------------------------------------------


def test_registration_waits_until_kafka_has_spoken_about_its_topics() -> None:
    world = NodeWorld()
    world.kafka.is_away = True
    m1 = world.joining("m1")
    asked = m1.send(m1.registration)  # type: ignore[arg-type]
    assert m1.answer(asked) is None
    assert WatchTopics(frozenset({"t"})) in world.effects
    world.kafka.is_away = False
    world.poll_topics()
    response = m1.answer(asked)
    assert isinstance(response, RegisterConsumerResponse)
    assert (response.error, sorted(m1.owned)) == (ErrorCode.NONE, [T0, T1, T2, T3])


def test_registration_that_kafka_does_not_answer_is_refused_with_kafkas_failure() -> None:
    world = NodeWorld()
    world.kafka.is_away = True
    m1 = world.joining("m1")
    asked = m1.send(m1.registration)  # type: ignore[arg-type]
    world.advance(Limits().registration_timeout_ms - 100)
    assert m1.answer(asked) is None
    world.advance(100)
    response = m1.answer(asked)
    assert isinstance(response, RegisterConsumerResponse)
    assert response.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "Kafka at broker:9092 cannot be reached: connection refused" in response.message


def test_registration_whose_connection_closes_is_forgotten() -> None:
    world = NodeWorld()
    world.kafka.is_away = True
    m1 = world.joining("m1")
    m1.send(m1.registration)  # type: ignore[arg-type]
    m1.close()
    world.kafka.is_away = False
    world.poll_topics()
    assert world.state(0).groups == world.state(1).groups == {}
    assert world.watched == frozenset()


def test_topic_that_kafka_refuses_is_refused_with_kafkas_reason() -> None:
    world = NodeWorld()
    world.kafka.refused["t"] = "not authorized"
    refused = world.joining("m1").register()
    assert (refused.error, "not authorized" in refused.message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)


def test_wait_for_topics_joins_and_gets_the_topic_from_its_beginning_once_it_exists() -> None:
    world = NodeWorld({})
    m1 = world.join("m1", wait_for_topics=True)
    assert (m1.owned, m1.is_complete) == ({}, True)
    world.kafka.topics["t"] = 2
    world.poll_topics()
    world.settle()
    assert {partition: part.offset for partition, part in m1.owned.items()} == {T0: 10, T1: 10}


# ---- dying and leaving ----------------------------------------------------------------------------------------------


def test_member_that_says_nothing_for_its_session_timeout_expires() -> None:
    world = NodeWorld({"t": 2})
    m1, m2 = world.join("m1", session_timeout_ms=2_000), world.join("m2")
    m1.stop_all()
    world.advance(1_500)
    m1.ping()
    world.advance(1_900)
    assert m1.fenced is None
    world.advance(200)
    assert m1.fenced == Fenced(ErrorCode.UNKNOWN_MEMBER_ID, "no message for 2000 ms; register again")
    world.settle()
    assert sorted(m2.owned) == [T0, T1]


def test_sessions_that_end_together_are_looked_at_in_slices() -> None:
    limits = Limits(slice_members=2)
    world = NodeWorld({"t": 7}, limits=limits)
    members = [world.join(f"m{number}") for number in range(7)]
    world.restart()
    pings = [world.reconnect(member) for member in members[:3]]
    assert members[0].registration is not None
    timeout_ms = members[0].registration.session_timeout_ms
    for _ in range(10):
        world.advance(timeout_ms // 10)
        assert [member.ping().error for member in pings] == [ErrorCode.NONE] * 3
    world.advance(500)
    assert sorted(world.group().members) == ["m0", "m1", "m2"]


def test_any_message_keeps_a_member_alive() -> None:
    world = NodeWorld()
    m1 = world.join("m1", session_timeout_ms=2_000)
    for _ in range(5):
        world.advance(1_500)
        m1.ask(FetcherStarted((OwnedPartition(*T0, m1.epoch(T0)),)), FetcherStartedResponse)
    assert world.owners()[T0] == "m1"


def test_closed_connection_without_a_running_claim_is_the_end_at_once() -> None:
    world = NodeWorld({"t": 2})
    m1, m2 = world.join("m1"), world.join("m2")
    m1.stop_all()
    m1.advance(claims=[m1.claim(T0, 100, 110)])
    m1.close()
    world.settle()
    assert (sorted(m2.owned), m2.is_complete) == ([T0, T1], True)
    assert world.events("member-expired")[0].why == "its connection closed (reset by peer)"


def test_closed_connection_with_a_running_claim_has_a_grace_to_come_back() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1")
    claim = m1.run(T0, 100, 110)
    m1.close()
    world.advance(950)
    again = world.reconnect(m1, claims=(claim,))
    world.advance(5_000)
    assert (again.owned, world.group().group_epoch) == (m1.owned, 1)


def test_static_member_that_is_started_again_within_its_session_keeps_its_place_and_nobody_notices() -> None:
    world = NodeWorld({"t": 2})
    m1, m2 = world.join("", instance_id="one"), world.join("m2")
    m1.stop_all()
    m1.commit(T0, 130)
    before = world.group().group_epoch
    m1.close()
    world.advance(9_000)
    m2.send(Ping(0))
    again = world.join("", instance_id="one", incarnation="the-next-process")
    world.advance(9_900)
    assert (again.member_id, sorted(again.owned), sorted(m2.owned)) == (m1.member_id, [T0], [T1])
    assert (again.owned[T0].offset, world.group().group_epoch) == (130, before)
    assert world.events("member-expired") == []


def test_static_member_that_does_not_come_back_is_gone_when_its_session_is_over() -> None:
    world = NodeWorld({"t": 2})
    m1, m2 = world.join("", instance_id="one"), world.join("m2")
    m1.stop_all()
    m1.close()
    world.advance(9_900)
    m2.send(Ping(0))
    assert sorted(m2.owned) == [T1]
    world.advance(200)
    assert sorted(m2.owned) == [T0, T1]
    said = "its connection closed (reset by peer), and nobody came back with its instance id"
    assert world.events("member-expired")[0].why == f"no message for 10000 ms: {said}"


def test_member_that_leaves_commits_its_finals_and_releases_everything() -> None:
    world = NodeWorld({"t": 2})
    m1, m2 = world.join("m1"), world.join("m2")
    m1.stop_all()
    m1.run(T0, 100, 110)
    m1.leave(FinalOffset(*T0, m1.epoch(T0), 110))
    world.settle()
    assert (sorted(m2.owned), world.committed()[T0]) == ([T0, T1], 110)
    assert m1.ask(Ping(0), ErrorResponse).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_comes_back_to_leave_and_has_left_is_let_in_no_more() -> None:
    world = NodeWorld({"t": 2})
    m1, m2 = world.join("m1"), world.join("m2")
    m1.leave()
    world.settle()
    before = world.group().group_epoch
    for member_id, group_id in (("m1", "g"), ("m1", "of-nobody")):
        again = world.joining(member_id, group_id=group_id, is_leaving=True, is_rejoining=True)
        response = again.register()
        assert response.error is ErrorCode.UNKNOWN_MEMBER_ID
        assert f"{member_id} is no member of group {group_id} any more" in response.message
    world.settle()
    assert (world.group().group_epoch, list(world.group().members)) == (before, ["m2"])
    assert sorted(m2.owned) == [T0, T1]
    assert "of-nobody" not in world.node.hard_state(0).groups


def test_member_that_comes_back_to_leave_and_is_there_has_its_place_and_leaves() -> None:
    world = NodeWorld({"t": 2})
    m1, m2 = world.join("m1"), world.join("m2")
    again = world.reconnect(m1, is_leaving=True, is_rejoining=True)
    assert sorted(again.owned) == sorted(m1.owned)
    again.leave()
    world.settle()
    assert sorted(m2.owned) == [T0, T1]


def test_member_that_comes_back_to_leave_what_is_held_for_it_is_let_in() -> None:
    world = NodeWorld({"t": 1})
    facts = {"handover": "hold", "instance_id": "i"}
    m1 = world.join("m1", **facts)
    claim = m1.run(T0, 100, 110)
    m1.close()
    world.advance(60_000)
    assert "m1" not in world.group().members
    again = world.reconnect(m1, is_leaving=True, is_rejoining=True, claims=(claim,))
    again.leave()
    world.settle()
    assert not world.group().owned_by("m1")


def test_group_without_members_is_empty_and_keeps_its_offsets() -> None:
    world = NodeWorld({"t": 1})
    world.join("m1").leave()
    world.settle()
    assert (world.describe().state, world.committed()) == ("Empty", {T0: 100})


# ---- restart of the coordinator -------------------------------------------------------------------------------------


def test_restart_loses_nothing_and_members_come_back_without_a_rebalance() -> None:
    world = NodeWorld({"t": 4})
    m1, m2 = world.join("m1"), world.join("m2")
    m1.stop_all()
    m1.commit(T0, 123)
    before = world.group()
    world.restart()
    assert world.group() == before
    m1, m2 = world.reconnect(m1), world.reconnect(m2)
    world.advance(9_000)
    assert (sorted(m1.owned), sorted(m2.owned)) == ([T0, T1], [T2, T3])
    assert (world.group().group_epoch, m1.is_complete, m2.is_complete) == (2, True, True)
    assert world.committed()[T0] == 123


def test_restarted_coordinator_needs_no_kafka_for_a_member_that_returns() -> None:
    world = NodeWorld()
    m1 = world.join("m1")
    world.kafka.is_away = True
    world.restart()
    assert sorted(world.reconnect(m1).owned) == [T0, T1, T2, T3]


def test_restart_gives_every_member_a_full_session_and_hands_nothing_over_before() -> None:
    world = NodeWorld({"t": 2})
    m1, m2 = world.join("m1"), world.join("m2")
    m1.stop_all()
    world.restart()
    m2 = world.reconnect(m2)
    world.advance(9_900)
    m2.ping()
    assert world.owners() == {T0: "m1", T1: "m2"}
    world.advance(200)
    world.settle()
    assert world.owners() == {T0: "m2", T1: "m2"}


def test_stop_in_progress_goes_on_after_a_restart_with_a_full_deadline() -> None:
    world = NodeWorld({"t": 2})
    m1, m2 = world.join("m1", rebalance_timeout_ms=4_000), world.join("m2")
    world.advance(3_000)
    world.restart()
    m1, m2 = world.reconnect(m1), world.reconnect(m2)
    assert sorted(m1.stopping) == [T1]
    world.advance(3_500)
    assert m1.taken == []
    m1.stopped(T1)
    assert (sorted(m2.owned), m2.is_complete) == ([T1], True)


def test_change_that_a_restart_interrupted_is_finished() -> None:
    world = NodeWorld({"t": 2})
    world.join("m1")
    world.join("m2", is_settled=False)
    world.restart()
    world.settle()
    assert world.group().members["m2"].target == {T1}


def test_what_was_not_durable_is_lost_and_was_never_said() -> None:
    world = NodeWorld(is_durable_at_once=False)
    m1 = world.joining("m1")
    asked = m1.send(m1.registration)  # type: ignore[arg-type]
    assert (m1.inbox, m1.answer(asked)) == ([], None)
    world.restart()
    assert world.state(0).groups == world.state(1).groups == {}
