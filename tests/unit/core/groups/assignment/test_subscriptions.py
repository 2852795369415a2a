"""Subscriptions by pattern, with exclusions and by explicit partitions, and topics that come, grow and go."""

import pytest

from coordinator.core.groups.assignment import subscriptions
from coordinator.core.groups.assignment.subscriptions import (
    MAX_PATTERN_LENGTH,
    MAX_PATTERN_SIZE,
    why_bad_pattern,
    why_costly_pattern,
)
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import ResetPolicy, Subscription
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

T0, T1, T2, T3 = (("t", number) for number in range(4))


def by_pattern(pattern: str, *exclusions: str) -> Subscription:
    return Subscription(pattern=pattern, exclusions=exclusions)


def join_by_pattern(world: NodeWorld, member_id: str, pattern: str, *exclusions: str) -> Member:
    return world.join(member_id, subscription=by_pattern(pattern, *exclusions))


def join_explicitly(world: NodeWorld, member_id: str, *partitions: tuple[str, int]) -> Member:
    return world.join(member_id, subscription=Subscription(partitions=partitions))


def poll(world: NodeWorld, times: int = 1) -> None:
    for _ in range(times):
        world.poll_topics()
    world.settle()


# ---- patterns -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("fl(?=x)ights", "invalid perl operator: (?= at position 2; lookaround is not supported"),
        ("a(?!b)", "at position 1; lookaround is not supported"),
        ("ab(?<=c)", "at position 2; lookaround is not supported"),
        (r"(a)b\1", r"invalid escape sequence: \1 at position 4; back-references are not supported"),
        ("(?P<n>a)(?P=n)", "back-references are not supported"),
        ("a[b", "missing ]: [b at position 1"),
        ("", "it is empty; '.*' matches every topic"),
        ("a" * (MAX_PATTERN_LENGTH + 1), "it has 1001 characters and at most 1000 are allowed"),
    ],
)
def test_pattern_is_refused_with_the_position_of_what_is_not_supported(pattern: str, words: str) -> None:
    why = why_bad_pattern(pattern)
    assert why is not None
    assert words in why
    response = NodeWorld({"t": 1}).joining("m1", subscription=by_pattern(pattern)).register()
    assert response.error is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("pattern", ["(.?){1000}y", "((.?){30}){30}y", "(.*.*){300}y", r"(\pL*.?){30}"])
def test_pattern_that_is_too_costly_to_match_is_refused_with_its_size(pattern: str) -> None:
    assert why_bad_pattern(pattern) is None
    response = NodeWorld({"t": 1}).joining("m1", subscription=by_pattern(pattern)).register()
    assert response.error is ErrorCode.INVALID_REQUEST
    assert "instructions of it and at most 2500 are allowed" in response.message


@pytest.mark.parametrize(
    "pattern",
    [
        ".{0,249}",
        "|".join(f"t{number:03}" for number in range(200)),
        "(?i)" + "|".join(f"Orders-{number:02}.{'x' * 14}" for number in range(39)),
        r"[a-z]{2,40}-[0-9]{1,10}\.(prod|dev)",
        r"[^.]{1,100}\.[^.]{1,100}",
        r"(\w+\.){5}\pL*",
    ],
)
def test_patterns_that_people_write_are_within_the_bound(pattern: str) -> None:
    assert (why_bad_pattern(pattern), why_costly_pattern(pattern)) == (None, None)


def test_member_whose_costly_pattern_is_in_a_log_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = NodeWorld({"fa": 1})
    monkeypatch.setattr(subscriptions, "MAX_PATTERN_SIZE", 1_000_000)
    m1 = join_by_pattern(world, "m1", "(.?){1000}a")
    monkeypatch.setattr(subscriptions, "MAX_PATTERN_SIZE", MAX_PATTERN_SIZE)
    world.restart()
    again = world.reconnect(m1)
    assert (sorted(again.owned), again.is_complete) == ([("fa", 0)], True)
    assert "instructions" in world.joining("m2", subscription=by_pattern("(.?){1000}a")).register().message


def test_pattern_matches_whole_names_and_passes_over_exclusions() -> None:
    world = NodeWorld({"flights": 1, "flat": 1, "a-fl": 1, "x": 1, "xx": 1})
    m1 = join_by_pattern(world, "m1", "fl.*|x", "flat")
    assert sorted(m1.owned) == [("flights", 0), ("x", 0)]


def test_member_by_pattern_reads_every_topic_that_matches() -> None:
    world = NodeWorld({"fa": 1, "fb": 2, "g": 1, "fc": 1})
    m1 = join_by_pattern(world, "m1", "f.*", "fc")
    assert (sorted(m1.owned), m1.is_complete) == ([("fa", 0), ("fb", 0), ("fb", 1)], True)
    assert {part.offset for part in m1.owned.values()} == {100}


