"""The simulator as a program: `python -m tests.sim run --seed 0 --runs 500` and `python -m tests.sim mutants`.

With `--nodes 3` a cluster is simulated, as `tests/sim/cluster` has it.

Runs are shared out over the machine's cores; what is printed does not depend on how. The last line is one line for
scripts, and the exit code is 1 when a promise was broken, a run was void or a mutant lived.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from hashlib import blake2b

from tests.sim import coverage
from tests.sim.cluster.mutants import MUTANTS as OF_CLUSTERS
from tests.sim.cluster.program import simulate_clusters, try_cluster_mutants
from tests.sim.mutants import ALL, MUTANTS, hunt
from tests.sim.run import Outcome, run_seed
from tests.sim.said.state import Counts

STORIES_SHOWN = 3
LONG_STORY = 4_000
PROGRESS_EVERY_S = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run seeds and check every promise")
    run.add_argument("--seed", type=int, default=0, help="the first seed")
    run.add_argument("--runs", type=int, default=500, help="how many seeds from there on")
    run.add_argument("--nodes", type=int, default=1, help="1: a standalone node and its members; 3 or 5: a cluster")
    mutants = verbs.add_parser("mutants", help="plant every known mistake and see that it is found")
    mutants.add_argument("names", nargs="*", help="only these")
    for verb in (run, mutants):
        verb.add_argument("--jobs", type=int, default=0, help="processes that share the work; 0: one a core")
    asked = parser.parse_args(arguments)
    jobs = asked.jobs or os.cpu_count() or 1
    if asked.verb == "run" and asked.nodes > 1:
        pool = None if asked.runs == 1 or jobs == 1 else _pool(jobs)
        return simulate_clusters(asked.seed, asked.runs, asked.nodes, pool)
    if asked.verb == "run":
        return simulate(asked.seed, asked.runs, jobs)
    of_clusters = [name for name in asked.names or OF_CLUSTERS if name in OF_CLUSTERS]
    others = [name for name in asked.names or ALL if name not in OF_CLUSTERS]
    exit_code = try_cluster_mutants(of_clusters, None if jobs == 1 else _pool(jobs)) if of_clusters else 0
    return max(exit_code, try_mutants(others, jobs) if others else 0)


# ---- runs -----------------------------------------------------------------------------------------------------------


def simulate(first_seed: int, runs: int, jobs: int) -> int:
    """Run seeds, show what broke, and end with the line of figures."""
    started, next_word_s = time.perf_counter(), PROGRESS_EVERY_S
    totals, events, faults, simulated_ms, void, broken = Counts(), 0, 0, 0, 0, 0
    exercised: Counter[str] = Counter()
    trace = blake2b(digest_size=8)
    for done, outcome in enumerate(_outcomes(first_seed, runs, jobs), 1):
        trace.update(f"{outcome.seed} {outcome.trace}\n".encode())
        events += outcome.events
        faults += outcome.faults
        exercised.update(outcome.coverage)
        simulated_ms += outcome.simulated_ms
        for field in fields(Counts):
            setattr(totals, field.name, getattr(totals, field.name) + getattr(outcome.counts, field.name))
        if outcome.broken is not None:
            broken += 1
            has_story = broken <= STORIES_SHOWN
            print(f"{outcome.broken.shown}\n" if has_story else outcome.broken.shown.partition("\n")[0], flush=True)
        elif outcome.is_void:
            void += 1
            print(f"seed {outcome.seed} is void: {outcome.counts}, faults {outcome.faults}", flush=True)
        passed_s = time.perf_counter() - started
        if passed_s >= next_word_s:
            next_word_s += PROGRESS_EVERY_S
            print(f"{done} of {runs} runs, {broken} broken, {void} void, {passed_s:.0f} s", flush=True)
    seconds = time.perf_counter() - started
    print(
        f"simulated {simulated_ms / 3_600_000:.1f} h in {seconds:.0f} s; take-overs {totals.takeovers}, claims resumed "
        f"{totals.resumed}, reads checked {totals.reads}, records delivered {totals.delivered}, of these again "
        f"{totals.duplicates}"
    )
    print("\n".join(coverage.shown(exercised)))
    never = coverage.missing(exercised) if runs >= coverage.ENOUGH_RUNS else []
    if never:
        print(f"never exercised in {runs} runs: {', '.join(never)}")
    is_ok = broken == 0 and void == 0 and not never
    print(
        f"sim: {'OK' if is_ok else 'FAILED'} runs={runs} events={events} events_per_s={events / seconds:.0f} "
        f"violations={broken} void={void} acked={totals.acked} faults={faults} handovers={totals.handovers} "
        f"fenced={totals.fenced} resets={totals.resets} trace={trace.hexdigest()}"
    )
    return 0 if is_ok else 1


def _outcomes(first_seed: int, runs: int, jobs: int) -> Iterator[Outcome]:
    """Yield the outcomes in the order of their seeds."""
    if runs == 1:
        yield run_seed(first_seed, story_lines=LONG_STORY)
        return
    if jobs == 1:
        yield from map(run_seed, range(first_seed, first_seed + runs))
        return
    with _pool(jobs) as pool:
        yield from pool.map(run_seed, range(first_seed, first_seed + runs), chunksize=4)


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))


# ---- mutants --------------------------------------------------------------------------------------------------------


def try_mutants(names: Sequence[str], jobs: int) -> int:
    """Hunt every mutant, print the table, and end with the line of figures."""
    unknown = [name for name in names if name not in ALL]
    if unknown:
        print(f"mutants: FAILED no mutant is called {', '.join(unknown)}; there are {', '.join(ALL)}")
        return 1
    print(f"{'mutant':<28} {'seed':>5} {'events':>9}  found as")
    caught = []
    with _pool(jobs) as pool:
        for name, (outcome, events) in zip(names, pool.map(hunt, names), strict=True):
            found = outcome.broken if outcome is not None else None
            if found is not None:
                caught.append(name)
            seed = "-" if outcome is None else str(outcome.seed)
            as_what = found.name if found else "NOT FOUND"
            print(f"{name:<28} {seed:>5} {events:>9}  {as_what}: {ALL[name].what}", flush=True)
    known, known_caught = [sum(name in MUTANTS for name in some) for some in (names, caught)]
    is_ok = len(caught) == len(names)
    print(
        f"mutants: {'OK' if is_ok else 'FAILED'} mutants={known} caught={known_caught} own={len(names) - known} "
        f"own_caught={len(caught) - known_caught}"
    )
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
