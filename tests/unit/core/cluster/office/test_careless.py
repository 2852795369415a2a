"""Operators who drain every node, or change their mind, leave no shard without a leader that it could have."""

from dataclasses import replace

import msgspec.structs

from coordinator.core.cluster.events import ElectUnclean, NodeRefused
from coordinator.core.cluster.office.due import Due
from coordinator.core.cluster.office.index import ShardIndex, index_of
from coordinator.core.cluster.office.settings import ControllerSettings
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


def test_a_drained_member_in_sync_goes_before_whom_a_person_names_that_is_not() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    shard, entry = 0, world.shard(0)
    member, other = entry.replicas[:2]
    world.nodes[member].draining()
    image, office = world.image(), world.nodes[controller].machine.office
    assert office is not None
    gone = msgspec.structs.replace(entry, leader=None, leader_node_epoch=None, isr=(member,))
    number, bucket = next((number, it) for number, it in image.buckets.items() if shard in it.value.shards)
    changed = msgspec.structs.replace(bucket.value, shards={**bucket.value.shards, shard: gone})
    image = replace(image, buckets={**image.buckets, number: replace(bucket, value=changed, data=None)})
    wish = ElectUnclean(shard, other, gone.leader_epoch)
    office = replace(office, unclean={shard: wish})
    due = Due(index_of(image, ShardIndex()), office, ControllerSettings(), frozenset(), "", world.schedule.now_ms)
    assert image.cluster is not None
    assert due.why_not(wish, image.cluster.value) == f"node {member} is in sync and about to lead it"
    chosen = {each.bucket: each.value.shards for each in due.changes(image.cluster.value)}[number][shard]
    assert (chosen.leader, chosen.unclean_epoch) == (member, 0)


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
