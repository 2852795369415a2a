"""Replicas move while a shard is led, and whatever fails on the way they are where they are wanted in the end."""

from random import Random

import pytest

from coordinator.core.cluster.effects import (
    WishRefused,
)
from coordinator.core.cluster.events import (
    GiveBackShard,
    ReassignShard,
)
from coordinator.core.cluster.znodes import ShardEntry
from tests.helpers.controller_world import SHARDS, World, at_rest


def reassigned(world: World, shard: int, replicas: tuple[int, ...]) -> ShardEntry:
    """Ask the controller to reassign a shard, and return its entry a moment later."""
    (controller,) = world.controllers()
    world.nodes[controller].take(ReassignShard(shard, replicas))
    world.run(300)
    return world.shard(shard)


def test_a_shard_moves_to_another_node_when_that_is_in_sync() -> None:
    world = at_rest(nodes=4)
    before = world.shard(0)
    assert before.leader is not None
    (new,) = set(world.nodes) - set(before.replicas)
    target = (new, *before.replicas[1:])
    adding = reassigned(world, 0, target)
    assert (adding.replicas, adding.adding, adding.removing) == ((*target, before.leader), (new,), (before.leader,))
    assert (adding.leader, adding.isr, adding.leader_epoch) == (before.leader, before.isr, before.leader_epoch + 1)
    world.run(20_000)
    assert world.shard(0) == adding, "until the new one is in sync"
    world.change_isr(0, (*adding.isr, new))
    world.run(300)
    done = world.shard(0)
    assert (done.replicas, done.adding, done.removing) == (target, (), ())
    assert (done.leader, set(done.isr), done.leader_epoch) == (new, set(target), adding.leader_epoch + 2)
    assert world.is_at_rest()


def test_a_reassignment_goes_on_under_the_next_controller() -> None:
    world = at_rest(nodes=4)
    before = world.shard(0)
    (new,) = set(world.nodes) - set(before.replicas)
    (old,) = world.controllers()
    keeps = next(node for node in before.replicas if node != old)
    target = tuple(dict.fromkeys((keeps, new, *before.replicas)))[:3]
    adding = reassigned(world, 0, target)
    world.servers.expire(world.nodes[old].port.owner)
    world.run(6_000)
    world.change_isr(0, tuple(dict.fromkeys((*world.shard(0).isr, *target))))
    world.run(6_000)
    assert world.controllers() != [old] or world.epoch() == 2
    assert adding.adding == (new,)
    assert (world.shard(0).replicas, world.shard(0).adding, world.shard(0).removing) == (target, (), ())


def test_a_reassignment_that_is_taken_back_leaves_the_replicas_there_were() -> None:
    world = at_rest(nodes=4)
    before = world.shard(0)
    (new,) = set(world.nodes) - set(before.replicas)
    reassigned(world, 0, (new, *before.replicas[1:]))
    back = reassigned(world, 0, before.replicas)
    assert (back.replicas, back.adding, back.removing, back.isr) == (before.replicas, (), (), before.isr)
    assert back.leader == before.leader


def test_a_new_order_is_there_at_once_and_has_its_first_node_lead_in_time() -> None:
    world = at_rest()
    before = world.shard(0)
    turned = before.replicas[::-1]
    assert reassigned(world, 0, turned).replicas == turned
    world.run(8_000)
    assert world.shard(0).leader == turned[0]


def test_a_shard_is_given_back_to_its_first_replica_without_waiting_for_the_balance() -> None:
    world = at_rest()
    before = world.shard(0)
    turned = before.replicas[::-1]
    reassigned(world, 0, turned)
    (controller,) = world.controllers()
    world.nodes[controller].take(GiveBackShard(0))
    world.run(200)
    assert (world.shard(0).leader, world.shard(0).isr) == (turned[0], before.isr)
    world.nodes[controller].take(GiveBackShard(0))
    why = f"node {turned[0]} leads it already, which is the first of its replicas"
    assert world.nodes[controller].said[-1] == WishRefused(0, why)


def test_a_shard_whose_first_replica_is_not_in_sync_is_not_given_back_and_is_led_on() -> None:
    world = at_rest()
    before = world.shard(0)
    turned = before.replicas[::-1]
    reassigned(world, 0, turned)
    world.change_isr(0, turned[1:])
    world.run(50)
    (controller,) = world.controllers()
    world.nodes[controller].take(GiveBackShard(0))
    assert world.nodes[controller].said[-1] == WishRefused(
        0,
        f"node {turned[0]}, the first of its replicas, is not there, not in sync, being drained or not answering: wait "
        "until it is in sync, or put another one first",
    )
    world.run(1_000)
    assert world.shard(0).leader == before.leader


