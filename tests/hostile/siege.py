"""A node under attack, phase by phase, a good client beside it: what is done to it, and what is looked at.

The node and its Kafka are real, and so is every connection. A crowd of idle, half-open and trickling connections stays
while one attack comes after the other. Attackers share the machine with the node; so a second node, which nobody
attacks, is asked the same by a good client of its own at the same time, and the first one is measured by it.
"""

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordinator.local.kafka.broker import LocalKafka
from tests.helpers.node_process import NodeProcess
from tests.helpers.processes import eventually
from tests.hostile.verdict import Verdict
from tests.standing.load import resident_mib
from tests.standing.waits import Sample, p99_ms

GROUP, TOPIC = "good", "good"
ALONE_S = 12.0
ATTACK_S = 600.0
SETTLE_S = 8.0
UNREAD_S = 40.0
CROWD_S = 65.0
ENDING = (
    ("registrations", 5_000),
    ("groups", 12_000),
    ("metadata", 20_000),
    ("assignors", 300),
    ("connections", 10_000),
)
"""Attacks that end by themselves, with their sizes."""
_MIB = 1 << 20


class NodeEndedError(Exception):
    """The node has ended, and nobody told it to."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The sizes of the attacks."""

    frames: int
    part: float

    def of(self, count: int) -> int:
        """Return so much of a size as is to be done."""
        return max(1, round(count * self.part))


