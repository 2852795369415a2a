"""Groups without members: how long their offsets are kept, and what keeps them longer."""

from dataclasses import replace

import pytest

from coordinator.core.groups.hard.journal import Journal
from coordinator.core.limits import Limits
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse, FetchOffsets, FetchOffsetsResponse
from coordinator.protocol.messages.operators import ResetOffsets, ResetOffsetsResponse
from coordinator.protocol.parts import ResetTarget, Subscription
from tests.helpers.loading import load
from tests.helpers.node_world import NodeWorld

T0 = ("t", 0)
LIMITS = Limits(offsets_retention_ms=60_000, empty_group_retention_ms=10_000, lived_interval_ms=1_000)
A_YEAR_MS = 365 * 86_400_000


def exists(world: NodeWorld) -> bool:
    return world.connect().ask(FetchOffsets("g"), FetchOffsetsResponse).error is ErrorCode.NONE


def world_with_an_empty_group() -> NodeWorld:
    """Return a world whose group has an offset, 120, and, as of now, no members."""
    world = NodeWorld({"t": 1}, limits=LIMITS)
    m1 = world.join("m1", session_timeout_ms=1_800_000)
    m1.commit(T0, 120)
    world.advance(100_000)
    m1.leave()
    return world


def test_offsets_are_kept_for_their_retention_after_the_last_member_has_gone() -> None:
    world = world_with_an_empty_group()
    world.advance(59_900)
    assert world.committed() == {T0: 120}
    world.advance(200)
    assert not exists(world)
    assert world.state(world.node.shard_of("g")).groups_of_topic == {}
    assert world.watched == frozenset()


def test_expiry_is_recorded_and_a_group_of_that_name_begins_anew() -> None:
    world = world_with_an_empty_group()
    world.advance(60_100)
    m2 = world.join("m2")
    assert (m2.owned[T0].offset, world.group().group_epoch) == (100, 1)
    shard = world.node.shard_of("g")
    journal = Journal(shard)
    load(journal, None, 0, [(0, world.written[shard])])
    assert journal.state == world.state(shard)


def test_restart_prolongs_the_retention_by_no_more_than_was_not_written_down() -> None:
    world = world_with_an_empty_group()
    world.advance(40_000)
    world.restart()
    world.advance(19_800)
    assert exists(world)
    world.advance(400 + LIMITS.lived_interval_ms)
    assert not exists(world)


@pytest.mark.parametrize("jump_ms", [A_YEAR_MS, -A_YEAR_MS])
def test_wrong_clock_at_a_start_forgets_nothing_and_keeps_nothing_longer(jump_ms: int) -> None:
    world = world_with_an_empty_group()
    world.advance(30_000)
    world.wall_offset_ms += jump_ms
    world.restart()
    world.advance(29_900)
    assert world.committed() == {T0: 120}
    world.advance(300 + LIMITS.lived_interval_ms)
    assert not exists(world)


@pytest.mark.parametrize("jump_ms", [A_YEAR_MS, -A_YEAR_MS])
def test_clock_that_jumps_while_a_node_runs_forgets_nothing_and_keeps_nothing_longer(jump_ms: int) -> None:
    world = world_with_an_empty_group()
    world.advance(30_000)
    world.wall_offset_ms += jump_ms
    world.advance(29_900)
    assert world.committed() == {T0: 120}
    world.advance(300)
    assert not exists(world)


def test_clock_that_was_ahead_when_the_last_member_went_does_not_keep_its_group() -> None:
    world = NodeWorld({"t": 1}, limits=LIMITS)
    world.wall_offset_ms += A_YEAR_MS
    m1 = world.join("m1")
    m1.commit(T0, 120)
    m1.leave()
    world.wall_offset_ms -= A_YEAR_MS
    world.restart()
    world.advance(60_200 + LIMITS.lived_interval_ms)
    assert not exists(world)


def test_time_in_which_no_node_ran_is_not_counted() -> None:
    world = world_with_an_empty_group()
    world.advance(30_000)
    world.now_ms += 10 * LIMITS.offsets_retention_ms
    world.restart()
    world.advance(29_900)
    assert world.committed() == {T0: 120}
    world.advance(300 + LIMITS.lived_interval_ms)
    assert not exists(world)


