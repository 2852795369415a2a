"""Three real nodes, each on a machine of its own, and a real ZooKeeper with a proxy before each port.

The shards are looked at in ZooKeeper without a pause, so that it is known who leads and how often that has changed.
"""

import json
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from coordinator.local.errors import LocalServiceError
from coordinator.local.node import LocalClusterNode
from coordinator.local.process.ports import free_ports
from coordinator.local.zookeeper import LocalZooKeeper
from coordinator.protocol.text.addresses import parse_addresses
from tests.chaos_cluster.clients import answers
from tests.chaos_cluster.frame_proxy import FrameProxies
from tests.chaos_cluster.machines import Disk, Machine
from tests.chaos_cluster.operators import Operators

NODES = (1, 2, 3)
SHARDS = 8
PATH = "/kcoord"
ZOOKEEPER_MS = 2_000
"""Sessions of nodes with ZooKeeper."""
MEMBERS_OF, ZOOKEEPER_OF = 10, 20
"""Added to a node's number: whose proxy stands before its port for members, and before ZooKeeper for it alone."""
LOOK_S = 0.05
LIMIT_S = 90.0
_IS_CRITICAL = '"level":"critical"'


class ChaosError(Exception):
    """Something that had to happen did not."""


@dataclass
class Seen:
    """The shards as ZooKeeper has them, and how often they have changed since it was begun to look."""

    entries: dict[int, dict[str, Any]] = field(default_factory=dict)
    controller: int | None = None
    leader_changes: int = 0
    shrinks: int = 0
    expands: int = 0

    def take(self, entries: dict[int, dict[str, Any]], controller: int | None) -> None:
        """Take note of what is there now."""
        for shard, entry in entries.items():
            before = self.entries.get(shard)
            if before is not None:
                self.leader_changes += entry["leader"] not in (before["leader"], None)
                self.shrinks += len(entry["isr"]) < len(before["isr"])
                self.expands += len(entry["isr"]) > len(before["isr"])
        self.entries, self.controller = entries, controller

    @property
    def is_whole(self) -> bool:
        """Say whether every shard is led and has all replicas in sync."""
        return len(self.entries) == SHARDS and all(
            entry["leader"] is not None and len(entry["isr"]) == len(NODES) for entry in self.entries.values()
        )

    @property
    def lessened(self) -> list[int]:
        """Return the shards that have not all replicas, or are about to lose one."""
        return [
            shard
            for shard, entry in self.entries.items()
            if len(set(entry["replicas"]) - set(entry.get("removing", ()))) < len(NODES)
        ]

    def leader(self) -> int | None:
        """Return the node that leads most shards."""
        led = Counter(entry["leader"] for entry in self.entries.values() if entry["leader"] is not None)
        return led.most_common(1)[0][0] if led else None


class Watch(threading.Thread):
    """Looks at ZooKeeper without a pause, as far as it answers."""

    def __init__(self, hosts: str) -> None:
        super().__init__(daemon=True, name="watch")
        self.seen = Seen()
        self._client = KazooClient(hosts=hosts, timeout=10.0)
        self._is_over = threading.Event()

    def run(self) -> None:
        """Look until it is over."""
        self._client.start(timeout=LIMIT_S)
        while not self._is_over.wait(LOOK_S):
            with suppress(KazooException, KazooTimeoutError):
                self._look()
        self._client.stop()
        self._client.close()

    def stop(self) -> None:
        """End."""
        self._is_over.set()

    def _look(self) -> None:
        entries: dict[int, dict[str, Any]] = {}
        for name in self._client.get_children(f"{PATH}/shards"):
            shards = json.loads(self._client.get(f"{PATH}/shards/{name}")[0])["shards"]
            entries |= {int(shard): entry for shard, entry in shards.items()}
        active = None
        with suppress(KazooException):
            active = json.loads(self._client.get(f"{PATH}/controller/active")[0])["node_id"]
        self.seen.take(entries, active)


