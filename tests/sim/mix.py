"""What one run is made of: the shape of the group and how often which fault happens, drawn from the seed.

Some faults are off in a run and some are heavy: a world in which everything fails a little hides what a single heavy
fault shows.
"""

from dataclasses import dataclass, replace
from random import Random

from coordinator.core.groups.assignment.assignors.assignor import PARTITIONS_A_TURN
from coordinator.core.limits import Limits
from coordinator.protocol.parts import ResetPolicy
from tests.sim.faults import FAULT_OF
from tests.sim.full import maybe_full
from tests.sim.losing import maybe_losing
from tests.sim.outputs import NOT_AS_THEY_WERE
from tests.sim.policies import POLICIES
from tests.sim.reading import ReadingMix, draw_reading
from tests.sim.slow import maybe_slow
from tests.sim.turns import with_turns

RESIGNED = "shard-resigned"
RARE = {
    "topic-recreated": 0.15,
    "topic-vanished": 0.3,
    "retention-passed": 0.4,
    "checkpoint-lost": 0.4,
    "disk-failed": 0.5,
    "handler-bug": 0.5,
    RESIGNED: 0.5,
    "kafka-away": 0.6,
    "node-power-lost": 0.8,
    "group-paused": 0.2,
    "everybody-stopped": 0.2,
    "disk-lost": 0.6,
    "disk-restored": 0.5,
    "clock-set-while-node-away": 0.5,
}
"""Faults after which the group has to begin anew, and which therefore come less often than others."""
LOSES_DATA = frozenset({"topic-recreated", "topic-vanished", "retention-passed"})
ROOM_FOR_MEMBERS = 16_000
"""Bytes that the members of a group and their offsets do not pass; metadata that an operator commits does."""
FETCHED_RECORDS = (None, None, 8, 16)
"""Records that a consumer's fetcher holds at most: less than what one poll may return."""
CONSUMERS_BY_HAND = (0, 0, 1, 2)
ASSIGNORS = (
    (("sticky",),),
    (("range",),),
    (("round-robin",),),
    (("sticky", "range"), ("range", "sticky")),
    (("round-robin", "sticky"), ("sticky", "range", "round-robin")),
)
KINDS_OF_SUBSCRIPTIONS = (
    ("topics",),
    ("topics",),
    ("topics", "some topics"),
    ("topics", "some topics"),
    ("topics", "pattern"),
    ("topics", "partitions"),
    ("pattern",),
    ("topics", "some topics", "pattern", "partitions"),
)


