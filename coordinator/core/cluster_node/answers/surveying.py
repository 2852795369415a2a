"""A cluster and the shards that a node of it leads, told a little at a time for metrics."""

from collections.abc import Iterator, Mapping

from coordinator.core.cluster_node.replication import Replication
from coordinator.core.cluster_node.rooms import Rooms
from coordinator.core.replica.replica import Leader, LeaderPhase
from coordinator.core.requests.survey import ClusterSeen, Seen, ShardSeen


def survey_cluster(
    rooms: Rooms, replication: Replication | None, replicas_of: Mapping[int, tuple[int, ...]]
) -> Iterator[Seen]:
    """Yield the cluster, each shard that is led here, then the groups; steps may come between two pieces."""
    yield _cluster(rooms, replication)
    if replication is None:
        return
    led = sorted(replication.led)
    for shard in led:
        replica = replication.replicas[shard]
        if isinstance(replica.role, Leader):
            yield ShardSeen(
                shard,
                replica.leader_epoch,
                replica.high_watermark,
                replica.log.end,
                len(replica.role.isr.members),
                len(replicas_of.get(shard, ())),
                replication.cluster.min_insync_replicas,
                is_stalled=replica.role.phase is LeaderPhase.STALLED,
            )
    yield from replication.coordinator.survey(led)


def _cluster(rooms: Rooms, replication: Replication | None) -> ClusterSeen:
    """Tell of the cluster; of shards without a leader only the controller knows."""
    observer = rooms.registration.observer
    offline: int | None = None
    if rooms.knows_shards and replication is not None:
        led = sum(entry.leader is not None for _, entry in rooms.controller.observer.image.shards())
        offline = replication.cluster.shards - led
    return ClusterSeen(
        is_controller=rooms.has_office,
        hears_zookeeper=observer.is_connected,
        is_registered=replication is not None,
        nodes=len(rooms.image.live) if observer.is_connected else None,
        offline_shards=offline,
    )
