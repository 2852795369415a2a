"""One run of a simulated cluster from its seed, and many of them: what they exercised, and what broke."""

import traceback
from collections import Counter
from dataclasses import dataclass
from random import Random

from tests.sim.cluster.checker import ViolationError
from tests.sim.cluster.mix import draw_cluster_mix
from tests.sim.cluster.world import ClusterWorld

STORY_LINES = 120


@dataclass(frozen=True, slots=True)
class ClusterOutcome:
    """What became of one run; `broken` is the name of the invariant that did not hold, and `shown` its story."""

    seed: int
    trace: str
    events: int
    faults: int
    simulated_ms: int
    acked: int
    reads: int
    coverage: Counter[str]
    is_void: bool
    broken: str = ""
    shown: str = ""


def run_cluster_seed(
    seed: int, nodes: int = 3, story_lines: int = STORY_LINES, kind: type[ClusterWorld] = ClusterWorld
) -> ClusterOutcome:
    """Run one seed to its end or to the first broken invariant."""
    dice = Random(seed)
    world = kind(seed, draw_cluster_mix(dice, nodes), dice)
    broken, details = "", ""
    why: Exception | None = None
    try:
        world.run()
    except ViolationError as violation:
        broken, why = violation.name, violation
    except Exception as error:  # noqa: BLE001 - whatever stops a node in the world is a finding
        broken, why, details = "bug", error, traceback.format_exc()
    shown = ""
    if broken:
        shown = "\n".join(
            [
                f"seed {seed}: {why!r}",
                f"in a world of {world.mix.shown()}",
                *world.schedule.show_story(story_lines),
                *details.splitlines(),
                f"seed {seed} at {world.schedule.now_ms} ms: {broken}: {why}",
                f"again, with a longer story: make sim NODES={nodes} SEED={seed} RUNS=1",
            ]
        )
    return ClusterOutcome(
        seed,
        world.schedule.trace,
        world.schedule.events,
        world.faults,
        world.schedule.now_ms,
        world.clients.acked,
        world.clients.reads,
        world.checker.coverage,
        world.is_void,
        broken,
        shown,
    )
