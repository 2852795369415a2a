"""Operators who drain every node, or change their mind, leave no shard without a leader that it could have."""

from coordinator.core.cluster.events import NodeRefused
from tests.helpers.controller_world import SHARDS, World, at_rest


def leaders(world: World) -> list[int | None]:
    return [world.shard(shard).leader for shard in range(SHARDS)]


def test_where_every_node_is_drained_the_leaders_stay() -> None:
    world = at_rest()
    before = leaders(world)
    for node in world.nodes.values():
        node.draining()
    world.run(5_000)
    assert leaders(world) == before


def test_a_node_that_is_drained_leads_where_nobody_else_can() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    dead = next(number for number in world.nodes if number != controller)
    for node in world.nodes.values():
        node.draining()
    world.run(2_000)
    world.nodes[dead].kill()
    world.run(6_000)
    assert None not in leaders(world)
    assert dead not in leaders(world)


def test_a_drained_node_that_had_to_lead_is_relieved_when_another_is_there() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    dead = next(number for number in world.nodes if number != controller)
    life = world.image().live[dead].value.node_epoch
    for node in world.nodes.values():
        node.draining()
    world.run(2_000)
    world.nodes[dead].kill()
    world.nodes[controller].take(NodeRefused(dead, life))
    world.run(6_000)
    world.nodes[dead].start()
    world.run(1_000)
    for shard in range(SHARDS):
        isr = world.shard(shard).isr
        if dead not in isr:
            world.change_isr(shard, (*isr, dead))
    world.run(6_000)
    assert set(leaders(world)) == {dead}, "it was started anew, so it is not drained"


def test_two_reassignments_of_one_shard_end_with_the_later_one() -> None:
    world = at_rest(nodes=4)
    shard = 0
    before = world.shard(shard).replicas
    other = next(node for node in world.nodes if node not in before)
    world.reassign(shard, (other, *before[1:]))
    world.reassign(shard, before)
    world.run(3_000)
    entry = world.shard(shard)
    assert (entry.replicas, entry.adding, entry.removing) == (before, (), ())
    world.reassign(shard, (other, *before[1:]))
    world.run(1_000)
    world.reassign(shard, before)
    world.run(3_000)
    entry = world.shard(shard)
    assert (entry.replicas, entry.adding, entry.removing) == (before, (), ())
    assert world.is_at_rest()
