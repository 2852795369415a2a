"""A child of a chaos run: a program in a process group of its own that can be killed and started again."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]


class Child:
    """Runs a Python module over one folder, in which its log is; leaving the context kills it."""

    def __init__(self, folder: Path, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._command = [sys.executable, "-m", *command]
        self._environment = environment or {}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int | None:
        """The process, None while it is dead."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start it in a process group of its own."""
        environment = os.environ | self._environment
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, start_new_session=True, env=environment, cwd=ROOT
            )

    def start_if_dead(self) -> None:
        """Start it again after a kill."""
        if self.pid is None:
            self.kill()
            self.start()

    def send(self, number: signal.Signals) -> None:
        """Send its process a signal; nothing happens when it is dead."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self, timeout_s: float) -> int | None:
        """Return its exit code when it has ended, None when it has not in time."""
        if self._process is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def kill(self) -> None:
        """End the process group with SIGKILL; what has a group of its own notices by itself."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def log_tail(self) -> str:
        """Return the end of what it said."""
        path = self.folder / "log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""