def test_lived_time_is_in_snapshots() -> None:
    world = NodeWorld({"t": 1}, limits=replace(LIMITS, snapshot_interval_records=1))
    m1 = world.join("m1")
    m1.commit(T0, 120)
    m1.leave()
    for _ in range(4):
        world.advance(14_000)
        world.restart()
    world.advance(3_000)
    assert world.snapshots
    assert exists(world)
    world.advance(1_200 + 4 * LIMITS.lived_interval_ms)
    assert not exists(world)


def test_log_of_groups_says_when_it_was_written() -> None:
    world = NodeWorld({"t": 1}, limits=replace(LIMITS, offsets_retention_ms=5_000))
    world.advance(3_000)
    assert world.node.written_at_ms is None
    world.join("m1", session_timeout_ms=1_800_000)
    world.advance(10_000)
    written_at_ms = world.node.written_at_ms
    assert written_at_ms is not None
    assert 0 <= world.now_ms + world.wall_offset_ms - written_at_ms <= LIMITS.lived_interval_ms
    world.restart()
    assert world.node.written_at_ms == written_at_ms
    world.join("m1", session_timeout_ms=1_800_000).leave()
    world.advance(7_000)
    assert not exists(world)
    world.restart()
    assert world.node.written_at_ms is None


def test_node_that_has_no_groups_writes_nothing_while_time_passes() -> None:
    world = NodeWorld({"t": 1}, limits=LIMITS)
    begun = [list(written) for written in world.written]
    world.advance(100_000)
    assert world.written == begun


def test_member_that_comes_back_keeps_the_offsets() -> None:
    world = world_with_an_empty_group()
    world.advance(50_000)
    again = world.join("m1", session_timeout_ms=1_800_000)
    world.advance(100_000)
    again.leave()
    world.advance(50_000)
    assert world.committed() == {T0: 120}


def test_commit_of_an_operator_counts_as_use() -> None:
    world = NodeWorld({"t": 1}, limits=LIMITS)
    tool = world.connect()
    for offset in (5, 6):
        tool.ask(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, offset),))), CommitOffsetsResponse)
        world.advance(50_000)
    assert world.committed() == {T0: 6}
    world.advance(10_200)
    assert not exists(world)


def test_reset_by_an_operator_counts_as_use() -> None:
    world = world_with_an_empty_group()
    world.advance(50_000)
    target = ResetTarget("t", 0, "offset", 60)
    world.connect().ask(ResetOffsets("g", (target,), "ann@ops", "", is_dry_run=False), ResetOffsetsResponse)
    world.advance(50_000)
    assert world.committed() == {T0: 60}
    world.advance(10_200)
    assert not exists(world)


def test_description_says_when_a_group_is_forgotten_while_it_has_no_members() -> None:
    world = world_with_an_empty_group()
    world.advance(20_000)
    assert world.describe().forgotten_in_ms == 40_000
    world.join("m1")
    assert world.describe().forgotten_in_ms is None


def test_group_that_never_committed_is_dropped_sooner() -> None:
    world = NodeWorld({"t": 1}, limits=LIMITS)
    world.join("m1", subscription=Subscription(pattern="nothing")).leave()
    world.advance(9_900)
    assert exists(world)
    world.advance(300)
    assert not exists(world)


def test_held_claim_keeps_its_group() -> None:
    world = NodeWorld({"t": 1}, limits=LIMITS)
    m1 = world.join("m1", handover="hold", instance_id="i")
    claim = m1.run(T0, 100, 110)
    m1.close()
    world.advance(200_000)
    again = world.join("", handover="hold", instance_id="i", claims=[claim])
    assert again.advance([claim]).finished[0].error is ErrorCode.NONE


def test_group_with_members_never_expires() -> None:
    world = NodeWorld({"t": 1}, limits=LIMITS)
    world.join("m1", session_timeout_ms=1_800_000)
    world.advance(200_000)
    assert exists(world)
