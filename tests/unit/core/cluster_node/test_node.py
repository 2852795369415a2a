"""A node of a cluster before it has registered."""

import pytest

from coordinator.core.cluster.effects import JoinedCluster
from coordinator.core.cluster.identity import Identity
from coordinator.core.cluster.znodes import CLUSTER, CONTROLLER_EPOCH, Cluster, ControllerEpoch, encode
from coordinator.core.cluster.zookeeper import ZkNode, ZkRead, ZkReadDone, ZkSession, ZkState, ZkValues
from coordinator.core.cluster_node.node import ClusterNode
from coordinator.core.cluster_node.settings import ClusterSettings
from coordinator.core.effects import Halt
from coordinator.core.events import DiskFailed, Ticked
from coordinator.core.limits import Limits
from coordinator.protocol.parts import NodeAddress

MADE = Cluster(cluster_id="c1", shards=1, buckets=1, replication_factor=1, min_insync_replicas=1)
TREE = {CLUSTER: encode(MADE), CONTROLLER_EPOCH: encode(ControllerEpoch(epoch=0))}


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
