"""The same group on Kafka's own coordinator and on kcoord, in one run: join, death, heartbeats and commits.

    make bench-group-kafka        or: uv run python -m benchmarks.group_kafka [--members 200] [--partitions 2000]

One real broker and one coordinator node share a core; the load, which is the same Python for both, has the other.
Members of Kafka's groups speak KIP-848 over raw sockets. The two take turns and figures are medians of the rounds.
Kafka is measured with its defaults (session 45 s, heartbeat 5 s) and with 1 s and 0.3 s; kcoord with its defaults.
A death is a closed connection, which is what the end of a process looks like; Kafka does not use it. kcoord syncs
every commit to disk; Kafka is measured as it comes, which is without, and with a sync of each append. A ratio above
1 says that kcoord is faster: Kafka's time over ours, our rate over Kafka's. The last line has Kafka's defaults.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.group_core import LOAD_CORE, SERVER_CORE, CoreWatch, cpu_s, pids_of
from benchmarks.group_kafka_members import KafkaGroup, KafkaLoad, KafkaRefusedError, configure
from benchmarks.group_kafka_wire import GROUP_RESOURCE, TOPIC_RESOURCE
from benchmarks.group_load import Group, Load, committing
from benchmarks.group_members import KcoordMember, RefusedError
from benchmarks.group_rounds import Round
from coordinator.local.errors import LocalServiceError
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator

IN_FLIGHT = 64
TOPIC = "load"
OFFSETS_TOPIC = "__consumer_offsets"
WARM_UP_REQUESTS, WARM_UP_S = 150_000, 20.0
SETTLE_S = 0.5
NEVER_SYNC = str(2**63 - 1)
LOWERED = {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "300"}
BROKER = {
    # What LocalKafka makes smaller is put back to Kafka's defaults; only the least time-outs that a group may have
    # are lower, so that one group can be measured with shorter ones.
    "num.network.threads": "3",
    "num.io.threads": "8",
    "offsets.topic.num.partitions": "50",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
}
NODE = {"kafka.ends_poll_ms": 60_000}
"""The node asks the broker for the ends of partitions less often, so as not to load it while it is measured."""
JVM = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")


@dataclass(slots=True)
class Row:
    """One thing that was measured on both sides, a value a round."""

    unit: str
    kafka: list[float] = field(default_factory=list)
    kcoord: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The factor by which kcoord is faster."""
        kafka, kcoord = statistics.median(self.kafka), statistics.median(self.kcoord)
        return kafka / kcoord if self.unit == "ms" else kcoord / kafka

    def __str__(self) -> str:
        return (
            f"Kafka {statistics.median(self.kafka):9.0f} {self.unit:9}   kcoord {statistics.median(self.kcoord):9.0f} "
            f"{self.unit:9}   ratio {self.ratio:.2f}"
        )


