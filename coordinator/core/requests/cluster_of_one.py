"""A node that is alone, described as a cluster of one: it leads every shard and is the only replica of each."""

from coordinator.core.effects import Effect
from coordinator.core.shards.gates import Gates
from coordinator.core.shards.shard_rack import ShardRack
from coordinator.protocol.messages import DescribeClusterResponse
from coordinator.protocol.parts import NodeAddress, NodeDescription, ShardDescription
from coordinator.protocol.vocabulary import NodeStatus, ShardStatus


def cluster_of_one(address: NodeAddress, gates: Gates[Effect], rack: ShardRack) -> DescribeClusterResponse:
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
    )


def led_status(rack: ShardRack, index: int) -> ShardStatus:
    """Return how a shard is that this node leads."""
    if rack.is_served(index):
        return ShardStatus.SERVING
    return ShardStatus.STALLED if index in rack.stalled else ShardStatus.LOADING
