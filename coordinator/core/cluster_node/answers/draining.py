"""The progress of a node that hands on what it leads and is to be missed by nobody, and the shards nobody may lead.

The controller moves leaderships away from a node that is registered as draining, and leaders take it out of their
in-sync sets; one that goes before that is waited for. A shard goes to a member of its in-sync set that lives and is
ready. Where there is none it would wait for one without end, so whoever stops the node stops it all the same: only a
member of the set has everything that was acknowledged. A set that is as small as may commit does not become smaller.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coordinator.core.cluster.znodes import LiveNode, NodeState, ShardEntry
from coordinator.core.cluster_node.replication import Replication
from coordinator.core.cluster_node.rooms import Rooms
from coordinator.core.replica.replica import Leader


@dataclass(frozen=True, slots=True)
class HandOver:
    """The shards that a node leads yet; of `kept` no other member of the in-sync set is there and ready.

    `followed` are those whose leaders have still to take it out of their in-sync sets, as far as it knows. Nothing of
    this ends while ZooKeeper is not heard.
    """

    led: tuple[int, ...]
    kept: tuple[int, ...]
    followed: tuple[int, ...] = ()
    hears_zookeeper: bool = True

    @property
    def is_over(self) -> bool:
        """Return whether nothing more will come of it unless another node comes, or ZooKeeper answers."""
        return (self.led == self.kept and not self.followed) or not self.hears_zookeeper


def hand_over(replication: Replication | None, rooms: Rooms, node_id: int, replicas: Iterable[int]) -> HandOver:
    """Return what a node leads and follows, of which it does neither before it has registered.

    `replicas` are the shards of which it has one. While it is not certain that their entries in ZooKeeper are known,
    it counts as followed wherever it does not lead.
    """
    if replication is None:
        return HandOver((), ())
    image = rooms.image
    lives = {node: live.value for node, live in image.live.items() if live.owner}
    ready = {node for node, live in lives.items() if live.state is NodeState.READY and node != node_id}
    led = tuple(sorted(replication.led))
    kept = []
    for shard in led:
        role = replication.replicas[shard].role
        if not isinstance(role, Leader) or ready.isdisjoint(role.isr.members):
            kept.append(shard)
    followed = set(replicas) - set(led)
    if rooms.is_certain and rooms.registration.state is NodeState.DRAINING:
        least = 1 if image.joined is None else image.joined.min_insync_replicas
        entries = {shard: entry for shard in followed if (entry := image.shard(shard)) is not None}
        followed = {
            shard
            for shard, entry in entries.items()
            if node_id in entry.isr and len(entry.isr) > least and _is_led(entry, lives)
        }
    return HandOver(led, tuple(kept), tuple(sorted(followed)), rooms.registration.observer.is_connected)


def _is_led(entry: ShardEntry, lives: Mapping[int, LiveNode]) -> bool:
    """Return whether a shard's leader lives; one that is gone writes nothing, and the next one hears of the drain."""
    live = None if entry.leader is None else lives.get(entry.leader)
    return live is not None and live.node_epoch == entry.leader_node_epoch