@dataclass(frozen=True, slots=True)
class Mix:
    """One run's shape. Times in milliseconds."""

    safety_ms: int
    shards: int
    topics: dict[str, int]
    passing_topics: tuple[str, ...]
    """Topics that a pattern matches, and that come and go."""
    applications: int
    most_applications: int
    consumers: float
    """Chance that an application is a plain consumer and no query."""
    two_sources: float
    """Chance that an application has a second source, whether that is said or not."""
    readers: float
    """Chance that an application commits nothing."""
    subscriptions: tuple[str, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    policy: ResetPolicy | None
    handover: str
    claim_timeout_ms: int | None
    assignors: tuple[tuple[str, ...], ...]
    limits: Limits
    segment_bytes: int
    network_delays_ms: tuple[int, ...]
    sync_delays_ms: tuple[int, ...]
    append_every_ms: int
    limit: int | None
    slow_batch: float
    crash_at_step: float
    """Chance that a query dies at one of the steps between two of Spark's calls."""
    start_hints: float
    """Chance that an application's options say where partitions start."""
    fault_every_ms: int
    weights: dict[str, float]
    reading: ReadingMix
    coordinator_timeout_ms: int
    fails_on_data_loss: bool
    """Whether queries fail where data is lost, until a person has them go on."""
    transactional: float
    """Share of partitions whose producer writes transactions."""
    read_committed: float
    """Chance that an application reads committed records only."""
    portion_items: int
    """Partitions that one request of a member names at most; what it shows of more is listed before it registers."""
    turn_partitions: int
    """Partitions of a group that one turn looks at, where the work on a target is cut into turns."""
    between_turns_ms: int
    """How much later than at once a step comes that the node wants at once."""
    orphans_ms: tuple[int, ...] = (0, 60, 700, 2_000, 5_000)
    """How long the Python process of a killed query goes on."""
    is_slow: bool = False
    """Every micro-batch outlasts the rebalance time-out, and nothing else goes wrong."""
    is_losing: bool = False
    """Topics go under queries that fail when data is lost, and little else goes wrong."""
    fetched_records: int | None = None
    """Records that the fetcher of a consumer holds at most, None where it holds all that there are."""
    is_full: bool = False
    """Others take all the room that the node has."""
    by_hand: int = 0
    """Consumers whose programs say themselves what they read."""

    @property
    def loses_data(self) -> bool:
        """Whether records can go that nobody has read."""
        return bool(LOSES_DATA & self.weights.keys())

    def shown(self) -> str:
        """Return it as one line of a report."""
        faults = ", ".join(f"{name} {weight:g}" for name, weight in self.weights.items())
        claim_timeout = "" if self.claim_timeout_ms is None else f" for {self.claim_timeout_ms} ms"
        full = ", a full node" if self.is_full else ""
        memory = "" if self.fetched_records is None else f" that hold {self.fetched_records} records"
        by_hand = f", {self.by_hand} consumers by hand" if self.by_hand else ""
        turns = f", turns of {self.turn_partitions} partitions {self.between_turns_ms} ms apart"
        return (
            f"{self.applications} applications ({self.consumers:g} consumers{memory}, {self.two_sources:g} "
            f"of two sources, {self.readers:g} that commit nothing), topics {self.topics} by "
            f"{', '.join(self.subscriptions)}, {self.shards} shards, session {self.session_timeout_ms} ms, rebalance "
            f"{self.rebalance_timeout_ms} ms, policy {self.policy and self.policy.kind}, {self.handover}"
            f"{claim_timeout}{full}{by_hand}{turns}, a fault every {self.fault_every_ms} ms: {faults}; "
            f"death at a step {self.crash_at_step:g}"
        )


def draw_mix(dice: Random) -> Mix:
    """Draw a run's shape."""
    topics = {f"t{number}": dice.randint(1, 6) for number in range(1, dice.choice((1, 2, 2)) + 1)}
    subscriptions = dice.choice(KINDS_OF_SUBSCRIPTIONS)
    passing_topics = ("p1", "p2") if "pattern" in subscriptions else ()
    drawn = [name for name in FAULT_OF if name != RESIGNED]
    weights = {name: dice.choice((0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 4.0)) * RARE.get(name, 1.0) for name in drawn}
    handover = dice.choice(("takeover", "takeover", "hold"))
    for name in _impossible(handover, passing_topics):
        weights.pop(name)
    if handover == "hold" and dice.random() < 0.5:
        # Nothing may be written twice for as long as none of these came.
        weights = {name: weight for name, weight in weights.items() if name not in NOT_AS_THEY_WERE}
    weights = {name: weight for name, weight in weights.items() if weight}
    if not weights.keys() & {"node-killed", "process-killed", "connection-reset"}:
        weights[dice.choice(("node-killed", "process-killed", "connection-reset"))] = 2.0
    if "member-joined" not in weights:
        weights["member-joined"] = 0.5
    claim_timeout_ms = dice.choice((None, None, 1_500, 5_000)) if handover == "hold" else None
    if claim_timeout_ms is not None:
        # What is given up in time is what nobody comes back for.
        weights["member-left"] = 2.0
    aside = Random()  # drawn aside, so that the rest of the world of a seed stays as it is
    aside.setstate(dice.getstate())
    if (weight := Random(aside.getrandbits(32)).choice((0.0, 0.0, 0.5, 1.0, 4.0)) * RARE.get(RESIGNED, 1.0)) > 0:
        weights[RESIGNED] = weight
    aside.setstate(dice.getstate())
    mix = Mix(
        safety_ms=dice.choice((15_000, 30_000, 45_000)),
        shards=dice.choice((1, 1, 2)),
        topics=topics,
        passing_topics=passing_topics,
        applications=dice.randint(1, 4),
        most_applications=dice.randint(4, 6),
        consumers=dice.choice((0.0, 0.0, 0.3, 1.0)),
        two_sources=dice.choice((0.0, 0.0, 0.25)),
        readers=dice.choice((0.0, 0.0, 0.25)),
        subscriptions=subscriptions,
        session_timeout_ms=dice.choice((1_000, 2_000, 3_000, 6_000)),
        rebalance_timeout_ms=dice.choice((1_500, 3_000, 6_000)),
        policy=dice.choice(POLICIES),
        handover=handover,
        claim_timeout_ms=claim_timeout_ms,
        assignors=dice.choice(ASSIGNORS),
        limits=Limits(
            snapshot_interval_records=dice.choice((40, 150, 1_000_000)),
            snapshot_interval_bytes=aside.choice((20_000, 4_194_304)),
            snapshot_piece_bytes=aside.choice((1, 500, 1_048_576)),
            slice_bytes=aside.choice((200, 65_536)),
            claim_age_notice_ms=dice.choice((3_000, 900_000)),
            push_max_partitions=dice.choice((2, 2_000)),
            slice_partitions=dice.choice((1, 2, 500)),
            page_items=dice.choice((1, 3, 2_000)),
            group_max_bytes=dice.choice((ROOM_FOR_MEMBERS, ROOM_FOR_MEMBERS, 128 * 1024 * 1024)),
            offsets_retention_ms=dice.choice((9_000, 604_800_000, 604_800_000)),
            empty_group_retention_ms=dice.choice((3_000, 600_000)),
            lived_interval_ms=dice.choice((200, 1_000, 60_000)),
            timeline_length=aside.choice((3, 40, 10_000)),
            timeline_total_bytes=aside.choice((4_000, 67_108_864)),
            timeline_bytes_per_s=aside.choice((64, 4_096)),
        ),
        segment_bytes=dice.choice((4096, 16_384)),
        network_delays_ms=dice.choice(((0, 1), (0, 1, 1, 2, 5, 20), (1, 5, 20, 80, 300))),
        sync_delays_ms=dice.choice(((0, 1), (1, 2, 5), (1, 5, 50, 200))),
        append_every_ms=dice.choice((60, 150, 400)),
        limit=dice.choice((None, None, 5, 40)),
        slow_batch=dice.choice((0.0, 0.02, 0.1)),
        crash_at_step=dice.choice((0.0, 0.0, 0.004, 0.02)),
        start_hints=dice.choice((0.0, 0.0, 0.5)),
        fault_every_ms=dice.choice((300, 800, 2_000)),
        weights=weights,
        reading=draw_reading(dice),
        coordinator_timeout_ms=dice.choice((1_500, 4_000, 30_000)),
        fails_on_data_loss=not LOSES_DATA & weights.keys() or dice.random() < 0.5,
        transactional=dice.choice((0.0, 0.5, 1.0)),
        read_committed=dice.choice((0.0, 0.3, 0.5, 1.0)),
        portion_items=dice.choice((1, 2, 2_000, 2_000)),
        turn_partitions=PARTITIONS_A_TURN,
        between_turns_ms=0,
    )
    mix = maybe_full(maybe_losing(maybe_slow(mix, dice), dice), aside)
    aside.setstate(dice.getstate())
    turns = Random(aside.getrandbits(32))
    mix = with_turns(mix, turns)
    fetched_records = turns.choice(FETCHED_RECORDS) if mix.consumers else None
    return replace(mix, fetched_records=fetched_records, by_hand=turns.choice(CONSUMERS_BY_HAND))


def _impossible(handover: str, passing_topics: tuple[str, ...]) -> set[str]:
    names = set()
    if handover == "hold":
        # Two queries with one instance id and two checkpoints: whoever comes back drops what the other one holds.
        names |= {"checkpoint-copied", "checkpoint-restored", "checkpoints-copied"}
    if not passing_topics:
        names |= {"topic-made", "topic-vanished"}
    return names
