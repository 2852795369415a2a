"""A node as a bare process of the test, which sees its signals, its exit code, and the two streams it writes to."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.processes import eventually

NO_KAFKA = "127.0.0.1:1"
PATIENCE_S = 60.0
_READY = re.compile(r"^kcoord: listening on (\S+)$", re.MULTILINE)


class NodeProcess:
    """`kcoord serve`, standalone unless told otherwise, with its standard output, and its error likewise, in a file.

    `before` is a command that runs the node's, such as one that sets limits.
    """

    def __init__(
        self,
        folder: Path,
        *settings: str,
        kafka: str = NO_KAFKA,
        listen: str = "127.0.0.1:0",
        environment: dict[str, str] | None = None,
        before: Sequence[str] = (),
        data_dir: Path | None = None,
        stderr: int | None = None,
        mode: str = "standalone",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.data_dir = data_dir or folder / "data"
        self.log_path = folder / "node.log"
        self._said_before = self.log_path.stat().st_size if self.log_path.exists() else 0
        command = [*before, sys.executable, "-m", "coordinator", "serve", "--set", f"node.mode={mode}"]
        command += ["--kafka", kafka, "--data", str(self.data_dir), "--listen", listen]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *(part for setting in settings for part in ("--set", setting))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log if stderr is None else stderr,
                env=os.environ | (environment or {}),
            )

    @property
    def said(self) -> str:
        """Everything that this process has said."""
        with self.log_path.open("rb") as log:
            log.seek(self._said_before)
            return log.read().decode(errors="replace")

    @property
    def is_running(self) -> bool:
        """Say whether the process lives."""
        return self.process.poll() is None

    def wait_until_it_serves(self, patience_s: float = PATIENCE_S) -> str:
        """Return the address when members can connect."""
        eventually(lambda: _READY.search(self.said) is not None or not self.is_running, patience_s)
        ready = _READY.search(self.said)
        assert ready is not None, f"it does not serve; exit code {self.process.poll()}: {self.said[-4000:]}"
        return ready[1]

    def wait_until_it_serves_http(self) -> tuple[str, int]:
        """Return the address of its probes, metrics and the like."""
        self.wait_until_it_says("admin-listening")
        line = next(line for line in self.said.splitlines() if "admin-listening" in line)
        host, _, port = json.loads(line)["address"].rpartition(":")
        return host, int(port)

    def wait_until_it_says(self, word: str, patience_s: float = PATIENCE_S) -> None:
        """Return when a word is in what it said."""
        assert eventually(lambda: word in self.said, patience_s), f"{word} was not said: {self.said[-4000:]}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process itself."""
        self.process.send_signal(number)

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.send(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        """Kill it, as a power cut would, also where it stands still; nothing when it is gone."""
        self.process.kill()
        self.process.wait(PATIENCE_S)


@contextmanager
def running_node(
    folder: Path, *settings: str, kafka: str = NO_KAFKA, environment: dict[str, str] | None = None
) -> Iterator[NodeProcess]:
    """Yield a node that serves, and kill it at the end if it lives."""
    node = NodeProcess(folder, *settings, kafka=kafka, environment=environment)
    try:
        node.wait_until_it_serves()
        yield node
    finally:
        node.kill()
