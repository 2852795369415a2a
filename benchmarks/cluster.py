"""A cluster of three nodes under the load of a large group: commits, and what its members notice when a node dies.

    make bench-cluster        or: .venv/bin/python -m benchmarks.cluster [--members 5000] [--partitions 50000]

Three nodes (`cluster_server.py`: the real ones over a table of topics), a real ZooKeeper with sessions of 2 s and the
load share two cores. A standalone node, in the same run and on the same cores, is what replicated commits are held
against. The members are raw sockets of this process that go where their leader is, as real ones do.

- `killed_ms`: the leader's process is killed; until every member is registered again and was told all that it had.
- `expired_ms`: the leader stands still and its members' connections end, as those to a host that is gone; nobody is
  refused, so ZooKeeper has to give up its session. `silent_ms`: the same, and nobody hears of the end of a connection:
  members give up a node that owes them an answer to a ping for 2 s.
- `shrink_ms`: a follower is killed under commits; until ZooKeeper has the in-sync set without it. `stall_ms`: the
  longest that one of these commits took.
- `rebalances`: how often the group has changed, or a partition was asked back or came under another owner epoch, in all
  of that.
- `leader_changes_ms`, `rpc_us`, `zookeeper_queue_us`: see `cluster_changes.py`.

The last line is OK when every bar is kept.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog
from kazoo.client import KazooClient

from benchmarks.cluster_changes import leader_changes_ms, rpc_us, zookeeper_queue_us
from benchmarks.cluster_members import PING_INTERVAL_S, ClusterLoad, FollowingMember
from benchmarks.cluster_nodes import BenchNode, BenchNodes
from benchmarks.group_core import core_used_s, cpu_s
from benchmarks.group_load import Group, committing
from benchmarks.group_members import RefusedError
from benchmarks.group_rounds import Round
from coordinator.local.errors import LocalServiceError
from coordinator.local.zookeeper import LocalZooKeeper

NODES: Final = 3
SHARDS: Final = 50
GROUP: Final = "g"
PATH: Final = "/kcoord"
SESSION_MS: Final = 2_000
COMMITS_IN_FLIGHT: Final = 512
PACED_COMMITS: Final = 1_500
LEADER_CHANGES: Final = 10_000
TELLINGS: Final = 500
_LIMIT_S: Final = 60.0

BARS_MS: Final = {
    "killed_ms": 3_000.0,
    "expired_ms": 4_500.0,
    "leader_changes_ms": 500.0,
    "commit_p99_ms": 30.0,
    "ping_p99_ms": 20.0,
}
COMMITS_SHARE: Final = 0.25
"""The part of a standalone node's commits that a cluster has to do."""


@dataclass(slots=True)
class Figures:
    """The values of everything that was measured; what was measured several times has one for each."""

    values: dict[str, list[float]] = field(default_factory=dict)
    rebalances: int = 0
    loop_max_ms: float = 0.0
    loop_max_by: str = "nothing"

    def add(self, name: str, value: float) -> None:
        """Take note of a value."""
        self.values.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        """Return the median of a figure."""
        return statistics.median(self.values[name])

    def took(self, node: BenchNode) -> None:
        """Take note of how long a node's loop was held."""
        if node.loop_max_ms > self.loop_max_ms:
            self.loop_max_ms, self.loop_max_by = node.loop_max_ms, node.loop_max_by


def missed_bars(found: dict[str, float]) -> list[str]:
    """Return a sentence for each bar that was missed."""
    missed = [f"{name} is {found[name]:g}, over {limit:g}" for name, limit in BARS_MS.items() if found[name] > limit]
    if found["rebalances"]:
        missed.append(f"rebalances is {found['rebalances']:g}, and a failover is to cause none")
    least = COMMITS_SHARE * found["standalone_commits_per_s"]
    if found["commits_per_s"] < least:
        missed.append(f"commits_per_s is {found['commits_per_s']:g}, under {least:g}, a quarter of a standalone node's")
    return missed


