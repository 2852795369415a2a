"""What operators do to a group while it runs: pause, drain, delete, release; each with who and why."""

from dataclasses import replace

import pytest

from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.snapshot import records_of
from coordinator.core.groups.hard.state import ShardState
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ErrorResponse, Response
from coordinator.protocol.messages.operators import (
    ChangeDrain,
    ChangeDrainResponse,
    ChangePause,
    ChangePauseResponse,
    DeleteGroup,
    DeleteGroupResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    DescribeControls,
    DescribeControlsResponse,
    OperatorRequest,
    ReleaseClaims,
    ReleaseClaimsResponse,
)
from coordinator.protocol.parts import ControlDescription, ResetPolicy, StartHint
from tests.helpers.node_world import WALL_OFFSET_MS, NodeWorld
from tests.helpers.passing_time import let_pass

T0, T1, T2, T3 = [("t", number) for number in range(4)]
ANN = "ann@ops"


def pause(world: NodeWorld, *partitions: tuple[str, int], is_paused: bool = True, is_dry_run: bool = False) -> Response:
    asked = ChangePause("g", partitions or None, is_paused, ANN, "upgrade", is_dry_run)
    return world.connect().ask(asked, ChangePauseResponse)


def drain(world: NodeWorld, member_id: str, *, is_drained: bool = True, is_dry_run: bool = False) -> Response:
    return world.connect().ask(
        ChangeDrain("g", member_id, is_drained, ANN, "node 3 goes", is_dry_run), ChangeDrainResponse
    )


def delete_offsets(world: NodeWorld, *partitions: tuple[str, int], is_dry_run: bool = False) -> DeleteOffsetsResponse:
    return world.connect().ask(DeleteOffsets("g", partitions, ANN, "", is_dry_run), DeleteOffsetsResponse)


def release(world: NodeWorld, *partitions: tuple[str, int], is_dry_run: bool = False) -> ReleaseClaimsResponse:
    return world.connect().ask(ReleaseClaims("g", partitions, ANN, "lost", is_dry_run), ReleaseClaimsResponse)


def controls(world: NodeWorld) -> list[tuple[str, str, int | None, str]]:
    response = world.connect().ask(DescribeControls("g"), DescribeControlsResponse)
    return [(found.kind, found.topic, found.partition, found.member_id) for found in response.controls]


def without_time(state: ShardState) -> ShardState:
    """Return the state of a shard as if no time had been lived, by no node."""
    return replace(state, lived_ms=0, lived_at_ms=None, lives={})


def rebuilt(world: NodeWorld) -> ShardState:
    state = ShardState()
    for record in records_of(world.state(0)):
        replay(state, record, None)
    return state


