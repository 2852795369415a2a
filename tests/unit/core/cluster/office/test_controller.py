"""Controllers on the model of ZooKeeper: one at a time, every shard led, and nothing told that is not published."""

from dataclasses import replace
from random import Random

import pytest

from coordinator.core.cluster.effects import (
    LeftOffice,
    Published,
    TookOffice,
)
from coordinator.core.cluster.events import (
    NodeRefused,
    PeerReached,
    Registered,
    StepDown,
    StepDownReason,
)
from coordinator.core.cluster.office.controller import step
from coordinator.core.cluster.znodes import LogEnd
from coordinator.core.cluster.zookeeper import (
    ZkMulti,
    ZkMultiDone,
    ZkRead,
    ZkReadDone,
    ZkSet,
    ZkUnknown,
    ZkValues,
)
from tests.helpers.controller_world import CLUSTER, SHARDS, World, at_rest
from tests.sim.zookeeper import Manners


def test_a_new_cluster_gets_one_controller_and_all_its_shards() -> None:
    world = at_rest()
    assert sorted(world.shard(shard).leader or 0 for shard in range(SHARDS)) == [1, 1, 2, 2, 3, 3]
    assert {len(world.shard(shard).isr) for shard in range(SHARDS)} == {3}
    (controller,) = world.controllers()
    said = world.nodes[controller].said
    assert said[0] == TookOffice(1)
    assert isinstance(said[1], Published)
    assert len(said[1].shards) == SHARDS


def test_shards_wait_for_nodes_enough() -> None:
    world = World(0)
    world.nodes[3].kill()
    world.run(6_000)
    assert not dict(world.image().shards())
    world.nodes[3].start()
    world.run(2_000)
    assert world.is_at_rest()


def test_the_shards_of_a_dead_node_are_led_by_others_and_those_it_followed_are_let_be() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    dead = next(number for number in world.nodes if number != controller)
    before = {shard: world.shard(shard) for shard in range(SHARDS)}
    world.nodes[dead].kill()
    world.run(4_000)
    assert world.is_at_rest()
    for shard, entry in before.items():
        if entry.leader == dead:
            assert world.shard(shard).leader_epoch == entry.leader_epoch + 1
            assert dead not in world.shard(shard).isr
        else:
            assert world.shard(shard) == entry


def test_a_refused_connection_is_death_enough() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    dead = next(number for number in world.nodes if number != controller)
    node_epoch = world.image().live[dead].value.node_epoch
    world.nodes[dead].kill()
    world.nodes[controller].take(NodeRefused(dead, node_epoch))
    world.run(200)
    assert dead in world.image().live, "ZooKeeper does not know yet"
    assert {world.shard(shard).leader for shard in range(SHARDS)} == set(world.nodes) - {dead}


def test_when_the_controller_dies_another_takes_the_next_epoch() -> None:
    world = at_rest()
    (dead,) = world.controllers()
    others = [node for node in world.nodes.values() if node.number != dead]
    world.nodes[dead].kill()
    for node in others:
        node.take(NodeRefused(dead, world.image().live[dead].value.node_epoch))
    world.run(500)
    (controller,) = world.controllers()
    assert controller != dead
    assert world.nodes[controller].said[0] == TookOffice(2)
    assert dead not in {world.shard(shard).leader for shard in range(SHARDS)}
    world.run(4_000)
    assert world.is_at_rest()


def test_a_controller_that_registers_anew_within_its_session_leaves_the_office_to_others() -> None:
    world = at_rest()
    (former,) = world.controllers()
    node = world.nodes[former]
    node.take(Registered(node.node_epoch))
    world.run(500)
    (controller,) = world.controllers()
    assert controller != former
    assert world.nodes[controller].said[0] == TookOffice(2)
    assert LeftOffice(f"this node lives under node epoch {node.node_epoch} now") in node.said
    (dead,) = set(world.nodes) - {controller, former}
    world.nodes[dead].kill()
    world.run(5_000)
    assert dead not in {world.shard(shard).leader for shard in range(SHARDS)}


def test_a_restarted_leader_does_not_lead_what_its_former_life_led() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    restarted = next(number for number in world.nodes if number != controller)
    world.nodes[restarted].kill()
    world.nodes[restarted].start()
    world.run(500)
    for shard in range(SHARDS):
        entry = world.shard(shard)
        if entry.leader == restarted:
            assert entry.leader_node_epoch == 1
    assert any(node == restarted for node in (world.shard(shard).replicas[0] for shard in range(SHARDS)))
    assert world.is_at_rest()