class Bench:
    """The measurements of one cluster, in the order in which they are made."""

    def __init__(self, nodes: BenchNodes, load: ClusterLoad, zookeeper: LocalZooKeeper, figures: Figures) -> None:
        self._nodes = nodes
        self._load = load
        self._zookeeper = zookeeper
        self._figures = figures
        self.group: Group[FollowingMember] = Group(GROUP, "wide", 0)

    def form(self, members: int, partitions: int) -> None:
        """Have the group join."""
        self.group.partitions = partitions
        took_ms = self._load.join(self.group, members)
        self._say(f"{members} members with {partitions} partitions stable after {took_ms:.0f} ms")
        self._owners = committing(self.group)

    def commit_and_ping(self, rounds: int, seconds: float) -> None:
        """Measure commits, as many as there can be and paced, and pings."""
        for number in range(rounds):
            name = f"commits, {COMMITS_IN_FLIGHT} in flight, {number + 1}"
            measured = self._round(
                name, lambda: self._load.commit_saturated(self._owners, COMMITS_IN_FLIGHT, seconds), seconds
            )
            self._figures.add("commits_per_s", measured.per_s)
        for number in range(rounds):
            name = f"commits, {PACED_COMMITS} a second, {number + 1}"
            measured = self._round(name, lambda: self._load.commit_paced(self._owners, PACED_COMMITS, seconds), seconds)
            self._figures.add("commit_p50_ms", measured.percentile_ms(50))
            self._figures.add("commit_p99_ms", measured.percentile_ms(99))
        for number in range(rounds):
            name = f"pings, paced, {number + 1}"
            measured = self._round(
                name, lambda: self._load.ping_paced(self.group.members, PING_INTERVAL_S * 1000, seconds), seconds
            )
            self._figures.add("ping_p99_ms", measured.percentile_ms(99))

    def _round(self, name: str, measure: Callable[[], Round], seconds: float) -> Round:
        used_s = {number: cpu_s([self._nodes[number].pid]) for number in self._load.ports}
        measured = measure()
        used = ", ".join(
            f"{(cpu_s([self._nodes[number].pid]) - before_s) / seconds:.0%}" for number, before_s in used_s.items()
        )
        print(
            f"  {name:28} {measured.per_s:6.0f}/s, p50 {measured.percentile_ms(50):.1f} p99 "
            f"{measured.percentile_ms(99):.1f} max {measured.percentile_ms(100):.1f} ms, "
            f"load used {measured.load_share:.0%} of a core, nodes {used}",
            flush=True,
        )
        return measured

    # ---- deaths -----------------------------------------------------------------------------------------------------

    def kill_a_follower(self, seconds: float) -> None:
        """Kill a node that does not lead the group, while its members commit."""
        victim = next(self._nodes[number] for number in self._load.ports if number != self._leader().number)
        watch = IsrWatch(self._zookeeper.address, self._load.shard)

        def kill() -> None:
            watch.begin(victim.number)
            victim.kill()

        killer = threading.Timer(seconds / 4, kill)
        with closing(watch):
            killer.start()
            measured = self._load.commit_paced(self._owners, PACED_COMMITS, seconds)
            killer.join()
            took_ms = watch.took_ms()
        self._figures.add("shrink_ms", took_ms)
        self._figures.add("stall_ms", measured.percentile_ms(100))
        victim.begin()
        victim.await_ready()
        self._until_all_in_sync()
        stall_ms = measured.percentile_ms(100)
        self._say(f"a follower killed: out of the in-sync set after {took_ms:.0f} ms, longest commit {stall_ms:.0f} ms")

    def kill_the_leader(self) -> None:
        """Kill the leader."""
        victim = self._leader()
        started_s = time.perf_counter()
        victim.kill()
        self._load.wait_until(lambda: not self.group.tally.is_stable(self.group.partitions), "somebody to notice")
        took_ms = self._load.back_again(self.group, started_s)
        self._figures.add("killed_ms", took_ms)
        first_ms = self._first_commit(started_s)
        victim.begin()
        victim.await_ready()
        self._until_all_in_sync()
        self._say(f"killed: all back after {took_ms:.0f} ms, and a commit accepted after {first_ms:.0f} ms")

    def stop_the_leader(self, *, is_heard: bool) -> None:
        """Have the leader stand still; its members' connections end, or do not."""
        name = "expired" if is_heard else "silent"
        victim = self._leader()
        if not is_heard:
            self._load.begin_pinging(self.group.members)
            self._load.turn_for(1.0)
        started_s = time.perf_counter()
        victim.pause()
        if is_heard:
            self._load.gone = {victim.number}
            self._load.lose(self.group.members)
        else:
            self._load.wait_until(lambda: not self.group.tally.is_stable(self.group.partitions), "somebody to notice")
        took_ms = self._load.back_again(self.group, started_s)
        if not is_heard:
            self._load.wait_until(self._is_nobody_there(victim), "all members elsewhere")
            took_ms = (time.perf_counter() - started_s) * 1000
        self._figures.add(f"{name}_ms", took_ms)
        if not is_heard:
            self._load.stop_pinging()
        first_ms = self._first_commit(started_s)
        victim.resume()
        self._load.gone = set()
        self._until_all_in_sync()
        self._say(f"{name}: all back after {took_ms:.0f} ms, and a commit accepted after {first_ms:.0f} ms")

    def _is_nobody_there(self, victim: BenchNode) -> Callable[[], bool]:
        members, stable = self.group.members, self.group

        def is_so() -> bool:
            return stable.tally.is_stable(stable.partitions) and all(member.node != victim.number for member in members)

        return is_so

    def _first_commit(self, started_s: float) -> float:
        self._load.commit_saturated(self._owners[:1], 1, 0.0)
        return (time.perf_counter() - started_s) * 1000

    def _leader(self) -> BenchNode:
        return self._nodes[self.group.members[0].node]

    def _until_all_in_sync(self) -> None:
        """Return when all replicas are in sync and members have pinged: the next death is to meet a whole cluster."""
        watch = IsrWatch(self._zookeeper.address, self._load.shard)
        with closing(watch):
            self._load.wait_until(lambda: watch.is_whole(NODES), "all in sync")
        self._load.ping_all(self.group.members)

    def _say(self, text: str) -> None:
        reports = self._nodes.report()
        print(f"  {text}", flush=True)
        for number, seen in reports.items():
            print(
                f"      node {number}: longest work {seen['held_ms']:.0f} ms ({seen['held_by']}), "
                f"collector {seen['gc_ms']:.0f} ms, {seen['cpu_s']:.2f} s of a core in {seen['seconds']:.2f} s, "
                f"{seen['rss_kib'] / 1024:.0f} MiB",
                flush=True,
            )
            self._figures.took(self._nodes[number])