class Comparison:
    """Both sides under the same load."""

    def __init__(self, kafka: LocalKafka, node: LocalCoordinator, members: int, partitions: int) -> None:
        self.theirs = KafkaLoad(kafka.port, "127.0.2.1")
        self.ours: Load[KcoordMember] = Load(node.port, "127.0.2.2")
        self._kafka_port = kafka.port
        self._kafka_pids = pids_of(kafka.process_group_id)
        self._kcoord_pids = pids_of(node.process_group_id)
        self._members = members
        self._partitions = partitions
        self.stable, self.stable_lowered, self.death, self.death_lowered = (Row("ms") for _ in range(4))
        self.heartbeat, self.commit, self.commit_fsync = (Row("/s") for _ in range(3))
        self.heartbeat_cpu, self.commit_cpu, self.commit_fsync_cpu = (Row("per CPU-s") for _ in range(3))

    def close(self) -> None:
        """Close all connections."""
        self.theirs.close()
        self.ours.close()

    def cpu_s(self) -> float:
        """Return the CPU time that both sides have used."""
        return cpu_s(self._kafka_pids) + cpu_s(self._kcoord_pids)

    def warm_up(self) -> None:
        """Let the broker compile what it runs, and both sides make their files."""
        group = self._kafka_group("warm", is_lowered=False)
        self.theirs.join(group)
        self.theirs.prepare(group)
        for ask in (self.theirs.heartbeat_saturated, self.theirs.commit_saturated):
            answered, end_s = 0, time.perf_counter() + WARM_UP_S
            while answered < WARM_UP_REQUESTS and time.perf_counter() < end_s:
                answered += len(ask(group.members, IN_FLIGHT, 1.0).latencies_ms)
        self.theirs.leave(group)
        ours = self._kcoord_group("warm")
        self.ours.join(ours)
        self.ours.ping_saturated(ours.members, IN_FLIGHT, 1.0)
        self.ours.commit_saturated(committing(ours), IN_FLIGHT, 1.0)

    def join_and_die(self, rounds: int) -> tuple[KafkaGroup, Group[KcoordMember]]:
        """Measure joins and deaths; return a group of each side."""
        defaults, groups = [], []
        for number in range(rounds):
            ours = self._kcoord_group(f"g{number}")
            self.stable.kcoord.append(self.ours.join(ours))
            self.death.kcoord.append(self.ours.die(ours, has_claims=False))
            groups.append(ours)
            lowered = self._kafka_group(f"lowered{number}", is_lowered=True)
            self.stable_lowered.kafka.append(self.theirs.join(lowered))
            self.theirs.turn_for(SETTLE_S)
            self.death_lowered.kafka += self.theirs.die([lowered])
            self.theirs.leave(lowered)
            default = self._kafka_group(f"default{number}", is_lowered=False)
            self.stable.kafka.append(self.theirs.join(default))
            defaults.append(default)
            print(
                f"round {number + 1}: stable after {self.stable.kcoord[-1]:.0f} ms (kcoord), "
                f"{self.stable_lowered.kafka[-1]:.0f} ms (Kafka, lowered), {self.stable.kafka[-1]:.0f} ms (Kafka); "
                f"a dead member's partitions after {self.death.kcoord[-1]:.0f} ms (kcoord), "
                f"{self.death_lowered.kafka[-1]:.0f} ms (Kafka, lowered)",
                flush=True,
            )
        print(f"one member dies in each of {rounds} groups with Kafka's defaults, which takes a minute", flush=True)
        self.theirs.turn_for(SETTLE_S)
        self.death.kafka += self.theirs.die(defaults)
        print("a dead member's partitions after " + ", ".join(f"{ms:.0f}" for ms in self.death.kafka) + " ms (Kafka)")
        for default in defaults[1:]:
            self.theirs.leave(default)
        self.stable_lowered.kcoord, self.death_lowered.kcoord = self.stable.kcoord, self.death.kcoord
        return defaults[0], groups[0]

    def rates(self, theirs: KafkaGroup, ours: Group[KcoordMember], rounds: int, seconds: float) -> None:
        """Measure heartbeats and commits."""
        self.theirs.prepare(theirs)
        owners = committing(ours)
        beat = partial(self.theirs.heartbeat_saturated, theirs.members, IN_FLIGHT, seconds)
        ping = partial(self.ours.ping_saturated, ours.members, IN_FLIGHT, seconds)
        commit = partial(self.theirs.commit_saturated, theirs.members, IN_FLIGHT, seconds)
        our_commit = partial(self.ours.commit_saturated, owners, IN_FLIGHT, seconds)
        for number in range(rounds):
            print(f"round {number + 1}:", flush=True)
            self._measure("heartbeats, Kafka", beat, self._kafka_pids, self.heartbeat.kafka, self.heartbeat_cpu.kafka)
            self._measure("pings, kcoord", ping, self._kcoord_pids, self.heartbeat.kcoord, self.heartbeat_cpu.kcoord)
            self._measure("commits, Kafka", commit, self._kafka_pids, self.commit.kafka, self.commit_cpu.kafka)
            self._measure("commits, kcoord", our_commit, self._kcoord_pids, self.commit.kcoord, self.commit_cpu.kcoord)
            with self._kafka_syncs():
                synced, synced_cpu = self.commit_fsync.kafka, self.commit_fsync_cpu.kafka
                self._measure("synced commits, Kafka", commit, self._kafka_pids, synced, synced_cpu)
        self.commit_fsync_cpu.kcoord = self.commit_cpu.kcoord
        self.commit_fsync.kcoord = self.commit.kcoord

    def rows(self) -> list[tuple[str, Row]]:
        """Return everything that was measured, with its name."""
        return [
            ("join to stable", self.stable),
            ("join to stable, Kafka lowered", self.stable_lowered),
            ("death of a member", self.death),
            ("death of a member, Kafka lowered", self.death_lowered),
            ("heartbeats", self.heartbeat),
            ("", self.heartbeat_cpu),
            ("commits of 10, Kafka without fsync", self.commit),
            ("", self.commit_cpu),
            ("commits of 10, both with fsync", self.commit_fsync),
            ("", self.commit_fsync_cpu),
        ]

    @staticmethod
    def _measure(
        name: str, ask: Callable[[], Round], pids: Sequence[int], per_s: list[float], per_cpu_s: list[float]
    ) -> None:
        used_s = cpu_s(pids)
        measured = ask()
        used_s = cpu_s(pids) - used_s
        per_s.append(measured.per_s)
        per_cpu_s.append(len(measured.latencies_ms) / used_s)
        print(
            f"  {name:22} {measured.per_s:6.0f}/s, {per_cpu_s[-1]:6.0f} per CPU-s, "
            f"p99 {measured.percentile_ms(99):.1f} ms, load's core used {measured.load_share:.0%}",
            flush=True,
        )

    def _kcoord_group(self, group_id: str) -> Group[KcoordMember]:
        group: Group[KcoordMember] = Group(group_id, TOPIC, self._partitions)
        self.ours.connect(group, self._members, KcoordMember)
        return group

    def _kafka_group(self, group_id: str, *, is_lowered: bool) -> KafkaGroup:
        if is_lowered:
            configure(self._kafka_port, GROUP_RESOURCE, group_id, LOWERED)
        group = KafkaGroup(group_id, TOPIC, self._partitions)
        self.theirs.connect(group, self._members)
        return group

    @contextmanager
    def _kafka_syncs(self) -> Iterator[None]:
        configure(self._kafka_port, TOPIC_RESOURCE, OFFSETS_TOPIC, {"flush.messages": "1"})
        self.theirs.turn_for(SETTLE_S)
        try:
            yield
        finally:
            configure(self._kafka_port, TOPIC_RESOURCE, OFFSETS_TOPIC, {"flush.messages": NEVER_SYNC})
            self.theirs.turn_for(SETTLE_S)


