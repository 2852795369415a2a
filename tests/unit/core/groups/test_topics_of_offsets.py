"""Topics of which a group has offsets and that none of its members has read: watched all the same, for their ends."""

from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.snapshot import records_of
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.limits import Limits
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse
from coordinator.protocol.messages.operators import (
    DeleteGroup,
    DeleteGroupResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import NewGroup, ResetTarget
from tests.helpers.node_world import NodeWorld

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


def commit(world: NodeWorld, *offsets: tuple[TopicPartition, int], group_id: str = "g") -> None:
    asked = in_columns([OffsetToCommit(*partition, offset) for partition, offset in offsets])
    assert world.connect().ask(CommitOffsets(group_id, asked), CommitOffsetsResponse).refused == ()


def set_to(world: NodeWorld, partition: TopicPartition, offset: int) -> None:
    targets = (ResetTarget(*partition, "offset", offset),)
    asked = ResetOffsets("g", targets, "ann@ops", "", is_dry_run=False, new_group=NewGroup())
    world.connect().ask(asked, ResetOffsetsResponse)


def delete(world: NodeWorld, *partitions: TopicPartition) -> None:
    world.connect().ask(DeleteOffsets("g", partitions, "ann@ops", "", is_dry_run=False), DeleteOffsetsResponse)


class TestTheyAreWatched:
    def test_from_a_commit_of_no_member_on_and_after_a_restart(self) -> None:
        world = NodeWorld({"t": 1, "u": 1})
        commit(world, (T0, 110), (U0, 120))
        assert world.watched == {"t", "u"}
        world.restart()
        assert world.watched == {"t", "u"}

    def test_from_an_operators_reset_on(self) -> None:
        world = NodeWorld({"t": 1})
        set_to(world, T0, 110)
        assert world.watched == {"t"}

    def test_until_no_offset_of_them_is_left(self) -> None:
        world = NodeWorld({"t": 2})
        commit(world, (T0, 110), (T1, 120))
        delete(world, T0)
        assert world.watched == {"t"}
        delete(world, T1)
        assert world.watched == frozenset()

    def test_until_the_group_is_deleted(self) -> None:
        world = NodeWorld({"t": 1})
        commit(world, (T0, 110))
        world.connect().ask(DeleteGroup("g", "ann@ops", "", is_dry_run=False), DeleteGroupResponse)
        assert (world.watched, world.state(world.node.shard_of("g")).groups_of_topic) == (frozenset(), {})

    def test_until_they_are_forgotten_with_the_group(self) -> None:
        world = NodeWorld({"t": 1}, limits=Limits(offsets_retention_ms=60_000, lived_interval_ms=1_000))
        commit(world, (T0, 110))
        world.advance(62_000)
        assert (world.watched, world.state(world.node.shard_of("g")).groups_of_topic) == (frozenset(), {})

    def test_while_a_member_has_read_them_though_its_offsets_are_deleted(self) -> None:
        world = NodeWorld({"t": 1})
        member = world.join("m1")
        member.commit(T0, 110)
        member.leave()
        delete(world, T0)
        assert world.watched == {"t"}

    def test_as_a_snapshot_has_them(self) -> None:
        world = NodeWorld({"t": 2, "u": 1}, shards=1)
        commit(world, (T0, 110), (T1, 120), (U0, 110))
        delete(world, T0)
        found = ShardState()
        for record in records_of(world.state(0)):
            replay(found, record, None)
        assert found.groups_of_topic == {"t": {"g"}, "u": {"g"}} == world.state(0).groups_of_topic
