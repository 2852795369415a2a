"""Load of a large group on a coordinator: joins, a death, pings and commits, with fsync, on one core.

    make bench-group        or: uv run python -m benchmarks.group [--members 5000] [--partitions 50000] [--rounds 3]

The coordinator is the real one (`group_server.py`: real service, server, driver and log; only what Kafka would say
about topics comes from a table), pinned to one core. The members are raw sockets of this process on the other core.
Each round starts a new coordinator: all members of one group join at once, from the first join sent until each was
told its whole assignment and has started it; then members die one by one, by a closed connection, and the time is
taken until others have started what was theirs. Then the node is killed and started again, and the time is taken from
the moment at which it serves until all members have come back, `reconnect_ms`. In the last round members of further
groups join; all ping as often as sessions of 10 s need, then with 64 pings in flight; then owners commit 10 partitions
at a time, a tenth of them at once. With fewer at once the node waits for the disk: 64 in flight leave up to a tenth of
its core unused where a sync now and then takes 100 ms, so what they show, in a line of its own, is the latency and not
what a core carries.

But while members come back a Prometheus scrapes the node's /metrics once a second (`--no-scrape`: nobody does). With
`--tls` (`make bench-group TLS=1`) members speak TLS and log in by SCRAM, one after the other before they join, and side
by side when they come back.

`loop_max_ms` is the longest that one piece of work held the coordinator's event loop in all of that; the other
figures are medians. The last line is OK when every bar is kept.
"""

import argparse
import os
import platform
import resource
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.group_core import LOAD_CORE, SERVER_CORE, CoreWatch
from benchmarks.group_load import Group, Load, committing
from benchmarks.group_members import KcoordMember, RefusedError
from benchmarks.group_rounds import Round
from benchmarks.group_scrapes import Scraper
from benchmarks.group_secured import Secured, password_hashed_once
from benchmarks.probed_node import ProbedNode
from coordinator.core.limits import Limits
from coordinator.local.process.ports import free_ports

PING_INTERVAL_MS = 10_000 / 3
IN_FLIGHT = 64
COMMITS_IN_FLIGHT = 512
DEATHS = 5
GROUP_MEMBERS = 1000
GRACE_MS = Limits().closed_connection_idle_grace_ms
CLAIM_GRACE_MS = Limits().closed_connection_grace_ms

STABLE_MS, HANDOVER_MS, PING_P99_MS, COMMITS_PER_S, LOOP_MS = 2000.0, 100.0, 10.0, 15_000.0, 50.0
RECONNECT_MS = 5000.0


class Coordinator(ProbedNode):
    """The coordinator's process; a context manager, which serves from its beginning."""

    def __init__(
        self, directory: Path, topics: dict[str, int], *, is_watched: bool = True, settings: Sequence[str] = ()
    ) -> None:
        command = [sys.executable, "-m", "benchmarks.group_server", "--data", str(directory / "data")]
        command += ["--core", str(SERVER_CORE), *([] if is_watched else ["--unwatched"])]
        command += [part for name, count in topics.items() for part in ("--topic", f"{name}={count}")]
        command += [part for setting in settings for part in ("--set", setting)]
        super().__init__("the coordinator", command, directory / "node.log")
        self.begin()
        self.port = self.await_ready()

    def __enter__(self) -> Self:
        """Return itself; it serves."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process; after an error, show what it said last."""
        self.kill()
        if error is not None:
            print(self.said())