def test_topic_that_appears_is_read_from_its_beginning() -> None:
    world = NodeWorld({"fa": 1})
    m1 = join_by_pattern(world, "m1", "f.*")
    world.kafka.topics["fb"] = 1
    poll(world)
    assert m1.owned["fb", 0].offset == 10
    assert world.events("rebalance")[-1].why == "other topics match its patterns"


def test_pattern_that_matches_nothing_yet_waits_for_a_topic() -> None:
    world = NodeWorld({"t": 1})
    m1 = join_by_pattern(world, "m1", "f.*")
    assert (m1.owned, m1.is_complete) == ({}, True)
    world.kafka.topics["f"] = 1
    poll(world)
    assert sorted(m1.owned) == [("f", 0)]


def test_topic_that_is_deleted_leaves_the_target_and_keeps_its_offsets() -> None:
    world = NodeWorld({"fa": 1, "fb": 1})
    m1 = join_by_pattern(world, "m1", "f.*")
    del world.kafka.topics["fb"]
    poll(world)
    assert m1.stopping == {}, "one answer may be of a broker that lags"
    poll(world)
    assert m1.stopping == {("fb", 0): "its topic was deleted"}
    m1.stop_all()
    assert (m1.is_complete, world.committed()) == (True, {("fa", 0): 100, ("fb", 0): 100})
    assert [event.why for event in world.events("topic-deleted")] == [
        "topic fb was deleted; its offsets stay until the group's expire"
    ]


@pytest.mark.parametrize("subscription", [by_pattern("t"), Subscription(topics=("t",)), Subscription(partitions=(T0,))])
def test_topic_that_is_deleted_and_made_again_starts_at_earliest(subscription: Subscription) -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1", subscription=subscription, reset_policy=ResetPolicy("latest"))
    del world.kafka.topics["t"]
    poll(world, 2)
    m1.stop_all()
    assert m1.owned == {}
    world.kafka.topics["t"] = 1
    world.kafka.ids["t"] = "second"
    poll(world)
    assert (m1.owned[T0].topic_id, m1.owned[T0].offset) == ("second", 10)


def test_deleted_topic_that_a_lagging_broker_forgot_goes_on_at_its_offsets() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1")
    m1.commit(T0, 150)
    del world.kafka.topics["t"]
    poll(world, 2)
    m1.stop_all()
    world.kafka.topics["t"] = 1
    poll(world)
    assert m1.owned[T0].offset == 150


def test_member_by_pattern_comes_back_without_kafka_and_is_matched_again() -> None:
    world = NodeWorld({"fa": 1})
    m1 = join_by_pattern(world, "m1", "f.*")
    world.kafka.is_away = True
    world.restart()
    again = world.reconnect(m1)
    assert (sorted(again.owned), again.is_complete) == ([("fa", 0)], True)
    world.kafka.is_away = False
    world.kafka.topics["fb"] = 1
    poll(world)
    assert sorted(again.owned) == [("fa", 0), ("fb", 0)]


def test_new_pattern_waits_for_kafka() -> None:
    world = NodeWorld({"fa": 1})
    world.kafka.is_away = True
    m1 = world.joining("m1", subscription=by_pattern("f.*"))
    assert m1.registration is not None
    asked = m1.send(m1.registration)
    assert m1.answer(asked) is None
    world.kafka.is_away = False
    poll(world)
    assert sorted(m1.owned) == [("fa", 0)]


def test_all_topics_are_listed_only_while_somebody_has_a_pattern() -> None:
    world = NodeWorld({"t": 1})
    world.join("m0")
    assert not world.lists_all
    m1 = join_by_pattern(world, "m1", "f.*")
    assert world.lists_all
    m1.leave()
    assert not world.lists_all


def test_no_pattern_matches_kafkas_internal_topics_which_may_be_named() -> None:
    world = NodeWorld({"__consumer_offsets": 1, "t": 1})
    world.kafka.internal.add("__consumer_offsets")
    named = world.join("m1", topics=("__consumer_offsets",))
    m2 = world.join("m2", group_id="g2", subscription=by_pattern(".*"))
    poll(world)
    assert (sorted(named.owned), sorted(m2.owned)) == ([("__consumer_offsets", 0)], [("t", 0)])


