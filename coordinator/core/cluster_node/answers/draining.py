"""How far a node is with handing on what it leads, and which shards nobody else may lead.

The controller moves leaderships away from a node that is registered as draining. A shard goes to a member of its
in-sync set that lives and is ready; where there is none it would wait for one without end, so whoever stops the node
stops it all the same. Only a member of the set has everything that was acknowledged.
"""

from dataclasses import dataclass

from coordinator.core.cluster.image import Image
from coordinator.core.cluster.znodes import NodeState
from coordinator.core.cluster_node.replication import Replication
from coordinator.core.replica.replica import Leader


@dataclass(frozen=True, slots=True)
class HandOver:
    """The shards that a node leads yet; of `kept` no other member of the in-sync set is there and ready."""

    led: tuple[int, ...]
    kept: tuple[int, ...]

    @property
    def is_over(self) -> bool:
        """Return whether nothing more will be handed on unless another node comes."""
        return self.led == self.kept


def hand_over(replication: Replication | None, image: Image, node_id: int) -> HandOver:
    """Return what a node leads, of which it leads nothing before it has registered."""
    if replication is None:
        return HandOver((), ())
    ready = {
        node
        for node, live in image.live.items()
        if live.owner and live.value.state is NodeState.READY and node != node_id
    }
    led = tuple(sorted(replication.led))
    kept = []
    for shard in led:
        role = replication.replicas[shard].role
        if not isinstance(role, Leader) or ready.isdisjoint(role.isr.members):
            kept.append(shard)
    return HandOver(led, tuple(kept))
