"""The cluster as this node knows it, for people: the nodes, who the controller is, and how each shard is here.

It says what is known and leaves out the rest. Where this node is the controller it has read every shard's entry; of
what it leads it knows the in-sync set and the high watermark; of other replicas their own log.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.core.cluster.image import Image
from coordinator.core.cluster.znodes import LiveNode, NodeState
from coordinator.core.cluster_node.replication import Replication
from coordinator.core.cluster_node.rooms import Rooms
from coordinator.core.replica.replica import (
    Declined,
    Doubting,
    Follower,
    FollowerPhase,
    Leader,
    LeaderPhase,
    Offline,
    Replica,
)
from coordinator.protocol.messages import DescribeClusterResponse
from coordinator.protocol.parts import NodeAddress, NodeDescription, ShardDescription
from coordinator.protocol.text.addresses import parse_address
from coordinator.protocol.vocabulary import NodeStatus, ShardStatus

MEMBERS_ADDRESS: Final = "members"
"""The name under which a node registers the address of its listener for members and tools."""


@dataclass(frozen=True, slots=True)
class Known:
    """The knowledge of a node besides what its rooms have read.

    `leaders` has the leader epoch and the leader of each shard as they were told last, `replicas` the replicas of those
    that have one here, `contacts` the nodes that are heard and `met` those that were there since this node started.
    """

    node_id: int
    controller: int | None
    controller_epoch: int
    leaders: Mapping[int, tuple[int, int | None]]
    replicas: Mapping[int, tuple[int, ...]]
    contacts: frozenset[int]
    met: frozenset[int]


def describe(known: Known, rooms: Rooms, replication: Replication, wall_ms: int) -> DescribeClusterResponse:
    """Return the answer to who asks about the cluster that the node is in, whatever has become of ZooKeeper's data."""
    entries = rooms.controller.observer.image if rooms.has_office else None
    cluster, catalog = replication.cluster, replication.coordinator.catalog
    return DescribeClusterResponse(
        node_id=known.node_id,
        nodes=tuple(_node(known, rooms.image, node) for node in sorted(_nodes(known, rooms.image, entries))),
        shards=tuple(_shard(known, entries, replication, shard) for shard in range(cluster.shards)),
        cluster_id=cluster.cluster_id,
        controller=known.controller,
        controller_epoch=None if known.controller is None else known.controller_epoch,
        replication_factor=cluster.replication_factor,
        min_insync_replicas=cluster.min_insync_replicas,
        is_up_to_date=rooms.is_certain,
        stuck=rooms.stuck,
        wall_ms=wall_ms,
        kafka_cluster_id=catalog.cluster_id,
        kafka_failure=catalog.failure or "",
    )


def members_address(node: int, live: LiveNode) -> NodeAddress | None:
    """Return where members reach a node; None if it has not registered that, or something else there."""
    try:
        return NodeAddress(node, *parse_address(live.addresses.get(MEMBERS_ADDRESS, "")))
    except ValueError:
        return None


def _nodes(known: Known, image: Image, entries: Image | None) -> set[int]:
    """Return every node of which anything is known."""
    nodes = {known.node_id, *image.live, *known.met}
    nodes.update(*known.replicas.values())
    if entries is not None:
        nodes.update(*(entry.replicas for _, entry in entries.shards()))
    return nodes


def _node(known: Known, image: Image, node: int) -> NodeDescription:
    live = image.live.get(node)
    is_heard = node == known.node_id or node in known.contacts
    if live is None:
        return NodeDescription(node, NodeStatus.GONE, is_heard=is_heard)
    address, said = members_address(node, live.value), live.value
    return NodeDescription(
        node,
        NodeStatus.DRAINING if said.state is NodeState.DRAINING else NodeStatus.READY,
        "" if address is None else address.host,
        0 if address is None else address.port,
        said.node_epoch,
        said.rack,
        said.release,
        is_heard,
    )


def _shard(known: Known, entries: Image | None, replication: Replication, shard: int) -> ShardDescription:
    replica = replication.replicas[shard]
    status = _status(replication, replica)
    leader_epoch, leader = known.leaders.get(shard, (0, None))
    replicas = known.replicas.get(shard, ())
    isr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    entry = None if entries is None else entries.shard(shard)
    if entry is not None and entry.leader_epoch >= leader_epoch:
        leader_epoch, leader, replicas, isr = entry.leader_epoch, entry.leader, entry.replicas, entry.isr
        adding, removing = entry.adding, entry.removing
    if isinstance(replica.role, Leader) and replica.leader_epoch >= leader_epoch:
        leader_epoch, leader, isr = replica.leader_epoch, known.node_id, replica.role.isr.members
    has_log = status is not ShardStatus.ELSEWHERE
    return ShardDescription(
        shard,
        status,
        leader_epoch,
        leader,
        replicas,
        isr,
        replica.log.end if has_log else None,
        replica.high_watermark if has_log else None,
        adding,
        removing,
        replica.log.last_epoch if has_log else None,
    )


def _status(replication: Replication, replica: Replica) -> ShardStatus:
    match replica.role:
        case Leader(phase=LeaderPhase.STALLED):
            return ShardStatus.STALLED
        case Leader():
            is_served = replication.coordinator.is_loaded(replica.shard)
            return ShardStatus.SERVING if is_served else ShardStatus.LOADING
        case Doubting():
            return ShardStatus.LOADING
        case Follower(phase=FollowerPhase.FOLLOWING):
            return ShardStatus.FOLLOWING
        case Follower():
            return ShardStatus.CATCHING_UP
        case Offline():
            return ShardStatus.OFFLINE
        case Declined():
            return ShardStatus.DECLINED
        case _ if replica.log.end or replica.leader_epoch >= 0:
            return ShardStatus.CATCHING_UP
        case _:
            return ShardStatus.ELSEWHERE