def test_leaderships_go_back_to_preferred_replicas_after_a_while() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    dead = next(number for number in world.nodes if number != controller)
    world.nodes[dead].kill()
    world.run(4_000)
    world.nodes[dead].start()
    world.run(1_000)
    for shard in range(SHARDS):
        world.change_isr(shard, (*(node for node in world.shard(shard).isr if node != dead), dead))
    world.run(1_000)
    assert dead not in {world.shard(shard).leader for shard in range(SHARDS)}
    world.run(8_000)
    assert [world.shard(shard).leader for shard in range(SHARDS)] == [
        world.shard(shard).replicas[0] for shard in range(SHARDS)
    ]


def test_a_draining_node_is_relieved_and_stays_in_sync() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    drained = next(number for number in world.nodes if number != controller)
    world.nodes[drained].draining()
    world.run(1_000)
    for shard in range(SHARDS):
        assert world.shard(shard).leader != drained
        assert drained in world.shard(shard).isr


@pytest.mark.parametrize("reason", StepDownReason)
def test_a_leader_that_steps_down_is_followed_by_another(reason: StepDownReason) -> None:
    world = at_rest()
    (controller,) = world.controllers()
    entry = world.shard(0)
    leader = entry.leader
    assert leader is not None
    assert entry.leader_node_epoch is not None
    asked = StepDown(0, entry.leader_epoch, reason, leader, entry.leader_node_epoch)
    for why, void in {
        "of another epoch": replace(asked, leader_epoch=entry.leader_epoch - 1),
        "of another node": replace(asked, node_id=leader % 3 + 1),
        "of another life": replace(asked, node_epoch=entry.leader_node_epoch + 1),
    }.items():
        world.nodes[controller].take(void)
        world.run(500)
        assert world.shard(0) == entry, why
    world.nodes[controller].take(asked)
    world.run(500)
    after = world.shard(0)
    assert after.leader not in (leader, None)
    assert after.leader_epoch == entry.leader_epoch + 1
    assert (leader in after.isr) == (reason is not StepDownReason.LACKS_RECORDS)
    world.run(10_000)
    is_back = world.shard(0).leader == leader
    can_lead = reason in (StepDownReason.STALLED, StepDownReason.SPOILT_EPOCH)
    assert is_back == can_lead, "who cannot load it is not asked again in this life"


def test_a_leader_is_followed_by_the_member_that_it_names_and_stays_in_sync() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    entry = world.shard(0)
    leader, last = entry.leader, entry.replicas[-1]
    assert leader is not None
    assert entry.leader_node_epoch is not None
    asked = StepDown(0, entry.leader_epoch, StepDownReason.STALLED, leader, entry.leader_node_epoch, successor=last)
    world.nodes[controller].take(asked)
    world.run(500)
    after = world.shard(0)
    assert (after.leader, after.isr, after.leader_epoch) == (last, entry.isr, entry.leader_epoch + 1)


def test_where_the_member_that_is_named_has_gone_another_epoch_begins_and_others_are_heard() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    leader = world.shard(0).leader
    assert leader is not None
    world.change_isr(0, (leader,))
    world.run(500)
    entry = world.shard(0)
    assert entry.leader_node_epoch is not None
    gone = leader % 3 + 1
    asked = StepDown(0, entry.leader_epoch, StepDownReason.STALLED, leader, entry.leader_node_epoch, successor=gone)
    world.nodes[controller].take(asked)
    world.run(500)
    after = world.shard(0)
    assert (after.leader, after.leader_epoch) == (leader, entry.leader_epoch + 1)


@pytest.mark.parametrize("reason", [StepDownReason.STALLED, StepDownReason.SPOILT_EPOCH])
def test_who_only_wants_another_epoch_gets_it_where_nobody_else_can_lead(reason: StepDownReason) -> None:
    world = at_rest()
    (controller,) = world.controllers()
    leader = world.shard(0).leader
    assert leader is not None
    world.change_isr(0, (leader,))
    world.run(500)
    entry = world.shard(0)
    assert entry.leader_node_epoch is not None
    world.nodes[controller].take(StepDown(0, entry.leader_epoch, reason, leader, entry.leader_node_epoch))
    world.run(500)
    after = world.shard(0)
    assert after.leader == leader
    assert after.leader_epoch == entry.leader_epoch + (reason is StepDownReason.SPOILT_EPOCH)


def test_after_a_start_of_the_whole_cluster_the_longest_log_leads() -> None:
    world = at_rest()
    for node in world.nodes.values():
        node.kill()
    world.run(4_000)
    assert not world.image().live
    for number, node in world.nodes.items():
        node.log_ends = {shard: LogEnd(leader_epoch=1, end=100 + (number == 3)) for shard in range(SHARDS)}
    for number in (1, 2, 3):
        world.nodes[number].start()
        world.run(600)
    world.run(500)
    assert {world.shard(shard).leader for shard in range(SHARDS)} == {3}
    assert {frozenset(world.shard(shard).isr) for shard in range(SHARDS)} == {frozenset((1, 2, 3))}


