"""The small model in all its scopes: every state, random walks, and every planted mistake; one process each core."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.model.explore import ViolationError, every_state, random_walks
from tests.model.mistakes import MISTAKES, planted
from tests.model.scopes import LARGE_SCOPES, LARGE_WALKS, MOST_STATES, QUICK_SCOPES

SCOPES = {**{name: quick.scope for name, quick in QUICK_SCOPES.items()}, **LARGE_SCOPES}
WALKS_A_SHARE = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Look at everything; the last line says how much there was and whether all of it was well."""
    parser = argparse.ArgumentParser(prog="model", description=__doc__)
    parser.add_argument("--jobs", type=int, default=0, help="how many processes; as many as there are cores if 0")
    jobs = parser.parse_args(arguments).jobs or os.cpu_count() or 1
    shares = [(name, seed) for name, walks in LARGE_WALKS.items() for seed in range(walks.walks // WALKS_A_SHARE)]
    began_s = time.monotonic()
    with ProcessPoolExecutor(jobs) as pool:
        scopes = [pool.submit(look_at, name, began_s) for name in SCOPES]
        walks = [pool.submit(walk, name, seed, began_s) for name, seed in shares]
        mistakes = [pool.submit(is_found, name, began_s) for name in MISTAKES]
        states = [each.result() for each in scopes]
        walked, found = [each.result() for each in walks], [each.result() for each in mistakes]
    violations = [*states, *walked].count(None)
    is_well = not violations and all(found)
    looked, went = sum(filter(None, states)), sum(filter(None, walked))
    print(f"model: {'OK' if is_well else 'FAILED'} states={looked} walks={went} violations={violations}")
    return 0 if is_well else 1


def say(began_s: float, what: str) -> None:
    """Print a line with the seconds since the beginning, which is the same for all processes of a machine."""
    print(f"{time.monotonic() - began_s:7.1f} s  {what}", flush=True)


def look_at(name: str, began_s: float) -> int | None:
    """Look at every state of a scope, or the nearest ones; return how many, or None when an invariant broke."""
    say(began_s, f"{name}: {SCOPES[name]}")
    try:
        seen = every_state(
            SCOPES[name],
            most=MOST_STATES,
            progress=lambda known, waiting: say(
                began_s, f"{name}: states={known:,} of which to be looked at={waiting:,}"
            ),
        )
    except ViolationError as error:
        say(began_s, f"{name}: {error}")
        return None
    whole = "all" if seen.is_whole else "the nearest of more"
    say(began_s, f"{name}: states={seen.states:,} steps={seen.steps:,}, {whole}")
    return seen.states


def walk(name: str, seed: int, began_s: float) -> int | None:
    """Go a share of the walks through a large scope; return how many, or None when an invariant broke."""
    wanted = LARGE_WALKS[name]
    try:
        steps = random_walks(wanted.scope, seed, WALKS_A_SHARE, wanted.steps)
    except ViolationError as error:
        say(began_s, f"{name}, seed {seed}: {error}")
        return None
    say(began_s, f"{name}, seed {seed}: walks={WALKS_A_SHARE} steps={steps:,}")
    return WALKS_A_SHARE


def is_found(name: str, began_s: float) -> bool:
    """Return whether a planted mistake breaks one of the invariants that it ought to."""
    found = False
    with planted(name):
        try:
            every_state(MISTAKES[name].scope, forgets=MISTAKES[name].forgets)
        except ViolationError as error:
            found = str(error).startswith(MISTAKES[name].breaks)
    say(began_s, f"the planted mistake {name} is {'found' if found else 'NOT found'}")
    return found


if __name__ == "__main__":
    sys.exit(main())
