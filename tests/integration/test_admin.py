"""HTTP of a node that runs: probes in each phase of its life."""

import signal
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

from tests.helpers.node_process import NodeProcess, running_node
from tests.helpers.processes import eventually


def asked(address: tuple[str, int], path: str) -> tuple[int, str]:
    client = HTTPConnection(*address, timeout=30)
    client.request("GET", path)
    answer = client.getresponse()
    said = answer.status, answer.read().decode()
    client.close()
    return said


def comes(ask: Callable[[], tuple[int, str]], answer: tuple[int, str]) -> bool:
    return eventually(lambda: ask() == answer, 30.0)


def test_a_standalone_node_is_ready_when_members_are_let_in(tmp_path: Path) -> None:
    with running_node(tmp_path, "admin.listen=127.0.0.1:0") as node:
        address = node.wait_until_it_serves_http()
        node.wait_until_it_serves()
        away = "ready, but Kafka at 127.0.0.1:1 cannot be reached: Connection refused\n"
        assert comes(lambda: asked(address, "/readyz"), (200, away))
        assert asked(address, "/livez") == (200, "alive\n")
        assert asked(address, "/startupz") == (200, "started\n")
        assert asked(address, "/")[0] == 404
        assert eventually(lambda: "kcoord_connections 0\n" in asked(address, "/metrics")[1], 30.0)
        assert "admin-is-open" not in node.said
        node.send(signal.SIGTERM)
        assert node.process.wait(60) == 0


def test_a_node_of_a_cluster_without_zookeeper_says_why_it_is_not_ready(tmp_path: Path) -> None:
    settings = ("admin.listen=0.0.0.0:0", "zookeeper.hosts=127.0.0.1:1", "peers.listen=127.0.0.1:0")
    node = NodeProcess(tmp_path, *settings, mode="cluster")
    try:
        _, port = node.wait_until_it_serves_http()
        node.wait_until_it_says("admin-is-open")
        here = ("127.0.0.1", port)
        assert eventually(lambda: "ZooKeeper" in asked(here, "/readyz")[1], 30.0), asked(here, "/readyz")
        assert asked(here, "/readyz")[0] == 503
        assert asked(here, "/livez") == (200, "alive\n")
        assert asked(here, "/startupz") == (200, "started\n"), "who else is away has nothing to do with it"
    finally:
        node.kill()