class IsrWatch:
    """The in-sync sets as ZooKeeper has them, looked at without a pause on a thread once it has begun."""

    def __init__(self, hosts: str, shard: int) -> None:
        self._client = KazooClient(hosts=hosts)
        self._client.start(timeout=_LIMIT_S)
        self._shard = shard
        self._started_s = 0.0
        self._ended_s = 0.0
        self._thread: threading.Thread | None = None

    def begin(self, leaving: int) -> None:
        """Take the time from now on until a node is in sync no more."""
        self._started_s = time.perf_counter()
        self._thread = threading.Thread(target=self._look, args=(leaving,))
        self._thread.start()

    def took_ms(self) -> float:
        """Return the milliseconds it took, and wait for that."""
        assert self._thread is not None, "it has begun"
        self._thread.join(_LIMIT_S)
        if not self._ended_s:
            raise TimeoutError(f"waited {_LIMIT_S:g} s in vain for an in-sync set without the dead node")
        return (self._ended_s - self._started_s) * 1000

    def is_whole(self, nodes: int) -> bool:
        """Say whether each shard has all its replicas in sync."""
        return all(len(entry["isr"]) == nodes for entry in self._entries().values())

    def close(self) -> None:
        """End."""
        self._client.stop()
        self._client.close()

    def _look(self, leaving: int) -> None:
        end_s = time.perf_counter() + _LIMIT_S
        bucket = f"{PATH}/shards/{self._shard}"
        while time.perf_counter() < end_s:
            found = json.loads(self._client.get(bucket)[0])["shards"][str(self._shard)]
            if leaving not in found["isr"]:
                self._ended_s = time.perf_counter()
                return
            time.sleep(0.005)

    def _entries(self) -> dict[str, Any]:
        names = self._client.get_children(f"{PATH}/shards")
        found: dict[str, Any] = {}
        for name in names:
            found |= json.loads(self._client.get(f"{PATH}/shards/{name}")[0])["shards"]
        return found


def standalone_commits(arguments: argparse.Namespace, directory: Path, figures: Figures) -> None:
    """Measure commits of a standalone node that shares the cores with nobody but the load."""
    topics = {"wide": arguments.partitions}
    node = BenchNode(1, directory, topics, {"node.mode": "standalone"})
    with BenchNodes([node]) as nodes, closing(ClusterLoad(nodes.ports, "127.0.3.1")) as load:
        group: Group[FollowingMember] = Group(GROUP, "wide", arguments.partitions)
        took_ms = load.join(group, arguments.members)
        print(f"  {arguments.members} members stable after {took_ms:.0f} ms", flush=True)
        owners = committing(group)
        for number in range(arguments.rounds):
            used_s = cpu_s([node.pid])
            measured = load.commit_saturated(owners, COMMITS_IN_FLIGHT, arguments.seconds)
            used = (cpu_s([node.pid]) - used_s) / arguments.seconds
            figures.add("standalone_commits_per_s", measured.per_s)
            print(
                f"  commits, {COMMITS_IN_FLIGHT} in flight, {number + 1}   {measured.per_s:6.0f}/s, p99 "
                f"{measured.percentile_ms(99):.1f} ms, load used {measured.load_share:.0%} of a core, node {used:.0%}",
                flush=True,
            )
        paced = load.commit_paced(owners, PACED_COMMITS, arguments.seconds)
        print(
            f"  commits, {PACED_COMMITS} a second      p50 {paced.percentile_ms(50):.1f} p99 "
            f"{paced.percentile_ms(99):.1f} ms",
            flush=True,
        )


