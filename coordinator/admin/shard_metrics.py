"""Shards and the cluster as families of metrics: replication as the leader of each shard sees it.

Each shard has its lines on the node that leads it, so that a sum over all nodes counts each once; of shards that nobody
leads only the controller knows.
"""

from collections.abc import Callable, Iterable

from coordinator.core.requests.survey import ClusterSeen, ShardSeen
from coordinator.runtime.figures.family import Family, gauge


def shard_families(seen: Iterable[ShardSeen | ClusterSeen]) -> tuple[Family, ...]:
    """Return the families of what one survey saw, none of which is left out."""
    seen = tuple(seen)
    shards = [each for each in seen if isinstance(each, ShardSeen)]
    cluster = next((each for each in seen if isinstance(each, ClusterSeen)), None)

    def of_shards(name: str, meaning: str, value: Callable[[ShardSeen], int]) -> Family:
        samples = tuple(("", (("shard", str(each.shard)),), value(each)) for each in shards)
        return Family(name, "gauge", meaning, samples)

    def count(holds: Callable[[ShardSeen], bool]) -> int | None:
        return sum(map(holds, shards)) if seen else None

    def of_cluster(name: str, meaning: str, value: Callable[[ClusterSeen], int | None]) -> Family:
        return gauge(name, meaning, None if cluster is None else value(cluster))

    return (
        of_shards("kcoord_shard_high_watermark", "End of what is committed of a shard that is led here.", _committed),
        of_shards("kcoord_shard_log_end", "End of the log of a shard that is led here.", lambda each: each.log_end),
        of_shards("kcoord_shard_leader_epoch", "Leader epoch of a shard that is led here.", lambda it: it.leader_epoch),
        of_shards("kcoord_shard_isr_size", "Replicas in sync of a shard that is led here.", lambda each: each.in_sync),
        gauge("kcoord_led_shards", "Shards that are led here.", len(shards) if seen else None),
        gauge(
            "kcoord_under_replicated_shards",
            "Shards led here of which fewer replicas are in sync than there are.",
            count(lambda each: each.in_sync < each.replicas),
        ),
        gauge(
            "kcoord_under_min_isr_shards",
            "Shards led here of which fewer replicas are in sync than must be, so that commits wait.",
            count(lambda each: each.in_sync < each.min_in_sync),
        ),
        gauge(
            "kcoord_stalled_shards",
            "Shards led here whose decisions do not leave, since others do not confirm them.",
            count(lambda each: each.is_stalled),
        ),
        of_cluster(
            "kcoord_offline_shards", "Shards without a leader, as the controller knows.", lambda it: it.offline_shards
        ),
        of_cluster("kcoord_active_controller", "1 on the controller, else 0.", lambda it: int(it.is_controller)),
        of_cluster("kcoord_live_nodes", "Nodes with a session, as ZooKeeper has them.", lambda it: it.nodes),
        Family(
            "kcoord_zk_session_state",
            "gauge",
            "1, with the state of the session with ZooKeeper.",
            () if cluster is None else (("", (("state", _session(cluster)),), 1),),
        ),
    )


def _committed(shard: ShardSeen) -> int:
    return shard.high_watermark


def _session(cluster: ClusterSeen) -> str:
    if not cluster.hears_zookeeper:
        return "suspended"
    return "registered" if cluster.is_registered else "connected"