class TestPause:
    def test_paused_partition_is_stopped_at_its_owner_and_granted_to_nobody(self) -> None:
        world = NodeWorld({"t": 2})
        m1 = world.join("m1")
        assert pause(world, T1) == ChangePauseResponse(partitions=(T1,))
        assert m1.stopping == {T1: "paused by ann@ops: upgrade"}
        m1.stop_all()
        world.join("m2", is_settled=True)
        assert (world.owners(), m1.is_complete) == ({T0: "m1"}, True)

    def test_resumed_partition_returns_to_its_owner_and_nothing_else_moves(self) -> None:
        world = NodeWorld({"t": 4})
        m1 = world.join("m1")
        m2 = world.join("m2")
        m1.stop_all()
        epochs = (world.group().group_epoch, m1.epoch(T0))
        pause(world, T1)
        m1.stop_all()
        pause(world, T1, is_paused=False)
        assert world.owners() == {T0: "m1", T1: "m1", T2: "m2", T3: "m2"}
        assert (m1.is_complete, m2.is_complete, world.describe().state) == (True, True, "Stable")
        assert (world.group().group_epoch, m1.epoch(T0)) == epochs

    def test_running_claim_is_finished_before_its_partition_is_paused(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1")
        claim = m1.run(T0, 100, 110)
        pause(world, T0)
        assert m1.advance([claim], [m1.claim(T0, 110, 120)]).claims[0].error is ErrorCode.REBALANCE_IN_PROGRESS
        m1.stop_all()
        assert (world.committed(), world.owners()) == ({T0: 110}, {})

    def test_paused_partition_that_is_not_let_go_in_time_is_taken(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1", rebalance_timeout_ms=1_000, session_timeout_ms=60_000)
        pause(world, T0)
        world.advance(1_100)
        assert (m1.taken, m1.is_complete) == ([T0], True)
        assert world.owners() == {}

    def test_paused_group_gives_nothing_to_a_newcomer_and_counts_as_complete(self) -> None:
        world = NodeWorld({"t": 2})
        m1 = world.join("m1")
        pause(world)
        m1.stop_all()
        m2 = world.join("m2")
        assert (world.owners(), m1.is_complete, m2.is_complete, world.describe().state) == ({}, True, True, "Stable")
        pause(world, is_paused=False)
        assert world.owners() == {T0: "m1", T1: "m2"}

    def test_pause_of_a_group_and_of_a_partition_end_each_by_itself(self) -> None:
        world = NodeWorld({"t": 2})
        m1 = world.join("m1")
        pause(world, T1)
        pause(world)
        m1.stop_all()
        assert pause(world, is_paused=False) == ChangePauseResponse(partitions=(T0,))
        assert (world.owners(), controls(world)) == ({T0: "m1"}, [("partition-paused", "t", 1, "")])

    def test_member_that_returns_to_a_claim_is_asked_for_what_was_paused_meanwhile(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1", session_timeout_ms=2_000)
        claim = m1.run(T0, 100, 110)
        m1.close()
        world.advance(3_000)
        pause(world, T0)
        again = world.reconnect(m1, claims=(claim,))
        assert again.stopping == {T0: "paused by ann@ops: upgrade"}
        again.advance([claim])
        again.stop_all()
        assert (world.committed(), world.owners()) == ({T0: 110}, {})

    def test_pause_outlives_a_restart(self) -> None:
        world = NodeWorld({"t": 2})
        m1 = world.join("m1")
        pause(world, T1)
        world.restart()
        again = world.reconnect(m1)
        assert again.stopping == {T1: "paused by ann@ops: upgrade"}
        again.stop_all()
        assert world.owners() == {T0: "m1"}

    def test_dry_run_says_what_it_concerns_and_changes_nothing(self) -> None:
        world = NodeWorld({"t": 2})
        m1 = world.join("m1")
        assert pause(world, is_dry_run=True) == ChangePauseResponse(partitions=(T0, T1))
        assert (m1.stopping, controls(world)) == ({}, [])

    def test_partition_the_group_does_not_know_is_refused_by_name(self) -> None:
        world = NodeWorld({"t": 1})
        world.join("m1")
        response = pause(world, ("t", 7))
        assert isinstance(response, ChangePauseResponse)
        assert (response.error, "t-7" in response.message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)

    def test_pause_and_resume_are_on_the_timeline_with_who_and_why(self) -> None:
        world = NodeWorld({"t": 2})
        world.join("m1")
        pause(world, T0)
        pause(world, T0, is_paused=False)
        pause(world)
        said = [(event.kind, event.why, event.partitions) for event in world.events() if "ann" in event.why]
        assert said == [
            ("paused", "by ann@ops: upgrade", (T0,)),
            ("resumed", "by ann@ops: upgrade", (T0,)),
            ("paused", "the whole group, by ann@ops: upgrade", (T0, T1)),
        ]


class TestDrain:
    def test_drained_members_partitions_move_away_and_it_gets_none(self) -> None:
        world = NodeWorld({"t": 4})
        m1 = world.join("m1")
        m2 = world.join("m2")
        m1.stop_all()
        assert drain(world, "m2") == ChangeDrainResponse(partitions=(T2, T3))
        world.settle()
        m2.stop_all()
        assert set(world.owners().values()) == {"m1"}
        world.join("m3")
        m1.stop_all()
        assert sorted(set(world.owners().values())) == ["m1", "m3"]
        assert (m2.is_complete, m2.owned) == (True, {})

    def test_undrained_member_gets_its_share_again(self) -> None:
        world = NodeWorld({"t": 2})
        m1, _ = world.join("m1"), world.join("m2")
        m1.stop_all()
        drain(world, "m1")
        world.settle()
        m1.stop_all()
        assert set(world.owners().values()) == {"m2"}
        drain(world, "m1", is_drained=False)
        world.settle()
        assert (controls(world), len(world.group().members["m1"].target)) == ([], 1)

    @pytest.mark.parametrize("assignor", ["sticky", "range"])
    def test_last_members_partitions_are_nobodys_when_it_is_drained(self, assignor: str) -> None:
        world = NodeWorld({"t": 2})
        m1 = world.join("m1", assignors=(assignor,))
        drain(world, "m1")
        world.settle()
        m1.stop_all()
        assert (world.owners(), world.describe().state) == ({}, "Stable")

    @pytest.mark.parametrize("assignor", ["sticky", "range"])
    def test_topic_that_only_a_drained_member_reads_is_nobodys(self, assignor: str) -> None:
        world = NodeWorld({"t": 1, "u": 1})
        world.join("m1", assignors=(assignor,))
        m2 = world.join("m2", topics=("u",), assignors=(assignor,))
        drain(world, "m2")
        world.settle()
        m2.stop_all()
        assert world.owners() == {T0: "m1"}

    def test_drain_ends_with_the_member(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1")
        drain(world, "m1")
        m1.leave()
        again = world.join("m1")
        assert (sorted(again.owned), controls(world)) == ([T0], [])

    def test_drain_of_nobody_is_refused(self) -> None:
        world = NodeWorld({"t": 1})
        world.join("m1")
        response = drain(world, "m9")
        assert isinstance(response, ChangeDrainResponse)
        assert response.error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_dry_run_of_a_drain_moves_nothing(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1")
        assert drain(world, "m1", is_dry_run=True) == ChangeDrainResponse(partitions=(T0,))
        world.settle()
        assert (m1.stopping, controls(world), world.group().group_epoch) == ({}, [], 1)


class TestDeletion:
    def test_offsets_of_what_nobody_owns_are_deleted(self) -> None:
        world = NodeWorld({"t": 2})
        world.join("m1").leave()
        response = delete_offsets(world, T0)
        assert [(result.error, result.committed) for result in response.results] == [(ErrorCode.NONE, 100)]
        assert world.committed() == {T1: 100}
        assert [(event.why, event.partitions) for event in world.events("offsets-deleted")] == [("by ann@ops", (T0,))]

    def test_deleted_offset_is_resolved_anew_by_policy(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1", reset_policy=ResetPolicy("earliest"))
        m1.commit(T0, 50)
        m1.leave()
        delete_offsets(world, T0)
        assert world.join("m2").owned[T0].offset == 10

    def test_deleted_offset_of_a_running_query_is_resolved_by_policy_and_not_where_its_process_began(self) -> None:
        world = NodeWorld({"t": 2})
        began = [StartHint("t", "id-t", number, 30, from_checkpoint=True) for number in range(2)]
        m1 = world.join("m1", hints=began)
        m1.commit(T0, 80)
        pause(world, T0, T1)
        m1.stop_all()
        delete_offsets(world, T0, T1)
        world.restart()
        again = world.connect()
        again.registration = m1.registration
        again.register()
        pause(world, T0, is_paused=False)
        assert again.owned[T0].offset == 100
        newer = world.join("m2", hints=[StartHint("t", "id-t", 1, 60, True, 1_000_000)])
        pause(world, T1, is_paused=False)
        let_pass(world, 500, again, newer)
        assert world.committed() == {T0: 100, T1: 100}

    def test_deleted_offset_of_a_partition_that_came_later_is_resolved_by_policy_too(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1")
        world.kafka.topics["t"] = 2
        world.poll_topics()
        world.settle()
        assert m1.owned[T1].offset == 10
        m1.leave()
        delete_offsets(world, T1)
        assert world.join("m2").owned[T1].offset == 100

    def test_offset_of_an_owned_partition_is_not_deleted(self) -> None:
        world = NodeWorld({"t": 2})
        m1 = world.join("m1")
        pause(world, T1)
        m1.stop_all()
        errors = [result.error for result in delete_offsets(world, T0, T1, ("t", 9)).results]
        assert errors == [ErrorCode.PARTITION_OWNED, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert world.committed() == {T0: 100}

    def test_offset_beside_a_claim_that_somebody_left_is_not_deleted_and_it_says_what_to_do(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1", session_timeout_ms=2_000)
        m1.run(T0, 100, 110)
        m1.close()
        world.advance(3_000)
        (result,) = delete_offsets(world, T0).results
        assert (result.error, result.message) == (
            ErrorCode.PARTITION_OWNED,
            "its owner m1 is gone and left a running claim; wait for it to come back, or have the claim released",
        )

    def test_dry_run_deletes_no_offset(self) -> None:
        world = NodeWorld({"t": 1})
        world.join("m1").leave()
        assert delete_offsets(world, T0, is_dry_run=True).results[0].error is ErrorCode.NONE
        assert world.committed() == {T0: 100}

    def test_group_without_members_is_deleted_with_its_offsets_and_claims(self) -> None:
        world = NodeWorld({"t": 1}, shards=1)
        m1 = world.join("m1", session_timeout_ms=2_000)
        claim = m1.run(T0, 100, 110)
        m1.close()
        world.advance(3_000)
        asked = DeleteGroup("g", ANN, "", is_dry_run=False)
        assert world.connect().ask(asked, DeleteGroupResponse) == DeleteGroupResponse()
        assert (without_time(world.state(0)), world.watched) == (ShardState(), frozenset())
        assert isinstance(world.connect().ask(asked, ErrorResponse), ErrorResponse)
        world.restart()
        assert without_time(world.state(0)) == ShardState()
        again = world.join("m1", claims=(claim,))
        let_pass(world, 10_000, again)
        assert again.owned[T0].owner_epoch > claim.owner_epoch

    @pytest.mark.parametrize("is_dry_run", [True, False])
    def test_group_with_members_is_not_deleted_and_its_state_is_named(self, is_dry_run: bool) -> None:
        world = NodeWorld({"t": 1})
        world.join("m1")
        response = world.connect().ask(DeleteGroup("g", ANN, "", is_dry_run), DeleteGroupResponse)
        assert (response.error, "its state is Stable" in response.message) == (ErrorCode.NON_EMPTY_GROUP, True)

    def test_group_is_deleted_while_it_waits_for_kafka(self) -> None:
        world = NodeWorld({"t": 1}, shards=1)
        world.kafka.cannot_resolve = True
        world.join("m1").leave()
        world.connect().ask(DeleteGroup("g", ANN, "", is_dry_run=False), DeleteGroupResponse)
        world.advance(5_000)
        assert without_time(world.state(0)) == ShardState()


class TestReleaseOfClaims:
    def world_with_an_abandoned_claim(self) -> NodeWorld:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1", session_timeout_ms=2_000)
        m1.run(T0, 100, 110)
        m1.close()
        world.advance(3_000)
        assert world.owners() == {T0: "m1"}
        return world

    def test_claim_of_somebody_gone_is_closed_without_a_commit(self) -> None:
        world = self.world_with_an_abandoned_claim()
        assert [result.error for result in release(world, T0).results] == [ErrorCode.NONE]
        assert (world.owners(), world.committed()) == ({}, {T0: 100})
        assert [event.why for event in world.events("claim-released")] == ["by ann@ops: lost"]

    def test_owner_that_returns_finds_its_released_claim_closed(self) -> None:
        world = NodeWorld({"t": 1})
        m1 = world.join("m1", session_timeout_ms=2_000)
        claim = m1.run(T0, 100, 110)
        m1.close()
        world.advance(3_000)
        release(world, T0)
        again = world.reconnect(m1, claims=(claim,))
        assert again.advance([claim]).finished[0].error is ErrorCode.FENCED_OWNER_EPOCH
        assert world.committed() == {T0: 100}

    def test_claim_of_a_living_owner_is_not_released(self) -> None:
        world = NodeWorld({"t": 2})
        m1 = world.join("m1")
        m1.run(T0, 100, 110)
        errors = [result.error for result in release(world, T0, T1).results]
        assert errors == [ErrorCode.PARTITION_OWNED, ErrorCode.CLAIM_CLOSED]

    def test_dry_run_releases_nothing(self) -> None:
        world = self.world_with_an_abandoned_claim()
        assert release(world, T0, is_dry_run=True).results[0].error is ErrorCode.NONE
        assert world.owners() == {T0: "m1"}


class TestRequests:
    @pytest.mark.parametrize(
        ("request_", "error"),
        [
            (DeleteGroup("nobody", ANN), ErrorCode.GROUP_ID_NOT_FOUND),
            (DescribeControls("nobody"), ErrorCode.GROUP_ID_NOT_FOUND),
            (DeleteGroup("g", ""), ErrorCode.INVALID_REQUEST),
            (DeleteGroup("g", "a\nb"), ErrorCode.INVALID_REQUEST),
            (DeleteGroup("g", ANN, "x" * 1001), ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_request_that_cannot_be_obeyed_is_refused(self, request_: OperatorRequest, error: ErrorCode) -> None:
        world = NodeWorld({"t": 1})
        world.join("m1").leave()
        assert world.connect().ask(request_, ErrorResponse).error is error

    def test_what_stands_is_described_with_who_why_and_when(self) -> None:
        world = NodeWorld({"t": 1})
        world.join("m1")
        drain(world, "m1")
        response = world.connect().ask(DescribeControls("g"), DescribeControlsResponse)
        at_ms = world.now_ms + WALL_OFFSET_MS
        expected = ControlDescription("member-drained", ANN, "node 3 goes", at_ms, member_id="m1")
        assert response.controls == (expected,)

    def test_snapshot_holds_what_operators_decided(self) -> None:
        world = NodeWorld({"t": 4}, shards=1)
        world.join("m1")
        world.join("m2")
        pause(world, T0)
        pause(world)
        drain(world, "m2")
        assert len(controls(world)) == 3
        assert rebuilt(world) == world.state(0)
