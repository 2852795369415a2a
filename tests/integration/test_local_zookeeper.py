"""The embedded ZooKeeper is real: ready when it says so, durable, gone with its owner, clear when it fails."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.local.errors import LocalServiceError
from coordinator.local.process.ports import LOOPBACK, free_ports
from coordinator.local.zookeeper import LocalZooKeeper, LocalZooKeeperQuorum
from tests.helpers.processes import eventually, group_lives
from tests.helpers.zookeeper_client import zookeeper_client

ROOT = Path(__file__).parents[2]


def test_data_and_port_survive_a_kill(zookeeper: LocalZooKeeper) -> None:
    port, group_id = zookeeper.port, zookeeper.process_group_id
    with zookeeper_client(zookeeper.address) as client:
        client.create("/kept-by-a-kill", b"one")
    zookeeper.kill()
    assert not group_lives(group_id)
    assert not zookeeper.is_running
    zookeeper.start()
    assert (zookeeper.port, zookeeper.mode()) == (port, "standalone")
    with zookeeper_client(zookeeper.address) as client:
        assert client.get("/kept-by-a-kill")[0] == b"one"


def test_a_server_that_stands_still_goes_on_and_ends_when_asked_to_and_keeps_its_data(
    zookeeper: LocalZooKeeper,
) -> None:
    port = zookeeper.port
    with zookeeper_client(zookeeper.address) as client:
        client.create("/kept-by-a-restart", b"two")
    zookeeper.pause()
    assert eventually(lambda: not zookeeper.mode())
    zookeeper.resume()
    assert eventually(lambda: zookeeper.mode() == "standalone")
    zookeeper.pause()
    group_id = zookeeper.process_group_id
    zookeeper.restart()
    assert not group_lives(group_id)
    assert zookeeper.port == port
    with zookeeper_client(zookeeper.address) as client:
        assert client.get("/kept-by-a-restart")[0] == b"two"


def test_a_quorum_goes_on_without_its_leader(tmp_path: Path) -> None:
    with LocalZooKeeperQuorum(tmp_path) as quorum:
        # On a machine that stands still one of them may be chosen anew.
        modes: list[str] = []

        def is_whole() -> bool:
            modes[:] = [server.mode() for server in quorum.servers]
            return sorted(modes) == ["follower", "follower", "leader"]

        assert eventually(is_whole), modes
        leader = quorum.servers[modes.index("leader")]
        with zookeeper_client(quorum.hosts) as client:
            client.create("/kept", b"one")
            leader.kill()
            rest = [server for server in quorum.servers if server is not leader]
            assert eventually(lambda: sorted(server.mode() for server in rest) == ["follower", "leader"])
            assert client.retry(client.get, "/kept")[0] == b"one"


def test_the_server_is_gone_when_its_owner_is(tmp_path: Path) -> None:
    script = (
        "import sys, threading\nfrom pathlib import Path\nfrom coordinator.local.zookeeper import LocalZooKeeper\n"
        "server = LocalZooKeeper(Path(sys.argv[1]))\nserver.start()\n"
        "print(server.process_group_id, server.port, flush=True)\nthreading.Event().wait()\n"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as owner:
        assert owner.stdout is not None
        group_id, port = map(int, owner.stdout.readline().split())
        assert group_lives(group_id)
        owner.kill()
    assert eventually(lambda: not group_lives(group_id))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port), timeout=1)


def test_a_wrong_setting_fails_with_what_zookeeper_says(tmp_path: Path) -> None:
    server = LocalZooKeeper(tmp_path, config={"tickTime": "often"})
    with pytest.raises(LocalServiceError, match=r"(?s)ended while it started \(exit code 2\).*zookeeper\.log.*often"):
        server.start()
    assert not server.is_running


def test_a_port_in_use_is_refused_by_its_number(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, free_ports(1)[0])) as other:
        port = other.getsockname()[1]
        with pytest.raises(LocalServiceError, match=f"Port {port} is in use"):
            LocalZooKeeper(tmp_path, port=port).start()
