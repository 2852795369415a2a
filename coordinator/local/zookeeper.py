"""Real ZooKeeper servers on loopback as child processes, ready when `start` returns and gone when their owner is.

One server, or a quorum of several. Ready means that a server answers `srvr` with the mode it runs in: `ruok` is
answered by servers that have failed, and a listening socket by those that have no quorum yet. The data directory can
be started again later. Knows nothing of the coordinator.
"""

import contextlib
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from coordinator.local.errors import LocalServiceError
from coordinator.local.java.class_archive import ClassArchive
from coordinator.local.java.jars import JarSet, Module, ReportProgress, resolve_jars
from coordinator.local.java.runtime import find_java
from coordinator.local.kafka.files import escaped, logging_properties
from coordinator.local.process.ports import LOOPBACK, free_ports
from coordinator.local.process.running import Running
from coordinator.local.process.service import LocalService

ZOOKEEPER_JARS: Final = JarSet(
    name="zookeeper",
    modules=(
        Module(
            "org.apache.zookeeper",
            "zookeeper",
            "3.9.5",
            sha256="936d025db1a85f085edea25048c3f5b3de5fc29329c371a10925e3b78b0b38a0",
        ),
        Module(
            "org.apache.zookeeper",
            "zookeeper-jute",
            "3.9.5",
            sha256="abcbc7f9d6c493daa118da6fa3061a201e2c521217526e8535adfb56b629e52a",
        ),
        Module(
            "org.slf4j",
            "slf4j-api",
            "2.0.17",
            sha256="7b751d952061954d5abfed7181c1f645d336091b679891591d63329c622eb832",
        ),
        Module(
            "io.dropwizard.metrics",
            "metrics-core",
            "4.2.37",
            sha256="3c70d19049d10f474ab803706b9c0677bcf5fd9e1afeb4f6c496f62e38b27678",
        ),
        Module(  # as Kafka has it, so that it is fetched once
            "org.xerial.snappy",
            "snappy-java",
            "1.1.10.7",
            sha256="4c766cb3f855415ee734b2392949a0b6f12a60879334a74518deaf6270d32e36",
        ),
        Module(
            "org.apache.logging.log4j",
            "log4j-api",
            "2.25.4",
            sha256="c4b642a7f047275215de117e0e3847eb2c7711d84a0aa7433e7b3c096daf341d",
        ),
        Module(
            "org.apache.logging.log4j",
            "log4j-core",
            "2.25.4",
            sha256="10fee2c0485d54fa44ee75d314f6295508f7b932281873db61a91b88073200e6",
        ),
        Module(
            "org.apache.logging.log4j",
            "log4j-slf4j2-impl",
            "2.25.4",
            sha256="dd897abc5eb3a6d965426c7937b92dd43e67c82d9819bea5d19f311516c68be3",
        ),
    ),
    jar_count=8,
    has_dependencies=False,
)
"""No netty, no jetty: what a server on loopback needs, and a logger, without which errors are silent."""

_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_ASK_TIMEOUT_S: Final = 1.0


