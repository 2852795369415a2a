"""A node of a cluster before it has registered, and what it says of the shards it was told of."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from coordinator.core.cluster.effects import JoinedCluster
from coordinator.core.cluster.events import Remembered
from coordinator.core.cluster.identity import Identity
from coordinator.core.cluster.znodes import (
    CLUSTER,
    CONTROLLER_EPOCH,
    NODES_LIVE,
    Cluster,
    ControllerEpoch,
    LiveNode,
    encode,
    live_path,
)
from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkCreate,
    ZkMulti,
    ZkMultiDone,
    ZkNode,
    ZkRead,
    ZkReadDone,
    ZkSession,
    ZkState,
    ZkValues,
)
from coordinator.core.cluster_node.answers.description import MEMBERS_ADDRESS
from coordinator.core.cluster_node.node import ClusterNode
from coordinator.core.cluster_node.settings import ClusterSettings
from coordinator.core.effects import Halt, Respond
from coordinator.core.events import ConnectionOpened, DiskFailed, RequestArrived, Ticked
from coordinator.core.limits import Limits
from coordinator.core.peers.events import ContactBegan, ContactEnded, PeerPinged, PeerSaid, PeersEvent
from coordinator.core.security.principal import Principal
from coordinator.protocol import peer_messages as wire
from coordinator.protocol.messages import (
    DescribeCluster,
    DescribeClusterResponse,
    FindCoordinator,
    FindCoordinatorResponse,
)
from coordinator.protocol.parts import NodeAddress

MADE = Cluster(cluster_id="c1", shards=1, buckets=1, replication_factor=1, min_insync_replicas=1)
TREE = {CLUSTER: encode(MADE), CONTROLLER_EPOCH: encode(ControllerEpoch(epoch=0))}
LIFE = 5
OWNERS = {live_path(1): 7, live_path(2): 8}
OTHER = LiveNode(node_epoch=LIFE, directory_id="d2", addresses={MEMBERS_ADDRESS: "n2:7600"}, rack="r", release="0")


def node() -> ClusterNode:
    identity = Identity(1, "d", 1, MADE, {}, rack="r", release="0")
    made = ClusterNode(identity, ClusterSettings(), Limits(), NodeAddress(1, "n1", 7600), ("k:9092",), (), "i")
    made.start(0, 0)
    return made


def has_been_asked_to_join(made: ClusterNode) -> bool:
    """Have ZooKeeper answer what a node reads, until it wants to remember which cluster it has found."""
    effects: list[object] = list(made.step(ZkSession(1, ZkState.CONNECTED, 7), 1))
    for _ in range(10):
        if any(isinstance(effect, JoinedCluster) for effect in effects):
            return True
        reads = [effect for effect in effects if isinstance(effect, ZkRead)]
        effects = []
        for read in reads:
            nodes = tuple(ZkNode(TREE[path], 0) if path in TREE else None for path in read.nodes)
            found = ZkValues(nodes, tuple(() for _ in read.children))
            effects += made.step(ZkReadDone(read.session, read.request_id, found), 2)
    return False


@pytest.mark.parametrize("is_asked", [True, False], ids=["while it joins", "before that"])
def test_a_disk_that_fails_before_the_node_has_registered_ends_it(is_asked: bool) -> None:
    made = node()
    if is_asked:
        assert has_been_asked_to_join(made)
    (halt,) = made.step(DiskFailed("cannot write meta.json.tmp: No space left on device"), 3)
    assert isinstance(halt, Halt)
    assert "No space left on device" in halt.why
    assert made.step(Ticked(0), 4) == []


def registered() -> ClusterNode:
    """Return the node in its first life, in contact with node 2."""
    made, tree = node(), {**TREE, live_path(2): encode(OTHER)}
    assert has_been_asked_to_join(made)
    effects: list[object] = list(made.step(Remembered(), 3))
    for _ in range(10):
        asked, effects = effects, []
        for effect in asked:
            if isinstance(effect, ZkMulti):
                tree |= {each.path: each.data for each in effect.operations if isinstance(each, ZkCreate)}
                applied = ZkApplied(tuple(0 for _ in effect.operations))
                effects += made.step(ZkMultiDone(effect.session, effect.request_id, applied), 3)
            elif isinstance(effect, ZkRead):
                nodes = tuple(
                    ZkNode(tree[path], LIFE, OWNERS.get(path, 0)) if path in tree else None for path in effect.nodes
                )
                there = tuple(str(number) for number in (1, 2) if live_path(number) in tree)
                names = tuple(there if path == NODES_LIVE else () for path in effect.children)
                found = ZkReadDone(effect.session, effect.request_id, ZkValues(nodes, names))
                effects += made.step(found, 3)
    assert made.is_in_cluster
    made.step(ContactBegan(2, LIFE), 4)
    made.step(ConnectionOpened(1, "h", Principal("ANONYMOUS")), 4)
    return made


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "unreadable"])
def test_a_shard_that_a_whole_message_does_not_name_has_no_replica_here_any_more(is_read: bool) -> None:
    made = registered()
    state = wire.ShardState(0, 2, 3, (2, 1), (2, 1), 1, LIFE, 0)
    made.step(PeerSaid(2, LIFE, wire.TellNode(2, 1, made.node_epoch, 1, True, (state,), (), (), (), ())), 5)
    assert replicas_said(made) == (2, 1)
    # The next controller does not know what the one before has told this node, so there is nothing to stop.
    leaders, unreadable = ((wire.ShardLeader(0, 2, 4),), ()) if is_read else ((), (0,))
    made.step(PeerSaid(2, LIFE, wire.TellNode(3, 2, made.node_epoch, 1, True, (), leaders, (), unreadable, ())), 6)
    assert replicas_said(made) == (() if is_read else (2, 1))


def replicas_said(made: ClusterNode) -> tuple[int, ...]:
    """Return the replicas of the shard as the node tells whoever asks."""
    answers = made.step(RequestArrived(1, 1, DescribeCluster()), 7)
    (described,) = (each.response for each in answers if isinstance(each, Respond))
    assert isinstance(described, DescribeClusterResponse)
    return tuple(described.shards[0].replicas)


LED_BY_THE_OTHER = wire.TellNode(2, 1, 0, 1, True, (), (wire.ShardLeader(0, 2, 4),), (), (), ())


@pytest.mark.parametrize(
    "heard",
    [PeerPinged(2, LIFE), PeerSaid(2, LIFE, wire.Confirm(1)), ContactBegan(2, LIFE)],
    ids=["pinged", "said something", "called again"],
)
def test_a_leader_that_a_member_has_lost_is_named_again_by_whatever_is_heard_of_it(heard: PeersEvent) -> None:
    made = registered()
    told = replace(LED_BY_THE_OTHER, node_epoch=made.node_epoch)
    made.step(PeerSaid(2, LIFE, told), 5)
    assert coordinators_in(made.step(RequestArrived(1, 1, FindCoordinator("g", 4)), 6)) == []
    assert coordinators_in(made.step(PeerPinged(2, LIFE - 1), 7)) == []
    if isinstance(heard, ContactBegan):
        made.step(ContactEnded(2, LIFE, "nothing came from it for 1500 ms"), 7)
    assert coordinators_in(made.step(heard, 8)) == [NodeAddress(2, "n2", 7600)]


def coordinators_in(effects: Iterable[object]) -> list[NodeAddress | None]:
    """Return whom the answers to questions for a coordinator name."""
    responses = (effect.response for effect in effects if isinstance(effect, Respond))
    return [each.coordinator for each in responses if isinstance(each, FindCoordinatorResponse)]