@dataclass(slots=True)
class Siege:
    """One node, its good client and what was seen."""

    node: NodeProcess
    address: str
    seed: int
    tell: Callable[[str], None]
    most_mib: int = 0
    phases: dict[str, tuple[float, float]] = field(default_factory=dict)
    found: dict[str, dict[str, int]] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Take note of when a phase began and ended."""
        began_s = time.monotonic()
        self.tell(f"hostile: {name}, the node has {resident_mib(self.node.process.pid)} MiB and {self.files()} files")
        yield
        self.phases[name] = (began_s, time.monotonic())
        self.look()

    def look(self) -> None:
        """Take note of the node's memory; raises NodeEndedError when it has ended."""
        if not self.node.is_running:
            raise NodeEndedError(f"the node ended: {self.node.said[-2_000:]}")
        self.most_mib = max(self.most_mib, resident_mib(self.node.process.pid))

    def files(self) -> int:
        """Return how many files the node has open."""
        return len(list(Path(f"/proc/{self.node.process.pid}/fd").iterdir()))

    @contextmanager
    def attack(self, name: str, count: int) -> Iterator[subprocess.Popen[str]]:
        """Begin an attack, yield once it is at its full size, and have it end."""
        command = [sys.executable, "-m", "tests.hostile.attacks", name, self.address, str(count), str(self.seed)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            lines: list[str] = []
            is_ready = threading.Event()

            def hear() -> None:
                assert process.stdout is not None
                for line in process.stdout:
                    lines.append(line)
                    is_ready.set()
                    if " of " in line:
                        self.tell(f"hostile: {line.strip()}")

            ear = threading.Thread(target=hear, daemon=True)
            ear.start()
            try:
                is_ready.wait(60)
                yield process
                if process.poll() is None and not process.stdin.closed:
                    process.stdin.write("end\n")
                    process.stdin.flush()
                process.wait(ATTACK_S)
                ear.join(10)
                self.found[name] = json.loads(lines[-1])
            finally:
                process.kill()

    def run_attack(self, name: str, count: int) -> None:
        """Run an attack that ends by itself."""
        with self.attack(name, count) as process:
            until_s = time.monotonic() + ATTACK_S
            while process.poll() is None and time.monotonic() < until_s:
                self.look()
                time.sleep(0.2)

    def stay(self, seconds: float) -> None:
        """Let what goes on go on for so long."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self.look()
            time.sleep(0.1)


class GoodClient:
    """A node's good client, in a process of its own."""

    def __init__(self, address: str, echo: str, group: str) -> None:
        command = [sys.executable, "-m", "tests.standing.good_client", address, echo, group, TOPIC]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", "the good client could not join its group"

    def seen(self) -> dict[str, Any]:
        """End it and return what it has seen."""
        self._process.send_signal(signal.SIGTERM)
        said, _ = self._process.communicate(timeout=60)
        seen: dict[str, Any] = json.loads(said.splitlines()[-1])
        return seen

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait(20)


def under_siege(
    kafka: LocalKafka, folder: Path, echo: str, scale: Scale, seed: int, tell: Callable[[str], None]
) -> tuple[Verdict, list[str]]:
    """Do all of it to a node; return the verdict, and lines that say more."""
    for topic in (TOPIC, "hostile"):
        kafka.create_topic(topic, 4)
    with ExitStack() as stack:
        nodes, clients = [], []
        for name in ("attacked", "beside"):
            node = NodeProcess(folder / name, "log.format=json", kafka=kafka.bootstrap_servers)
            stack.callback(node.kill)
            nodes.append(node)
        addresses = [node.wait_until_it_serves() for node in nodes]
        for address in addresses:
            client = GoodClient(address, echo, GROUP)
            stack.callback(client.end)
            clients.append(client)
        siege = Siege(nodes[0], addresses[0], seed, tell)
        return _judged(siege, scale, *clients)


def _judged(siege: Siege, scale: Scale, client: GoodClient, other: GoodClient) -> tuple[Verdict, list[str]]:
    node, part = siege.node, max(0.2, scale.part)
    with siege.phase("alone"):
        siege.stay(ALONE_S * part)
    before_mib, before_files, before_bytes = resident_mib(node.process.pid), siege.files(), node.log_path.stat().st_size
    crashes = 0
    try:
        _attack(siege, scale, part)
    except NodeEndedError as error:
        crashes += 1
        siege.tell(str(error))
    said = node.said
    crashes += said.count('"event":"bug"') + said.count("Traceback")
    seen, seen_beside = client.seen(), other.seen()
    attacked = (siege.phases["alone"][1], time.monotonic())
    growth = resident_mib(node.process.pid) - before_mib if node.is_running else 0
    lost = [*seen["lost_connections"], *seen["refused"]]
    lines = [f"{name}: {json.dumps(found)}" for name, found in siege.found.items()]
    lines += [
        f"{name}: p99 of commits {_p99(seen['commits'], window):.1f} ms, of pings {_p99(seen['pings'], window):.1f}; "
        f"beside it {_p99(seen_beside['commits'], window):.1f} and {_p99(seen_beside['pings'], window):.1f}; "
        f"{window[1] - window[0]:.0f} s"
        for name, window in [*siege.phases.items(), ("all of it", attacked)]
    ]
    lines.append(f"memory: {before_mib} MiB before, {siege.most_mib} at most, {before_mib + growth} after")
    lines.append(f"lines: {node.log_path.stat().st_size / _MIB:.1f} MiB in all, most of {_most_lines(node)}")
    lines.append(f"data directory: {_data_bytes(node) / _MIB:.1f} MiB, with what the group of {TOPIC} commits")
    lines += [f"the good client: {what}" for what in lost[:5]]
    beside_ms = _p99(seen_beside["commits"], attacked)
    verdict = Verdict(
        frames=siege.found.get("frames", {}).get("frames", 0),
        wanted_frames=scale.frames,
        crashes=crashes,
        rss_growth_mib=growth,
        good_p99_ratio=_p99(seen["commits"], attacked) / beside_ms if beside_ms else 0.0,
        log_mib=(node.log_path.stat().st_size - before_bytes) / _MIB,
        fds_left=_files_left(siege, before_files) if node.is_running else 0,
        lost=len(lost),
    )
    return verdict, lines


def _attack(siege: Siege, scale: Scale, part: float) -> None:
    with siege.attack("crowd", scale.of(10_000)):
        with siege.phase("crowd"):
            siege.stay(CROWD_S * part)
        with siege.phase("frames"):
            siege.run_attack("frames", scale.frames)
        for name, count in ENDING:
            with siege.phase(name):
                siege.run_attack(name, scale.of(count))
        with siege.phase("unread"), siege.attack("unread", scale.of(60)):
            siege.stay(UNREAD_S * part)
    with siege.phase("after"):
        siege.stay(SETTLE_S)


def _files_left(siege: Siege, before: int) -> int:
    """Return how many files more than before the node keeps open, once those of who is gone had time to close."""
    eventually(lambda: siege.files() <= before)
    return max(0, siege.files() - before)


def _p99(samples: list[Sample], window: tuple[float, float]) -> float:
    began_s, until_s = window
    return p99_ms([sample for sample in samples if began_s <= sample[0] < until_s])


def _most_lines(node: NodeProcess) -> dict[str, int]:
    """Return the kinds of lines that the node has said most, with how many of each."""
    return dict(Counter(re.findall(r'"event":"([^"]*)"', node.said)).most_common(8))


def _data_bytes(node: NodeProcess) -> int:
    return sum(path.stat().st_size for path in node.data_dir.rglob("*") if path.is_file())
