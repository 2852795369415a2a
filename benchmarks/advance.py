"""Load of Spark's micro-batches on a coordinator: each finishes its claims and claims the next ones, with fsync.

    make bench-advance      or: uv run python -m benchmarks.advance [--members 500] [--seconds 5] [--rounds 3]

The coordinator is the real one (`group_server.py`), pinned to one core, and the members are raw sockets of this process
on the other. A micro-batch is two requests of a member, one after the other, as Spark makes them: an Advance, which
finishes what ran and claims the next ranges of all that the member owns, and a ConfirmClaims, with which they run. Each
partition goes on by another number of offsets, up to 100,000. Every answer is looked at: anything but all of it as it
was asked ends the benchmark.

500 members in 10 groups own 8, 100 or 1,000 partitions each, half a million at the end, and advance in turn. With all
500, 64 or 8 micro-batches in flight, which keeps the node's core busy, `advances_8_per_s` and `advances_1000_per_s` are
counted, and `partitions_per_s` with 100 partitions a micro-batch. `p99_ms` is of the Advances with 64, 16 or 2 in
flight, which is a little less than the node can do, for the slowest of the three sizes. `log_kib_1000` is what a
micro-batch of 1,000 partitions lays in the log, frames and all. At fixed times, with half of the bars a second,
latencies are shown beside it; there a request counts from when it was due, so that they are the disk's where that
stands still.

Then the history: members of 10,000 groups commit 1,000,000 partitions by advancing, and all but 500 leave. These go on,
each with many micro-batches more. Then the node is killed, and `start_s` is from the start of the process until it says
that it listens, `start_rss_mib` the most memory that it has had by then. What is on disk must be no more than a few
times a snapshot and what is written between two of them. With `--left 10000` all members stay; what their claims,
grants and targets take is measured by itself by `make bench-start`.

Rates and latencies are medians of the rounds. The last line is OK when every bar is kept.
"""

import argparse
import os
import platform
import resource
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.advance_members import Queries, SparkMember
from benchmarks.advance_start import History, build_history
from benchmarks.group import Coordinator
from benchmarks.group_core import LOAD_CORE, SERVER_CORE, CoreWatch
from benchmarks.group_members import RefusedError
from benchmarks.group_rounds import Round, pace, percentile, saturate

GROUPS: Final = 10
IN_FLIGHT: Final = {8: 500, 100: 64, 1000: 8}
"""Partitions of a micro-batch, and how many micro-batches are in flight at once."""
FEW: Final = {8: 64, 100: 16, 1000: 2}
"""The same where latencies are measured."""
PACED: Final = {8: 4_000, 100: 1_500, 1000: 150}
"""Micro-batches a second at fixed times."""
AT_LEAST: Final = {"advances_8_per_s": 8_000.0, "advances_1000_per_s": 300.0, "partitions_per_s": 300_000.0}
AT_MOST: Final = {"p99_ms": 20.0, "log_kib_1000": 16.0, "start_s": 5.0, "start_rss_mib": 512.0}


@dataclass(slots=True)
class OfSize:
    """Measurements of one size of micro-batch, one of each a round."""

    per_s: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    log_kib: list[float] = field(default_factory=list)