def test_members_of_one_group_may_subscribe_differently() -> None:
    world = NodeWorld({"a": 2, "b": 2})
    m1 = world.join("m1", topics=("a",))
    m2 = join_by_pattern(world, "m2", "[ab]", "a")
    m3 = join_explicitly(world, "m3", ("b", 1))
    for member in (m1, m2):
        member.stop_all()
    assert world.owners() == {("a", 0): "m1", ("a", 1): "m1", ("b", 0): "m2", ("b", 1): "m3"}
    assert (m1.is_complete, m2.is_complete, m3.is_complete) == (True, True, True)


# ---- exclusions and explicit partitions -----------------------------------------------------------------------------


def test_excluded_topics_are_not_read() -> None:
    world = NodeWorld({"a": 1, "b": 1})
    m1 = world.join("m1", subscription=Subscription(topics=("a", "b"), exclusions=("b",)))
    assert sorted(m1.owned) == [("a", 0)]


def test_explicit_partitions_are_taken_out_of_the_others_target_and_never_rebalanced() -> None:
    world = NodeWorld({"t": 4})
    m1 = world.join("m1")
    m2 = join_explicitly(world, "m2", T0, T3)
    assert sorted(m1.stopping) == [T0, T3]
    m1.stop_all()
    m3 = world.join("m3")
    assert (m2.stopping, sorted(m2.owned)) == ({}, [T0, T3])
    m1.stop_all()
    assert [len(member.owned) for member in (m1, m2, m3)] == [1, 2, 1]


def test_explicit_partition_is_fenced_by_its_owner_epoch() -> None:
    world = NodeWorld({"t": 2})
    m1 = join_explicitly(world, "m1", T0)
    assert m1.commit(T0, 150).error is ErrorCode.NONE
    assert m1.commit(T0, 160, m1.epoch(T0) + 1).error is ErrorCode.FENCED_OWNER_EPOCH


def test_second_claimant_of_a_partition_is_refused_with_the_owner() -> None:
    world = NodeWorld({"t": 2})
    join_explicitly(world, "m1", T0)
    response = world.joining("m2", subscription=Subscription(partitions=(T1, T0))).register()
    assert response.error is ErrorCode.PARTITION_OWNED
    assert response.message.startswith("partition t-0 is owned by member m1")


def test_explicit_partition_is_the_others_again_when_its_member_has_gone() -> None:
    world = NodeWorld({"t": 2})
    m1 = world.join("m1")
    m2 = join_explicitly(world, "m2", T0)
    m1.stop_all()
    m2.leave()
    world.settle()
    assert (sorted(m1.owned), world.group().by_facts.explicit) == ([T0, T1], {})
    assert join_explicitly(world, "m3", T0).member_id == "m3"


def test_held_partition_is_owned_by_who_is_away() -> None:
    world = NodeWorld({"t": 2})
    m1 = world.join("m1", handover="hold", instance_id="i")
    m1.run(T0, 100, 110)
    m1.close()
    world.advance(1_000)
    other = world.joining("m2", handover="hold", instance_id="j", subscription=Subscription(partitions=(T0,)))
    response = other.register()
    assert response.error is ErrorCode.PARTITION_OWNED
    assert "owned by m1 (instance i), who is away" in response.message


def test_explicit_partition_that_does_not_exist_is_refused_or_waited_for() -> None:
    world = NodeWorld({"t": 2})
    subscription = Subscription(partitions=(("t", 2),))
    response = world.joining("m1", subscription=subscription).register()
    assert response.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert response.message == "topic t has 2 partitions and no partition 2; name one that it has"
    m1 = world.join("m1", subscription=subscription, wait_for_topics=True)
    assert m1.owned == {}
    world.kafka.topics["t"] = 3
    poll(world)
    assert sorted(m1.owned) == [T2]


@pytest.mark.parametrize(
    ("subscription", "words"),
    [
        (Subscription(), "names no topic; name topics, a pattern or partitions"),
        (Subscription(topics=("t",), pattern="t"), "choose one"),
        (Subscription(partitions=(T0,), exclusions=("t",)), "leave those partitions out"),
        (Subscription(partitions=(("t", -1),)), "partition -1 of t is negative"),
        (Subscription(partitions=(("t", 2**40),)), "partition 1099511627776 of t is more than Kafka can number"),
        (Subscription(partitions=(("a/b", 0),)), "is no name of a Kafka topic"),
        (Subscription(topics=("t",), exclusions=("t",)), "excludes every topic it names"),
    ],
)
def test_bad_subscription_is_refused_with_what_to_do(subscription: Subscription, words: str) -> None:
    response = NodeWorld({"t": 1}).joining("m1", subscription=subscription).register()
    assert response.error is ErrorCode.INVALID_REQUEST
    assert words in response.message
