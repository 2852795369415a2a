"""A node that is alone, described as a cluster of one: it leads every shard and is the only replica of each.

What operators change in a cluster it refuses, for there is nowhere to move anything.
"""

from typing import Final, TypeAlias

from coordinator.core.effects import Effect
from coordinator.core.kafka_metadata import Catalog
from coordinator.core.shards.gates import Gates
from coordinator.core.shards.shard_rack import ShardRack
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeClusterResponse,
    DrainNode,
    DrainNodeResponse,
    ElectLeaders,
    ElectLeadersResponse,
    ReassignShards,
    ReassignShardsResponse,
)
from coordinator.protocol.parts import NodeAddress, NodeDescription, ShardDescription
from coordinator.protocol.vocabulary import NodeStatus, ShardStatus

ChangeOfCluster: TypeAlias = ReassignShardsResponse | ElectLeadersResponse | DrainNodeResponse

_WHY_ALONE: Final = "this coordinator is alone: its shards cannot be moved, and it cannot be drained"


def cluster_of_one(
    address: NodeAddress, gates: Gates[Effect], rack: ShardRack, catalog: Catalog, wall_ms: int
) -> DescribeClusterResponse:
    """Return the node, and each shard with its epoch and how far its log has come."""
    node = address.node_id
    return DescribeClusterResponse(
        node_id=node,
        nodes=(NodeDescription(node, NodeStatus.READY, address.host, address.port, is_heard=True),),
        shards=tuple(
            ShardDescription(
                index,
                led_status(rack, index),
                rack.leader_epochs[index],
                node,
                (node,),
                (node,),
                shard.desk.journal.log_end_offset if rack.is_served(index) else None,
                gates.high_watermark(index),
            )
            for index, shard in enumerate(rack.shards)
        ),
        wall_ms=wall_ms,
        kafka_cluster_id=catalog.cluster_id,
        kafka_failure=catalog.failure or "",
    )


def refused_alone(request: ReassignShards | ElectLeaders | DrainNode) -> ChangeOfCluster:
    """Return the refusal of what an operator wants changed in a cluster, by a node that is of none."""
    match request:
        case ReassignShards():
            return ReassignShardsResponse(ErrorCode.INVALID_REQUEST, _WHY_ALONE)
        case ElectLeaders():
            return ElectLeadersResponse(ErrorCode.INVALID_REQUEST, _WHY_ALONE)
        case DrainNode():
            return DrainNodeResponse(ErrorCode.INVALID_REQUEST, _WHY_ALONE)


def led_status(rack: ShardRack, index: int) -> ShardStatus:
    """Return how a shard is that this node leads."""
    if rack.is_served(index):
        return ShardStatus.SERVING
    return ShardStatus.STALLED if index in rack.stalled else ShardStatus.LOADING
