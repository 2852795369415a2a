"""Every node is told the latest until it has acknowledged it, and a leader that does not is followed by another."""

from dataclasses import replace

import msgspec.structs
import pytest

from coordinator.core.cluster.effects import NodeInfo, ShardLeader, ShardState, ShardStop, TellNode
from coordinator.core.cluster.events import PeerLost, PeerReached, StepDown, StepDownReason
from coordinator.core.cluster.image import Image
from coordinator.core.cluster.office import telling
from coordinator.core.cluster.office.index import index_of
from coordinator.core.cluster.office.telling import Outbox, late, take_answer
from coordinator.core.cluster.znodes import Bucket, Cluster, LiveNode, NodeState, ShardEntry, Versioned
from coordinator.core.cluster.zookeeper import ZkCreate, ZkDelete, ZkSession, ZkSet, ZkState
from tests.helpers.controller_world import SHARDS, Node, World, at_rest

CLUSTER = Cluster(cluster_id="c1", shards=2, buckets=1, replication_factor=2, min_insync_replicas=1)
LIVES = {1: 10, 2: 20, 3: 30}
REACHED = frozenset(LIVES.items())
INFOS = tuple(NodeInfo(node, life, (("peers", f"n{node}:1"),), 5, NodeState.READY) for node, life in LIVES.items())


def entry(leader: int, leader_epoch: int, replicas: tuple[int, ...]) -> ShardEntry:
    return ShardEntry(
        leader=leader, leader_node_epoch=LIVES[leader], leader_epoch=leader_epoch, isr=replicas, replicas=replicas
    )


def image_of(*entries: ShardEntry, version: int = 7) -> Image:
    """Return three nodes that live and these shards, all in one bucket."""
    live = {
        node: Versioned(
            LiveNode(node_epoch=life, directory_id="d", addresses={"peers": f"n{node}:1"}, rack="r", release="1"),
            5,
            owner=life,
        )
        for node, life in LIVES.items()
    }
    bucket = Bucket(shards=dict(enumerate(entries)))
    return Image(cluster=Versioned(CLUSTER, 0), live=live, buckets={0: Versioned(bucket, version)})


FIRST = image_of(entry(1, 4, (1, 2)), entry(2, 6, (2, 3)))


def tell(
    outbox: Outbox, image: Image, lives: dict[int, int], reached: frozenset[tuple[int, int]], now_ms: int
) -> tuple[Outbox, tuple[TellNode, ...]]:
    return telling.tell(outbox, index_of(image), lives, reached, now_ms)


def told(outbox: Outbox, image: Image, now_ms: int = 0, reached: frozenset[tuple[int, int]] = REACHED) -> Outbox:
    """Return the outbox after everybody who is reached was told and has answered, until nothing is left to say."""
    while True:
        outbox, messages = tell(outbox, image, LIVES, reached, now_ms)
        if not messages:
            return outbox
        for message in messages:
            outbox = take_answer(outbox, message.node_id, message.node_epoch, message.number)


def test_a_node_is_told_everything_first_and_then_what_has_changed() -> None:
    outbox, messages = tell(Outbox(9, 3), FIRST, LIVES, REACHED, 0)
    assert [message.node_id for message in messages] == [1, 2, 3]
    assert messages[0] == TellNode(
        node_id=1,
        controller_id=9,
        controller_epoch=3,
        node_epoch=10,
        number=1,
        is_init=True,
        states=(ShardState(0, 1, 4, (1, 2), (1, 2), 7, LIVES[1]),),
        leaders=(ShardLeader(1, 2, 6),),
        stops=(),
        unreadable=(),
        nodes=INFOS,
    )
    assert tell(outbox, FIRST, LIVES, REACHED, 10) == (outbox, ()), "nobody has answered yet"
    outbox = told(Outbox(9, 3), FIRST)
    changed = image_of(entry(2, 5, (1, 2)), entry(2, 6, (2, 3)), version=8)
    outbox, messages = tell(outbox, changed, LIVES, REACHED, 50)
    assert [(each.node_id, each.number, each.is_init, each.states, each.leaders) for each in messages] == [
        (1, 2, False, (ShardState(0, 2, 5, (1, 2), (1, 2), 8, LIVES[2]),), ()),
        (2, 2, False, (ShardState(0, 2, 5, (1, 2), (1, 2), 8, LIVES[2]),), ()),
        (3, 2, False, (), (ShardLeader(0, 2, 5),)),
    ]


def test_a_change_that_a_leader_has_made_itself_is_nothing_to_tell() -> None:
    outbox = told(Outbox(9, 3), FIRST)
    shrunk = msgspec.structs.replace(entry(1, 4, (1, 2)), isr=(1,))
    assert tell(outbox, image_of(shrunk, entry(2, 6, (2, 3)), version=8), LIVES, REACHED, 50)[1] == ()


