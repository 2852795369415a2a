"""Several coordinator nodes that are one cluster, with the ZooKeeper that they need, on loopback as child processes."""

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from coordinator.local.java.jars import ReportProgress
from coordinator.local.node import LocalClusterNode, admin_setting
from coordinator.local.process.running import Running
from coordinator.local.zookeeper import LocalZooKeeper, LocalZooKeeperQuorum


class LocalCluster(Running):
    """Nodes 1, 2, … of a cluster, each in a directory of its own under `data_dir`; a context manager.

    Without a ZooKeeper one is started and stopped with them. `ports` are those for members, 0 any free one; with
    `admin_port` the first node has its probes and metrics there, and the others theirs at the ports after it. `nodes`
    are there to be stopped, killed, paused and started again one by one. Not thread safe.
    """

    def __init__(
        self,
        kafka_bootstrap: str,
        data_dir: Path,
        *,
        nodes: int = 3,
        ports: Sequence[int] = (),
        admin_port: int | None = None,
        zookeeper: LocalZooKeeper | LocalZooKeeperQuorum | None = None,
        zookeeper_port: int = 0,
        settings: Mapping[str, object] | None = None,
        report: ReportProgress | None = None,
    ) -> None:
        self._kafka_bootstrap = kafka_bootstrap
        self._data_dir = data_dir
        self._count = nodes
        self._ports = (*ports, *(0 for _ in range(nodes - len(ports))))
        self._admin_port = admin_port
        self._settings = dict(settings or {})
        self._own_zookeeper = zookeeper is None
        self.zookeeper: LocalZooKeeper | LocalZooKeeperQuorum = zookeeper or LocalZooKeeper(
            data_dir / "zookeeper", port=zookeeper_port, report=report
        )
        self.nodes: Sequence[LocalClusterNode] = ()

    @property
    def addresses(self) -> str:
        """Return HOST:PORT of each node for members, with commas between."""
        return ",".join(node.address for node in self.nodes)

    def start(self) -> None:
        """Start ZooKeeper and all nodes, and return when each serves; should one not, none is left running."""
        with ExitStack() as undo:
            undo.callback(self.kill)
            if self._own_zookeeper:
                self.zookeeper.start()
            self.nodes = self.nodes or tuple(self._node(number) for number in range(1, self._count + 1))
            for node in self.nodes:
                node.begin()
            for node in self.nodes:
                node.await_ready()
            undo.pop_all()

    def stop(self) -> None:
        """Have all end cleanly, the nodes first."""
        with ExitStack() as stopping:
            if self._own_zookeeper:
                stopping.callback(self.zookeeper.stop)
            for node in self.nodes:
                stopping.callback(node.stop)

    def kill(self) -> None:
        """End everything with SIGKILL."""
        for service in (*self.nodes, *([self.zookeeper] if self._own_zookeeper else [])):
            with contextlib.suppress(OSError):
                service.kill()

    def _node(self, number: int) -> LocalClusterNode:
        return LocalClusterNode(
            number,
            self._kafka_bootstrap,
            self.zookeeper.hosts,
            self._data_dir / f"node-{number}",
            port=self._ports[number - 1],
            settings=self._settings | admin_setting(self._admin_port, number - 1),
        )
