"""The shape of one simulated cluster: how many shards and clients, which faults, and how slow everything is."""

from dataclasses import dataclass
from random import Random

from coordinator.core.cluster.office.settings import ControllerSettings
from coordinator.core.cluster.znodes import Cluster, bucket_count
from coordinator.core.cluster_node.settings import ClusterSettings
from coordinator.core.limits import Limits

FAULTS = (
    "node-killed",
    "node-power-lost",
    "disk-replaced",
    "disk-copied",
    "disk-put-back",
    "log-damaged",
    "node-paused",
    "disk-slow",
    "disk-failed",
    "clock-set",
    "handler-bug",
    "append-refused",
    "peers-cut",
    "peers-cut-one-way",
    "node-cut-off",
    "hidden-from-controller",
    "contact-broken",
    "zookeeper-cut",
    "zookeeper-held",
    "zookeeper-away",
    "session-expired",
    "sessions-expired",
    "node-drained",
    "node-stopped",
    "shard-reassigned",
    "leaders-elected",
    "client-cut",
)


RARE_FAULTS = ("cluster-changed",)
"""Each in one run of four, by its other faults: the histories of the other three are as if there were none of these."""


@dataclass(frozen=True, slots=True)
class ClusterMix:
    """What is drawn once a run."""

    nodes: int
    cluster: Cluster
    settings: ClusterSettings
    limits: Limits
    clients: int
    paces_ms: tuple[int, ...]
    """The pauses of a member between two things that it does."""
    faults: dict[str, int]
    fault_every_ms: int
    faulty_ms: int
    sync_delays_ms: tuple[int, ...]
    report_delays_ms: tuple[int, ...]
    """Between something being on disk and word of it: also later than what came after it."""
    peer_delays_ms: tuple[int, ...]
    zookeeper_delays_ms: tuple[int, ...]
    loses_watches: float
    """How many words of changes in ZooKeeper do not come, until everything is whole."""

    def shown(self) -> str:
        """Return it for a person."""
        cluster = self.cluster
        return (
            f"{self.nodes} nodes, {cluster.shards} shards, {cluster.replication_factor} replicas, min insync "
            f"{cluster.min_insync_replicas}, {self.clients} clients, a fault every {self.fault_every_ms} ms of "
            f"{self.faults}, sync {self.sync_delays_ms}, peers {self.peer_delays_ms}"
        )


def _draw_faults(dice: Random) -> dict[str, int]:
    faults = {name: dice.choice((0, 1, 1, 4)) for name in FAULTS}
    rarely = Random(str(faults))
    return faults | {name: rarely.choice((0, 0, 0, 3)) for name in RARE_FAULTS}


def draw_cluster_mix(dice: Random, nodes: int) -> ClusterMix:
    """Draw the shape of a run."""
    shards = dice.choice((1, 2, 2, 3))
    factor = min(3, nodes)
    cluster = Cluster(
        cluster_id="c1",
        shards=shards,
        buckets=bucket_count(shards) if dice.random() < 0.7 else 1,
        replication_factor=factor,
        min_insync_replicas=dice.choice((1, 2, 2, 2)) if factor > 2 else 1,
    )
    settings = ClusterSettings(
        zookeeper_session_timeout_ms=dice.choice((2_000, 4_000)),
        lag_ms=dice.choice((500, 2_000)),
        closed_grace_ms=dice.choice((50, 300)),
        stall_ms=dice.choice((1_000, 2_000)),
        step_down_ms=dice.choice((2_000, 5_000)),
        window_bytes=dice.choice((2_000, 4 * 1024 * 1024)),
        peer_window_bytes=dice.choice((3_000, 8 * 1024 * 1024)),
        tail_bytes=dice.choice((1_000, 8 * 1024 * 1024)),
        tails_bytes=dice.choice((1_500, 64 * 1024 * 1024)),
        controller=ControllerSettings(
            elect_wait_ms=dice.choice((200, 2_000)),
            balance_ms=1_000,
            balance_delay_ms=dice.choice((2_000, 60_000)),
            stand_wait_ms=3_000,
            reach_wait_ms=6_000,
        ),
    )
    limits = Limits(
        snapshot_interval_records=dice.choice((40, 200, 200_000)),
        snapshot_piece_bytes=dice.choice((300, 1_048_576)),
        slice_bytes=dice.choice((400, 65_536)),
    )
    return ClusterMix(
        nodes=nodes,
        cluster=cluster,
        settings=settings,
        limits=limits,
        clients=dice.randint(2, 4),
        paces_ms=dice.choice(((10, 60, 200), (300, 1_500))),
        faults=_draw_faults(dice),
        fault_every_ms=dice.choice((300, 1_000, 2_500)),
        faulty_ms=dice.choice((10_000, 20_000)),
        sync_delays_ms=dice.choice(((1,), (1, 4), (1, 4, 60))),
        report_delays_ms=dice.choice(((0,), (0, 0, 1, 8), (0, 1, 60))),
        peer_delays_ms=dice.choice(((0, 1), (0, 1, 5), (0, 1, 5, 80))),
        zookeeper_delays_ms=dice.choice(((0, 1, 2), (1, 5, 40))),
        loses_watches=dice.choice((0.0,) * 9 + (0.3,)),
    )