def test_while_an_answer_is_waited_for_nothing_is_said_and_then_the_latest_alone() -> None:
    outbox, (first, *_) = tell(Outbox(9, 3), FIRST, LIVES, REACHED, 0)
    for epoch in (5, 6, 7):
        changed = image_of(entry(2, epoch, (1, 2)), entry(2, 6, (2, 3)))
        outbox, messages = tell(outbox, changed, LIVES, REACHED, epoch)
        assert messages == ()
    outbox = take_answer(outbox, 1, 10, first.number)
    assert take_answer(outbox, 1, 10, first.number) == outbox, "an answer that comes twice"
    outbox, (message,) = tell(outbox, changed, LIVES, REACHED, 8)
    assert (message.node_id, message.states, message.leaders) == (
        1,
        (ShardState(0, 2, 7, (1, 2), (1, 2), 7, LIVES[2]),),
        (),
    )


def test_what_was_under_way_when_a_connection_ended_is_said_again_with_what_has_come() -> None:
    outbox = told(Outbox(9, 3), FIRST)
    changed = image_of(entry(2, 5, (1, 2)), entry(2, 6, (2, 3)))
    outbox, (lost, *_) = tell(outbox, changed, LIVES, REACHED, 50)
    outbox, messages = tell(outbox, changed, LIVES, REACHED - {(1, 10)}, 60)
    assert messages == ()
    outbox, (again,) = tell(outbox, changed, LIVES, REACHED, 70)
    assert again == replace(lost, number=lost.number + 1)
    assert take_answer(outbox, 1, 10, lost.number) == outbox, "to what was said before"


def test_what_was_under_way_is_said_again_also_when_nothing_could_be_said_between_two_connections() -> None:
    world = at_rest()
    other = other_than_the_controller(world)
    machine = world.nodes[world.controllers()[0]]
    assert other.node_epoch is not None
    other.is_deaf = True
    world.reassign(world.led_first_by(other.number), world.shard(world.led_first_by(other.number)).replicas[::-1])
    world.run(100)
    session, owner = machine.machine.observer.session, machine.machine.owner
    machine.take(ZkSession(session, ZkState.SUSPENDED, owner))  # nothing is said before all is read again
    machine.take(PeerLost(other.number, other.node_epoch))
    machine.take(PeerReached(other.number, other.node_epoch))
    machine.take(ZkSession(session, ZkState.CONNECTED, owner))
    other.is_deaf = False
    world.run(1_000)
    assert world.is_at_rest()


def test_a_new_life_is_told_everything() -> None:
    outbox = told(Outbox(9, 3), FIRST)
    lives = LIVES | {1: 11}
    _, (message,) = tell(outbox, FIRST, lives, REACHED | {(1, 11)}, 50)
    assert (message.node_id, message.node_epoch, message.is_init) == (1, 11, True)
    assert [state.shard for state in message.states] == [0]


def test_a_node_that_has_lost_a_replica_is_told_to_stop_it_until_it_says_that_it_has() -> None:
    outbox = told(Outbox(9, 3), FIRST)
    moved = image_of(entry(1, 5, (1, 3)), entry(2, 6, (2, 3)))
    outbox, messages = tell(outbox, moved, LIVES, REACHED, 50)
    assert [(each.node_id, each.stops) for each in messages] == [(1, ()), (2, (ShardStop(0, 5),)), (3, ())]
    outbox, _ = tell(outbox, moved, LIVES, REACHED - {(2, 20)}, 60)
    outbox, (again,) = tell(outbox, moved, LIVES, REACHED, 70)
    assert again.stops == (ShardStop(0, 5),)
    again_moved = image_of(entry(1, 6, (1, 3)), entry(2, 6, (2, 3)))
    outbox = told(take_answer(outbox, 2, 20, again.number), moved, reached=frozenset({(2, 20)}))
    _, messages = tell(outbox, again_moved, LIVES, frozenset({(2, 20)}), 80)
    assert [(each.leaders, each.stops) for each in messages] == [((ShardLeader(0, 1, 6),), ())]


def test_shards_that_cannot_be_read_are_named_or_they_would_be_taken_for_deleted() -> None:
    part = replace(FIRST, buckets={}, unreadable={"/shards/0": "garbage"})
    _, (message, *_) = tell(Outbox(9, 3), part, LIVES, REACHED, 0)
    assert (message.is_init, message.states, message.unreadable) == (True, (), (0, 1))


