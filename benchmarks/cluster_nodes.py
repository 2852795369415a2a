"""The processes of `make bench-cluster`: nodes that can be killed, paused and asked for their figures.

Each node is `cluster_server.py` over a directory of its own. Addresses stay the same over restarts. Knows how nodes are
started and nothing of what is measured.
"""

import signal
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.probed_node import ProbedNode
from coordinator.local.process.ports import LOOPBACK, free_ports


class BenchNode(ProbedNode):
    """One node as a process."""

    def __init__(self, number: int, directory: Path, topics: Mapping[str, int], settings: Mapping[str, object]) -> None:
        self.number = number
        self.port, peers = free_ports(2)
        self.loop_max_ms = 0.0
        self.loop_max_by = "nothing"
        own = directory / f"node-{number}"
        own.mkdir(parents=True, exist_ok=True)
        said = {
            "node.id": number,
            "node.rack": f"rack-{number}",
            "node.data_dir": own / "data",
            "node.listen": f"{LOOPBACK}:{self.port}",
            "peers.listen": f"{LOOPBACK}:{peers}",
            **settings,
        }
        command = [sys.executable, "-m", "benchmarks.cluster_server"]
        command += [part for name, count in topics.items() for part in ("--topic", f"{name}={count}")]
        command += [part for key, value in said.items() for part in ("--set", f"{key}={value}")]
        super().__init__(f"node {number}", command, own / "node.log")

    @property
    def pid(self) -> int:
        """Return the process id of the node that runs."""
        return self.process.pid

    def pause(self) -> None:
        """Have the process stand still: its ports take connections, and nothing answers."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Have it go on."""
        self.process.send_signal(signal.SIGCONT)

    def report(self) -> dict[str, Any]:
        """Return what the node's probe saw since the last report, and keep what held its loop longest."""
        figures = super().report()
        if figures["held_ms"] > self.loop_max_ms:
            self.loop_max_ms = figures["held_ms"]
            self.loop_max_by = f"node {self.number}: {figures['held_by']}, {figures['held_cpu_ms']:.0f} ms on a core"
        return figures


class BenchNodes:
    """Nodes that are started together; a context manager that leaves none."""

    def __init__(self, nodes: list[BenchNode]) -> None:
        self._nodes = {node.number: node for node in nodes}

    def __enter__(self) -> Self:
        """Start all and return when members may connect to each."""
        with ExitStack() as undo:
            undo.callback(self._kill_all)
            for node in self._nodes.values():
                node.begin()
            for node in self._nodes.values():
                node.await_ready()
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all; after an error, show what each said last."""
        self._kill_all()
        if error is not None:
            for node in self._nodes.values():
                print(f"--- node {node.number}\n{node.said()}")

    def __getitem__(self, number: int) -> BenchNode:
        """Return a node by its id."""
        return self._nodes[number]

    @property
    def ports(self) -> dict[int, int]:
        """Return the port for members of each node."""
        return {number: node.port for number, node in self._nodes.items()}

    def report(self) -> dict[int, dict[str, Any]]:
        """Return what the probes saw since the last report."""
        return {number: node.report() for number, node in self._nodes.items()}

    def _kill_all(self) -> None:
        for node in self._nodes.values():
            node.kill()
