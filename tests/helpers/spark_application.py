"""A Spark application of its own as a child process group, for tests that kill one and go on in their own Spark.

It is gone when the process that started it is, however that went.
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from coordinator.local.process.child import ChildProcess
from tests.helpers.python_path import python_path
from tests.helpers.stream_application import NumberedStream
from tests.helpers.waiting import wait_until

_ROOT = Path(__file__).resolve().parents[2]


class SparkApplication:
    """Runs streams by tests/helpers/stream_application.py, or one on a cluster with mishaps by cluster_application.py.

    All are of the coordinator of the first, which is the one that is held and waited for unless another is named.
    """

    def __init__(self, stream: NumberedStream, *beside: NumberedStream, master: str | None = None) -> None:
        self.folder = stream.folder
        for one in (stream, *beside):
            one.folder.mkdir(parents=True, exist_ok=True)
        self._command = [
            *[sys.executable, "-m", f"tests.helpers.{'stream' if master is None else 'cluster'}_application"],
            *([] if master is None else ["--master", master]),
            *["--coordinator", stream.coordinator, "--group", stream.group, "--topic", stream.topic],
            *["--output", str(stream.folder)],
            *[part for option in stream.options for part in ("--option", option)],
            *[part for one in beside for part in ("--beside", str(one.folder), one.group, one.topic, *one.options)],
        ]
        self._process: ChildProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start the application in a process group of its own."""
        environment = os.environ | {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": python_path(_ROOT),
        }
        self._process = ChildProcess(
            "The application", self._command, log_path=self.folder / "log", environment=environment
        )
        self._process.start()

    def kill(self) -> None:
        """End the whole process group with SIGKILL, as a crash of the machine would."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.group_id, signal.SIGKILL)
            self._process.kill()
            self._process = None

    def hold(self, flag: str = "hold", of: NumberedStream | None = None) -> None:
        """Make batches stop: `hold` before they write, `hold-after` after it."""
        (self._folder(of) / flag).touch()

    def let_go(self, flag: str = "hold", of: NumberedStream | None = None) -> None:
        """Let batches that were stopped go on."""
        (self._folder(of) / flag).unlink()

    def wait_for(self, pattern: str, timeout_s: float = 240, of: NumberedStream | None = None) -> Path:
        """Wait for a file of the folder, such as `holding-*`, and return the first."""
        folder = self._folder(of)

        def found() -> bool:
            assert self._process is not None
            assert self._process.exit_code() is None, f"the application ended:\n{self.log_tail()}"
            return any(folder.glob(pattern))

        wait_until(found, timeout_s=timeout_s, what=f"{pattern} of {folder.name}")
        return sorted(folder.glob(pattern))[0]

    def _folder(self, of: NumberedStream | None) -> Path:
        return self.folder if of is None else of.folder

    def log_tail(self) -> str:
        """Return the end of what the application said."""
        return (self.folder / "log").read_text(errors="replace")[-3000:]
