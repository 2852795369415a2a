"""What one run is made of: the shape of the group and how often which fault happens, drawn from the seed.

Some faults are off in a run and some are heavy: a world in which everything fails a little hides what a single heavy
fault shows.
"""

from dataclasses import dataclass
from random import Random

from coordinator.protocol.parts import ResetPolicy

FAULTS = (
    "connection-reset",
    "connection-silent",
    "network-held",
    "node-killed",
    "node-power-lost",
    "node-paused",
    "disk-slow",
    "disk-failed",
    "clock-jumped",
    "query-killed",
    "query-host-lost",
    "query-paused",
    "query-stopped",
    "checkpoint-lost",
    "checkpoint-copied",
    "member-joined",
    "member-left",
    "kafka-away",
    "topic-grown",
    "topic-recreated",
    "operator-commit",
    "operator-reset",
)
RARE = {"topic-recreated": 0.15, "checkpoint-lost": 0.4, "disk-failed": 0.5, "kafka-away": 0.6, "node-power-lost": 0.8}


@dataclass(frozen=True, slots=True)
class Mix:
    """One run's shape. Times in milliseconds."""

    safety_ms: int
    shards: int
    topics: dict[str, int]
    queries: int
    most_queries: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    policy: ResetPolicy | None
    handover: str
    assignors: tuple[tuple[str, ...], ...]
    snapshot_interval_records: int
    segment_bytes: int
    network_delays_ms: tuple[int, ...]
    sync_delays_ms: tuple[int, ...]
    append_every_ms: int
    limit: int | None
    slow_batch: float
    crash_at_step: float
    """Chance that a query dies at one of the steps between two of Spark's calls."""
    fault_every_ms: int
    weights: dict[str, float]
    slice_partitions: int

    def shown(self) -> str:
        """Return it as one line of a report."""
        faults = ", ".join(f"{name} {weight:g}" for name, weight in self.weights.items())
        return (
            f"{self.queries} queries, topics {self.topics}, {self.shards} shards, session {self.session_timeout_ms} "
            f"ms, rebalance {self.rebalance_timeout_ms} ms, policy {self.policy and self.policy.kind}, "
            f"{self.handover}, a fault every {self.fault_every_ms} ms: {faults}; death at a step {self.crash_at_step:g}"
        )


def draw_mix(dice: Random) -> Mix:
    """Draw a run's shape."""
    topics = {f"t{number}": dice.randint(1, 6) for number in range(1, dice.choice((1, 1, 2)) + 1)}
    weights = {name: dice.choice((0.0, 0.0, 0.5, 1.0, 1.0, 4.0)) * RARE.get(name, 1.0) for name in FAULTS}
    weights = {name: weight for name, weight in weights.items() if weight}
    if not weights.keys() & {"node-killed", "query-killed", "connection-reset"}:
        weights[dice.choice(("node-killed", "query-killed", "connection-reset"))] = 2.0
    handover = dice.choice(("takeover", "takeover", "hold"))
    if handover == "hold":
        # What a query holds that never comes back, or a copy of one, stays held: that is what holding means.
        weights.pop("member-left", None)
        weights.pop("checkpoint-copied", None)
    if "member-joined" not in weights:
        weights["member-joined"] = 0.5
    policies = (
        ResetPolicy("earliest"),
        ResetPolicy("earliest"),
        ResetPolicy("latest"),
        ResetPolicy("timestamp", 1_000),
        None,
    )
    return Mix(
        safety_ms=dice.choice((20_000, 40_000, 80_000)),
        shards=dice.choice((1, 1, 2)),
        topics=topics,
        queries=dice.randint(1, 4),
        most_queries=dice.randint(4, 6),
        session_timeout_ms=dice.choice((1_000, 2_000, 3_000, 6_000)),
        rebalance_timeout_ms=dice.choice((1_500, 3_000, 6_000)),
        policy=dice.choice(policies),
        handover=handover,
        assignors=dice.choice(((("sticky",),), (("range",),), (("sticky", "range"), ("range", "sticky")))),
        snapshot_interval_records=dice.choice((40, 150, 1_000_000)),
        segment_bytes=dice.choice((4096, 16_384)),
        network_delays_ms=dice.choice(((0, 1), (0, 1, 1, 2, 5, 20), (1, 5, 20, 80, 300))),
        sync_delays_ms=dice.choice(((0, 1), (1, 2, 5), (1, 5, 50, 200))),
        append_every_ms=dice.choice((60, 150, 400)),
        limit=dice.choice((None, None, 5, 40)),
        slow_batch=dice.choice((0.0, 0.02, 0.1)),
        crash_at_step=dice.choice((0.0, 0.0, 0.004, 0.02)),
        fault_every_ms=dice.choice((300, 800, 2_000)),
        weights=weights,
        slice_partitions=dice.choice((1, 2, 500)),
    )
