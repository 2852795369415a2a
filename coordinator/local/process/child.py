"""A child process that writes to a log file and never outlives the process that started it.

The child runs under `supervisor.py` in a session of its own: a Ctrl-C at the terminal reaches its owner only,
and the owner decides. It may be started from any thread. Knows nothing of Kafka or Java. Not for Windows.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from coordinator.local.errors import LocalServiceError
from coordinator.local.process import supervisor

_KILL_TIMEOUT_S = 10.0
_LONGEST_TAIL_BYTES = 64 * 1024


class ChildProcess:
    """One run of one command; start it once, then `stop` or `kill` it as often as you like.

    `stop_timeout_s` is the time between SIGTERM and SIGKILL. The log file is appended to.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log_path: Path,
        environment: Mapping[str, str] | None = None,
        stop_timeout_s: float = 15.0,
    ) -> None:
        self.name = name
        self.log_path = log_path
        self._command = list(command)
        self._environment = None if environment is None else dict(environment)
        self._stop_timeout_s = stop_timeout_s
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._control_fd = -1
        self._log_start = 0

    @property
    def group_id(self) -> int:
        """Return the id of the process group that holds the child and its supervisor."""
        if self._supervisor is None:
            raise LocalServiceError(f"{self.name} has not been started.")
        return self._supervisor.pid

    def start(self) -> None:
        """Start the command; one that cannot be run shows as exit code 127 with the reason in the log."""
        if self._supervisor is not None:
            raise LocalServiceError(f"{self.name} has been started before.")
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        read_fd, write_fd = os.pipe()
        arguments = [str(read_fd), str(os.getpid()), str(self._stop_timeout_s), *self._command]
        try:
            with self.log_path.open("ab") as log:
                self._log_start = log.tell()
                self._supervisor = subprocess.Popen(
                    [sys.executable, "-I", "-S", supervisor.__file__, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environment,
                    pass_fds=[read_fd],
                    start_new_session=True,
                )
        except OSError as error:
            os.close(write_fd)
            raise LocalServiceError(f"{self.name} cannot be started: {error}.") from error
        finally:
            os.close(read_fd)
        self._control_fd = write_fd

    def exit_code(self) -> int | None:
        """Return how the command ended (128 plus the signal that killed it), None while it runs."""
        return None if self._supervisor is None else self._supervisor.poll()

    def wait(self) -> None:
        """Return when the command has ended."""
        if self._supervisor is not None:
            self._supervisor.wait()

    def stop(self) -> None:
        """Send SIGTERM, wait for a clean end, SIGKILL what is left when the time is over."""
        self._end(b"", self._stop_timeout_s + _KILL_TIMEOUT_S)

    def kill(self) -> None:
        """Kill the command with SIGKILL and return when it is gone."""
        self._end(supervisor.KILL, _KILL_TIMEOUT_S)

    def pause(self) -> None:
        """Have the command stand still (SIGSTOP) a moment from now; it can be stopped and killed all the same."""
        self._say(supervisor.PAUSE)

    def resume(self) -> None:
        """Have a command that stands still go on."""
        self._say(supervisor.RESUME)

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines that this run wrote to its log."""
        try:
            with self.log_path.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, end - _LONGEST_TAIL_BYTES))
                text = log.read().decode("utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def _say(self, word: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self._control_fd, word)

    def _end(self, last_word: bytes, timeout_s: float) -> None:
        if self._supervisor is None:
            return
        if self._control_fd >= 0:
            self._say(last_word)
            os.close(self._control_fd)
            self._control_fd = -1
        try:
            self._supervisor.wait(timeout_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.group_id, signal.SIGKILL)
            self._supervisor.wait()
