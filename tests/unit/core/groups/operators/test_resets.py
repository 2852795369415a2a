"""Resets of committed offsets while a group runs: where they lead, when they are done, who is fenced by them."""

from collections.abc import Iterable

import pytest

from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.snapshot import records_of
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import LATEST
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse, ErrorResponse
from coordinator.protocol.messages.operators import (
    CancelResets,
    CancelResetsResponse,
    ChangePause,
    ChangePauseResponse,
    DeleteGroup,
    DeleteOffsets,
    DescribeControls,
    DescribeControlsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import FinalOffset, ResetResult, ResetTarget
from tests.helpers.node_member import Member
from tests.helpers.node_world import WALL_OFFSET_MS, NodeWorld

T0, T1 = ("t", 0), ("t", 1)
ANN = "ann@ops"


def reset(
    world: NodeWorld, *targets: ResetTarget, release_claims: bool = False, is_dry_run: bool = False
) -> tuple[ResetResult, ...]:
    asked = ResetOffsets("g", targets, ANN, "bad deploy", release_claims, is_dry_run)
    response = world.connect().ask(asked, ResetOffsetsResponse)
    assert response.error is ErrorCode.NONE, response.message
    return response.results


def to(offset: int, partition: TopicPartition = T0) -> ResetTarget:
    return ResetTarget(*partition, "offset", offset)


def cancel(
    world: NodeWorld, partitions: Iterable[TopicPartition] | None, *, is_dry_run: bool = False
) -> list[ErrorCode]:
    asked = CancelResets("g", None if partitions is None else tuple(partitions), ANN, "", is_dry_run)
    return [result.error for result in world.connect().ask(asked, CancelResetsResponse).results]


def pending(world: NodeWorld) -> dict[TopicPartition, int | None]:
    response = world.connect().ask(DescribeControls("g"), DescribeControlsResponse)
    return {
        (found.topic, found.partition or 0): found.offset
        for found in response.controls
        if found.kind == "reset-pending"
    }


def idle_group(committed: int = 50) -> NodeWorld:
    """A group without members whose t-0 is committed there; Kafka holds [10, 100)."""
    world = NodeWorld({"t": 2}, shards=1)
    world.join("m1", topics=("t",)).leave()
    world.kafka.begins[T0] = 10
    asked = CommitOffsets("g", in_columns((OffsetToCommit(*T0, 100),)))
    world.connect().ask(asked, CommitOffsetsResponse)
    reset(world, to(committed))
    return world


def running(world: NodeWorld) -> tuple[Member, object]:
    member = world.join("m1")
    return member, member.run(T0, 100, 110)


class TestWhereTo:
    @pytest.mark.parametrize(
        ("kind", "value", "expected", "remark"),
        [
            ("earliest", None, 10, ""),
            ("latest", None, 100, ""),
            ("current", None, 50, ""),
            ("offset", 70, 70, ""),
            ("offset", 100, 100, ""),
            ("offset", 101, 100, "offset 101 is after the end; set to 100"),
            ("offset", 9, 10, "offset 9 is before the first one; set to 10"),
            ("shift", -20, 30, ""),
            ("shift", 20, 70, ""),
            ("shift", -60, 10, "offset -10 is before the first one; set to 10"),
            ("shift", 60, 100, "offset 110 is after the end; set to 100"),
            ("timestamp", 1234, 42, ""),
            ("duration", 5_000, 42, ""),
        ],
    )
    def test_each_kind_leads_where_kafkas_tool_leads(
        self, kind: str, value: int | None, expected: int, remark: str
    ) -> None:
        world = idle_group()
        world.kafka.at_timestamp[T0] = 42
        dry = reset(world, ResetTarget(*T0, kind, value), is_dry_run=True)
        assert dry == (ResetResult(*T0, message=remark, old_offset=50, new_offset=expected),)
        assert world.committed()[T0] == 50
        assert reset(world, ResetTarget(*T0, kind, value)) == dry
        assert world.committed()[T0] == expected

    def test_time_after_the_last_record_means_the_end(self) -> None:
        world = idle_group()
        assert reset(world, ResetTarget(*T0, "timestamp", 1234))[0].new_offset == 100

    def test_duration_is_counted_back_from_now(self) -> None:
        world = idle_group()
        reset(world, ResetTarget(*T0, "duration", 5_000), is_dry_run=True)
        asked = {item.timestamp_ms for lookup in world.kafka.resolved[-2:] for item in lookup.offsets}
        assert asked == {world.now_ms + WALL_OFFSET_MS - 5_000, LATEST}

    def test_current_without_a_committed_offset_is_the_end_and_cannot_be_shifted(self) -> None:
        world = NodeWorld({"t": 2, "u": 1})
        world.join("m1").leave()
        results = reset(world, ResetTarget("u", 0, "current"), is_dry_run=True)
        assert (results[0].old_offset, results[0].new_offset) == (None, 100)
        results = reset(world, ResetTarget("u", 0, "shift", 5))
        assert (results[0].error, results[0].new_offset) == (ErrorCode.INVALID_REQUEST, None)

    @pytest.mark.parametrize("is_read_by_others", [False, True])
    @pytest.mark.parametrize(("kind", "value"), [("latest", None), ("offset", 300), ("timestamp", 1234)])
    def test_topic_that_was_made_again_since_the_last_poll_is_the_one_that_is_meant(
        self, kind: str, value: int | None, *, is_read_by_others: bool
    ) -> None:
        world = idle_group()
        if is_read_by_others:
            world.join("o", group_id="other")
        world.kafka.ids["t"], world.kafka.begins[T0], world.kafka.ends[T0] = "id-again", 0, 300
        assert reset(world, ResetTarget(*T0, kind, value)) == (ResetResult(*T0, old_offset=None, new_offset=300),)
        world.poll_topics()
        assert world.join("m2").owned[T0].offset == 300

    def test_topics_are_read_once_for_all_that_is_asked_of_a_reset(self) -> None:
        world = idle_group()
        reset(world, to(20), ResetTarget(*T1, "latest"), is_dry_run=True)
        assert [lookup.asks_topics for lookup in world.kafka.resolved[-2:]] == [True, False]
        assert {item.partition for item in world.kafka.resolved[-2].offsets} == {0, 1}

    def test_partition_that_kafka_cannot_tell_of_refuses_itself_alone(self) -> None:
        world = idle_group()
        world.kafka.cannot_resolve = True
        results = reset(world, ResetTarget(*T0, "current"), ResetTarget(*T1, "earliest"))
        assert [result.error for result in results] == [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert "no leader" in results[1].message

    def test_partition_that_kafka_does_not_have_is_unknown_and_not_to_be_tried_again(self) -> None:
        world = idle_group()
        world.kafka.absent = {T1}
        results = reset(world, ResetTarget(*T0, "earliest"), ResetTarget(*T1, "earliest"))
        assert [result.error for result in results] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert results[1].message == "Kafka has no partition 1 of topic t, which has 1; correct the name or the number"

    @pytest.mark.parametrize(
        "targets",
        [
            (),
            (to(5), to(6)),
            (ResetTarget(*T0, "sideways"),),
            (ResetTarget(*T0, "offset"),),
            (ResetTarget(*T0, "earliest", 5),),
            (ResetTarget(*T0, "timestamp", -1),),
            (ResetTarget("t", -1, "earliest"),),
            (ResetTarget("t", 2**40, "earliest"),),
            (ResetTarget("t" * 40_000, 0, "earliest"),),
            (ResetTarget("\U0001d565" * 249, 0, "latest"),),
            (ResetTarget(*T0, "timestamp", 2**63),),
        ],
    )
    def test_targets_that_make_no_sense_are_refused_before_kafka_is_asked(
        self, targets: tuple[ResetTarget, ...]
    ) -> None:
        world = idle_group()
        before = len(world.kafka.resolved)
        response = world.connect().ask(ResetOffsets("g", targets, ANN), ResetOffsetsResponse)
        assert (response.error, len(world.kafka.resolved)) == (ErrorCode.INVALID_REQUEST, before)

    def test_group_that_does_not_exist_is_refused(self) -> None:
        world = NodeWorld({"t": 1})
        asked = ResetOffsets("nobody", (to(5),), ANN)
        assert world.connect().ask(asked, ErrorResponse).error is ErrorCode.GROUP_ID_NOT_FOUND


class TestOfAnOwnedPartition:
    def test_idle_owner_is_stopped_and_gets_it_again_from_the_new_offset(self) -> None:
        world = NodeWorld({"t": 2})
        m1 = world.join("m1")
        epoch = m1.epoch(T0)
        assert reset(world, to(20)) == (ResetResult(*T0, old_offset=100, new_offset=20, is_pending=True),)
        assert m1.stopping == {T0: "its offset is set to 20 by ann@ops: bad deploy"}
        assert (world.committed()[T0], pending(world), world.describe().state) == (100, {T0: 20}, "Reconciling")
        m1.stop_all()
        assert (m1.owned[T0].offset, m1.epoch(T0) > epoch) == (20, True)
        assert (world.committed(), pending(world), m1.is_complete) == ({T0: 20, T1: 100}, {}, True)
        assert world.describe().state == "Stable"

    def test_running_claim_is_finished_before_the_reset_and_its_commit_is_not_the_last_word(self) -> None:
        world = NodeWorld({"t": 1})
        m1, claim = running(world)
        reset(world, to(20))
        result = m1.advance([claim], (), [FinalOffset(*T0, m1.epoch(T0))]).finished[0]
        assert (result.error, result.committed) == (ErrorCode.NONE, 110)
        assert (world.committed(), world.owners()) == ({T0: 20}, {T0: "m1"})

    def test_nothing_is_claimed_while_a_reset_is_pending(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1")
        reset(world, to(20))
        assert m1.advance(claims=[m1.claim(T0, 100, 110)]).claims[0].error is ErrorCode.REBALANCE_IN_PROGRESS

    def test_old_owner_commits_nothing_after_the_reset(self) -> None:
        world = NodeWorld({"t": 1})
        m1, claim = running(world)
        epoch = m1.epoch(T0)
        reset(world, to(20))
        m1.stopped(T0)
        assert m1.commit(T0, 115, epoch).error is ErrorCode.FENCED_OWNER_EPOCH
        assert m1.advance([claim]).finished[0].error is ErrorCode.FENCED_OWNER_EPOCH
        assert world.committed() == {T0: 20}

    def test_reset_is_done_at_the_deadline_of_the_stop_and_the_owner_starts_from_there(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1", rebalance_timeout_ms=1_000, session_timeout_ms=60_000)
        claim = m1.run(T0, 100, 110)
        reset(world, to(20))
        world.advance(1_100)
        assert (m1.taken, m1.owned[T0].offset, m1.is_complete) == ([T0], 20, True)
        assert m1.advance([claim]).finished[0].error is ErrorCode.FENCED_OWNER_EPOCH
        assert world.committed() == {T0: 20}

    def test_reset_goes_on_when_the_owner_dies_and_another_takes_over(self) -> None:
        world = NodeWorld({"t": 1})
        m1, claim = running(world)
        m2 = world.join("m2")
        reset(world, to(20))
        m1.close()
        world.advance(1_200)
        assert (m2.owned[T0].offset, world.committed(), pending(world)) == (20, {T0: 20}, {})
        again = world.reconnect(m1, claims=(claim,))
        assert again.advance([claim]).finished[0].error is ErrorCode.FENCED_OWNER_EPOCH

    def test_reset_waits_for_the_claim_of_an_owner_that_died_alone(self) -> None:
        world = NodeWorld({"t": 1})
        m1, claim = running(world)
        reset(world, to(20))
        m1.close()
        world.advance(1_200)
        assert (world.committed(), pending(world)) == ({T0: 100}, {T0: 20})
        again = world.reconnect(m1, claims=(claim,))
        assert T0 in again.stopping
        again.advance([claim], (), [FinalOffset(*T0, again.epoch(T0))])
        assert (world.committed(), again.owned[T0].offset) == ({T0: 20}, 20)

    def test_claim_of_an_owner_that_died_alone_is_passed_over_when_that_was_asked_for(self) -> None:
        world = NodeWorld({"t": 1})
        m1, _ = running(world)
        reset(world, to(20), release_claims=True)
        m1.close()
        world.advance(1_200)
        assert (world.committed(), world.owners()) == ({T0: 20}, {})

    def test_reset_of_a_paused_partition_is_done_when_it_is_free_and_grants_nothing(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1")
        world.connect().ask(ChangePause("g", (T0,), True, ANN, "", is_dry_run=False), ChangePauseResponse)
        reset(world, to(20))
        m1.stop_all()
        assert (world.committed(), world.owners()) == ({T0: 20}, {})
        world.connect().ask(ChangePause("g", (T0,), False, ANN, "", is_dry_run=False), ChangePauseResponse)
        assert m1.owned[T0].offset == 20

    def test_partition_that_is_on_its_way_to_another_member_arrives_there_reset(self) -> None:
        world = NodeWorld({"t": 2})
        m1, m2 = world.join("m1"), world.join("m2")
        assert reset(world, to(20, T1))[0].is_pending
        m1.stop_all()
        assert (m2.owned[T1].offset, world.committed()[T1]) == (20, 20)

    def test_second_reset_replaces_a_pending_one(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1")
        reset(world, to(20))
        reset(world, to(30))
        m1.stop_all()
        assert world.committed() == {T0: 30}

    def test_reset_meant_for_a_topic_that_was_made_again_is_dropped(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1")
        reset(world, to(20))
        world.kafka.ids["t"] = "another"
        world.poll_topics()
        world.settle()
        m1.stop_all()
        assert (m1.owned[T0].offset, pending(world)) == (10, {})
        assert len(world.events("reset-cancelled")) == 1


class TestOfAnAbandonedClaim:
    def abandoned(self) -> NodeWorld:
        world = NodeWorld({"t": 1})
        m1, _ = running(world)
        m1.close()
        world.advance(1_200)
        assert world.owners() == {T0: "m1"}
        return world

    @pytest.mark.parametrize("is_dry_run", [True, False])
    def test_it_refuses_a_reset_unless_its_release_is_asked_for(self, is_dry_run: bool) -> None:
        world = self.abandoned()
        results = reset(world, to(20), is_dry_run=is_dry_run)
        assert (results[0].error, "m1 is gone" in results[0].message) == (ErrorCode.PARTITION_OWNED, True)
        assert (world.committed(), pending(world)) == ({T0: 100}, {})

    def test_release_closes_it_and_sets_the_offset_at_once(self) -> None:
        world = self.abandoned()
        results = reset(world, to(20), release_claims=True)
        assert results == (ResetResult(*T0, old_offset=100, new_offset=20),)
        assert (world.committed(), world.owners()) == ({T0: 20}, {})


class TestCancel:
    def test_cancelled_reset_leaves_the_offset_and_the_partition_comes_back(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1")
        reset(world, to(20))
        assert cancel(world, [T0]) == [ErrorCode.NONE]
        assert pending(world) == {}
        m1.stopped(T0, offset=105)
        assert (world.committed(), m1.owned[T0].offset, m1.is_complete) == ({T0: 105}, 105, True)
        assert [event.why for event in world.events("reset-cancelled")] == ["by ann@ops"]

    def test_all_pending_resets_are_cancelled_when_none_is_named(self) -> None:
        world = NodeWorld({"t": 2})
        world.join("m1")
        reset(world, to(20), to(30, T1))
        assert cancel(world, None, is_dry_run=True) == [ErrorCode.NONE, ErrorCode.NONE]
        assert pending(world) == {T0: 20, T1: 30}
        cancel(world, None)
        assert pending(world) == {}

    def test_what_is_not_pending_cannot_be_cancelled(self) -> None:
        world = NodeWorld({"t": 1})
        world.join("m1")
        assert cancel(world, [T0]) == [ErrorCode.INVALID_REQUEST]


class TestAcrossFailures:
    def test_pending_reset_outlives_a_restart(self) -> None:
        world = NodeWorld({"t": 1})
        m1, claim = running(world)
        reset(world, to(20))
        world.restart()
        assert pending(world) == {T0: 20}
        again = world.reconnect(m1, claims=(claim,))
        assert T0 in again.stopping
        again.advance([claim], (), [FinalOffset(*T0, again.epoch(T0))])
        assert (world.committed(), again.owned[T0].offset) == ({T0: 20}, 20)

    def test_reset_is_not_answered_before_it_is_durable(self) -> None:
        world = idle_group()
        world.is_durable_at_once = False
        tool = world.connect()
        correlation_id = tool.send(ResetOffsets("g", (to(20),), ANN, is_dry_run=False))
        assert tool.answer(correlation_id) is None
        world.sync()
        assert isinstance(tool.answer(correlation_id), ResetOffsetsResponse)

    def test_reset_of_a_tool_that_went_away_before_kafka_answered_is_not_done(self) -> None:
        world = idle_group()
        tool = world.connect()
        held = world.kafka.resolve
        world.kafka.resolve = lambda asked: (tool.close(), held(asked))[1]  # type: ignore[method-assign]
        tool.send(ResetOffsets("g", (to(20),), ANN, is_dry_run=False))
        assert world.committed()[T0] == 50

    def test_snapshot_holds_pending_resets(self) -> None:
        world = NodeWorld({"t": 2}, shards=1)
        world.join("m1")
        reset(world, to(20), ResetTarget(*T1, "earliest"), release_claims=True)
        rebuilt = ShardState()
        for record in records_of(world.state(0)):
            replay(rebuilt, record, None)
        assert rebuilt == world.state(0)
        assert len(rebuilt.groups["g"].controls.resets) == 2

    def test_reset_is_on_the_timeline_when_planned_and_when_done(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1")
        reset(world, to(20))
        m1.stop_all()
        said = [(event.kind, event.why) for event in world.events() if event.kind.startswith("reset")]
        assert said == [
            ("reset-planned", "by ann@ops: bad deploy; waits until the owners have let go"),
            ("reset-applied", "by ann@ops: bad deploy"),
        ]

    def test_group_deleted_while_kafka_is_asked_is_not_found(self) -> None:
        world = idle_group()
        held = world.kafka.resolve

        def delete_first(asked):  # type: ignore[no-untyped-def]
            world.connect().send(DeleteGroup("g", ANN, "", is_dry_run=False))
            return held(asked)

        world.kafka.resolve = delete_first  # type: ignore[method-assign]
        response = world.connect().ask(ResetOffsets("g", (ResetTarget(*T0, "earliest"),), ANN), ResetOffsetsResponse)
        assert response.error is ErrorCode.GROUP_ID_NOT_FOUND

    def test_group_made_again_while_kafka_is_asked_is_another_one(self) -> None:
        world = idle_group()
        held = world.kafka.resolve

        def make_again_first(asked):  # type: ignore[no-untyped-def]
            world.connect().send(DeleteGroup("g", ANN, "", is_dry_run=False))
            world.connect().send(CommitOffsets("g", in_columns([OffsetToCommit(*T0, 7)])))
            return held(asked)

        world.kafka.resolve = make_again_first  # type: ignore[method-assign]
        response = world.connect().ask(ResetOffsets("g", (ResetTarget(*T0, "earliest"),), ANN), ResetOffsetsResponse)
        assert response.error is ErrorCode.GROUP_ID_NOT_FOUND
        assert world.committed() == {T0: 7}, "an operator has looked at the old group's offsets and not at these"

    def test_offset_deleted_while_the_other_targets_are_asked_is_no_offset(self) -> None:
        world = idle_group()
        held = world.kafka.resolve

        def delete_first(asked):  # type: ignore[no-untyped-def]
            world.connect().send(DeleteOffsets("g", (T0,), ANN, "", is_dry_run=False))
            return held(asked)

        world.kafka.resolve = delete_first  # type: ignore[method-assign]
        gone, other = reset(world, ResetTarget(*T0, "current"), ResetTarget(*T1, "earliest"))
        assert (gone.error, gone.new_offset) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        assert "was deleted" in gone.message
        assert other.error is ErrorCode.NONE

    def test_empty_answer_of_kafka_is_no_offset(self) -> None:
        world = idle_group()
        world.kafka.is_away = True
        results = reset(world, ResetTarget(*T0, "earliest"))
        assert results[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert world.committed()[T0] == 50