class LocalZooKeeper(LocalService):
    """One server over one data directory; a context manager that starts and stops it.

    `port` 0 means any free one, kept over restarts. `config` overrides lines of zoo.cfg. A session lasts between 2 and
    20 ticks; `tick_ms` is how exactly its end is seen. The server writes to `data_dir/zookeeper.log`. Not thread safe.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int = 0,
        tick_ms: int = 500,
        heap_mb: int = 256,
        log_level: str = "WARN",
        config: Mapping[str, str] | None = None,
        start_timeout_s: float = 60.0,
        report: ReportProgress | None = None,
    ) -> None:
        super().__init__("ZooKeeper", data_dir, log_name="zookeeper.log", port=port, start_timeout_s=start_timeout_s)
        self._tick_ms = tick_ms
        self._heap_mb = heap_mb
        self._log_level = log_level
        self._config = dict(config or {})
        self._report = report
        self._server_id: int | None = None
        self._classes = ClassArchive(ZOOKEEPER_JARS, self.data_dir / "classes.jsa")

    def forget_data(self) -> None:
        """Remove all that a server that is not running has kept, as if it had got a new disk."""
        if self._child is not None:
            raise LocalServiceError("ZooKeeper is running: stop it before its data is removed.")
        shutil.rmtree(self.data_dir / "storage", ignore_errors=True)

    @property
    def hosts(self) -> str:
        """Return HOST:PORT, as the setting `zookeeper.hosts` of nodes has it."""
        return self.address

    @property
    def servers(self) -> "Sequence[LocalZooKeeper]":
        """Return the servers, of which this is the only one."""
        return (self,)

    def has_session(self, session_id: int) -> bool:
        """Say whether the client of this session is connected to this server, and no other of the quorum."""
        return f"sid={session_id:#x}," in self._ask("cons")

    def mode(self) -> str:
        """Return what the server says it is: standalone, leader or follower; empty if it does not serve."""
        for line in self._ask("srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return ""

    def join_quorum(self, server_id: int, lines: Mapping[str, str]) -> None:
        """Make this server one of several, before it is started; `lines` name all of them."""
        self._server_id = server_id
        self._config |= lines

    def _command(self) -> Sequence[str]:
        java = find_java()
        jars = resolve_jars(ZOOKEEPER_JARS, self._report)
        self._choose_port()
        self._write_files()
        return [
            str(java.executable),
            *[f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"],
            *self._classes.start_options(java),
            *["-Djava.awt.headless=true", "-Dzookeeper.admin.enableServer=false"],
            f"-Dlog4j2.configurationFile={self.data_dir / 'log4j2.properties'}",
            *["-cp", os.pathsep.join(map(str, jars)), _MAIN, str(self.data_dir / "zoo.cfg")],
        ]

    def _why_not_ready(self) -> str:
        return "" if self.mode() else "it does not say that it serves"

    def _has_stopped(self) -> None:
        self._classes.keep()

    def _write_files(self) -> None:
        storage = self.data_dir / "storage"
        storage.mkdir(parents=True, exist_ok=True)
        if self._server_id is not None:
            (storage / "myid").write_text(f"{self._server_id}\n")
        properties = {
            "tickTime": str(self._tick_ms),
            "initLimit": "20",
            "syncLimit": "10",
            "dataDir": str(storage),
            "clientPort": str(self._port),
            "clientPortAddress": LOOPBACK,
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
            "4lw.commands.whitelist": "srvr,mntr,cons",
            **self._config,
        }
        lines = "".join(f"{name}={escaped(value)}\n" for name, value in properties.items())
        (self.data_dir / "zoo.cfg").write_text(lines)
        (self.data_dir / "log4j2.properties").write_text(logging_properties(self._log_level))

    def _ask(self, word: str) -> str:
        """Return the answer to a four-letter word; empty if there is none."""
        answer = b""
        with (
            contextlib.suppress(OSError),
            socket.create_connection((LOOPBACK, self.port), timeout=_ASK_TIMEOUT_S) as connection,
        ):
            connection.sendall(word.encode())
            while data := connection.recv(4096):
                answer += data
        return answer.decode("utf-8", errors="replace")


class LocalZooKeeperQuorum(Running):
    """Several servers that are one ensemble, each in a directory of its own under `data_dir`; a context manager.

    `servers` are there to be stopped, killed and paused one by one. Not thread safe.
    """

    def __init__(
        self, data_dir: Path, *, count: int = 3, tick_ms: int = 500, report: ReportProgress | None = None
    ) -> None:
        self.servers: Sequence[LocalZooKeeper] = tuple(
            LocalZooKeeper(data_dir / f"server-{number}", tick_ms=tick_ms, report=report)
            for number in range(1, count + 1)
        )

    @property
    def hosts(self) -> str:
        """Return HOST:PORT of each server, with commas between."""
        return ",".join(server.address for server in self.servers)

    def start(self) -> None:
        """Start all servers and return when each serves; should one not, none is left running."""
        ports = iter(free_ports(2 * len(self.servers)))
        lines = {f"server.{number}": f"{LOOPBACK}:{next(ports)}:{next(ports)}" for number in range(1, len(self) + 1)}
        with ExitStack() as undo:
            undo.callback(self.kill)
            for number, server in enumerate(self.servers, 1):
                server.join_quorum(number, lines)
                server.begin()
            for server in self.servers:
                server.await_ready()
            undo.pop_all()

    def stop(self) -> None:
        """Have all servers end cleanly."""
        for server in self.servers:
            server.stop()

    def kill(self) -> None:
        """End all servers with SIGKILL."""
        for server in self.servers:
            server.kill()

    def __len__(self) -> int:
        return len(self.servers)
