"""One run from its seed: what it exercised, and what broke."""

import logging
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.sim import coverage
from tests.sim.directed import world_of
from tests.sim.listed import portions_of
from tests.sim.log.state import ViolationError
from tests.sim.mix import Mix
from tests.sim.said.state import Counts
from tests.sim.turns import turns_of
from tests.sim.world import World

STORY_LINES = 120


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that did not hold, with everything one needs to look at it."""

    name: str
    why: str
    at_ms: int
    shown: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one run."""

    seed: int
    trace: str
    events: int
    faults: int
    simulated_ms: int
    counts: Counts
    coverage: Counter[str]
    is_void: bool
    broken: Broken | None


def run_seed(seed: int, *, draw: Callable[[Random], Mix] | None = None, story_lines: int = STORY_LINES) -> Outcome:
    """Run one seed to its end or to the first broken promise; `draw` makes another world than the seed has."""
    draw = draw or world_of(seed)
    logging.disable(logging.CRITICAL)
    dice = Random(seed)
    world = World(seed, draw(dice), dice)
    broken = None
    try:
        with portions_of(world.mix.portion_items), turns_of(world.mix.turn_partitions):
            world.run()
    except ViolationError as violation:
        broken = _broken(world, draw, violation.name, str(violation), "", story_lines)
    except AssertionError as error:
        broken = _broken(world, draw, "assertion", repr(error), traceback.format_exc(), story_lines)
    except Exception as error:  # noqa: BLE001 - whatever stops the node or a member in the world is a finding
        broken = _broken(world, draw, "bug", repr(error), traceback.format_exc(), story_lines)
    finally:
        logging.disable(logging.NOTSET)
    schedule = world.schedule
    return Outcome(
        seed,
        schedule.trace,
        schedule.events,
        world.faults,
        schedule.now_ms,
        world.checker.counts,
        sum((coverage.of_log(log) for log in world.checker.logs), world.checker.coverage)
        + Counter({f"transaction {name}": count for name, count in world.kafka.transactions.counts.items()}),
        world.is_void,
        broken,
    )


def _broken(world: World, draw: Callable[[Random], Mix], name: str, why: str, details: str, story_lines: int) -> Broken:
    of_its_own = f"run_seed({world.seed}, draw={draw.__name__})"
    again = f"make sim SEED={world.seed} RUNS=1" if draw is world_of(world.seed) else of_its_own
    lines = [
        f"seed {world.seed}: {why}",
        f"in a world of {world.mix.shown()}",
        *world.schedule.show_story(story_lines),
        *details.splitlines(),
        f"seed {world.seed} at {world.schedule.now_ms} ms, event {world.schedule.events}: {why}",
        f"again, with a longer story: {again}",
    ]
    return Broken(name, why, world.schedule.now_ms, "\n".join(lines))
