"""The rooms of a node ask ZooKeeper no more often than they need, and know together what one of them has seen."""

from typing import Any

import msgspec.structs
import pytest

from coordinator.core.cluster.events import Registered, StateWanted
from coordinator.core.cluster.identity import Identity
from coordinator.core.cluster.znodes import (
    CLUSTER,
    CONTROLLER_ACTIVE,
    CONTROLLER_EPOCH,
    SHARDS,
    ActiveController,
    Bucket,
    Cluster,
    ControllerEpoch,
    NodeState,
    ShardEntry,
    encode,
    encode_bucket,
)
from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkAspect,
    ZkChanged,
    ZkCreate,
    ZkDelete,
    ZkMulti,
    ZkMultiDone,
    ZkNode,
    ZkRead,
    ZkReadDone,
    ZkRefusal,
    ZkRefused,
    ZkSession,
    ZkSet,
    ZkState,
    ZkValues,
)
from coordinator.core.cluster_node.answers.draining import HandOver
from coordinator.core.cluster_node.answers.operators import answer_operator
from coordinator.core.cluster_node.answers.surveying import survey_cluster
from coordinator.core.cluster_node.isr_writes import UNKNOWN_WAIT_MS
from coordinator.core.cluster_node.rooms import RoomEffect, Rooms
from coordinator.core.cluster_node.settings import ClusterSettings
from coordinator.core.replica.effects import ChangeIsr
from coordinator.core.requests.survey import ClusterSeen
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ElectLeaders

MADE = Cluster(cluster_id="c1", shards=1, buckets=1, replication_factor=1, min_insync_replicas=1)
ENTRY = ShardEntry(leader=1, leader_node_epoch=0, leader_epoch=4, isr=(1, 2), replicas=(1, 2))
SHARDS_OF_0 = "/shards/0"
OWNER = 7
MOST_ROUNDS = 100


