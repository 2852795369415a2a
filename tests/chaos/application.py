"""A Spark application of a chaos run as a child process group that can be killed and started again."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
STOP_TIMEOUT_S = 60.0


class Application:
    """Runs tests/chaos/query_application.py over one folder; leaving it stops the query between two micro-batches."""

    def __init__(self, folder: Path, options: Mapping[str, str], *, master: str, is_attached: bool) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._command = [
            *[sys.executable, "-m", "tests.chaos.query_application", "--folder", str(folder)],
            *["--master", master],
            *[part for name, value in options.items() for part in ("--option", f"{name}={value}")],
            *(["--attach"] if is_attached else []),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None and self._process is not None:
            (self.folder / "stop").touch()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT_S)
        self.kill()

    @property
    def pid(self) -> int | None:
        """The driver's process, None while it is dead."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the application in a process group of its own."""
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, start_new_session=True, env=environment, cwd=ROOT
            )

    def start_if_dead(self) -> None:
        """Start it again after a kill."""
        if self.pid is None:
            self.kill()
            self.start()

    def kill(self) -> None:
        """End the process group with SIGKILL; Python workers, in groups of their own, notice that the JVM is gone."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def log_tail(self) -> str:
        """Return the end of what the application said."""
        return (self.folder / "log").read_text(errors="replace")[-3000:]