@pytest.mark.parametrize("garbage", [None, b"garbage"], ids=["it is gone", "it cannot be read"])
def test_while_the_cluster_cannot_be_read_a_new_life_is_told_nothing_or_its_logs_would_be_taken_for_deleted(
    garbage: bytes | None,
) -> None:
    world = at_rest()
    (controller,) = world.controllers()
    back = next(number for number in world.nodes if number != controller)
    world.nodes[back].kill()
    world.run(3_000)
    made, version = world.servers.tree["/cluster"].data, world.servers.tree["/cluster"].version
    removed = ZkDelete("/cluster", version) if garbage is None else ZkSet("/cluster", garbage, version)
    assert world.write(0, (removed,))
    world.nodes[back].start()
    world.run(3_000)
    assert not world.nodes[back].is_told, "it would move aside all that it has"
    put_back = ZkCreate("/cluster", made) if garbage is None else ZkSet("/cluster", made, version + 1)
    assert world.write(0, (put_back,))
    world.run(3_000)
    assert world.nodes[back].is_told
    assert world.is_at_rest()


def test_whoever_acknowledges_nothing_is_late_reached_or_not_and_no_longer_when_it_answers() -> None:
    reached = REACHED - {(3, 30)}
    outbox, (first, _) = tell(Outbox(9, 3), FIRST, LIVES, reached, 100)
    assert late(outbox, 2_000, 2_099) == frozenset()
    assert late(outbox, 2_000, 2_100) == {(1, 10), (2, 20), (3, 30)}
    outbox = take_answer(outbox, 1, 10, first.number)
    assert late(outbox, 2_000, 2_100) == {(2, 20), (3, 30)}


# ---- with controllers ------------------------------------------------------------------------------------------------


def other_than_the_controller(world: World) -> Node:
    (controller,) = world.controllers()
    return next(node for node in world.nodes.values() if node.number != controller)


def test_a_leader_that_is_there_and_takes_nothing_in_is_followed_by_one_that_does_until_it_answers() -> None:
    world = at_rest()
    deaf = other_than_the_controller(world)
    shard = world.led_first_by(deaf.number)
    led = {each for each in range(SHARDS) if world.shard(each).leader == deaf.number}
    deaf.is_deaf = True
    world.reassign(shard, world.shard(shard).replicas[::-1])  # it leads in the next leader epoch, and is not heard
    world.run(1_500)
    assert world.shard(shard).leader == deaf.number
    world.run(1_500)
    assert world.shard(shard).leader != deaf.number
    assert {each for each in range(SHARDS) if world.shard(each).leader == deaf.number} == led - {shard}
    epoch = world.shard(shard).leader_epoch
    world.run(20_000)
    assert world.shard(shard).leader_epoch <= epoch + 1, "it does not go back and forth"
    deaf.is_deaf = False
    world.cut = {frozenset((world.controllers()[0], deaf.number))}
    world.run(500)
    world.cut = set()
    world.run(10_000)
    assert world.is_at_rest()


def test_where_nobody_answers_the_leaders_stay() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    world.cut = {frozenset((controller, number)) for number in world.nodes if number != controller}
    shard = next(each for each in range(SHARDS) if world.shard(each).leader != controller)
    leader = world.shard(shard).leader
    other = next(node for node in world.nodes if node not in (controller, leader))
    world.change_isr(shard, tuple(node for node in world.shard(shard).replicas if node in (leader, other)))
    world.reassign(shard, world.shard(shard).replicas[::-1])
    world.run(300)
    before = {each: world.shard(each) for each in range(SHARDS)}
    assert not world.is_everybody_told()
    world.run(8_000)
    assert world.controllers() == [controller]
    assert {each: world.shard(each) for each in range(SHARDS)} == before


def test_a_node_that_does_not_answer_is_given_no_leadership_back() -> None:
    world = at_rest()
    deaf = other_than_the_controller(world)
    shard = world.led_first_by(deaf.number)
    deaf.is_deaf = True
    (controller,) = world.controllers()
    entry = world.shard(shard)
    epoch, life = entry.leader_epoch, entry.leader_node_epoch
    assert entry.leader is not None
    assert life is not None
    world.nodes[controller].take(StepDown(shard, epoch, StepDownReason.STALLED, entry.leader, life))
    world.run(30_000)
    assert world.shard(shard).leader != deaf.number
    assert world.shard(shard).leader_epoch == epoch + 1


def test_a_former_controller_is_not_obeyed() -> None:
    world = at_rest()
    (old,) = world.controllers()
    world.nodes[old].port.hold()
    world.run(6_000)
    assert len(world.controllers()) == 2
    assert {node.controller_epoch for node in world.nodes.values() if node.number != old} == {2}
    world.nodes[old].port.let_go()
    world.run(10_000)
    assert world.is_at_rest()