def in_a_cluster(arguments: argparse.Namespace, directory: Path, zookeeper: LocalZooKeeper, figures: Figures) -> None:
    """Measure everything of a cluster."""
    settings: dict[str, object] = {
        "node.mode": "cluster",
        "cluster.shards": SHARDS,
        "zookeeper.hosts": zookeeper.address,
        "zookeeper.path": PATH,
        "zookeeper.session_timeout_ms": SESSION_MS,
    }
    nodes = [BenchNode(number, directory, {"wide": arguments.partitions}, settings) for number in (1, 2, 3)]
    with BenchNodes(nodes) as running, closing(ClusterLoad(running.ports, "127.0.3.2")) as load:
        bench = Bench(running, load, zookeeper, figures)
        bench.form(arguments.members, arguments.partitions)
        bench.commit_and_ping(arguments.rounds, arguments.seconds)
        if not arguments.commits_only:
            for _ in range(arguments.rounds):
                bench.kill_a_follower(arguments.seconds)
                bench.kill_the_leader()
                bench.stop_the_leader(is_heard=True)
                bench.stop_the_leader(is_heard=False)
        figures.rebalances = load.rebalances() + load.moved + load.asked_back
        print(
            f"  the group has changed {load.rebalances()} times since it was formed; {load.asked_back} partitions were "
            f"asked back, {load.moved} came under another owner epoch; {load.refusals} registrations asked again, "
            f"{load.connects} connections, {load.silences} of them given up for silence",
            flush=True,
        )


def measure(arguments: argparse.Namespace, figures: Figures) -> None:
    """Measure everything."""
    with ExitStack() as stack:
        directory = arguments.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcoord-cluster-")))
        print("a standalone node", flush=True)
        standalone_commits(arguments, directory / "standalone", figures)
        with LocalZooKeeper(directory / "zookeeper", tick_ms=500) as zookeeper:
            print("three nodes", flush=True)
            in_a_cluster(arguments, directory, zookeeper, figures)
            if arguments.commits_only:
                return
            print("leader changes at a controller, and one change told in two ways", flush=True)
            for _ in range(arguments.rounds):
                figures.add("leader_changes_ms", leader_changes_ms(zookeeper.address, LEADER_CHANGES))
            figures.add("rpc_us", rpc_us(TELLINGS))
            figures.add("zookeeper_queue_us", zookeeper_queue_us(zookeeper.address, TELLINGS))


def line_of(arguments: argparse.Namespace, figures: Figures) -> tuple[dict[str, float], str]:
    """Return the figures as the bars take them, and the last line."""
    names = ["killed_ms", "expired_ms", "silent_ms", "rebalances", "leader_changes_ms", "commits_per_s"]
    names += ["standalone_commits_per_s", "commit_p50_ms", "commit_p99_ms", "ping_p99_ms", "shrink_ms", "stall_ms"]
    names += ["rpc_us", "zookeeper_queue_us"]
    found = {name: figures.median(name) for name in names if name != "rebalances"}
    found["rebalances"] = figures.rebalances
    said = {name: f"{found[name]:.1f}" if name[-6:] in ("p50_ms", "p99_ms") else f"{found[name]:.0f}" for name in names}
    text = f"nodes={NODES} members={arguments.members} partitions={arguments.partitions} shards={SHARDS}"
    for name in names:
        text += f" leader_changes={LEADER_CHANGES}" if name == "leader_changes_ms" else ""
        text += f" {name}={said[name]}"
    return found, f"{text} fsync=1 loop_max_ms={figures.loop_max_ms:.0f}"


def main() -> int:
    """Measure, and print the summary last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=5_000)
    parser.add_argument("--partitions", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a round of pings or commits")
    parser.add_argument("--data", type=Path, help="where to leave what the nodes say; a new folder")
    parser.add_argument("--commits-only", action="store_true", help="no deaths, no controller; prints no summary")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    figures, cores = Figures(), range(os.cpu_count() or 1)
    used_s, started_s = sum(map(core_used_s, cores)), time.perf_counter()
    try:
        measure(arguments, figures)
    except (RuntimeError, RefusedError, LocalServiceError, OSError) as error:
        print(f"bench-cluster: FAILED {error}")
        return 1
    own_s = sum(os.times()[:4])
    share = max(0.0, sum(map(core_used_s, cores)) - used_s - own_s) / (time.perf_counter() - started_s) / len(cores)
    print(f"other work used {share:.0%} of the machine")
    if arguments.commits_only:
        return 0
    print(f"a loop was held longest, {figures.loop_max_ms:.1f} ms, by {figures.loop_max_by}")
    found, line = line_of(arguments, figures)
    missed = missed_bars(found)
    for miss in missed:
        print(f"missed: {miss}")
    print(f"bench-cluster: {'FAILED' if missed else 'OK'} {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