def compare(arguments: argparse.Namespace) -> Comparison:
    """Start both sides and measure everything."""
    os.sched_setaffinity(0, {SERVER_CORE})  # which child processes inherit
    with tempfile.TemporaryDirectory(prefix="kcoord-group-kafka-") as name:
        directory = Path(name)
        broker = LocalKafka(directory / "kafka", heap_mb=1024, config=BROKER, jvm_options=JVM)
        with broker as kafka, LocalCoordinator(kafka.bootstrap_servers, directory / "node", settings=NODE) as node:
            kafka.create_topic(TOPIC, arguments.partitions)
            os.sched_setaffinity(0, {LOAD_CORE})
            with closing(Comparison(kafka, node, arguments.members, arguments.partitions)) as sides:
                print(f"{arguments.members} members, {arguments.partitions} partitions; both sides warm up", flush=True)
                sides.warm_up()
                watch, used_s = CoreWatch(SERVER_CORE), sides.cpu_s()
                theirs, ours = sides.join_and_die(arguments.rounds)
                sides.rates(theirs, ours, arguments.rate_rounds, arguments.seconds)
                print(watch.share_of_others(sides.cpu_s() - used_s))
                return sides


def main() -> int:
    """Measure, and print the summary last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate-rounds", type=int, default=7, help="rounds of heartbeats and commits")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a round of heartbeats or commits")
    arguments = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    try:
        sides = compare(arguments)
    except (RuntimeError, RefusedError, KafkaRefusedError, LocalServiceError, OSError) as error:
        print(f"bench-group-kafka: FAILED {error}")
        return 1
    for name, row in sides.rows():
        print(f"{name:36} {row}")
    print(
        f"bench-group-kafka: OK stable_ratio={sides.stable.ratio:.2f} death_ratio={sides.death.ratio:.2f} "
        f"heartbeat_ratio={sides.heartbeat.ratio:.2f} commit_ratio={sides.commit.ratio:.2f} "
        f"commit_fsync_ratio={sides.commit_fsync.ratio:.2f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
