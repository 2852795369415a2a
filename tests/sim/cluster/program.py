"""Many runs of simulated clusters, or the hunt for every planted mistake, and one line of figures at the end."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from functools import partial
from hashlib import blake2b
from typing import Final

from tests.sim.cluster.mix import FAULTS, RARE_FAULTS
from tests.sim.cluster.mutants import MUTANTS, hunt_cluster
from tests.sim.cluster.run import ClusterOutcome, run_cluster_seed

STORIES_SHOWN: Final = 3
LONG_STORY: Final = 4_000
PROGRESS_EVERY_S: Final = 10
ENOUGH_RUNS: Final = 200
"""From so many runs on everything has to have happened at least once."""
HAS_TO_HAPPEN: Final = (
    "leader_changes",
    "shrinks",
    "expands",
    "cuts",
    "installs",
    "snapshots",
    "standby snapshots",
    "standby takeovers",
    "read from disk",
    "notice step-down",
    "no ZooKeeper for a session time-out",
    "clock set forth",
    "clock set back",
    "disk failed to sync",
    "disk failed to write",
    "start refused by a disk",
    *FAULTS,
    *RARE_FAULTS,
    "halted by other numbers",
)


def simulate_clusters(first_seed: int, runs: int, nodes: int, pool: Executor | None) -> int:
    """Run seeds, show what broke, and end with the line of figures; returns the exit code."""
    started, next_word_s = time.perf_counter(), PROGRESS_EVERY_S
    covered: Counter[str] = Counter()
    events = faults = simulated_ms = acked = reads = broken = void = 0
    trace = blake2b(digest_size=8)
    for done, outcome in enumerate(_outcomes(first_seed, runs, nodes, pool), 1):
        trace.update(f"{outcome.seed} {outcome.trace}\n".encode())
        covered.update(outcome.coverage)
        events, faults = events + outcome.events, faults + outcome.faults
        acked, reads = acked + outcome.acked, reads + outcome.reads
        simulated_ms += outcome.simulated_ms
        if outcome.broken:
            broken += 1
            has_story = broken <= STORIES_SHOWN
            print(f"{outcome.shown}\n" if has_story else outcome.shown.partition("\n")[0], flush=True)
        elif outcome.is_void:
            void += 1
            print(f"seed {outcome.seed} is void: {outcome.acked} acked, {outcome.reads} reads", flush=True)
        passed_s = time.perf_counter() - started
        if passed_s >= next_word_s:
            next_word_s += PROGRESS_EVERY_S
            print(f"{done} of {runs} runs, {broken} broken, {void} void, {passed_s:.0f} s", flush=True)
    seconds = time.perf_counter() - started
    print(f"simulated {simulated_ms / 3_600_000:.1f} h of {nodes} nodes in {seconds:.0f} s")
    print(", ".join(f"{name} {count}" for name, count in sorted(covered.items())))
    never = [name for name in HAS_TO_HAPPEN if not covered[name]] if runs >= ENOUGH_RUNS and nodes > 1 else []
    if never:
        print(f"never exercised in {runs} runs: {', '.join(never)}")
    is_ok = broken == 0 and void == 0 and not never
    print(
        f"sim: {'OK' if is_ok else 'FAILED'} nodes={nodes} runs={runs} events={events} "
        f"events_per_s={events / seconds:.0f} violations={broken} void={void} acked={acked} reads={reads} "
        f"faults={faults} leader_changes={covered['leader_changes']} shrinks={covered['shrinks']} "
        f"expands={covered['expands']} cuts={covered['cuts']} installs={covered['installs']} "
        f"trace={trace.hexdigest()}"
    )
    return 0 if is_ok else 1


def _outcomes(first_seed: int, runs: int, nodes: int, pool: Executor | None) -> Iterator[ClusterOutcome]:
    """Yield the outcomes in the order of their seeds."""
    seeds = range(first_seed, first_seed + runs)
    if pool is None:
        story_lines = LONG_STORY if runs == 1 else 120
        yield from (run_cluster_seed(seed, nodes, story_lines) for seed in seeds)
        return
    with pool:
        yield from pool.map(partial(run_cluster_seed, nodes=nodes), seeds, chunksize=4)


def try_cluster_mutants(names: Sequence[str], pool: Executor | None) -> int:
    """Hunt every mistake in a cluster, print the table, and end with the line of figures; returns the exit code."""
    print(f"{'mutant of a cluster':<30} {'seed':>5} {'events':>9}  found as")
    caught = 0
    with pool or nullcontext():
        hunted = map(hunt_cluster, names) if pool is None else pool.map(hunt_cluster, names)
        for name, (outcome, events) in zip(names, hunted, strict=True):
            caught += outcome is not None
            seed = "-" if outcome is None else str(outcome.seed)
            as_what = outcome.broken if outcome is not None else "NOT FOUND"
            print(f"{name:<30} {seed:>5} {events:>9}  {as_what}: {MUTANTS[name].what}", flush=True)
    is_ok = caught == len(names)
    print(f"mutants: {'OK' if is_ok else 'FAILED'} cluster={len(names)} cluster_caught={caught}")
    return 0 if is_ok else 1