@pytest.mark.parametrize(
    ("shard", "replicas", "why"),
    [
        (99, (1, 2, 3), "there is no such shard, or its entry in ZooKeeper cannot be read"),
        (0, (1, 1, 2), "node 1 is named twice: name 2 nodes, or others"),
        (
            0,
            (1,),
            "replicas would be 1, fewer than the 2 that have to be in sync (min_insync_replicas): name more nodes",
        ),
        (
            0,
            (1, 2, 9),
            "node 9 is not there, is being drained or refuses connections of other nodes, so it cannot be a new "
            "replica: `kcoord cluster status` says which",
        ),
    ],
)
def test_a_reassignment_that_cannot_be_is_refused_with_the_reason(
    shard: int, replicas: tuple[int, ...], why: str
) -> None:
    world = at_rest()
    (controller,) = world.controllers()
    before = dict(world.image().shards())
    world.nodes[controller].take(ReassignShard(shard, replicas))
    assert world.nodes[controller].said[-1] == WishRefused(shard, why)
    other = next(node for node in world.nodes.values() if node.number != controller)
    other.take(ReassignShard(0, (1, 2, 3)))
    assert other.said[-1] == WishRefused(0, "this node is not the controller: ask that one")
    world.run(1_000)
    assert dict(world.image().shards()) == before


@pytest.mark.parametrize("seed", range(10))
def test_whatever_fails_a_reassigned_shard_has_its_replicas_in_the_end(seed: int) -> None:
    world = World(seed, nodes=4)
    world.run(6_000)
    dice = Random(f"reassign {seed}")
    wanted: dict[int, tuple[int, ...]] = {}
    for _ in range(40):
        node = world.nodes[dice.randint(1, 4)]
        match dice.randrange(7):
            case 0 if node.is_up:
                node.kill()
            case 1 | 2 if not node.is_up:
                node.start()
            case 3:
                node.port.cut()
            case 4 | 5 if world.controllers():
                shard, replicas = dice.randrange(SHARDS), tuple(dice.sample(sorted(world.nodes), dice.choice((2, 3))))
                world.nodes[world.controllers()[0]].take(ReassignShard(shard, replicas))
            case _:
                follow(world, dice)
        world.run(dice.choice((1, 20, 200, 3_000)))
    for node in world.nodes.values():
        if not node.is_up:
            node.start()
    world.run(20_000)
    for shard in range(SHARDS):
        replicas = wanted[shard] = tuple(dice.sample(sorted(world.nodes), 3))
        (controller,) = world.controllers()
        world.nodes[controller].take(ReassignShard(shard, replicas))
    for _ in range(6):
        world.run(2_000)
        follow(world, None)
    world.run(10_000)
    assert world.is_at_rest()
    assert {shard: entry.replicas for shard, entry in world.image().shards()} == wanted
    assert all(not entry.adding and not entry.removing for _, entry in world.image().shards())
    assert all(set(entry.isr) == set(entry.replicas) for _, entry in world.image().shards())


def follow(world: World, dice: Random | None) -> None:
    """Have leaders take into their in-sync sets some of the replicas that live, or all of them."""
    lives = {number: live.value.node_epoch for number, live in world.image().live.items()}
    for shard, entry in list(world.image().shards()):
        if entry.leader is not None and lives.get(entry.leader) == entry.leader_node_epoch:
            come = [node for node in entry.replicas if node in lives and node not in entry.isr]
            if dice is not None:
                come = [node for node in come if dice.random() < 0.5]
            if come:
                world.change_isr(shard, (*entry.isr, *come))


def test_no_replica_goes_before_a_leader_that_stays_has_said_that_it_leads() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    shard = world.led_first_by(controller)
    stay = tuple(node for node in world.shard(shard).replicas if node != controller)
    world.cut = {frozenset((controller, node)) for node in stay}
    before = reassigned(world, shard, stay)
    assert (before.removing, set(before.isr)) == ((controller,), {controller, *stay})
    world.run(1_000)
    entry = world.shard(shard)
    assert controller in entry.replicas, "both that stay may have died a moment ago"
    assert controller in entry.isr
    world.cut = set()
    world.run(5_000)
    done = world.shard(shard)
    assert (done.replicas, done.adding, done.removing) == (stay, (), ())
    assert done.leader in stay
    assert world.is_at_rest()
