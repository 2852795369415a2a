"""Snapshots rest between two slices, so that whoever is served meanwhile notices little of them."""

from coordinator.core.effects import WakeAt
from coordinator.core.events import ShardStalled
from coordinator.core.limits import Limits
from coordinator.core.shards.snapshots import REST_MS
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

T0 = ("t", 0)
LIMITS = Limits(snapshot_interval_records=20, slice_bytes=50)


def growing() -> NodeWorld:
    """Return a world in which a snapshot has begun to grow."""
    world = NodeWorld({"t": 2}, shards=1, limits=LIMITS)
    member = world.join("m1")
    while not world.node._snapshots.due:
        member.commit(T0, 200 + len(world.written[0]))
    return world


def test_a_snapshot_rests_between_two_slices_and_asks_to_be_woken_for_the_next() -> None:
    world = growing()
    snapshots, begun_ms = world.node._snapshots, world.now_ms
    assert snapshots.next_at_ms == begun_ms + REST_MS
    assert snapshots.next_shard(begun_ms + REST_MS - 1) is None
    assert snapshots.next_shard(begun_ms + REST_MS) == 0
    assert WakeAt(begun_ms + REST_MS) in world.effects


def test_snapshots_rest_the_less_the_more_are_due() -> None:
    world = growing()
    snapshots, begun_ms = world.node._snapshots, world.now_ms
    snapshots.due.extend(range(1, 5))
    snapshots.grow(begun_ms)
    assert snapshots.next_at_ms == begun_ms + REST_MS // 5
    snapshots.due.extend(range(5, 5 + REST_MS))
    snapshots.grow(begun_ms)
    assert snapshots.next_at_ms == begun_ms


def two_due() -> tuple[NodeWorld, Member]:
    """Return a world with two shards whose snapshots are due and no record committed, and a member of the second."""
    world = NodeWorld({"t": 2}, shards=2, limits=LIMITS)
    names = [f"g{number}" for number in range(20)]
    groups = [next(name for name in names if world.node.shard_of(name) == shard) for shard in (0, 1)]
    members = [world.join(f"of-{name}", group_id=name) for name in groups]
    world.is_durable_at_once = False
    for offset in range(200, 240):
        for name, member in zip(groups, members, strict=True):
            wish = OffsetToCommit("t", 0, offset, member.epoch(T0))
            member.send(CommitOffsets(name, in_columns((wish,))))
    assert list(world.node._snapshots.due) == [0, 1]
    return world, members[1]


def test_a_shard_whose_records_are_not_committed_keeps_the_snapshots_of_others_waiting_until_it_stalls() -> None:
    world, _ = two_due()
    world.sync(1)
    world.advance(50 * REST_MS)
    assert world.snapshots == {}
    world.happen(ShardStalled(0))
    world.advance(50 * REST_MS)
    assert world.snapshots.keys() == {1}


def test_a_stalled_shard_is_due_for_none_by_what_is_written_without_a_request() -> None:
    world, member = two_due()
    world.happen(ShardStalled(1))
    before = len(world.written[1])
    member.close()
    assert len(world.written[1]) > before
    assert list(world.node._snapshots.due) == [0]
