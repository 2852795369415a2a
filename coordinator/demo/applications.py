"""Starts the demo's Spark applications, as a user would: `spark-submit` with the project's streaming job.

Each application is its own process group with its own output, checkpoint and log. It is a child like the broker: it
ends when the demo ends, however that happens.
"""

import importlib.util
import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coordinator.demo.errors import DemoError
from coordinator.local.process.child import ChildProcess

_JOB: Final = ("jobs", "ingest_stream.py")
_SPARK_SETTINGS: Final = "spark-defaults.conf"
_STOP_TIMEOUT_S: Final = 10.0
_SEARCHED_LINES: Final = 400
_SHOWN_LINES: Final = 25
_CAUSE: Final = re.compile(r"^spark_kcoord\.errors\.\w+: (.+)$", re.MULTILINE)
_QUICK_START: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options for a JVM that lives for a minute on a machine with few cores."""

_LONGEST_SOCKET_DIRECTORY: Final = 60
"""Bytes of the path of a temporary directory in which Spark can have Unix sockets, on Linux and macOS."""

_CONF: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class ApplicationSettings:
    """The settings that the applications of one demo share; Spark's memory is small because two share one machine."""

    directory: Path
    coordinator: str
    group_id: str
    topic: str
    trigger_seconds: float = 2.0
    cores: int = 2
    driver_memory: str = "1g"


class SparkApplication:
    """One Spark application with one streaming query; start it once."""

    def __init__(self, name: str, settings: ApplicationSettings) -> None:
        self.name = name
        self.output = settings.directory / name / "output"
        self._checkpoint = settings.directory / name / "checkpoint"
        self._scratch = _scratch(name, settings)
        self._child = ChildProcess(
            f"the {name} application",
            _command(name, settings, self.output, self._checkpoint),
            log_path=settings.directory / f"{name}.log",
            environment=_environment(self._scratch),
            stop_timeout_s=_STOP_TIMEOUT_S,
        )

    @property
    def log_path(self) -> Path:
        """Return the file with everything the application said."""
        return self._child.log_path

    def start(self) -> None:
        """Start it; whether it gets far is seen in the group."""
        self._scratch.mkdir(parents=True)
        self._child.start()

    def kill(self) -> None:
        """End the whole process group with SIGKILL at once, as a lost machine would."""
        os.killpg(self._child.group_id, signal.SIGKILL)

    def stop(self) -> None:
        """End it, in order if it lives, and leave nothing behind."""
        self._child.stop()

    def must_run(self) -> None:
        """Raise DemoError with the end of its log when it has ended."""
        code = self._child.exit_code()
        if code is not None:
            causes = _CAUSE.findall(self._child.log_tail(_SEARCHED_LINES))
            because = f": {causes[-1]}" if causes else ""
            raise DemoError(f"the {self.name} application ended with exit code {code}{because}", self.log_tail())

    def log_tail(self) -> str:
        """Return the last lines of its log under a heading."""
        return f"the end of {self.log_path.name}:\n{self._child.log_tail(_SHOWN_LINES)}"


def find_job() -> Path:
    """Return the file of the job that the applications run; raises DemoError where it is not installed."""
    found = importlib.util.find_spec("spark_kcoord")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        if (job := Path(folder, *_JOB)).is_file():
            return job
    raise DemoError("spark_kcoord and its jobs are not installed: install kcoord with its extra `demo`")


def find_conf() -> Path:
    """Return the directory of Spark's settings, in a checkout or installed; raises DemoError where there is none."""
    places = (Path(__file__).resolve().parents[2] / "conf", Path(sys.prefix, "share", "kcoord", "conf"))
    for place in places:
        if (place / _SPARK_SETTINGS).is_file():
            return place
    raise DemoError(f"{_SPARK_SETTINGS} is in none of {', '.join(map(str, places))}: install kcoord anew")


def _command(name: str, settings: ApplicationSettings, output: Path, checkpoint: Path) -> list[str]:
    scratch = str(_scratch(name, settings))
    java_options = f"{_QUICK_START} -Djava.io.tmpdir={scratch}"
    has_sockets = len(os.fsencode(scratch)) <= _LONGEST_SOCKET_DIRECTORY
    conf = _CONF | ({} if has_sockets else {"spark.python.unix.domain.socket.enabled": "false"})
    return [
        str(_spark_home() / "bin" / "spark-submit"),
        *["--master", f"local[{settings.cores}]", "--name", f"kcoord demo {name}"],
        *["--driver-memory", settings.driver_memory, "--driver-java-options", java_options],
        *[part for key, value in conf.items() for part in ("--conf", f"{key}={value}")],
        str(find_job()),
        *["--coordinator", settings.coordinator, "--group", settings.group_id, "--topic", settings.topic],
        *["--starting-offsets", "earliest", "--option", f"kafka.client.id={name}"],
        *["--trigger", f"{settings.trigger_seconds}s", "--name", name],
        *["--output", str(output), "--checkpoint", str(checkpoint)],
    ]


def _scratch(name: str, settings: ApplicationSettings) -> Path:
    return settings.directory / name / "scratch"


def _environment(scratch: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return {
        **inherited,
        "SPARK_HOME": str(_spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_CONF_DIR": str(find_conf()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        return Path(location)
    raise DemoError("Spark is not installed: install kcoord with its extra `demo`")