class ChaosCluster:
    """The processes, and what can be done to them; a node that is dead refuses connections also at its proxies."""

    def __init__(
        self, folder: Path, kafka_bootstrap: str, zookeeper: LocalZooKeeper, proxies: FrameProxies, seed: int
    ) -> None:
        self.zookeeper = zookeeper
        self.proxies = proxies
        self.watch = Watch(zookeeper.address)
        self.paused: set[int] = set()
        self._spoiled: Counter[tuple[int, str]] = Counter()
        """By node and what it is to advise: how often its disk was spoilt, so that it might end with that."""
        self.machines = {number: Machine(folder / f"machine-{number}") for number in NODES}
        self._direct: dict[int, str] = {}
        self._members: dict[int, str] = {}
        self._nodes: dict[int, LocalClusterNode] = {}
        for number in NODES:
            members, peers = free_ports(2)
            self._direct[number] = f"127.0.0.1:{members}"
            self._members[number] = f"127.0.0.1:{proxies.stand_before(members, 0, MEMBERS_OF + number)}"
            settings: dict[str, object] = {
                "cluster.shards": SHARDS,
                "zookeeper.path": PATH,
                "zookeeper.session_timeout_ms": ZOOKEEPER_MS,
                "zookeeper.hosts": f"127.0.0.1:{proxies.stand_before(zookeeper.port, 0, ZOOKEEPER_OF + number)}",
                "node.advertised": self._members[number],
                "peers.listen": f"127.0.0.1:{peers}",
                "peers.advertised": f"127.0.0.1:{proxies.stand_before(peers, 0, number)}",
                "cluster.balance_delay_ms": 5_000,
                "group.snapshot_interval_records": 2_000,
            }
            self._nodes[number] = LocalClusterNode(
                number,
                kafka_bootstrap,
                "",
                folder / f"node-{number}",
                port=members,
                settings=settings,
                environment=self.machines[number].environment,
            )
        direct = parse_addresses(",".join(self._direct.values()))
        self.operators = Operators(direct, NODES, SHARDS, random.Random(seed))

    @property
    def addresses(self) -> str:
        """Return where members connect, with commas between."""
        return ",".join(self._members.values())

    def direct(self, number: int) -> str:
        """Return where a node listens for members itself, past its proxy."""
        return self._direct[number]

    def start(self) -> None:
        """Start all nodes, and return when all shards are whole."""
        for node in self._nodes.values():
            node.begin()
        self.watch.start()
        self.await_whole()

    def kill_all(self) -> None:
        """End everything."""
        self.watch.stop()
        for node in self._nodes.values():
            node.kill()

    def heal(self) -> None:
        """Have every link and every disk be well, and every node go on."""
        self.proxies.heal()
        for number in NODES:
            self.mend_disk(number)
            self.resume(number)

    # ---- what can be done to a node ---------------------------------------------------------------------------------

    def kill(self, number: int) -> None:
        """End a node with SIGKILL."""
        self._close_doors(number)
        self._nodes[number].kill()
        self.paused.discard(number)

    def stop(self, number: int) -> None:
        """Have a node end cleanly."""
        self.resume(number)
        self._nodes[number].stop()
        self._close_doors(number)

    def begin(self, number: int) -> None:
        """Start a node that does not run."""
        self.proxies.come_back(number)
        self.proxies.come_back(MEMBERS_OF + number)
        self._nodes[number].begin()

    def is_running(self, number: int) -> bool:
        """Say whether a node's process lives."""
        return self._nodes[number].is_running

    def pause(self, number: int) -> None:
        """Have a node stand still."""
        self._nodes[number].pause()
        self.paused.add(number)

    def resume(self, number: int) -> None:
        """Have a node go on that stands still."""
        if number in self.paused:
            self._nodes[number].resume()
            self.paused.discard(number)

    def replace_disk(self, number: int) -> None:
        """Remove all that a node that does not run has kept."""
        shutil.rmtree(self._nodes[number].data_dir / "data")

    def await_answers(self, number: int) -> None:
        """Return when a node answers members."""
        self.wait(lambda: self._check_alive(number) and answers(self._direct[number]), f"node {number} to answer")

    def spoil_disk(self, number: int, how: Disk) -> None:
        """Have the disk of a node be ill."""
        self.machines[number].spoil_disk(how)
        if how.advice:
            self._spoiled[number, how.advice] += 1

    def mend_disk(self, number: int) -> None:
        """Have the disk of a node be well, and start the node again if it has ended for that."""
        self.machines[number].mend_disk()
        if not self._nodes[number].is_running and self._has_ended_for_its_disk(number):
            self.kill(number)
            self.begin(number)

    def await_ended(self, number: int, limit_s: float) -> None:
        """Give a node some time to end by itself."""
        end_s = time.monotonic() + limit_s
        while self._nodes[number].is_running and time.monotonic() < end_s:
            time.sleep(LOOK_S)

    def _has_ended_for_its_disk(self, number: int) -> bool:
        """Say whether a node's last words are all about a disk that was spoilt, with what is to be done."""
        said = self._nodes[number].log_tail(15).splitlines()
        words = [line for line in said if _IS_CRITICAL in line or line.startswith("error: ")]
        advice = [each for node, each in self._spoiled if node == number]
        return bool(words) and all(any(each in line for each in advice) for line in words)

    def await_whole(self) -> None:
        """Return when all nodes serve, operators have put all back, and every shard is led and has all in sync."""
        for number in NODES:
            self.await_answers(number)

        def is_whole() -> bool:
            is_back = self.operators.put_back(self.watch.seen.lessened)
            return is_back and self.watch.seen.is_whole

        self.wait(is_whole, f"every shard whole; they are {self.watch.seen.entries}")

    def wait(self, is_met: Callable[[], bool], what: str) -> None:
        """Return when something is so; raises ChaosError."""
        end_s = time.monotonic() + LIMIT_S
        while not is_met():
            if time.monotonic() > end_s:
                raise ChaosError(f"waited {LIMIT_S:g} s in vain for {what}")
            time.sleep(LOOK_S)

    def said(self, number: int) -> str:
        """Return the end of what a node has said."""
        return self._nodes[number].log_tail(15)

    def bugs(self) -> list[str]:
        """Return what nodes have said of bugs of their own; a disk that was spoilt explains one end, and no more."""
        found: list[str] = []
        spoiled = self._spoiled.copy()
        for number, node in self._nodes.items():
            if node.log_path.exists():
                lines = node.log_path.read_text(errors="replace").splitlines()
                for line in lines:
                    if _IS_CRITICAL not in line:
                        continue
                    cause = next(
                        (at for at, left in spoiled.items() if left and at[0] == number and at[1] in line), None
                    )
                    if cause is None:
                        found.append(f"node {number}: {line[:500]}")
                    else:
                        spoiled[cause] -= 1
        return found

    def _check_alive(self, number: int) -> bool:
        if not self._nodes[number].is_running:
            raise ChaosError(f"node {number} has ended by itself. It said: {self.said(number)}")
        return True

    def _close_doors(self, number: int) -> None:
        self.proxies.leave(number)
        self.proxies.leave(MEMBERS_OF + number)
        with suppress(LocalServiceError):
            self.resume(number)