@dataclass(slots=True)
class Figures:
    """The figures measured, a value a round or a death."""

    stable_ms: list[float] = field(default_factory=list)
    handover_ms: list[float] = field(default_factory=list)
    claim_handover_ms: list[float] = field(default_factory=list)
    reconnect_ms: list[float] = field(default_factory=list)
    kib_per_member: list[float] = field(default_factory=list)
    pings_paced: list[Round] = field(default_factory=list)
    pings: list[Round] = field(default_factory=list)
    commits: list[Round] = field(default_factory=list)
    scrapes: int = 0
    loop_max_ms: float = 0.0
    loop_max_by: str = "nothing"

    def say(self, phase: str, text: str, seen: dict[str, Any]) -> None:
        """Print a line about a phase, with what the probe saw during it."""
        print(
            f"  {phase:30} {text}\n  {'':30} longest work {seen['held_ms']:.1f} ms, "
            f"at most {seen['held_cpu_ms']:.1f} of them on the core ({seen['held_by']}), "
            f"longest wait for the loop {seen['late_ms']:.0f} ms, collector {seen['gc_ms']:.1f} ms, "
            f"{seen['cpu_s']:.2f} s of the core in {seen['seconds']:.2f} s, {seen['rss_kib'] / 1024:.0f} MiB",
            flush=True,
        )
        by = f"{seen['held_by']}, at most {seen['held_cpu_ms']:.1f} ms of it on the core"
        for held_ms, held_by in ((seen["held_ms"], by), (seen["gc_ms"], "the garbage collector")):
            if held_ms > self.loop_max_ms:
                self.loop_max_ms, self.loop_max_by = held_ms, f"{held_by}, during {phase}"


def join_and_die(
    node: Coordinator, load: Load[KcoordMember], group: Group[KcoordMember], members: int, figures: Figures
) -> None:
    """Measure the joins of one group and the death of some of its members."""
    idle = node.report()
    load.connect(group, members, KcoordMember)
    figures.say("connect", f"{members} connections said hello", node.report())
    figures.stable_ms.append(load.join(group))
    load.turn_for(1.0)
    seen = node.report()
    figures.kib_per_member.append((seen["rss_kib"] - idle["rss_kib"]) / members)
    figures.say(
        "join",
        f"{members} members stable after {figures.stable_ms[-1]:.0f} ms, {figures.kib_per_member[-1]:.0f} KiB a member",
        seen,
    )
    times_ms = [load.die(group, has_claims=False) for _ in range(DEATHS)]
    figures.handover_ms += times_ms
    figures.say(
        f"death, grace {GRACE_MS} ms",
        "handed over after " + ", ".join(f"{ms:.0f}" for ms in times_ms) + " ms",
        node.report(),
    )
    figures.claim_handover_ms.append(load.die(group, has_claims=True))
    figures.say(
        f"death, grace {CLAIM_GRACE_MS} ms",
        f"with running claims, handed over after {figures.claim_handover_ms[-1]:.0f} ms",
        node.report(),
    )


def come_back(node: Coordinator, load: Load[KcoordMember], group: Group[KcoordMember], figures: Figures) -> None:
    """Measure how long it takes all members to come back to a node that has started again."""
    node.kill()
    load.lose(group)
    node.begin()
    port = node.await_ready()
    node.report()
    figures.reconnect_ms.append(load.come_back(group, port))
    figures.say("come back", f"{len(group.members)} members in {figures.reconnect_ms[-1]:.0f} ms", node.report())


def join_others(node: Coordinator, load: Load[KcoordMember], missing: int, figures: Figures) -> list[KcoordMember]:
    """Let so many members join further groups."""
    groups: list[Group[KcoordMember]] = []
    while missing > 0:
        groups.append(Group(f"g{len(groups)}", "narrow", GROUP_MEMBERS))
        load.connect(groups[-1], min(missing, GROUP_MEMBERS), KcoordMember)
        missing -= GROUP_MEMBERS
    figures.say("connect", f"{sum(len(group.members) for group in groups)} connections said hello", node.report())
    members = [member for group in groups for member in group.members]
    took_ms = load.join(*groups) if groups else 0.0
    figures.say("further members", f"{len(members)} in {len(groups)} groups joined in {took_ms:.0f} ms", node.report())
    return members