def measure_size(directory: Path, size: int, arguments: argparse.Namespace) -> OfSize:
    """Have members with so many partitions each advance."""
    a_group = max(1, arguments.members // GROUPS)
    topics, measured = {"t": size * a_group}, OfSize()
    source = f"127.0.2.{list(IN_FLIGHT).index(size) + 1}"
    with (
        Coordinator(directory, topics, is_watched=False) as node,
        closing(Queries(node.port, source)) as queries,
    ):
        for number in range(GROUPS):
            queries.join([f"spark-{size}-{number}"], a_group, size * a_group)
        members = queries.members
        queries.each_once(members, SparkMember.next_batch, IN_FLIGHT[size])
        queries.take_advances_ms()
        seen = node.report()
        print(f"{len(members)} members of {size} partitions each, {seen['rss_kib'] / 1024:.0f} MiB", flush=True)
        for number in range(arguments.rounds):
            node.report()
            advances = saturate(queries.sockets, members, SparkMember.next_batch, IN_FLIGHT[size], arguments.seconds)
            seen = node.report()
            measured.per_s.append(advances.per_s)
            measured.log_kib.append(seen["log_bytes"] / len(advances.latencies_ms) / 1024)
            say(f"{IN_FLIGHT[size]} in flight, {number + 1}", advances, queries.take_advances_ms(), seen)
            few = saturate(queries.sockets, members, SparkMember.next_batch, FEW[size], arguments.seconds)
            advances_ms = queries.take_advances_ms()
            measured.p99_ms.append(percentile(advances_ms, 99))
            say(f"{FEW[size]} in flight, {number + 1}", few, advances_ms, node.report())
        paced = pace(queries.sockets, members, SparkMember.next_batch, PACED[size], arguments.seconds)
        say(f"{PACED[size]:,} a second", paced, queries.take_advances_ms(), node.report())
    return measured


def say(phase: str, measured: Round, advances_ms: Sequence[float], seen: Mapping[str, Any]) -> None:
    """Print what a round came to; other work on the machine changes least what it cost in processor time."""
    count = len(measured.latencies_ms)
    print(
        f"  {phase:20} {measured.per_s:.0f} micro-batches/s, {seen['cpu_s'] * 1000 / count:.3f} ms of the core each, "
        f"{seen['log_bytes'] / count / 1024:.2f} KiB of log; Advance p50 {percentile(advances_ms, 50):.1f} "
        f"p99 {percentile(advances_ms, 99):.1f} ms\n"
        f"  {'':20} both requests p50 {measured.percentile_ms(50):.1f} p99 {measured.percentile_ms(99):.1f} ms, "
        f"longest wait for the loop {seen['late_ms']:.0f} ms, load's core used {measured.load_share:.0%}",
        flush=True,
    )


def missed_bars(figures: Mapping[str, float], history: History) -> list[str]:
    """Return a sentence for every bar that was missed."""
    missed = [
        f"{name} is {figures[name]:g}, under {least:g}" for name, least in AT_LEAST.items() if figures[name] < least
    ]
    missed += [f"{name} is {figures[name]:g}, over {most:g}" for name, most in AT_MOST.items() if figures[name] > most]
    if history.disk_mib > history.disk_limit_mib:
        missed.append(f"{history.disk_mib:.0f} MiB are on disk, over {history.disk_limit_mib:.0f}")
    return missed


def main() -> int:
    """Measure, and print the summary last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--groups", type=int, default=10_000, help="groups of the history, with 100 partitions each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a round")
    parser.add_argument("--size", type=int, choices=list(IN_FLIGHT), help="this size alone; prints no summary")
    parser.add_argument("--left", type=int, default=500, help="members of the history that stay")
    parser.add_argument("--history-only", action="store_true", help="leave the rest out; prints no summary")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {LOAD_CORE})
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    watch = CoreWatch(SERVER_CORE)
    of_size: dict[int, OfSize] = {}
    try:
        for size in () if arguments.history_only else [arguments.size] if arguments.size else IN_FLIGHT:
            with tempfile.TemporaryDirectory(prefix="kcoord-advance-") as name:
                of_size[size] = measure_size(Path(name), size, arguments)
        if arguments.size:
            return 0
        with tempfile.TemporaryDirectory(prefix="kcoord-advance-") as name:
            history = build_history(Path(name), arguments.groups, arguments.left, arguments.seconds)
    except (RuntimeError, RefusedError, OSError) as error:
        print(f"bench-advance: FAILED {error}")
        return 1
    if arguments.history_only:
        return 0
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(watch.share_of_others(children.ru_utime + children.ru_stime))
    figures = {
        "advances_8_per_s": round(statistics.median(of_size[8].per_s)),
        "advances_1000_per_s": round(statistics.median(of_size[1000].per_s)),
        "partitions_per_s": round(statistics.median(of_size[100].per_s) * 100),
        "p99_ms": round(max(statistics.median(each.p99_ms) for each in of_size.values()), 1),
        "log_kib_1000": round(statistics.median(of_size[1000].log_kib), 1),
        "start_s": round(history.start_s, 1),
        "start_rss_mib": round(history.start_rss_mib),
    }
    missed = missed_bars(figures, history)
    for miss in missed:
        print(f"missed: {miss}")
    line = " ".join(f"{name}={value:g}" if value % 1 else f"{name}={value:.0f}" for name, value in figures.items())
    print(f"bench-advance: {'FAILED' if missed else 'OK'} {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
