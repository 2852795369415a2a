"""Holds what Kafka's own tool shows against what is committed here: `python -m tests.mirror_check --seed 0 --kills 6`.

Two Spark queries of one group read and commit while records are produced; a real coordinator, or one of `--nodes`,
mirrors the group. The class that kafka-consumer-groups.sh runs describes it again and again, meanwhile the broker and
the coordinator are killed and started again. No look may see an offset that is not committed here, a commit is to be
seen within two seconds in which both run, and in the end Kafka has to have all of it. The last line is for scripts.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from coordinator.client.request import RequestError, ask
from coordinator.local.cluster import LocalCluster
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from coordinator.protocol.messages import FindCoordinator, FindCoordinatorResponse
from coordinator.protocol.text.addresses import format_address, parse_addresses
from tests.chaos.application import Application
from tests.chaos.producer import Producer
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_tools import ConsumerGroupsTool, consumer_groups_tool
from tests.helpers.leaving_no_process import leaving_no_process
from tests.mirror_check.verdict import Verdict

GROUP = TOPIC = "mirror-check"
PARTITIONS = 6
RECORDS_PER_S = 120
BAR_MS = 2_000
PATIENCE_S = 240.0
LAST_S = 20.0
"""So long Kafka has to show all, once nothing more is committed."""
CALM_S = (6.0, 12.0)
POLL_S = 0.05
SETTINGS = {"mirror.enabled": "true", "kafka.request_timeout_ms": "3000"}
KAFKA = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


class CheckError(Exception):
    """Something that had to happen did not."""


class Service(Protocol):
    """A process that is killed and started again."""

    def start(self) -> None:
        """Start it, and return when it serves."""

    def kill(self) -> None:
        """End it with SIGKILL."""


class Run:
    """One run: the group as it is here and in Kafka, watched from two threads while services are killed."""

    def __init__(self, addresses: str, tool: ConsumerGroupsTool, say: Callable[[str], None]) -> None:
        self.verdict = Verdict()
        self.lost = -1
        self._say = say
        self._view = GroupView(addresses, GROUP)
        self._tool = tool
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._is_down = threading.Event()
        self._failure: BaseException | None = None

    def committed(self) -> dict[int, int]:
        """Return what is committed here; raises RequestError and OSError."""
        return {one.partition: one.committed for one in self._view.describe().partitions if one.committed is not None}

    def look(self) -> dict[int, int] | None:
        """Have the tool describe the group, and hold it against what is committed here; None if that stays down."""
        asked_s = time.monotonic()
        there = {partition: offset for (_, partition), offset in self._tool.describe(GROUP).offsets.items()}
        while not self._is_over.is_set():
            try:
                after = self.committed()
            except (RequestError, OSError):
                time.sleep(POLL_S)
                continue
            with self._lock:
                if there:
                    self.verdict.check(asked_s, there, after, is_up=not self._is_down.is_set())
            return there
        return None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within the block, look at both sides again and again."""
        watchers = (self._watch_here, self._watch_there)
        threads = [threading.Thread(target=self._guarded, args=(each,)) for each in watchers]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join()
        if self._failure is not None:
            raise CheckError(f"a watcher failed: {self._failure!r}") from self._failure

    def kill(self, what: str, service: Service, pause_s: float) -> None:
        """Kill a service, and start it again after a pause."""
        self._is_down.set()
        service.kill()
        time.sleep(pause_s)
        service.start()
        with self._lock:
            self.verdict.is_up(time.monotonic())
            self._is_down.clear()
        self._say(f"{what} was killed and is back; {self.verdict.checks} looks, p99 {self.verdict.delay_p99_ms} ms")

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            while not self._is_over.is_set():
                work()
        except BaseException as error:  # noqa: BLE001 - told to the main thread
            self._failure = error

    def _watch_here(self) -> None:
        try:
            offsets = self.committed()
        except (RequestError, OSError):
            offsets = {}
        with self._lock:
            self.verdict.committed(time.monotonic(), offsets)
        time.sleep(POLL_S)

    def _watch_there(self) -> None:
        self.look()
        time.sleep(POLL_S)


class Coordinators:
    """One coordinator, or a cluster of which the node that leads the group is killed."""

    def __init__(self, folder: Path, servers: str, nodes: int) -> None:
        self._cluster = LocalCluster(servers, folder, nodes=nodes, settings=SETTINGS) if nodes > 1 else None
        self._node = LocalCoordinator(servers, folder, settings=SETTINGS)
        self._killed: Service = self._node

    def __enter__(self) -> "Coordinators":
        self.running.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.running.stop()

    @property
    def running(self) -> LocalCluster | LocalCoordinator:
        """All of it."""
        return self._cluster or self._node

    @property
    def addresses(self) -> str:
        """HOST:PORT of each."""
        return self._node.address if self._cluster is None else self._cluster.addresses

    def kill(self) -> None:
        """Kill the one that mirrors the group."""
        if self._cluster is not None:
            found = ask(parse_addresses(self.addresses), FindCoordinator(GROUP), 10)
            assert isinstance(found, FindCoordinatorResponse)
            assert found.coordinator is not None, found
            at = format_address((found.coordinator.host, found.coordinator.port))
            self._killed = next(node for node in self._cluster.nodes if node.address == at)
        self._killed.kill()

    def start(self) -> None:
        """Start it again."""
        self._killed.start()


