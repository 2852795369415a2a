"""The coordinator of a group killed, until commits are accepted again: three Kafka brokers and three nodes, in turns.

    make bench-cluster-kafka     or: .venv/bin/python -m benchmarks.cluster_kafka [--members 500] [--partitions 5000]

Both clusters run beside each other on the same cores, each with a group of as many members, which are raw sockets of
this process that go where their coordinator is. In each round the process that coordinates one side's group is killed
with SIGKILL, and the time is taken until every member is back and has had a commit of ten partitions accepted; then the
process is started again, all replicas are waited for, and the other side has its turn. Kafka (KRaft, KIP-848) and
kcoord have their default time-outs and three replicas, two of them in sync at least; kcoord syncs what it acknowledges,
and Kafka does not.

Rebalances are counted alike: the epochs by which the group has gone on since it was formed, and the partitions that
were given or asked back meanwhile. Figures are medians of the rounds; a ratio above 1 says that kcoord is back sooner.
The last line is OK when kcoord is, and has seen no rebalance.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import structlog

from benchmarks.cluster import NODES, PATH, SHARDS, IsrWatch
from benchmarks.cluster_kafka_brokers import KafkaBrokers
from benchmarks.cluster_kafka_members import FollowingKafkaMember, KafkaClusterLoad
from benchmarks.cluster_members import ClusterLoad, FollowingMember
from benchmarks.cluster_nodes import BenchNode, BenchNodes
from benchmarks.group_kafka_members import KafkaGroup, KafkaRefusedError
from benchmarks.group_load import Group, committing
from benchmarks.group_members import RefusedError
from coordinator.local.errors import LocalServiceError
from coordinator.local.zookeeper import LocalZooKeeper

TOPIC: Final = "load"
GROUP: Final = "g"
SETTLE_S: Final = 2.0
LOOK_S: Final = 0.5


@dataclass(slots=True)
class Measured:
    """The figures of one side: a time for each round, and all rebalances."""

    took_ms: list[float] = field(default_factory=list)
    rebalances: int = 0

    @property
    def ms(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.took_ms)


class Side(Protocol):
    """A cluster with its group, as both are judged."""

    name: str

    def turn_for(self, seconds: float) -> None:
        """Take what comes for a while."""

    def kill(self) -> None:
        """Kill the process that coordinates the group."""

    def await_back(self) -> None:
        """Return when every member was served since."""

    def commit_each(self) -> None:
        """Have each member commit once; return when all commits were accepted."""

    def mend(self) -> None:
        """Start the process again, and return when every replica is in sync."""

    def rebalances(self) -> int:
        """Return the epochs that the group has gone on by since it was formed, and the partitions that were moved."""


class Ours:
    """Three nodes of kcoord and their ZooKeeper."""

    name = "kcoord"

    def __init__(self, nodes: BenchNodes, zookeeper: LocalZooKeeper, members: int, partitions: int) -> None:
        self._nodes = nodes
        self._zookeeper = zookeeper
        self._load = ClusterLoad(nodes.ports, "127.0.5.1")
        self._group: Group[FollowingMember] = Group(GROUP, TOPIC, partitions)
        self._load.join(self._group, members)
        self._owners = committing(self._group)
        self._victim = nodes[next(iter(nodes.ports))]

    def close(self) -> None:
        """Close all connections."""
        self._load.close()

    def turn_for(self, seconds: float) -> None:
        """Take what comes for a while."""
        self._load.turn_for(seconds)

    def kill(self) -> None:
        """Kill the leader."""
        self._victim = self._nodes[self._group.members[0].node]
        self._victim.kill()

    def await_back(self) -> None:
        """Return when every member is registered again and was told what it has."""
        self._load.wait_until(lambda: not self._group.tally.is_stable(self._group.partitions), "somebody to notice")
        self._load.wait_until(lambda: self._group.tally.is_stable(self._group.partitions), "all members back")

    def commit_each(self) -> None:
        """Have each member commit once."""
        self._load.commit_saturated(self._owners, len(self._owners), 0.0)

    def mend(self) -> None:
        """Start the node again, and return when it is in sync of every shard."""
        self._victim.begin()
        self._victim.await_ready()
        with closing(IsrWatch(self._zookeeper.address, self._load.shard)) as watch:
            self._load.wait_until(lambda: watch.is_whole(NODES), "all in sync")

    def rebalances(self) -> int:
        """Return how often the group has changed, and what was moved."""
        return self._load.rebalances() + self._load.moved + self._load.asked_back


class Theirs:
    """Three Kafka brokers."""

    name = "Kafka"

    def __init__(self, brokers: KafkaBrokers, members: int, partitions: int) -> None:
        self._brokers = brokers
        self._load = KafkaClusterLoad(brokers.ports, "127.0.5.2")
        self._group = KafkaGroup(GROUP, TOPIC, partitions)
        self._load.connect(self._group, members)
        self._load.join(self._group)
        self._load.prepare(self._group)
        self._members: list[FollowingKafkaMember] = self._load.members_of(self._group)
        self._load.wait_until(brokers.is_whole, "all replicas of the offsets in sync")
        self._formed_epoch = max(member.epoch for member in self._members)
        self._load.moved = 0
        self._victim = 0

    def close(self) -> None:
        """Close all connections."""
        self._load.close()

    def turn_for(self, seconds: float) -> None:
        """Take what comes for a while, heartbeating."""
        self._load.turn_for(seconds)

    def kill(self) -> None:
        """Kill the broker that coordinates the group."""
        for member in self._members:
            member.is_back = False
        self._victim = self._load.coordinator
        self._brokers.kill(self._victim)

    def await_back(self) -> None:
        """Return when every member has had a heartbeat answered elsewhere."""
        self._load.wait_until(lambda: all(member.is_back for member in self._members), "all members back")

    def commit_each(self) -> None:
        """Have each member commit once."""
        self._load.commit_saturated(self._members, len(self._members), 0.0)

    def mend(self) -> None:
        """Start the broker again, and return when all offsets have all replicas in sync."""
        name = f"broker {self._victim}"
        self._brokers.start_again(self._victim, lambda is_ready: self._load.wait_until(is_ready, f"{name} to be ready"))
        self._load.wait_until(self._paced(self._brokers.is_whole), f"{name} to be in sync")

    def rebalances(self) -> int:
        """Return how often the group has changed, and what was moved."""
        return max(self._load.member_epochs, default=self._formed_epoch) - self._formed_epoch + self._load.moved

    def _paced(self, ask: Callable[[], bool]) -> Callable[[], bool]:
        due_s = 0.0

        def asked() -> bool:
            nonlocal due_s
            if time.perf_counter() < due_s:
                return False
            due_s = time.perf_counter() + LOOK_S
            return ask()

        return asked


def kill_once(side: Side, measured: Measured) -> None:
    """Kill the coordinator of one side, and take the time until every member has had a commit accepted."""
    started_s = time.perf_counter()
    side.kill()
    side.await_back()
    back_ms = (time.perf_counter() - started_s) * 1000
    side.commit_each()
    measured.took_ms.append((time.perf_counter() - started_s) * 1000)
    measured.rebalances = side.rebalances()
    print(
        f"  {side.name:7} all members back after {back_ms:6.0f} ms, and all have committed after "
        f"{measured.took_ms[-1]:6.0f} ms; {measured.rebalances} rebalances so far",
        flush=True,
    )
    side.mend()


def in_turns(sides: Sequence[Side], rounds: int) -> dict[str, Measured]:
    """Kill the coordinator of each side, as often as there are rounds."""
    found = {side.name: Measured() for side in sides}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", flush=True)
        for side in sides:
            for each in sides:
                each.turn_for(SETTLE_S)
            kill_once(side, found[side.name])
    return found


def measure(arguments: argparse.Namespace) -> dict[str, Measured]:
    """Start both clusters and measure."""
    with ExitStack() as stack:
        directory = arguments.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcoord-kafka-")))
        brokers = stack.enter_context(KafkaBrokers(directory / "kafka"))
        brokers.create_topic(TOPIC, arguments.partitions)
        zookeeper = stack.enter_context(LocalZooKeeper(directory / "zookeeper"))
        settings: dict[str, object] = {
            "node.mode": "cluster",
            "cluster.shards": SHARDS,
            "zookeeper.hosts": zookeeper.address,
            "zookeeper.path": PATH,
        }
        topics = {TOPIC: arguments.partitions}
        each = [BenchNode(number, directory, topics, settings) for number in range(1, NODES + 1)]
        nodes = stack.enter_context(BenchNodes(each))
        print(f"{arguments.members} members, {arguments.partitions} partitions; both groups form", flush=True)
        theirs = stack.enter_context(closing(Theirs(brokers, arguments.members, arguments.partitions)))
        ours = stack.enter_context(closing(Ours(nodes, zookeeper, arguments.members, arguments.partitions)))
        return in_turns([theirs, ours], arguments.rounds)


def main() -> int:
    """Measure, and print the summary last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--partitions", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, help="where to leave what the processes say; a new folder")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    try:
        found = measure(arguments)
    except (RuntimeError, RefusedError, KafkaRefusedError, LocalServiceError, OSError) as error:
        print(f"bench-cluster-kafka: FAILED {error}")
        return 1
    kafka, kcoord = found[Theirs.name], found[Ours.name]
    ratio = kafka.ms / kcoord.ms
    is_good = ratio > 1 and not kcoord.rebalances
    print(
        f"bench-cluster-kafka: {'OK' if is_good else 'FAILED'} members={arguments.members} kafka_ms={kafka.ms:.0f} "
        f"kafka_rebalances={kafka.rebalances} kcoord_ms={kcoord.ms:.0f} kcoord_rebalances={kcoord.rebalances} "
        f"ratio={ratio:.2f}"
    )
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
