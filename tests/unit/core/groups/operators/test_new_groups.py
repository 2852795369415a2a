"""Resets that make their group: with what settings, when not, and what a member finds there."""

import pytest

from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.snapshot import records_of
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.limits import Limits
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsets, DescribeGroup, DescribeGroupResponse, ErrorResponse
from coordinator.protocol.messages.operators import (
    ChangePause,
    ChangePauseResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import NewGroup, ResetPolicy, ResetResult, ResetTarget
from tests.helpers.node_world import NodeWorld

T0, T1 = ("t", 0), ("t", 1)
ANN = "ann@ops"


def to(offset: int, partition: TopicPartition = T0, topic_id: str = "") -> ResetTarget:
    return ResetTarget(*partition, "offset", offset, topic_id)


def ask(
    world: NodeWorld,
    *targets: ResetTarget,
    group_id: str = "g",
    new_group: NewGroup | None = None,
    is_dry_run: bool = False,
) -> ResetOffsetsResponse:
    asked = ResetOffsets(group_id, targets, ANN, "", is_dry_run=is_dry_run, new_group=new_group or NewGroup())
    return world.connect().ask(asked, ResetOffsetsResponse)


def is_there(world: NodeWorld, group_id: str = "g") -> bool:
    response = world.connect().ask(DescribeGroup(group_id), DescribeGroupResponse)
    return response.error is ErrorCode.NONE


def test_reset_makes_its_group_and_a_dry_run_does_not() -> None:
    world = NodeWorld({"t": 2})
    shown = (ResetResult(*T0, new_offset=50), ResetResult(*T1, new_offset=60))
    assert ask(world, to(50), to(60, T1), is_dry_run=True).results == shown
    assert not is_there(world)
    assert ask(world, to(50), to(60, T1)).results == shown
    assert world.committed() == {T0: 50, T1: 60}


def test_without_new_group_a_group_that_is_not_there_is_not_made() -> None:
    world = NodeWorld({"t": 1})
    response = world.connect().ask(ResetOffsets("g", (to(50),), ANN, is_dry_run=False), ErrorResponse)
    assert response.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert not is_there(world)


def test_first_member_starts_where_the_group_was_made() -> None:
    world = NodeWorld({"t": 2})
    ask(world, to(50), to(60, T1))
    member = world.join("m1", topics=("t",))
    assert {partition: start.offset for partition, start in member.owned.items()} == {T0: 50, T1: 60}


def test_group_has_the_settings_that_it_is_made_with_and_keeps_those_it_had() -> None:
    settings = NewGroup(ResetPolicy("earliest"), "hold", 60_000)
    world = NodeWorld({"t": 1})
    ask(world, new_group=settings)
    ask(world, to(50), new_group=NewGroup(ResetPolicy("none")))
    seen = world.describe()
    assert (seen.reset_policy, seen.handover, seen.claim_timeout_ms) == (ResetPolicy("earliest"), "hold", 60_000)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (NewGroup(handover="later"), "the hand-over 'later' is not known"),
        (NewGroup(claim_timeout_ms=60_000), "a claim time-out belongs to the hand-over hold"),
        (NewGroup(handover="hold", claim_timeout_ms=1), "a claim time-out of 1 ms is not allowed"),
        (NewGroup(ResetPolicy("newest")), "the reset policy 'newest' is not known"),
        (NewGroup(ResetPolicy("timestamp")), "a timestamp belongs to the reset policy 'timestamp'"),
        (NewGroup(ResetPolicy("timestamp", -1)), "the timestamp -1 is negative"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: NewGroup, why: str) -> None:
    world = NodeWorld({"t": 1})
    response = ask(world, to(50), new_group=settings)
    assert response.error is ErrorCode.INVALID_REQUEST
    assert why in response.message
    assert not is_there(world)


@pytest.mark.parametrize("group_id", ["", "a/b", "a\nb", "x" * 300])
def test_bad_id_is_refused(group_id: str) -> None:
    assert ask(NodeWorld({"t": 1}), to(50), group_id=group_id).error is ErrorCode.INVALID_GROUP_ID


def test_shard_that_is_full_of_groups_takes_no_more() -> None:
    world = NodeWorld({"t": 1}, limits=Limits(groups_max=1), shards=1)
    ask(world, to(50))
    assert ask(world, to(50), group_id="other").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_no_more_groups_are_made_than_one_may_have_while_kafka_is_asked_about_each() -> None:
    world = NodeWorld({"t": 1}, limits=Limits(principal_max_groups=2))
    world.kafka.is_late = True
    tools = [world.connect() for _ in range(4)]
    asked = [ResetOffsets(f"g{n}", (to(50),), ANN, "", is_dry_run=False, new_group=NewGroup()) for n in range(4)]
    numbers = [tool.send(request) for tool, request in zip(tools, asked, strict=True)]
    world.answer_late()
    answers = [tool.answer(number) for tool, number in zip(tools, numbers, strict=True)]
    errors = [answer.error for answer in answers if isinstance(answer, ResetOffsetsResponse)]
    assert errors == [ErrorCode.NONE] * 2 + [ErrorCode.GROUP_MAX_SIZE_REACHED] * 2
    assert [is_there(world, f"g{n}") for n in range(4)] == [True, True, False, False]


def test_group_is_not_made_where_no_partition_is_accepted() -> None:
    world = NodeWorld({"t": 1})
    world.kafka.absent.add(("typo", 0))
    (result,) = ask(world, to(50, ("typo", 0))).results
    assert result.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not is_there(world)


def test_group_that_others_make_meanwhile_is_not_touched() -> None:
    world = NodeWorld({"t": 1})
    held = world.kafka.resolve

    def make_first(asked):  # type: ignore[no-untyped-def]
        world.connect().send(CommitOffsets("g", in_columns([OffsetToCommit(*T0, 77)])))
        return held(asked)

    world.kafka.resolve = make_first  # type: ignore[method-assign]
    response = ask(world, to(50))
    assert (response.error, "ask again" in response.message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, True)
    assert world.committed() == {T0: 77}


def test_offset_of_a_topic_that_was_made_again_is_refused() -> None:
    world = NodeWorld({"t": 2}, shards=1)
    world.join("m1", topics=("t",)).leave()
    first, second = ask(world, to(50, T0, "id-before"), to(60, T1, "id-t")).results
    assert (first.error, second.error) == (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NONE)
    assert "was deleted and made again" in first.message


@pytest.mark.parametrize("topic_id", ["", "id-t"])
def test_offset_of_a_topic_that_nobody_reads_yet_counts_for_that_topic_alone(topic_id: str) -> None:
    world = NodeWorld({"t": 1})
    ask(world, to(50, T0, topic_id), new_group=NewGroup(ResetPolicy("earliest")))
    world.kafka.ids["t"] = "id-again"
    world.poll_topics()
    member = world.join("m1", topics=("t",))
    assert member.owned[T0].offset == 10, "the log of another topic was read up to there"


def test_offset_of_a_topic_that_was_made_again_is_refused_also_where_nobody_reads_it_yet() -> None:
    world = NodeWorld({"t": 1})
    (result,) = ask(world, to(50, T0, "id-before")).results
    assert result.error is ErrorCode.UNKNOWN_TOPIC_ID
    assert "was deleted and made again: its id was id-before, and is id-t" in result.message
    assert not is_there(world)


def test_group_whose_topics_nobody_reads_is_told_of_one_that_was_made_again() -> None:
    world = NodeWorld({"t": 2}, shards=1)
    ask(world, to(50), to(60, T1))
    world.kafka.ids["t"] = "id-again"
    world.poll_topics()
    now, current = ask(world, to(70), ResetTarget(*T1, "current", None)).results
    assert (now.error, now.old_offset, now.new_offset) == (ErrorCode.NONE, None, 70)
    # As in Kafka's tool, the current offset of a partition that has none is its end.
    assert (current.error, current.old_offset, current.new_offset) == (ErrorCode.NONE, None, 100)
    member = world.join("m1", topics=("t",), reset_policy=ResetPolicy("earliest"))
    assert {partition: start.offset for partition, start in member.owned.items()} == {T0: 70, T1: 100}


def test_group_is_stable_again_once_it_was_told_of_a_topic_that_its_members_do_not_read() -> None:
    """The topic as it is now outdated the target, and no rebalance came: the group was Assigning for ever."""
    world = NodeWorld({"t": 2, "u": 1}, shards=1)
    world.join("m1", topics=("u",)).leave()
    world.join("m2", topics=("t",))
    world.kafka.ids["u"] = "id-again"
    world.poll_topics()
    (result,) = ask(world, to(50, ("u", 0))).results
    assert (result.error, result.new_offset) == (ErrorCode.NONE, 50)
    world.settle()
    assert (world.describe().state, world.owners()) == ("Stable", {T0: "m2", T1: "m2"})


def test_group_that_was_made_can_be_paused_and_is_forgotten_in_its_time() -> None:
    world = NodeWorld({"t": 1})
    ask(world, to(50))
    paused = world.connect().ask(ChangePause("g", (T0,), True, ANN, "", False), ChangePauseResponse)
    assert paused.partitions == (T0,)
    assert world.describe().forgotten_in_ms == Limits().offsets_retention_ms


def test_group_that_was_made_is_rebuilt_from_a_snapshot() -> None:
    world = NodeWorld({"t": 1}, shards=1)
    ask(world, to(50), new_group=NewGroup(ResetPolicy("earliest"), "hold", 60_000))
    rebuilt = ShardState()
    for record in records_of(world.state(0)):
        replay(rebuilt, record, None)
    assert rebuilt == world.state(0)


@pytest.mark.parametrize("topic_id", ["x" * 5_000, "a\nb"])
def test_topic_id_that_can_be_none_is_refused(topic_id: str) -> None:
    world = NodeWorld({"t": 1})
    response = ask(world, to(50, T0, topic_id))
    assert (response.error, "the id of a topic" in response.message) == (ErrorCode.INVALID_REQUEST, True)
    assert not is_there(world)


@pytest.mark.parametrize("topic_id", ["", "id-again"])
def test_offset_of_a_topic_as_it_is_now_is_taken_by_a_group_that_read_the_one_before(topic_id: str) -> None:
    world = NodeWorld({"t": 1}, shards=1)
    world.join("m1", topics=("t",), reset_policy=ResetPolicy("latest")).leave()
    ask(world, to(90))
    world.kafka.ids["t"] = "id-again"
    world.poll_topics()
    (before,) = ask(world, to(50, T0, "id-t")).results
    assert before.error is ErrorCode.UNKNOWN_TOPIC_ID
    (now,) = ask(world, to(50, T0, topic_id)).results
    assert (now.error, now.old_offset) == (ErrorCode.NONE, None)
    assert world.join("m1", topics=("t",)).owned[T0].offset == 50
