"""A real service as a child process that is started, stopped, killed and restarted: the part that all of them share.

A service is ready when `start` returns and gone when its owner is. What it is made of, and when it is ready, is each
service's own: it gives the command and says why it is not ready yet. A start that fails leaves nothing running.
"""

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from coordinator.local.errors import LocalServiceError
from coordinator.local.process.child import ChildProcess
from coordinator.local.process.ports import LOOPBACK, free_ports, is_port_free
from coordinator.local.process.running import Running

_POLL_S: Final = 0.02


class LocalService(Running):
    """One process over one data directory; a context manager that starts and stops it.

    `port` 0 means any free one, kept over restarts. Everything the process says goes to `data_dir/log_name`. Not thread
    safe.
    """

    def __init__(
        self,
        name: str,
        data_dir: Path,
        *,
        log_name: str,
        port: int,
        start_timeout_s: float,
        stop_timeout_s: float = 15.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.data_dir = data_dir.absolute()
        self._log_name = log_name
        self._wished_port = port
        self._port = port
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._environment = environment
        self._child: ChildProcess | None = None

    @property
    def address(self) -> str:
        """Return HOST:PORT, the same over restarts."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def port(self) -> int:
        """Return the port that clients connect to, the same over restarts."""
        if not self._port:
            raise LocalServiceError(f"{self.name} has no port before it is started.")
        return self._port

    @property
    def log_path(self) -> Path:
        """Return the file with everything the service said."""
        return self.data_dir / self._log_name

    @property
    def process_group_id(self) -> int:
        """Return the id of the process group in which the service runs."""
        return self._running().group_id

    @property
    def is_running(self) -> bool:
        """Say whether the service's process lives."""
        return self._child is not None and self._child.exit_code() is None

    @property
    def is_ready(self) -> bool:
        """Say whether clients are served."""
        return self.is_running and not self._why_not_ready()

    def start(self) -> None:
        """Start the service and return when it is ready."""
        self.begin()
        self.await_ready()

    def begin(self) -> None:
        """Start the process; `await_ready` says when it serves."""
        self._check_not_running()
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            command = self._command()
        except OSError as error:
            raise LocalServiceError(f"{self.name} cannot be started: {error}.") from error
        self._child = ChildProcess(
            self.name,
            command,
            log_path=self.log_path,
            environment=self._environment,
            stop_timeout_s=self._stop_timeout_s,
        )
        self._child.start()

    def await_ready(self) -> None:
        """Return when the service is ready; one that does not come to that is ended."""
        child = self._running()
        try:
            self._wait_until_ready(child)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Have the service end cleanly; nothing happens if it is not running."""
        if self._child is not None:
            self._child.stop()
            self._child = None
            self._has_stopped()

    def kill(self) -> None:
        """End the service with SIGKILL, as a crash would; nothing happens if it is not running."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def pause(self) -> None:
        """Have the process stand still a moment from now; its port accepts connections and nothing answers."""
        self._running().pause()

    def resume(self) -> None:
        """Have a process that stands still go on."""
        self._running().resume()

    def restart(self) -> None:
        """Stop the service if it runs and start it again with the same port and data."""
        self.stop()
        self.start()

    def wait(self) -> None:
        """Return when the service has ended, by itself or by another's doing."""
        if self._child is not None:
            self._child.wait()

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines that the service wrote since it was started."""
        return "" if self._child is None else self._child.log_tail(lines)

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """Return the command to run, after whatever it needs has been written."""

    @abstractmethod
    def _why_not_ready(self) -> str:
        """Say what is missing for clients to be served, empty if nothing is; an error if waiting will not help."""

    def _has_stopped(self) -> None:
        """Take over what a clean end has left."""

    def _check_not_running(self) -> None:
        if self.is_running:
            raise LocalServiceError(f"{self.name} is already running on {self.address}.")

    def _choose_port(self) -> None:
        """Choose a port at the first start, and see that nobody else has it."""
        if not self._port:
            (self._port,) = free_ports(1)
        if not is_port_free(self._port):
            raise LocalServiceError(
                f"Port {self._port} is in use on {LOOPBACK}: choose another port, or 0 for any free one."
            )

    def _running(self) -> ChildProcess:
        if self._child is None:
            raise LocalServiceError(f"{self.name} is not running.")
        return self._child

    def _wait_until_ready(self, child: ChildProcess) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        why = ""
        while time.monotonic() < deadline:
            exit_code = child.exit_code()
            if exit_code is not None:
                raise LocalServiceError(
                    f"{self.name} ended while it started (exit code {exit_code}). "
                    f"The end of {self.log_path}:\n{child.log_tail()}"
                )
            why = self._why_not_ready()
            if not why:
                return
            time.sleep(_POLL_S)
        raise LocalServiceError(
            f"{self.name} was not ready within {self._start_timeout_s:g} s ({why}). "
            f"The end of {self.log_path}:\n{child.log_tail()}"
        )