def test_a_bucket_that_cannot_be_read_is_left_alone() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    dead = next(number for number in world.nodes if number != controller)
    check, world.servers.on_commit = world.servers.on_commit, lambda _change: None
    assert world.write(0, (ZkSet("/shards/0", b"garbage", world.servers.tree["/shards/0"].version),))
    world.servers.on_commit = check
    world.nodes[dead].kill()
    world.run(5_000)
    assert world.servers.tree["/shards/0"].data == b"garbage"
    led = {shard: entry.leader for shard, entry in world.image().shards()}
    assert sorted(led) == [1, 2, 4, 5]
    assert dead not in led.values()


def test_a_deposed_controller_leaves_and_writes_nothing() -> None:
    world = at_rest()
    (old,) = world.controllers()
    world.nodes[old].port.hold()
    world.run(6_000)
    assert len(world.controllers()) == 2, "the old one does not know"
    world.nodes[old].port.let_go()
    world.run(1_000)
    assert any(isinstance(said, LeftOffice) for said in world.nodes[old].said)
    assert old not in world.controllers()
    world.run(3_000)
    assert world.is_at_rest()


def test_a_controller_that_was_taken_for_dead_leaves_the_office_to_its_successor() -> None:
    world = at_rest()
    (old,) = world.controllers()
    other = next(node for node in world.nodes.values() if node.number != old)
    other.take(NodeRefused(old, world.image().live[old].value.node_epoch))
    world.run(500)
    assert world.controllers() == [other.number]
    assert world.nodes[old].said[-1] == LeftOffice("another node has become controller")


def test_a_controller_that_was_deposed_lets_others_stand_first() -> None:
    """Two nodes that take each other for dead would depose each other without end."""
    world = at_rest()
    (old,) = world.controllers()
    other = next(node for node in world.nodes.values() if node.number != old)
    for node, dead in ((other, old), (world.nodes[old], other.number)):
        node.take(NodeRefused(dead, world.image().live[dead].value.node_epoch))
    world.run(9_500)
    assert world.controllers() == [other.number]
    assert world.epoch() == 2
    world.run(1_000)
    assert world.controllers() == [old]
    assert world.epoch() == 3


def test_a_controller_that_was_deposed_stands_again_when_nobody_else_is_there() -> None:
    world = at_rest()
    (old,) = world.controllers()
    other = next(node for node in world.nodes.values() if node.number != old)
    other.take(NodeRefused(old, world.image().live[old].value.node_epoch))
    world.run(500)
    assert world.controllers() == [other.number]
    for node in world.nodes.values():
        if node.number != old:
            node.kill()
    world.run(9_000)
    assert world.controllers() == []
    world.run(1_500)
    assert world.controllers() == [old]


def test_a_controller_that_is_drained_leaves_the_office_to_one_that_is_ready() -> None:
    world = at_rest()
    (old,) = world.controllers()
    world.nodes[old].draining()
    world.run(500)
    (new,) = world.controllers()
    assert new != old
    assert LeftOffice("this node is being drained, and others are ready") in world.nodes[old].said
    world.run(30_000)
    assert world.controllers() == [new]
    assert old not in {world.shard(shard).leader for shard in range(SHARDS)}


def test_a_node_that_is_drained_stands_when_nobody_else_does() -> None:
    world = at_rest()
    (old,) = world.controllers()
    drained, last = (node for node in world.nodes.values() if node.number != old)
    drained.draining()
    last.kill()
    world.nodes[old].kill()
    world.run(9_000)
    assert world.controllers() == []
    world.run(6_000)
    assert world.controllers() == [drained.number]


@pytest.mark.parametrize("seed", range(12))
def test_a_controller_that_gives_the_office_up_does_not_take_it_again_when_the_outcome_is_lost(seed: int) -> None:
    world = at_rest(seed)
    (old,) = world.controllers()
    node = world.nodes[old]
    world.cut = {frozenset((old, number)) for number in world.nodes if number != old}
    while node.machine.office is not None:
        world.run(1)
    world.run(seed % 3)
    node.port.cut()
    world.run(5_000)
    (new,) = world.controllers()
    assert new != old
    assert [said for said in node.said if isinstance(said, TookOffice)] == [TookOffice(1)]


