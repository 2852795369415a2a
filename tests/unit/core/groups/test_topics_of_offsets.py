"""Topics of which a group has offsets and that none of its members has read: watched all the same, for their ends."""

from msgspec.structs import replace

from coordinator.core.events import EndOffsetsRead
from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.snapshot import records_of
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.limits import Limits
from coordinator.core.requests.survey import PartitionsSeen
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
from coordinator.protocol.parts import NewGroup, ResetPolicy, ResetTarget
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


class TestTheyGetTheIdOfTheirTopic:
    """An offset that was committed before Kafka had said the topic's id counts for the topic that it then says."""

    @staticmethod
    def made_again(world: NodeWorld) -> None:
        world.kafka.ids["t"] = "id-again"
        world.poll_topics()

    @staticmethod
    def start(world: NodeWorld, group_id: str = "g") -> int:
        member = world.join("m1", group_id=group_id, reset_policy=ResetPolicy("earliest"))
        return member.owned[T0].offset

    def test_so_that_one_that_is_made_again_is_read_from_its_beginning(self) -> None:
        world = NodeWorld({"t": 1})
        commit(world, (T0, 60))
        self.made_again(world)
        assert self.start(world) == 10, "its records up to 60 are others than those that were read"

    def test_so_that_no_lag_is_counted_from_it_to_the_end_of_one_that_is_made_again(self) -> None:
        world = NodeWorld({"t": 1}, shards=1)
        commit(world, (T0, 60))
        self.made_again(world)
        world.happen(EndOffsetsRead({T0: 40}))
        (row,) = world.describe().partitions
        assert (row.committed, row.end_offset) == (60, None), "nobody has read the 40 records that are there"
        _, seen = world.node.survey(range(1))
        assert isinstance(seen, PartitionsSeen)
        assert (seen.committed, seen.ends) == ((60,), (None,))
        set_to(world, T0, 15)
        assert [row.end_offset for row in world.describe().partitions] == [40]

    def test_and_nothing_else_of_them_changes(self) -> None:
        world = NodeWorld({"t": 1})
        asked = in_columns([OffsetToCommit(*T0, 60, metadata="by hand", leader_epoch=3)])
        world.kafka.is_away = True
        world.connect().ask(CommitOffsets("g", asked), CommitOffsetsResponse)
        before = world.group().offsets[T0]
        world.advance(5_000)
        world.kafka.is_away = False
        world.poll_topics()
        assert (before.topic_id, world.group().offsets[T0]) == ("", replace(before, topic_id="id-t"))
        assert self.start(world) == 60

    def test_once_a_kafka_that_was_away_has_answered(self) -> None:
        world = NodeWorld({"t": 1})
        world.kafka.is_away = True
        commit(world, (T0, 60))
        world.restart()
        world.kafka.is_away = False
        world.poll_topics()
        self.made_again(world)
        assert self.start(world) == 10

    def test_after_a_load_when_kafka_has_said_it_for_another_shard(self) -> None:
        world = NodeWorld({"t": 1})
        ids = [next(f"g{n}" for n in range(99) if world.node.shard_of(f"g{n}") == shard) for shard in range(2)]
        world.kafka.is_away = True
        commit(world, (T0, 60), group_id=ids[1])
        world.restart()
        world.is_load_late = True
        world.kafka.is_away = False
        world.restart()
        loads, world.loads = world.loads, []
        for _, load in sorted(loads, key=lambda each: each[1].shard):
            world.happen(world.read(load))
            if load.shard == 0:
                world.join("m1", group_id=ids[0])
        assert world.group(ids[1]).offsets[T0].topic_id == "id-t"

    def test_of_many_groups_some_in_each_step(self) -> None:
        world = NodeWorld({"t": 1}, shards=1, limits=Limits(slice_members=2))
        world.kafka.is_away = True
        names = [f"g{number}" for number in range(5)]
        for name in names:
            commit(world, (T0, 60), group_id=name)
        world.kafka.is_away = False

        def named() -> int:
            return sum(world.group(name).offsets[T0].topic_id == "id-t" for name in names)

        world.poll_topics()
        assert named() == 2
        world.advance(1_000)
        assert named() == 5

    def test_of_many_partitions_some_in_each_step(self) -> None:
        world = NodeWorld({"t": 5_000}, shards=1, limits=Limits(slice_members=2))
        world.kafka.is_away = True
        for begin in range(0, 5_000, 1_000):
            commit(world, *((("t", number), 60) for number in range(begin, begin + 1_000)))
        world.kafka.is_away = False

        def named() -> int:
            return sum(part.topic_id == "id-t" for _, part in world.group().offsets.items())

        world.poll_topics()
        assert named() == 1_000
        delete(world, ("t", 4_999))
        world.advance(1_000)
        assert named() == 4_999

    def test_of_which_nothing_is_kept_once_its_groups_are_gone(self) -> None:
        world = NodeWorld({}, shards=1)
        for number in range(500):
            commit(world, ((f"invented-{number}", 0), 60))
            world.connect().ask(DeleteGroup("g", "ann@ops", "", is_dry_run=False), DeleteGroupResponse)
        assert len(world.node._shards[0]._topic_ids._awaited) <= 101

    def test_which_is_never_said_of_a_topic_that_does_not_exist(self) -> None:
        world = NodeWorld({})
        commit(world, (T0, 60))
        world.poll_topics()
        world.poll_topics()
        assert world.group().offsets[T0].topic_id == ""
        delete(world, T0)
        world.kafka.topics["t"] = 1
        assert self.start(world) == 10