def ping_and_commit(
    node: Coordinator,
    load: Load[KcoordMember],
    members: list[KcoordMember],
    owners: list[KcoordMember],
    rounds: int,
    seconds: float,
    figures: Figures,
) -> None:
    """Measure pings of all members and commits of the owners, who have prepared them."""
    for number in range(rounds):
        paced = load.ping_paced(members, PING_INTERVAL_MS, seconds)
        figures.pings_paced.append(paced)
        say_round(f"pings, paced, {number + 1}", paced, node, figures)
        saturated = load.ping_saturated(members, IN_FLIGHT, seconds)
        figures.pings.append(saturated)
        say_round(f"pings, {IN_FLIGHT} in flight, {number + 1}", saturated, node, figures)
    for number in range(rounds):
        commits = load.commit_saturated(owners, COMMITS_IN_FLIGHT, seconds)
        figures.commits.append(commits)
        say_round(f"commits, {COMMITS_IN_FLIGHT} in flight, {number + 1}", commits, node, figures)
    few = load.commit_saturated(owners, IN_FLIGHT, seconds)
    say_round(f"commits, {IN_FLIGHT} in flight", few, node, figures)
    paced = load.commit_paced(owners, 1500, seconds)
    say_round("commits, 1,500 a second", paced, node, figures)


def say_round(phase: str, measured: Round, node: Coordinator, figures: Figures) -> None:
    """Print what a round measured; other work on the machine changes least what it cost in processor time."""
    seen = node.report()
    figures.say(
        phase,
        f"{measured.per_s:.0f}/s, {len(measured.latencies_ms) / seen['cpu_s']:.0f} per CPU-s, "
        f"p50 {measured.percentile_ms(50):.2f} p99 {measured.percentile_ms(99):.2f} "
        f"max {measured.percentile_ms(100):.1f} ms, load's core used {measured.load_share:.0%}",
        seen,
    )


def missed_bars(figures: dict[str, float], claim_handover_ms: float) -> list[str]:
    """Return a sentence for every bar that was missed."""
    missed = []
    for name, limit in (
        ("stable_ms", STABLE_MS),
        ("handover_ms", GRACE_MS + HANDOVER_MS),
        ("ping_p99_ms", PING_P99_MS),
        ("reconnect_ms", RECONNECT_MS),
        ("loop_max_ms", LOOP_MS),
    ):
        if figures[name] > limit:
            missed.append(f"{name} is {figures[name]:g}, over {limit:g}")
    if claim_handover_ms > CLAIM_GRACE_MS + HANDOVER_MS:
        missed.append(
            f"with running claims handover_ms is {claim_handover_ms:.0f}, over {CLAIM_GRACE_MS + HANDOVER_MS:g}"
        )
    if figures["commits_per_s"] < COMMITS_PER_S:
        missed.append(f"commits_per_s is {figures['commits_per_s']:g}, under {COMMITS_PER_S:g}")
    return missed


def summary(figures: Figures) -> dict[str, float]:
    """Return the medians, rounded as they are printed."""

    def of(values: list[float], digits: int = 0) -> float:
        return round(statistics.median(values), digits)

    return {
        "stable_ms": of(figures.stable_ms),
        "handover_ms": of(figures.handover_ms),
        "reconnect_ms": of(figures.reconnect_ms),
        "ping_p99_ms": of([paced.percentile_ms(99) for paced in figures.pings_paced], 1),
        "pings_per_s": of([pings.per_s for pings in figures.pings]),
        "commits_per_s": of([commits.per_s for commits in figures.commits]),
        "commit_p99_ms": of([commits.percentile_ms(99) for commits in figures.commits], 1),
        "loop_max_ms": round(figures.loop_max_ms, 1),
        "kib_per_member": of(figures.kib_per_member),
    }


