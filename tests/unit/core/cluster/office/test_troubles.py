"""Whatever only a person can put right is named, once, and nothing is made up for what is gone."""

import msgspec.structs
import pytest

from coordinator.core.cluster.effects import (
    Stuck,
    TookOffice,
)
from coordinator.core.cluster.transactions import BucketChange
from coordinator.core.cluster.troubles import too_few_nodes
from coordinator.core.cluster.znodes import MOST_LEADER_EPOCH, ActiveController, Cluster, LiveNode, LogEnd, encode
from coordinator.core.cluster.zookeeper import (
    ZkCreate,
    ZkDelete,
)
from tests.helpers.controller_world import CLUSTER, SHARDS, World, at_rest


def test_a_node_whose_lives_are_not_counted_is_named_and_given_nothing_to_lead() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    other = next(number for number in world.nodes if number != controller)
    known = world.servers.tree[f"/nodes/known/{other}"]
    assert world.write(0, (ZkDelete(f"/nodes/known/{other}", known.version),))
    world.run(1_000)
    why = (
        f"/nodes/live/{other} has node epoch 0, and there is no /nodes/known/{other}: it can be taken into no in-sync "
        "set and is given nothing to lead; put ZooKeeper's data back, or stop that node"
    )
    assert world.nodes[controller].said[-1] == Stuck((why,)) or Stuck((why,)) in world.nodes[controller].said
    assert other not in {world.shard(shard).leader for shard in range(SHARDS)}
    assert all(other in world.shard(shard).isr for shard in range(SHARDS))
    assert world.write(0, (ZkCreate(f"/nodes/known/{other}", known.data),))
    world.run(6_000)
    assert [said for said in world.nodes[controller].said if isinstance(said, Stuck)] == [Stuck((why,)), Stuck(())]
    assert world.shard(world.led_first_by(other)).leader == other


def test_when_no_life_is_counted_every_leader_goes_on() -> None:
    world = at_rest()
    before = dict(world.image().shards())
    removed = [f"/nodes/known/{number}" for number in world.nodes]
    assert world.write(0, tuple(ZkDelete(path, world.servers.tree[path].version) for path in removed))
    world.run(5_000)
    assert dict(world.image().shards()) == before


def test_a_shard_in_the_greatest_leader_epoch_stays_as_it_is_and_is_named() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    dead = next(number for number in world.nodes if number != controller)
    shard = world.led_first_by(dead)
    bucket = world.image().buckets[shard % CLUSTER.buckets]
    last = msgspec.structs.replace(bucket.value.shards[shard], leader_epoch=MOST_LEADER_EPOCH)
    world.entries[shard] = last
    value = msgspec.structs.replace(bucket.value, shards={**bucket.value.shards, shard: last})
    assert world.write(0, (BucketChange(shard % CLUSTER.buckets, value, bucket.version).operation(),))
    world.nodes[dead].kill()
    world.run(8_000)
    assert world.shard(shard) == last, "the next epoch could be read by nobody"
    (why,) = next(said.whys for said in reversed(world.nodes[controller].said) if isinstance(said, Stuck))
    assert why == (
        f"shard {shard} in /shards/{shard % CLUSTER.buckets} is in leader epoch 4294967295, the last there is, so "
        "nobody can be elected for it any more: what is in ZooKeeper is wrong, or was put there by hand; put it back"
    )
    others = [other for other in range(SHARDS) if other != shard]
    assert dead not in {world.shard(other).leader for other in others}


