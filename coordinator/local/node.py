"""A coordinator node on loopback as a child process, standalone or of a cluster, gone when its owner is.

It serves when `start` returns. It is the real command, `kcoord serve`, run with this Python. Knows of the node only its
command line, its exit code and the line it prints when it serves.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from coordinator.local.process.ports import LOOPBACK, free_ports
from coordinator.local.process.service import LocalService

_READY = re.compile(r"^kcoord: listening on \S+$", re.MULTILINE)


def admin_setting(first_port: int | None, number: int = 0) -> dict[str, object]:
    """Return the setting that has node `number`, from 0, show probes and metrics so far after a port; none without."""
    return {} if first_port is None else {"admin.listen": f"{LOOPBACK}:{first_port + number}"}


class LocalCoordinator(LocalService):
    """One node over one data directory; a context manager that starts and stops it.

    `port` 0 means any free one, kept over restarts. `settings` are given with `--set`, by dotted key, and `environment`
    is added to this process's. The node writes to `data_dir/node.log`, beside its data in `data_dir/data`. Not thread
    safe.
    """

    def __init__(
        self,
        kafka_bootstrap: str,
        data_dir: Path,
        *,
        port: int = 0,
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = 60.0,
        stop_timeout_s: float = 15.0,
    ) -> None:
        super().__init__(
            "The coordinator",
            data_dir,
            log_name="node.log",
            port=port,
            start_timeout_s=start_timeout_s,
            stop_timeout_s=stop_timeout_s,
            environment=os.environ | dict(environment or {}),
        )
        self._kafka_bootstrap = kafka_bootstrap
        self._settings = dict(settings or {})

    def _command(self) -> Sequence[str]:
        if not self._port:
            (self._port,) = free_ports(1)
        settings = {**self._place(), **self._settings}
        return [
            *[sys.executable, "-m", "coordinator", "serve"],
            *["--kafka", self._kafka_bootstrap, "--data", str(self.data_dir / "data"), "--listen", self.address],
            *[part for key, value in settings.items() for part in ("--set", f"{key}={value}")],
        ]

    def _place(self) -> Mapping[str, object]:
        """Return the settings that say which node it is."""
        return {"node.mode": "standalone"}

    def _why_not_ready(self) -> str:
        return "" if _READY.search(self.log_tail(lines=1000)) else "it has not said that it listens"


class LocalClusterNode(LocalCoordinator):
    """One node of a cluster, serving once it is registered in ZooKeeper; see `LocalCoordinator`.

    `zookeeper` is HOST:PORT of its servers, with commas between. Its ports stay the same over restarts.
    """

    def __init__(
        self,
        number: int,
        kafka_bootstrap: str,
        zookeeper: str,
        data_dir: Path,
        *,
        port: int = 0,
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = 60.0,
    ) -> None:
        super().__init__(
            kafka_bootstrap,
            data_dir,
            port=port,
            settings=settings,
            environment=environment,
            start_timeout_s=start_timeout_s,
        )
        self.name = f"Node {number}"
        self.number = number
        self._zookeeper = zookeeper
        self._peers_port = 0

    def _place(self) -> Mapping[str, object]:
        if not self._peers_port:
            (self._peers_port,) = free_ports(1)
        return {
            "node.mode": "cluster",
            "node.id": self.number,
            "node.rack": f"rack-{self.number}",
            "peers.listen": f"{LOOPBACK}:{self._peers_port}",
            "zookeeper.hosts": self._zookeeper,
        }
