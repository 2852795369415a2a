"""The other nodes of the cluster: where this one reaches them, and what members are told of them."""

from collections.abc import Mapping, Set

from coordinator.core.cluster.image import Image
from coordinator.core.cluster_node.answers.description import members_address
from coordinator.core.peers.control_words import listens_at
from coordinator.core.peers.effects import PeerAddress
from coordinator.core.requests.finding import Neighbours
from coordinator.protocol.parts import NodeAddress


def peers_of(node_id: int, image: Image, before: Mapping[int, PeerAddress]) -> dict[int, PeerAddress]:
    """Return where nodes are to be reached: all who live, and those who lived until they come back in another life."""
    peers = dict(before)
    for node, live in sorted(image.live.items()):
        address, known = listens_at(live.value.addresses, live.value.node_epoch), before.get(node)
        is_old = known is not None and known.node_epoch > live.value.node_epoch
        if node != node_id and address is not None and not is_old and live.owner:
            peers[node] = address
    return peers


def neighbours(
    own: NodeAddress,
    image: Image,
    leaders: Mapping[int, tuple[int, int | None]],
    replicas: Mapping[int, tuple[int, ...]],
    heard: Set[int],
) -> Neighbours:
    """Return what members are told of other nodes, as far as their addresses for members are known.

    `leaders` has, by shard, the leader epoch and the leader, and `replicas` who has its log; `heard` are the nodes that
    this one is in contact with.
    """
    others = {
        node: address
        for node, live in sorted(image.live.items())
        if node != own.node_id and (address := members_address(node, live.value)) is not None
    }
    led = {
        shard: (leader_epoch, others[leader])
        for shard, (leader_epoch, leader) in leaders.items()
        if leader is not None and leader in others
    }
    return Neighbours(led, (own, *others.values()), frozenset(others) - heard, dict(replicas))