def test_a_live_node_of_no_session_is_named_and_counts_as_dead() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    dead = next(number for number in world.nodes if number != controller)
    world.nodes[dead].kill()
    world.run(4_000)
    known = world.servers.tree[f"/nodes/known/{dead}"]
    live = LiveNode(node_epoch=known.version, directory_id="d", addresses={}, rack="r", release="1")
    assert world.write(0, (ZkCreate(f"/nodes/live/{dead}", encode(live)),))
    for shard in range(SHARDS):
        world.change_isr(shard, (*(node for node in world.shard(shard).isr if node != dead), dead))
    world.run(15_000)
    assert dead not in {world.shard(shard).leader for shard in range(SHARDS)}
    why = f"/nodes/live/{dead} is of no session and never ends by itself, so it counts as not there: remove it"
    assert world.nodes[controller].said[-1] == Stuck((why,)) or Stuck((why,)) in world.nodes[controller].said


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (
            encode(ActiveController(node_id=9, node_epoch=0, controller_epoch=7)),
            "/controller/active is of no session and never ends by itself, so nobody can become controller: remove it",
        ),
        (b"garbage", "/controller/active cannot be read, so nobody can become controller: JSON is malformed"),
        (b"{}", "/controller/active cannot be read, so nobody can become controller: Object missing required field"),
    ],
)
def test_garbage_in_the_way_of_every_candidate_is_named_by_each(data: bytes, why: str) -> None:
    world = World(0)
    check, world.servers.on_commit = world.servers.on_commit, lambda _change: None
    assert world.write(0, (ZkCreate("/controller/active", data),))
    world.run(4_000)
    for node in world.nodes.values():
        (said,) = node.said
        assert isinstance(said, Stuck)
        assert len(said.whys) == 1
        assert said.whys[0].startswith(why)
        assert said.whys[0].endswith("remove it")
    world.servers.on_commit = check
    assert world.write(0, (ZkDelete("/controller/active", 0),))
    world.run(4_000)
    assert world.is_at_rest()
    assert all(Stuck(()) in node.said for node in world.nodes.values())


def test_a_folder_that_was_removed_is_named_and_not_asked_for_without_end() -> None:
    world = World(0)
    assert world.write(0, (ZkDelete("/shards", 0),))
    world.run(10_000)
    (controller,) = world.controllers()
    assert world.nodes[controller].machine.request_id <= 12
    why = "ZooKeeper has a cluster and no /shards: a part of its data was removed; put it back"
    assert world.nodes[controller].said == [TookOffice(1), Stuck((why,))]
    assert world.write(0, (ZkCreate("/shards", b""),))
    world.run(2_000)
    assert world.is_at_rest()


@pytest.mark.parametrize("is_controller_new", [False, True])
def test_shards_that_were_removed_are_named_and_not_made_anew_from_the_first_epoch(is_controller_new: bool) -> None:
    world = at_rest()
    (controller,) = world.controllers()
    bucket = world.servers.tree["/shards/1"]
    trace = "shard 1 was found in it, in leader epoch 1"
    if is_controller_new:
        world.nodes[1].log_ends = {4: LogEnd(leader_epoch=1, end=7)}
        for node in world.nodes.values():
            node.kill()
        trace = "node 1 has a log of shard 4"
    assert world.write(0, (ZkDelete("/shards/1", bucket.version),))
    if is_controller_new:
        world.run(4_000)
        for node in world.nodes.values():
            node.start()
    world.run(5_000)
    (controller,) = world.controllers()
    why = (
        f"ZooKeeper has no /shards/1, and {trace}: a part of its data was removed, and leader epochs would be given "
        "again; put it back"
    )
    assert Stuck((why,)) in world.nodes[controller].said
    assert sorted(shard for shard, _ in world.image().shards()) == [0, 2, 3, 5]
    check, world.servers.on_commit = world.servers.on_commit, lambda _change: None
    assert world.write(0, (ZkCreate("/shards/1", bucket.data),))
    world.servers.on_commit = check
    world.run(2_000)
    assert world.nodes[controller].machine.stuck == ()


def test_a_cluster_without_shards_says_how_many_nodes_it_waits_for() -> None:
    world = World(0)
    cluster = Cluster(cluster_id="c", shards=1, buckets=1, replication_factor=4, min_insync_replicas=1)
    world.run(4_000)
    assert too_few_nodes(world.image(), cluster) == (
        "the cluster has no shards yet: they are made when 4 nodes are there, which is its replication_factor, and "
        "there are 3; start the others"
    )
    assert too_few_nodes(world.image(), msgspec.structs.replace(cluster, replication_factor=3)) == ""
