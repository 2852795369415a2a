"""A Spark application of its own as a child process group, for tests that kill one."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.helpers.waiting import wait_until

_ROOT = Path(__file__).resolve().parents[2]


class SparkApplication:
    """Runs tests/helpers/stream_application.py over one folder; it may be started again over the same folder."""

    def __init__(self, folder: Path, coordinator: str, group: str, topic: str, *options: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._command = [
            *[sys.executable, str(_ROOT / "tests" / "helpers" / "stream_application.py")],
            *["--coordinator", coordinator, "--group", group, "--topic", topic, "--output", str(folder)],
            *[part for option in options for part in ("--option", option)],
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def start(self, *flags: str) -> None:
        """Start the application in a process group of its own."""
        environment = os.environ | {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(_ROOT),
        }
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *flags], stdout=log, stderr=log, start_new_session=True, env=environment
            )

    def kill(self) -> None:
        """End the whole process group with SIGKILL, as a crash of the machine would."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def wait(self, timeout_s: float = 90) -> int:
        """Wait until the application has ended by itself and return its exit code."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    def hold(self, flag: str = "hold") -> None:
        """Make batches stop: `hold` before they write, `hold-after` after it."""
        (self.folder / flag).touch()

    def let_go(self, flag: str = "hold") -> None:
        """Let batches that were stopped go on."""
        (self.folder / flag).unlink()

    def wait_for(self, pattern: str, timeout_s: float = 90) -> Path:
        """Wait for a file of the folder, such as `holding-*`, and return the first."""

        def found() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"the application ended:\n{self.log_tail()}"
            return any(self.folder.glob(pattern))

        wait_until(found, timeout_s=timeout_s, what=f"{pattern} of {self.folder.name}")
        return sorted(self.folder.glob(pattern))[0]

    def log_tail(self) -> str:
        """Return the end of what the application said."""
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def rows(self) -> Counter[int]:
        """Return how often each value is in the output."""
        return Counter(
            int(value) for path in self.folder.glob("batch-*.json") for _, _, value in json.loads(path.read_text())
        )