class World:
    """The rooms of node 1, which leads a shard, over a ZooKeeper that answers at once; `reads` counts its questions."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.reads = 0
        self.tree = {
            CLUSTER: ZkNode(encode(MADE), 0),
            CONTROLLER_EPOCH: ZkNode(encode(ControllerEpoch(epoch=0)), 0),
        }
        self.rooms = Rooms(Identity(1, "d", 1, MADE, {}, rack="r", release="0", cluster_id="c1"), ClusterSettings())
        self.settle(self.rooms.zookeeper(ZkSession(1, ZkState.CONNECTED, OWNER), 0))
        assert self.rooms.registration.node_epoch is not None
        self.tree[SHARDS_OF_0] = ZkNode(encode_bucket(Bucket(shards={0: ENTRY})), 9)
        self.settle(self.rooms.observe_led({0}, 0))

    def settle(self, effects: list[RoomEffect]) -> None:
        """Answer until nothing more is asked, or for very long."""
        for _ in range(MOST_ROUNDS):
            asked, effects = effects, []
            for effect in asked:
                effects += self._answered(effect)
            written, ended = self.rooms.write(self.now_ms)
            effects += written
            if not effects and not ended:
                return

    def _answered(self, effect: RoomEffect) -> list[RoomEffect]:
        match effect:
            case ZkRead():
                self.reads += 1
                found = ZkValues(tuple(map(self.tree.get, effect.nodes)), tuple(map(self._children, effect.children)))
                return self.rooms.answered(ZkReadDone(1, effect.request_id, found), self.now_ms)[0]
            case ZkMulti():
                versions = tuple(self._done(operation) for operation in effect.operations)
                return self.rooms.answered(ZkMultiDone(1, effect.request_id, ZkApplied(versions)), self.now_ms)[0]
        return []

    def _children(self, folder: str) -> tuple[str, ...]:
        return tuple(path.rpartition("/")[2] for path in self.tree if path.rpartition("/")[0] == folder)

    def _done(self, operation: object) -> int | None:
        match operation:
            case ZkCreate(path, data, is_ephemeral):
                self.tree[path] = ZkNode(data, 0, OWNER if is_ephemeral else 0)
                return 0
            case ZkSet(path, data, version):
                self.tree[path] = ZkNode(data, version + 1)
                return version + 1
            case ZkDelete(path):
                del self.tree[path]
        return None


@pytest.mark.parametrize("found", [None, ZkNode(b"garbage", 10)], ids=["removed", "garbage"])
def test_a_bucket_that_cannot_be_known_is_read_once_a_while_for_what_is_to_be_written_there(
    found: ZkNode | None,
) -> None:
    world = World()
    there = world.tree.pop(SHARDS_OF_0)
    if found is not None:
        world.tree[SHARDS_OF_0] = found
    world.settle(world.rooms.read_anew(0))
    world.rooms.writes.want(ChangeIsr(0, 4, there.version, (1,), 1))
    for second in range(3):
        world.now_ms, world.reads = second * UNKNOWN_WAIT_MS, 0
        for ms in (0, 1, UNKNOWN_WAIT_MS - 1):
            world.now_ms = second * UNKNOWN_WAIT_MS + ms
            world.settle([])
        assert world.reads == 2, "once, with those who live"
    world.tree[SHARDS_OF_0] = there
    world.settle(world.rooms.zookeeper(ZkChanged(1, SHARDS_OF_0, ZkAspect.NODE), world.now_ms))
    assert b'"isr":[1]' in world.tree[SHARDS_OF_0].data, "it is written as soon as it is put right"


@pytest.mark.parametrize(
    "said",
    [None, b"garbage", encode(msgspec.structs.replace(MADE, shards=2))],
    ids=["removed", "garbage", "another number"],
)
def test_a_node_that_is_given_a_shard_changes_its_in_sync_set_whatever_cluster_says_by_then(said: bytes | None) -> None:
    world = World()
    world.settle(world.rooms.observe_led(set(), 0))
    made = world.tree.pop(CLUSTER)
    if said is not None:
        world.tree[CLUSTER] = ZkNode(said, made.version + 1)
    world.settle(world.rooms.zookeeper(ZkChanged(1, CLUSTER, ZkAspect.NODE), 0))
    assert world.rooms.registration.observer.image.cluster is None
    world.settle(world.rooms.observe_led({0}, 0))
    world.rooms.writes.want(ChangeIsr(0, 4, world.tree[SHARDS_OF_0].version, (1,), 1))
    world.settle([])
    assert b'"isr":[1]' in world.tree[SHARDS_OF_0].data


def test_a_node_that_takes_the_office_makes_no_shard_anew_that_it_has_seen_before_it_was_removed() -> None:
    world = World()
    change = ZkChanged(1, SHARDS, ZkAspect.CHILDREN)
    world.settle(world.rooms.zookeeper(change, 0))
    there = world.tree.pop(SHARDS_OF_0)
    world.settle(world.rooms.zookeeper(change, 0))
    world.settle(world.rooms.decide(Registered(0), 0))
    assert world.rooms.has_office
    assert SHARDS_OF_0 not in world.tree, "it would begin at leader epochs that were given"
    assert world.rooms.stuck == (
        "ZooKeeper has no /shards/0, and shard 0 was seen in it, in leader epoch 4: a part of its data was removed, "
        "and leader epochs would be given again; put it back",
    )
    world.tree[SHARDS_OF_0] = there
    world.settle(world.rooms.zookeeper(change, 0))
    assert world.rooms.stuck == ()


class Denying(World):
    """A ZooKeeper that refuses what the node writes from when it is registered until it `lets` it."""

    def __init__(self) -> None:
        self.lets = True
        super().__init__()
        self.lets = False

    def _answered(self, effect: RoomEffect) -> list[RoomEffect]:
        if self.lets or not isinstance(effect, ZkMulti):
            return super()._answered(effect)
        refused = ZkRefused(0, ZkRefusal.NO_AUTH, DENIED)
        return self.rooms.answered(ZkMultiDone(1, effect.request_id, refused), self.now_ms)[0]

    def run(self, ms: int) -> None:
        """Let time pass."""
        until_ms = self.now_ms + ms
        while self.now_ms < until_ms:
            self.now_ms += TICK_MS
            self.settle(self.rooms.tick(self.now_ms))


DENIED = "NoAuthError"
TICK_MS = 250


def test_why_a_write_was_refused_is_said_while_it_is_wanted_and_no_longer() -> None:
    world = Denying()
    world.settle(world.rooms.register(StateWanted(NodeState.DRAINING), 0))
    world.settle(world.rooms.decide(Registered(0), 0))
    world.run(5_000)
    assert world.rooms.stuck == (DENIED, DENIED), "it may neither be drained nor become controller"
    world.tree[CONTROLLER_EPOCH] = ZkNode(encode(ControllerEpoch(epoch=1, node_id=2)), 1)
    other = ActiveController(node_id=2, node_epoch=0, controller_epoch=1)
    world.tree[CONTROLLER_ACTIVE] = ZkNode(encode(other), 0, OWNER + 1)
    for path in (CONTROLLER_EPOCH, CONTROLLER_ACTIVE):
        world.settle(world.rooms.zookeeper(ZkChanged(1, path, ZkAspect.NODE), world.now_ms))
    world.run(2_000)
    assert world.rooms.stuck == (DENIED,), "another is controller"
    world.settle(world.rooms.register(StateWanted(NodeState.READY), world.now_ms))
    world.run(2_000)
    assert world.rooms.stuck == ()


def test_a_controller_that_does_not_know_which_shards_there_are_is_asked_about_none_and_counts_none() -> None:
    world = World()
    world.settle(world.rooms.decide(Registered(0), 0))
    replication: Any = type("R", (), {"cluster": MADE, "led": frozenset()})

    def said() -> tuple[ErrorCode, int | None]:
        response = answer_operator(ElectLeaders((0,), "ann"), 1, world.rooms, 1, HandOver((), ()), 0).response
        seen = next(survey_cluster(world.rooms, replication, {}))
        assert isinstance(seen, ClusterSeen)
        return response.error, seen.offline_shards

    assert said() == (ErrorCode.NONE, 0)
    made = world.tree.pop(CLUSTER)
    for there, expected in ((None, (ErrorCode.NOT_CONTROLLER, None)), (made, (ErrorCode.NONE, 0))):
        world.tree |= {} if there is None else {CLUSTER: there}
        world.settle(world.rooms.zookeeper(ZkChanged(1, CLUSTER, ZkAspect.NODE), 0))
        assert world.rooms.has_office
        assert said() == expected
