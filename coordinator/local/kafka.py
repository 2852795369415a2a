"""A real Kafka broker on loopback as a child process, ready when `start` returns and gone when its owner is.

Ready is what a client sees, not an open port: the broker names itself, the cluster id is the one that was
formatted here, and the controller accepts a topic (validated only). The data directory is formatted once,
whole or not at all, and can be started again later. Knows nothing of the coordinator.
"""

import base64
import contextlib
import os
import re
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from coordinator.local.class_archive import ClassArchive
from coordinator.local.errors import LocalServiceError
from coordinator.local.jars import JarSet, Module, ReportProgress, resolve_jars
from coordinator.local.java import Java, find_java
from coordinator.local.kafka_files import broker_properties, logging_properties
from coordinator.local.kafka_readiness import why_not_ready
from coordinator.local.ports import LOOPBACK, free_ports, is_port_free
from coordinator.local.process import ChildProcess
from coordinator.local.topics import create_topic

KAFKA_JARS = JarSet(
    name="kafka",
    modules=(
        Module("org.apache.kafka", "kafka_2.13", "4.3.1"),
        Module("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    ),
    jar_count=46,
)
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""JVM options for a broker that is up soon and small; pass others where its throughput is measured."""

_FORMAT_TIMEOUT_S = 60.0
_POLL_S = 0.02
_PORT_ATTEMPTS = 3


class LocalKafka:
    """One broker over one data directory; a context manager that starts and stops it.

    `port` 0 means any free one, kept over restarts. `config` overrides lines of server.properties. `secure_ports`
    are ports by security protocol (SSL, SASL_SSL, ...) of further listeners. The broker writes to
    `data_dir/broker.log`. `report` hears about the jars' download, should one be needed. Not thread safe.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int = 0,
        heap_mb: int = 512,
        log_level: str = "WARN",
        config: Mapping[str, str] | None = None,
        secure_ports: Mapping[str, int] | None = None,
        jvm_options: Sequence[str] = QUICK_START,
        start_timeout_s: float = 90.0,
        report: ReportProgress | None = None,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self._wished_port = port
        self._ports: tuple[int, int] | None = None
        self._heap_mb = heap_mb
        self._log_level = log_level
        self._config = dict(config or {})
        self._secure_ports = dict(secure_ports or {})
        self._jvm_options = list(jvm_options)
        self._start_timeout_s = start_timeout_s
        self._report = report
        self._child: ChildProcess | None = None
        self._cluster_id = ""
        self._classes = ClassArchive(KAFKA_JARS, self.data_dir / "classes.jsa")

    def __enter__(self) -> Self:
        """Start the broker."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the broker."""
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """Return HOST:PORT."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def port(self) -> int:
        """Return the port that clients connect to, the same over restarts."""
        if self._ports is None:
            raise LocalServiceError("Kafka has no port before it is started.")
        return self._ports[0]

    @property
    def cluster_id(self) -> str:
        """Return the id that this data directory was formatted with; empty before the first start."""
        return self._cluster_id

    @property
    def log_path(self) -> Path:
        """Return the file with everything the broker said."""
        return self.data_dir / "broker.log"

    @property
    def process_group_id(self) -> int:
        """Return the id of the process group in which the broker runs."""
        if self._child is None:
            raise LocalServiceError("Kafka is not running.")
        return self._child.group_id

    @property
    def is_running(self) -> bool:
        """Say whether the broker's process lives."""
        return self._child is not None and self._child.exit_code() is None

    def start(self) -> None:
        """Format the data directory if it is new, start the broker, and return when it is ready."""
        if self.is_running:
            raise LocalServiceError(f"Kafka is already running on {self.bootstrap_servers}.")
        java = find_java()
        jars = resolve_jars(KAFKA_JARS, self._report)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        (self.data_dir / "log4j2.properties").write_text(logging_properties(self._log_level))
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            self._choose_ports()
            if not self._cluster_id:
                self._cluster_id = self._formatted_cluster_id() or self._format(java, jars)
            try:
                self._start_once(java, jars)
            except LocalServiceError:
                if attempt == _PORT_ATTEMPTS or not self._lost_its_port():
                    raise
                self._ports = None
            else:
                return

    def stop(self) -> None:
        """Shut the broker down cleanly; nothing happens if it is not running."""
        if self._child is not None:
            self._child.stop()
            self._child = None
            self._classes.keep()

    def kill(self) -> None:
        """End the broker with SIGKILL, as a crash would; nothing happens if it is not running.

        The next start takes about 10 s, because the controller waits for the lost broker's session to expire;
        `broker.session.timeout.ms` in `config` shortens that.
        """
        if self._child is not None:
            self._child.kill()
            self._child = None

    def restart(self) -> None:
        """Stop the broker if it runs and start it again with the same port and data."""
        self.stop()
        self.start()

    def wait(self) -> None:
        """Return when the broker has ended, by itself or by another's doing."""
        if self._child is not None:
            self._child.wait()

    def log_tail(self) -> str:
        """Return the last lines of the broker's log."""
        return "" if self._child is None else self._child.log_tail()

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and return when each of its partitions has a leader."""
        create_topic(self.bootstrap_servers, name, partitions, config)

    def _choose_ports(self) -> None:
        if self._ports is not None:
            port, controller_port = self._ports
        elif self._wished_port:
            (controller_port,) = free_ports(1)
            port = self._wished_port
        else:
            port, controller_port = free_ports(2)
        if not is_port_free(port):
            raise LocalServiceError(f"Port {port} is in use on {LOOPBACK}: choose another port, or 0 for any free one.")
        self._ports = (port, controller_port)

    def _lost_its_port(self) -> bool:
        """Say whether the last start failed because somebody took a port after it was chosen."""
        ours = [port for port in self._ports or () if port != self._wished_port]
        return not all(is_port_free(port) for port in ours)

    @property
    def _storage(self) -> Path:
        return self.data_dir / "storage"

    def _formatted_cluster_id(self) -> str | None:
        meta = self._storage / "meta.properties"
        if not meta.exists():
            return None
        found = re.search(r"^cluster\.id=(\S+)$", meta.read_text(), re.MULTILINE)
        if found is None:
            raise LocalServiceError(f"{meta} has no cluster.id: remove {self.data_dir} to start afresh.")
        return found[1]

    def _format(self, java: Java, jars: Sequence[Path]) -> str:
        """Format a scratch directory and rename it into place; return the new cluster's id."""
        cluster_id = _new_cluster_id()
        with tempfile.TemporaryDirectory(prefix=".format-", dir=self.data_dir) as scratch_name:
            scratch = Path(scratch_name)
            self._write_properties(scratch / "format.properties", scratch / "storage")
            command = [
                *self._java_command(java, jars, ["-Xmx128m", *QUICK_START]),
                *[
                    "kafka.tools.StorageTool",
                    "format",
                    "-t",
                    cluster_id,
                    "-c",
                    str(scratch / "format.properties"),
                ],
            ]
            try:
                formatted = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    timeout=_FORMAT_TIMEOUT_S,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise LocalServiceError(f"Kafka's storage in {self.data_dir} cannot be formatted: {error}.") from error
            if formatted.returncode != 0:
                raise LocalServiceError(
                    f"Kafka's storage in {self.data_dir} cannot be formatted. Kafka says:\n{formatted.stdout}"
                )
            if self._storage.exists():  # left by somebody, without a cluster id
                raise LocalServiceError(f"{self._storage} exists but is not Kafka's: choose another directory.")
            (scratch / "storage").replace(self._storage)
        return cluster_id

    def _write_properties(self, path: Path, storage: Path) -> None:
        if self._ports is None:
            raise LocalServiceError("Kafka has no port before it is started.")
        path.write_text(broker_properties(storage, *self._ports, self._config, self._secure_ports))

    def _java_command(self, java: Java, jars: Sequence[Path], options: Sequence[str]) -> list[str]:
        return [
            str(java.executable),
            *options,
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self.data_dir / 'log4j2.properties'}",
            *["-cp", os.pathsep.join(map(str, jars))],
        ]

    def _start_once(self, java: Java, jars: Sequence[Path]) -> None:
        self._write_properties(self.data_dir / "server.properties", self._storage)
        options = [
            *[f"-Xmx{self._heap_mb}m", f"-Xms{min(128, self._heap_mb)}m", "-XX:+ExitOnOutOfMemoryError"],
            *self._jvm_options,
            *self._classes.start_options(java),
        ]
        command = [
            *self._java_command(java, jars, options),
            "kafka.Kafka",
            str(self.data_dir / "server.properties"),
        ]
        self._child = ChildProcess("Kafka", command, log_path=self.log_path)
        self._child.start()
        try:
            self._wait_until_ready(self._child)
        except BaseException:
            self._child.kill()
            self._child = None
            raise

    def _wait_until_ready(self, child: ChildProcess) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        reason = "nothing listens yet"
        while time.monotonic() < deadline:
            exit_code = child.exit_code()
            if exit_code is not None:
                raise LocalServiceError(
                    f"Kafka ended while it started (exit code {exit_code}). "
                    f"The end of {self.log_path}:\n{child.log_tail()}"
                )
            if self._listens():
                not_ready = why_not_ready(self.port, self._cluster_id)
                if not_ready is None:
                    return
                reason = not_ready
            time.sleep(_POLL_S)
        raise LocalServiceError(
            f"Kafka was not ready within {self._start_timeout_s:g} s ({reason}). "
            f"The end of {self.log_path}:\n{child.log_tail()}"
        )

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.port), timeout=1):
            return True
        return False


def _new_cluster_id() -> str:
    """Return 16 random bytes as Kafka writes them; a leading dash would look like an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text