@contextmanager
def scraped(admin_port: int, figures: Figures, *, is_wanted: bool) -> Iterator[None]:
    """Have a node's metrics read once a second, as a Prometheus does."""
    if not is_wanted:
        yield
        return
    scraper = Scraper(f"127.0.0.1:{admin_port}")
    with scraper:
        yield
    if scraper.seen is not None:
        print(f"  {scraper.seen}", flush=True)
        figures.scrapes += scraper.seen.count


def measure(arguments: argparse.Namespace, figures: Figures) -> int:
    """Run every round; return how many members pinged."""
    pinging = 0
    for number in range(arguments.rounds):
        print(f"round {number + 1} of {arguments.rounds}", flush=True)
        topics = {"wide": arguments.partitions, "narrow": GROUP_MEMBERS}
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcoord-group-")))
            secured = Secured(folder) if arguments.tls else None
            (admin_port,) = free_ports(1)
            settings = [f"admin.listen=127.0.0.1:{admin_port}", *(() if secured is None else secured.settings)]
            node = stack.enter_context(Coordinator(folder, topics, settings=settings))
            stack.enter_context(password_hashed_once())
            load = stack.enter_context(closing(Load[KcoordMember](node.port, f"127.0.1.{number + 1}", secured)))
            group: Group[KcoordMember] = Group("g", "wide", arguments.partitions)
            with scraped(admin_port, figures, is_wanted=not arguments.no_scrape):
                join_and_die(node, load, group, arguments.members, figures)
            come_back(node, load, group, figures)
            if number < arguments.rounds - 1 or arguments.joins_only:
                continue
            with scraped(admin_port, figures, is_wanted=not arguments.no_scrape):
                pinging = max(arguments.ping_members, len(group.members))
                others = join_others(node, load, pinging - len(group.members), figures)
                everyone, owners = [*group.members, *others], committing(group)
                ping_and_commit(node, load, everyone, owners, arguments.rounds, arguments.seconds, figures)
    return pinging


def main() -> int:
    """Measure, and print the summary last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=5000)
    parser.add_argument("--partitions", type=int, default=50_000)
    parser.add_argument("--ping-members", type=int, default=15_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a round of pings or commits")
    parser.add_argument("--tls", action="store_true", help="members speak TLS and log in by SCRAM")
    parser.add_argument("--no-scrape", action="store_true", help="nobody reads /metrics meanwhile")
    parser.add_argument("--joins-only", action="store_true", help="leave pings and commits out; prints no summary")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {LOAD_CORE})
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    figures = Figures()
    watch = CoreWatch(SERVER_CORE)
    try:
        pinging = measure(arguments, figures)
    except (RuntimeError, RefusedError, OSError) as error:
        print(f"bench-group: FAILED {error}")
        return 1
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(watch.share_of_others(children.ru_utime + children.ru_stime))
    if arguments.joins_only:
        return 0
    print(f"the loop was held longest, {figures.loop_max_ms:.1f} ms, by {figures.loop_max_by}")
    found = summary(figures)
    missed = missed_bars(found, statistics.median(figures.claim_handover_ms))
    for miss in missed:
        print(f"missed: {miss}")
    text = {name: f"{value:g}" if name.endswith("p99_ms") else f"{value:.0f}" for name, value in found.items()}
    line = (
        f"members={arguments.members} partitions={arguments.partitions} stable_ms={text['stable_ms']} "
        f"handover_ms={text['handover_ms']} grace_ms={GRACE_MS} reconnect_ms={text['reconnect_ms']} "
        f"ping_members={pinging} "
        f"ping_p99_ms={text['ping_p99_ms']} pings_per_s={text['pings_per_s']} commits_per_s={text['commits_per_s']} "
        f"commit_p99_ms={text['commit_p99_ms']} fsync=1 loop_max_ms={text['loop_max_ms']} "
        f"kib_per_member={text['kib_per_member']} scrapes={figures.scrapes} tls={arguments.tls:d}"
    )
    print(f"bench-group: {'FAILED' if missed else 'OK'} {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
