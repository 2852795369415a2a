"""The processes of `make bench-cluster`: nodes that can be killed, paused and asked for their figures.

Each node is `cluster_server.py` over a directory of its own. Addresses stay the same over restarts. Knows how nodes are
started and nothing of what is measured.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from coordinator.local.process.ports import LOOPBACK, free_ports
from coordinator.service import READY_LINE

MOST_SAID: Final = 3_000


class BenchNode:
    """One node as a process."""

    def __init__(self, number: int, directory: Path, topics: Mapping[str, int], settings: Mapping[str, object]) -> None:
        self.number = number
        self.port, peers = free_ports(2)
        self.peak_kib = 0
        self.loop_max_ms = 0.0
        self.loop_max_by = "nothing"
        self._directory = directory / f"node-{number}"
        self._directory.mkdir(parents=True, exist_ok=True)
        said = {
            "node.id": number,
            "node.rack": f"rack-{number}",
            "node.data_dir": self._directory / "data",
            "node.listen": f"{LOOPBACK}:{self.port}",
            "peers.listen": f"{LOOPBACK}:{peers}",
            **settings,
        }
        self._command = [sys.executable, "-m", "benchmarks.cluster_server"]
        self._command += [part for name, count in topics.items() for part in ("--topic", f"{name}={count}")]
        self._command += [part for key, value in said.items() for part in ("--set", f"{key}={value}")]
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """Return the process id of the node that runs."""
        assert self._process is not None, "it was begun"
        return self._process.pid

    def begin(self) -> None:
        """Start the process; `await_ready` says when members may connect."""
        with (self._directory / "node.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def await_ready(self) -> None:
        """Return when members may connect; raises RuntimeError with what the node said if it ends before."""
        if not self._line().startswith(READY_LINE):
            self.kill()
            raise RuntimeError(f"node {self.number} did not start; it said: {self.said()}")

    def kill(self) -> None:
        """End the process as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def pause(self) -> None:
        """Have the process stand still: its ports take connections, and nothing answers."""
        assert self._process is not None, "it was begun"
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Have it go on."""
        assert self._process is not None, "it was begun"
        self._process.send_signal(signal.SIGCONT)

    def said(self) -> str:
        """Return the end of what the node has said."""
        return (self._directory / "node.log").read_text()[-MOST_SAID:].strip() or "nothing"

    def report(self) -> dict[str, Any]:
        """Return what the node's probe saw since the last report."""
        assert self._process is not None, "it was begun"
        assert self._process.stdin is not None
        self._process.stdin.write("report\n")
        self._process.stdin.flush()
        line = self._line()
        if not line:
            raise RuntimeError(f"node {self.number} has ended; it said: {self.said()}")
        figures: dict[str, Any] = json.loads(line)
        if figures["held_ms"] > self.loop_max_ms:
            self.loop_max_ms = figures["held_ms"]
            self.loop_max_by = f"node {self.number}: {figures['held_by']}, {figures['held_cpu_ms']:.0f} ms on a core"
        return figures

    def _line(self) -> str:
        assert self._process is not None, "it was begun"
        assert self._process.stdout is not None
        return self._process.stdout.readline()


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
