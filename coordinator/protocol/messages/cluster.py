"""The cluster as one node knows it, and what operators change in it: messages 14 and 70 to 79 with their responses.

A node that is alone answers DescribeCluster for itself, as a cluster of one, and refuses every change. Whoever wants to
know all of a cluster asks all of its nodes: of a shard its leader knows most. Changes of shards are asked of the
controller, whose id each description has. As with the requests of operators to a group, each change names who asks and
why, and `is_dry_run`, which is the default, has the response say what would be done and nothing be changed.
"""

from typing import ClassVar

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages.message import WireMessage, WireRequest, codes
from coordinator.protocol.parts import (
    Listed,
    NodeDescription,
    ShardChange,
    ShardDescription,
    ShardReplicas,
    UncleanLeader,
)


class DescribeCluster(WireRequest, frozen=True, tag=14):
    """Ask a node what it knows of its cluster; any node answers for itself, so no group is named."""


class ReassignShards(WireRequest, frozen=True, tag=70):
    """Have shards have these replicas, the preferred leader first: asked of the controller.

    Each shard is accepted or refused by itself. One that is accepted is moved in the background: its description names
    the replicas that are being added and removed until it is done.
    """

    refused_with: ClassVar = codes(ErrorCode.INVALID_REQUEST, ErrorCode.NOT_CONTROLLER)
    parts_refused_with: ClassVar = codes(ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    shards: Listed[ShardReplicas]
    who: str
    why: str = ""
    is_dry_run: bool = True

    def named(self) -> int:
        """Return how many shards it names."""
        return len(self.shards)


class ElectLeaders(WireRequest, frozen=True, tag=71):
    """Have shards be led by their preferred replicas now, not only at the next balance: asked of the controller.

    The preferred replica is the first one; it has to be in sync, there and ready. Of shards that nobody in sync can
    lead, `unclean` names others: what these lack is lost. Each shard is accepted or refused by itself.
    """

    refused_with: ClassVar = codes(ErrorCode.INVALID_REQUEST, ErrorCode.NOT_CONTROLLER)
    parts_refused_with: ClassVar = codes(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    )

    shards: Listed[int]
    who: str
    why: str = ""
    is_dry_run: bool = True
    unclean: Listed[UncleanLeader] = ()

    def named(self) -> int:
        """Return how many shards it names."""
        return len(self.shards) + len(self.unclean)


class DrainNode(WireRequest, frozen=True, tag=72):
    """Have the node that is asked lead nothing and be in no in-sync set until this is taken back or it starts anew."""

    refused_with: ClassVar = codes(ErrorCode.INVALID_REQUEST)

    node_id: int
    is_drained: bool
    who: str
    why: str = ""
    is_dry_run: bool = True


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
    stuck: tuple[str, ...] = ()
    """Sentences about what only a person can put right in ZooKeeper; the controller has most of them."""
    wall_ms: int | None = None
    """The node's wall clock as it answers, which is at most a tick old."""
    kafka_cluster_id: str | None = None
    """The cluster that Kafka has said to be, as the node heard it last."""
    kafka_failure: str = ""
    """The reason for which Kafka does not answer the node, empty while it does and before it was asked."""


class ReassignShardsResponse(WireMessage, frozen=True, tag=170):
    """Answers ReassignShards, with a result for each shard in the order asked."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    results: tuple[ShardChange, ...] = ()


class ElectLeadersResponse(WireMessage, frozen=True, tag=171):
    """Answers ElectLeaders, with a result for each shard in the order asked."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    results: tuple[ShardChange, ...] = ()


class DrainNodeResponse(WireMessage, frozen=True, tag=172):
    """Answers DrainNode: the shards that the node leads, and which of them no other node may lead as things are."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    led: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
