"""A coordinator node as a child process of a benchmark, which is asked what its probe has seen.

The process is `group_server.py` or `cluster_server.py`: it says when members may connect, answers each line on its
standard input with its figures since the last one, and ends with that input. Knows nothing of what is measured.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from coordinator.service import READY_LINE

MOST_SAID: Final = 3_000


class ProbedNode:
    """One node; what it says goes to `log_path`."""

    def __init__(self, name: str, command: Sequence[str], log_path: Path) -> None:
        self._name = name
        self._command = command
        self._log_path = log_path
        self._process: subprocess.Popen[str] | None = None

    @property
    def process(self) -> subprocess.Popen[str]:
        """Return the process of the node that runs."""
        assert self._process is not None, "it was begun"
        return self._process

    def begin(self) -> None:
        """Start the process; `await_ready` says when members may connect."""
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def await_ready(self) -> int:
        """Return the port when members may connect; raises RuntimeError with what the node said if it ends before."""
        line = self._line()
        if not line.startswith(READY_LINE):
            self.kill()
            raise RuntimeError(f"{self._name} did not start; it said: {self.said()}")
        return int(line.rpartition(":")[2])

    def kill(self) -> None:
        """End the process as a crash would; nothing happens if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def said(self) -> str:
        """Return the end of what the node has said."""
        return self._log_path.read_text()[-MOST_SAID:].strip() or "nothing"

    def report(self) -> dict[str, Any]:
        """Return what the node's probe saw since the last report."""
        assert self.process.stdin is not None
        self.process.stdin.write("report\n")
        self.process.stdin.flush()
        line = self._line()
        if not line:
            raise RuntimeError(f"{self._name} has ended; it said: {self.said()}")
        figures: dict[str, Any] = json.loads(line)
        return figures

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()