@pytest.mark.parametrize("seed", range(8))
def test_a_controller_that_reaches_few_nodes_leaves_the_office_to_others(seed: int) -> None:
    world = at_rest(seed)
    (old,) = world.controllers()
    world.cut = {frozenset((old, number)) for number in world.nodes if number != old}
    world.run(11_500)
    assert world.controllers() == [old], "it may be short"
    world.run(1_500)
    (new,) = world.controllers()
    assert new != old
    assert LeftOffice("1 of the 3 nodes that live can be reached from here") in world.nodes[old].said
    assert world.epoch() == 2
    world.run(60_000)
    assert world.controllers() == [new]


def test_a_controller_that_reaches_half_of_the_nodes_or_whose_others_are_dead_stays() -> None:
    world = at_rest()
    (old,) = world.controllers()
    one, two = (node for node in world.nodes.values() if node.number != old)
    world.cut = {frozenset((old, one.number))}
    world.run(30_000)
    assert world.controllers() == [old]
    two.kill()
    world.run(30_000)
    assert world.controllers() == [old]


def test_a_node_that_is_reached_again_is_not_dead() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    other = next(node for node in world.nodes.values() if node.number != controller)
    life = (other.number, 0)
    world.nodes[controller].take(NodeRefused(*life))
    world.run(1_000)
    assert other.number not in {world.shard(shard).leader for shard in range(SHARDS)}
    world.nodes[controller].take(PeerReached(*life))
    for shard in range(SHARDS):
        isr = world.shard(shard).isr
        world.change_isr(shard, isr if other.number in isr else (*isr, other.number))
    world.run(8_000)
    assert world.shard(world.led_first_by(other.number)).leader == other.number


def test_nothing_is_asked_again_at_rest() -> None:
    world = at_rest()
    world.run(10_000)
    before = dict(world.servers.tree)
    committed = world.servers.committed
    world.run(60_000)
    assert (world.servers.tree, world.servers.committed) == (before, committed)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_fails_every_shard_is_led_in_the_end(seed: int) -> None:
    manners = Manners(delays_ms=(0, 1, 15), thread_delays_ms=(0, 3, 20), loses_watches=0.02, doubles_watches=0.1)
    world = World(seed, manners)
    dice = Random(f"faults {seed}")
    for _ in range(80):
        node = world.nodes[dice.randint(1, 3)]
        match dice.randrange(9):
            case 0 if node.is_up:
                node.kill()
            case 1 | 2 if not node.is_up:
                node.start()
            case 3:
                node.port.cut()
            case 4:
                node.port.hold()
            case 5 | 6:
                node.port.let_go()
            case 7:
                world.servers.expire(node.port.owner)
            case 8 if shards := dict(world.image().shards()):
                shard = dice.choice(sorted(shards))
                entry = shards[shard]
                if entry.leader is not None:
                    followers = [each for each in entry.replicas if each != entry.leader]
                    size = dice.randint(CLUSTER.min_insync_replicas - 1, len(followers))
                    isr = {entry.leader, *dice.sample(followers, size)}
                    world.change_isr(shard, tuple(each for each in entry.replicas if each in isr))
            case _:
                pass
        world.run(dice.choice((1, 20, 200, 3_000)))
    for node in world.nodes.values():
        node.port.let_go()
        if not node.is_up:
            node.start()
    world.run(45_000)
    assert world.is_at_rest(), (world.controllers(), dict(world.image().shards()), world.image().live)
    assert world.history, "leaders have changed on the way"


def test_a_change_whose_outcome_is_lost_and_that_was_not_made_is_asked_for_again_at_once() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    node = world.nodes[controller]
    dead = next(number for number in world.nodes if number != controller)
    machine, effects = step(node.machine, NodeRefused(dead, world.image().live[dead].value.node_epoch), 10_000)
    (asked,) = (effect for effect in effects if isinstance(effect, ZkMulti))
    machine, effects = step(machine, ZkMultiDone(asked.session, asked.request_id, ZkUnknown("lost")), 10_010)
    while reads := [effect for effect in effects if isinstance(effect, ZkRead)]:
        (read,) = reads
        machine, effects = step(machine, found(world, read), 10_020)
    (again,) = (effect for effect in effects if isinstance(effect, ZkMulti))
    assert again.operations == asked.operations


def found(world: World, read: ZkRead) -> ZkReadDone:
    """Return what ZooKeeper has of what is asked."""
    tree = world.servers.tree
    nodes = tuple(tree.get(path) for path in read.nodes)
    children = tuple(
        tuple(sorted(path.rpartition("/")[2] for path in tree if path.rpartition("/")[0] == folder))
        for folder in read.children
    )
    return ZkReadDone(read.session, read.request_id, ZkValues(nodes, children))
