"""What a cluster's troubles are, in sentences that say what is waited for and the way out."""

from coordinator.client.cluster_view import ClusterView, NodeView, ShardView
from coordinator.protocol.parts import NodeDescription


def node(number: int, why_not_asked: str = "") -> NodeView:
    status = "gone" if why_not_asked else "ready"
    described = NodeDescription(number, status, "127.0.0.1", number, 1, "r", "1", is_heard=True)
    return NodeView(described, ("127.0.0.1", number), why_not_asked, False, 0, 0, 0)


def moving(shard: int, isr: tuple[int, ...]) -> ShardView:
    """Return a shard that is being given node 4 in the place of node 1, which leads it."""
    return ShardView(shard, 1, 2, "serving", (4, 2, 3, 1), isr, 9, 9, {}, adding=(4,), removing=(1,))


def troubles(fourth: NodeView, *shards: ShardView) -> list[str]:
    nodes = (node(1), node(2), node(3), fourth)
    said = ClusterView("c", 1, 1, 3, 2, nodes, shards, unheard_zookeeper=()).troubles()
    return [sentence for sentence in said if "reassignment" in sentence]


def test_a_reassignment_says_for_which_node_it_waits() -> None:
    assert troubles(node(4), moving(0, (1, 2, 3))) == [
        "shard 0 has a reassignment that waits until node 4 is in sync",
    ]


def test_a_reassignment_whose_new_node_is_gone_says_the_way_out() -> None:
    gone = node(4, why_not_asked="cannot be reached: Connection refused")
    assert troubles(gone, moving(0, (1, 2, 3)), moving(1, (1, 2, 3)), moving(2, (1, 2, 3, 4))) == [
        "shards 0, 1 have a reassignment that waits until node 4 is in sync, which is not there: start it, or name "
        "other replicas, or those of before, with `kcoord shard reassign SHARD… --replicas NODE,…`"
    ]
