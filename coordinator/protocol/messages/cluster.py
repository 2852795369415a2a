"""The cluster as one node knows it: its nodes, its controller, and the shards. Nothing is changed by these.

A node that is alone answers for itself, as a cluster of one. Whoever wants to know all of a cluster asks all of its
nodes: of a shard its leader knows most.
"""

from coordinator.protocol.messages.message import WireMessage, WireRequest
from coordinator.protocol.parts import NodeDescription, ShardDescription


class DescribeCluster(WireRequest, frozen=True, tag=14):
    """Ask a node what it knows of its cluster; any node answers for itself, so no group is named."""


class DescribeClusterResponse(WireMessage, frozen=True, tag=114):
    """Answers DescribeCluster, in one piece: there are 1,000 shards at most.

    A node that is alone has no cluster id, no controller and nothing to do with ZooKeeper. `controller` is the one that
    was obeyed last, in the epoch of it. `is_up_to_date` says that ZooKeeper answers and that everything was read since.
    """

    node_id: int = 0
    nodes: tuple[NodeDescription, ...] = ()
    shards: tuple[ShardDescription, ...] = ()
    cluster_id: str | None = None
    controller: int | None = None
    controller_epoch: int | None = None
    replication_factor: int = 1
    min_insync_replicas: int = 1
    is_up_to_date: bool | None = None
