"""A real Kafka broker on loopback as a child process, ready when `start` returns and gone when its owner is.

Ready is what a client sees, not an open port: the broker names itself, the cluster id is the one that was
formatted here, and the controller accepts a topic (validated only). The data directory is formatted once,
whole or not at all, and can be started again later. Knows nothing of the coordinator.
"""

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from coordinator.local.errors import LocalServiceError
from coordinator.local.java.class_archive import ClassArchive
from coordinator.local.java.jars import JarSet, Module, ReportProgress, cache_directory, resolve_jars
from coordinator.local.java.runtime import Java, find_java
from coordinator.local.kafka.files import NODE_ID, broker_properties, logging_properties
from coordinator.local.kafka.readiness import why_not_ready
from coordinator.local.kafka.storage import KafkaStorage, new_id
from coordinator.local.kafka.topics import create_topic
from coordinator.local.process.ports import LOOPBACK, free_ports, is_port_free
from coordinator.local.process.service import LocalService

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

_PORT_ATTEMPTS = 3


class LocalKafka(LocalService):
    """One broker over one data directory; a context manager that starts and stops it.

    `port` 0 means any free one, kept over restarts. `config` overrides lines of server.properties. `secure_ports`
    are ports by security protocol (SSL, SASL_SSL, ...) of further listeners. `cluster_id` is what a new data directory
    is formatted with, by default an id of its own. The broker writes to `data_dir/broker.log`. `report` hears about the
    jars' download, should one be needed. Not thread safe.
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
        cluster_id: str = "",
        start_timeout_s: float = 90.0,
        report: ReportProgress | None = None,
    ) -> None:
        super().__init__("Kafka", data_dir, log_name="broker.log", port=port, start_timeout_s=start_timeout_s)
        self._controller_port = 0
        self._heap_mb = heap_mb
        self._log_level = log_level
        self._config = dict(config or {})
        self._secure_ports = dict(secure_ports or {})
        self._jvm_options = list(jvm_options)
        self._report = report
        self._cluster_id = ""
        self._wished_cluster_id = cluster_id
        self._classes = ClassArchive(KAFKA_JARS, self.data_dir / "classes.jsa")
        self._storage = KafkaStorage(self.data_dir, cache_directory() / "formatted" / KAFKA_JARS.directory_name)

    @property
    def bootstrap_servers(self) -> str:
        """Return HOST:PORT."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def cluster_id(self) -> str:
        """Return the id that this data directory was formatted with; empty before the first start."""
        return self._cluster_id

    def start(self) -> None:
        """Format the data directory if it is new, start the broker, and return when it is ready.

        After a kill that takes about 10 s, because the controller waits for the lost broker's session to expire;
        `broker.session.timeout.ms` in `config` shortens that.
        """
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            self._check_not_running()
            try:
                self.begin()
                self.await_ready()
            except LocalServiceError:
                if attempt == _PORT_ATTEMPTS or not self._lost_its_port():
                    raise
                self._port, self._controller_port = self._wished_port, 0
            else:
                return

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and return when each of its partitions has a leader."""
        create_topic(self.bootstrap_servers, name, partitions, config)

    def _choose_port(self) -> None:
        if not self._port:
            self._port, self._controller_port = free_ports(2)
        elif not self._controller_port:
            (self._controller_port,) = free_ports(1)
        super()._choose_port()

    def _lost_its_port(self) -> bool:
        """Say whether the last start failed because somebody took a port after it was chosen."""
        ours = [port for port in (self._port, self._controller_port) if port not in (0, self._wished_port)]
        return not all(is_port_free(port) for port in ours)

    def _format(self, java: Java, jars: Sequence[Path]) -> str:
        """Format the storage and return the new cluster's id."""
        cluster_id = self._wished_cluster_id or new_id()

        def command(scratch: Path, storage: Path) -> Sequence[str]:
            properties = scratch / "format.properties"
            self._write_properties(properties, storage)
            return [
                *self._java_command(java, jars, ["-Xmx128m", *QUICK_START, *self._classes.use_options(java)]),
                *["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)],
            ]

        self._storage.format(cluster_id, self._config.get("node.id", str(NODE_ID)), command)
        return cluster_id

    def _write_properties(self, path: Path, storage: Path) -> None:
        ports = (self._port, self._controller_port)
        path.write_text(broker_properties(storage, *ports, self._config, self._secure_ports))

    def _java_command(self, java: Java, jars: Sequence[Path], options: Sequence[str]) -> list[str]:
        return [
            str(java.executable),
            *options,
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self.data_dir / 'log4j2.properties'}",
            *["-cp", os.pathsep.join(map(str, jars))],
        ]

    def _command(self) -> Sequence[str]:
        java = find_java()
        jars = resolve_jars(KAFKA_JARS, self._report)
        (self.data_dir / "log4j2.properties").write_text(logging_properties(self._log_level))
        self._choose_port()
        if not self._cluster_id:
            self._cluster_id = self._storage.cluster_id() or self._format(java, jars)
        self._write_properties(self.data_dir / "server.properties", self._storage.path)
        options = [
            *[f"-Xmx{self._heap_mb}m", f"-Xms{min(128, self._heap_mb)}m", "-XX:+ExitOnOutOfMemoryError"],
            *self._jvm_options,
            *self._classes.start_options(java),
        ]
        return [
            *self._java_command(java, jars, options),
            "kafka.Kafka",
            str(self.data_dir / "server.properties"),
        ]

    def _why_not_ready(self) -> str:
        if not self._listens():
            return "nothing listens yet"
        return why_not_ready(self.port, self._cluster_id) or ""

    def _has_stopped(self) -> None:
        self._classes.keep()

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.port), timeout=1):
            return True
        return False
