"""A coordinator node on loopback as a child process, serving when `start` returns and gone when its owner is.

It is the real command, `kcoord serve --standalone`, run with this Python. Knows of the node only its command line, its
exit code and the line it prints when it serves.
"""

import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from coordinator.local.errors import LocalServiceError
from coordinator.local.ports import LOOPBACK, free_ports
from coordinator.local.process import ChildProcess

_READY = re.compile(r"^kcoord: listening on \S+$", re.MULTILINE)
_POLL_S = 0.02


class LocalCoordinator:
    """One node over one data directory; a context manager that starts and stops it.

    `port` 0 means any free one, kept over restarts. `settings` are given with `--set`, by dotted key, and `environment`
    is added to this process's. The node writes to `data_dir/node.log`, beside its data in `data_dir/data`. Not thread
    safe.
    """

    def __init__(
        self,
        kafka_bootstrap: str,
        data_dir: Path,
        *,
        port: int = 0,
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = 30.0,
        stop_timeout_s: float = 15.0,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self._kafka_bootstrap = kafka_bootstrap
        self._port = port
        self._settings = dict(settings or {})
        self._environment = dict(environment or {})
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._child: ChildProcess | None = None

    def __enter__(self) -> Self:
        """Start the node."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the node."""
        self.stop()

    @property
    def address(self) -> str:
        """Return HOST:PORT, the same over restarts."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def port(self) -> int:
        """Return the port that members connect to."""
        if not self._port:
            raise LocalServiceError("The coordinator has no port before it is started.")
        return self._port

    @property
    def log_path(self) -> Path:
        """Return the file with everything the node said."""
        return self.data_dir / "node.log"

    @property
    def is_running(self) -> bool:
        """Say whether the node's process lives."""
        return self._child is not None and self._child.exit_code() is None

    @property
    def process_group_id(self) -> int:
        """Return the id of the process group in which the node runs."""
        if self._child is None:
            raise LocalServiceError("The coordinator is not running.")
        return self._child.group_id

    def start(self) -> None:
        """Start the node and return when members can connect."""
        if self.is_running:
            raise LocalServiceError(f"The coordinator is already running on {self.address}.")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        if not self._port:
            (self._port,) = free_ports(1)
        command = [
            *[sys.executable, "-m", "coordinator", "serve", "--standalone"],
            *["--kafka", self._kafka_bootstrap, "--data", str(self.data_dir / "data"), "--listen", self.address],
            *[part for key, value in self._settings.items() for part in ("--set", f"{key}={value}")],
        ]
        self._child = ChildProcess(
            "The coordinator",
            command,
            log_path=self.log_path,
            environment=os.environ | self._environment,
            stop_timeout_s=self._stop_timeout_s,
        )
        self._child.start()
        try:
            self._wait_until_ready(self._child)
        except BaseException:
            self._child.kill()
            self._child = None
            raise

    def stop(self) -> None:
        """Stop the node cleanly; nothing happens if it is not running."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def kill(self) -> None:
        """End the node with SIGKILL, as a crash would; nothing happens if it is not running."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def restart(self) -> None:
        """Stop the node if it runs and start it again with the same port and data."""
        self.stop()
        self.start()

    def wait(self) -> None:
        """Return when the node has ended, by itself or by another's doing."""
        if self._child is not None:
            self._child.wait()

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines that the node wrote since it was started."""
        return "" if self._child is None else self._child.log_tail(lines)

    def _wait_until_ready(self, child: ChildProcess) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while time.monotonic() < deadline:
            exit_code = child.exit_code()
            said = child.log_tail(lines=1000)
            if exit_code is not None:
                raise LocalServiceError(
                    f"The coordinator ended while it started (exit code {exit_code}). It said:\n{said}"
                )
            if _READY.search(said):
                return
            time.sleep(_POLL_S)
        raise LocalServiceError(
            f"The coordinator was not ready within {self._start_timeout_s:g} s. It said:\n{child.log_tail()}"
        )
