"""A standalone node loads nothing of a cluster's, and a start that fails says why."""

import asyncio
import gc
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.config import load_settings
from coordinator.protocol.text.addresses import Address
from coordinator.runtime.process.logs import Journal
from coordinator.runtime.process.loop import loop_factory
from coordinator.runtime.process.signals import Signals
from coordinator.runtime.server.port import Server
from coordinator.service import StartError, standalone

CODE = """
import sys
import coordinator.service.standalone, coordinator.service
print(*sys.modules)
"""
OF_A_CLUSTER = (
    "kazoo",
    "coordinator.core.replica",
    "coordinator.core.peers",
    "coordinator.core.cluster.image",
    "coordinator.core.cluster_node.node",
    "coordinator.runtime.cluster",
    "coordinator.runtime.peers",
    "coordinator.service.cluster",
)


def test_a_standalone_node_loads_neither_zookeepers_client_nor_replicas() -> None:
    loaded = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout.split()
    assert "coordinator.core.node" in loaded
    assert [name for name in loaded if name.startswith(OF_A_CLUSTER)] == []


def test_a_node_whose_address_is_taken_while_it_loads_does_not_start_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = {"node.listen": "127.0.0.1:0", "node.data_dir": str(tmp_path), "kafka.bootstrap_servers": "127.0.0.1:1"}
    settings, journal = load_settings(None, flags), Journal("json", "critical", 10)
    others: list[socket.socket] = []
    bind, threshold = Server.bind, gc.get_threshold()

    async def bind_and_lose(server: Server, host: str, port: int) -> Address:
        address = await bind(server, host, port)
        others.append(socket.create_server(address))
        return address

    monkeypatch.setattr(Server, "bind", bind_and_lose)
    try:
        with (
            asyncio.Runner(loop_factory=loop_factory("auto")[1]) as runner,
            pytest.raises(StartError, match=r"cannot listen on 127\.0\.0\.1:\d+: .*in use.*--listen"),
        ):
            runner.run(standalone.serve(settings, journal, Signals(journal.log)))
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()
        journal.close()
        for other in others:
            other.close()
