"""A Spark application of a chaos run as a child process group that can be killed and started again."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.chaos.child import Child

STOP_TIMEOUT_S = 60.0


class Application(Child):
    """Runs tests/chaos/query_application.py over one folder; leaving it stops the query between two micro-batches."""

    def __init__(self, folder: Path, options: Mapping[str, str], *, master: str, is_attached: bool) -> None:
        command = [
            *["tests.chaos.query_application", "--folder", str(folder)],
            *["--master", master],
            *[part for name, value in options.items() for part in ("--option", f"{name}={value}")],
            *(["--attach"] if is_attached else []),
        ]
        # Python workers, in groups of their own, notice that the JVM is gone.
        super().__init__(folder, command, {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable})

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            (self.folder / "stop").touch()
            self.wait(STOP_TIMEOUT_S)
        super().__exit__(kind, error, traceback)