def wait(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for a condition; raises CheckError."""
    deadline_s = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise CheckError(f"waited {patience_s:g} s for {what}")
        time.sleep(POLL_S)


def check(
    folder: Path, chance: random.Random, kills: int, nodes: int, say: Callable[[str], None]
) -> tuple[Run, Counter[str]]:
    """Run it and return what was seen, and how often what was killed; raises CheckError."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        kafka = stack.enter_context(LocalKafka(folder / "kafka", config=KAFKA))
        kafka.create_topic(TOPIC, PARTITIONS)
        coordinators = stack.enter_context(Coordinators(folder / "coordinator", kafka.bootstrap_servers, nodes))
        options = {
            "kcoord.bootstrap.servers": coordinators.addresses,
            "kcoord.group.id": GROUP,
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
        }
        tool = stack.enter_context(consumer_groups_tool(kafka.bootstrap_servers, timeout_ms=5_000))
        run = Run(coordinators.addresses, tool, say)
        queries = [
            stack.enter_context(
                Application(folder / name, options | {"kafka.client.id": name}, master="local[1]", is_attached=True)
            )
            for name in ("a", "b")
        ]
        producer = stack.enter_context(Producer(kafka.bootstrap_servers, TOPIC, PARTITIONS, RECORDS_PER_S))
        for query in queries:
            query.start()
        wait(lambda: _members(run) == 2 and len(run.committed()) == PARTITIONS, "two queries to commit")
        wait(lambda: len(run.look() or {}) == PARTITIONS, "the tool to see the group")
        say("two queries commit, and the tool sees the group")
        with run.watched():
            for number in range(kills):
                time.sleep(chance.uniform(*CALM_S))
                what, service = [("coordinator", coordinators), ("broker", kafka)][number % 2]
                run.kill(what, service, chance.choice((0.0, 1.0, 3.0)))
                counts[what] += 1
            time.sleep(CALM_S[1])
        for query in queries:
            if query.pid is None:
                raise CheckError(f"query {query.folder.name} ended\n{query.log_tail()}")
        producer.stop()
        for query in queries:
            (query.folder / "stop").touch()
            query.wait(60.0)
        run.lost = _lost(run, tool)
    return run, counts


def _members(run: Run) -> int:
    return sum(member.connected for member in run._view.describe().members)


def _lost(run: Run, tool: ConsumerGroupsTool) -> int:
    """Return of how many partitions Kafka never shows what is committed here, now that nothing more is."""
    committed, deadline_s = run.committed(), time.monotonic() + LAST_S
    while True:
        there = {partition: offset for (_, partition), offset in tool.describe(GROUP).offsets.items()}
        lost = sum(there.get(partition) != offset for partition, offset in committed.items())
        if not lost or time.monotonic() > deadline_s:
            return lost + abs(PARTITIONS - len(committed))
        time.sleep(POLL_S)


def main() -> int:
    """Run it and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mirror_check", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the pauses")
    parser.add_argument("--kills", type=int, default=6, help="how many, of coordinator and broker in turn")
    parser.add_argument("--nodes", type=int, default=1, help="of the coordinator")
    arguments = parser.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    run, counts = None, Counter[str]()
    with tempfile.TemporaryDirectory(prefix="kcoord-mirror-", ignore_cleanup_errors=True) as folder:
        try:
            run, counts = check(Path(folder), random.Random(arguments.seed), arguments.kills, arguments.nodes, say)
        except CheckError as error:
            print(error, file=sys.stderr)
    figures: dict[str, object] = {}
    is_good = run is not None
    if run is not None:
        verdict = run.verdict
        for example in verdict.examples[:10]:
            say(example)
        is_good = not verdict.ahead and not run.lost and verdict.delay_p99_ms <= BAR_MS and verdict.checks > 0
        figures = {
            "checks": verdict.checks,
            "ahead": verdict.ahead,
            "lost": run.lost,
            "delay_p99_ms": verdict.delay_p99_ms,
            "delay_max_ms": max(verdict.delays_ms, default=0),
        }
    figures |= {
        "broker_kills": counts["broker"],
        "coordinator_kills": counts["coordinator"],
        "nodes": arguments.nodes,
        "seconds": round(time.monotonic() - began),
    }
    shown = " ".join(f"{name}={figure}" for name, figure in figures.items())
    print(f"mirror-check: {'OK' if is_good else 'FAILED'} {shown}", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    with leaving_no_process():
        code = main()
    sys.exit(code)
