"""A node of a cluster that may not join, or cannot, says what is wrong with what, and ends as it should."""

import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from coordinator.local.zookeeper import LocalZooKeeper
from coordinator.runtime.disk.disk import ClusterDisk
from coordinator.runtime.disk.log_disk import Reports
from coordinator.runtime.process.signals import Signals
from coordinator.service.cluster import open_logs
from tests.helpers.loopback import RememberedLog
from tests.helpers.node_process import NodeProcess
from tests.helpers.zookeeper_client import zookeeper_client

Start = Callable[..., NodeProcess]


@pytest.fixture
def path() -> str:
    """Return a path in ZooKeeper that no other test has."""
    return f"/kcoord-{secrets.token_hex(4)}"


@pytest.fixture
def start(zookeeper: LocalZooKeeper, path: str, tmp_path: Path) -> Iterator[Start]:
    """Return a starter of node N, `start(1, "setting=value", data_dir=…)`; all are killed at the end."""
    with ExitStack() as stack:

        def begin(number: int, *settings: str, data_dir: Path | None = None, session_ms: int = 4_000) -> NodeProcess:
            node = NodeProcess(
                tmp_path / f"n{number}-{secrets.token_hex(2)}",
                *(f"node.id={number}", "peers.listen=127.0.0.1:0", f"zookeeper.path={path}"),
                *(f"zookeeper.hosts={zookeeper.address}", f"zookeeper.session_timeout_ms={session_ms}", *settings),
                data_dir=data_dir,
                mode="cluster",
            )
            stack.callback(node.kill)
            return node

        yield begin


def said_at_its_end(node: NodeProcess) -> str:
    """Wait for the end of a process that fails, and return what it said."""
    assert node.process.wait(60) == 1, node.said
    return node.said


@pytest.fixture
def joined(start: Start) -> NodeProcess:
    """Return a node that was in a cluster and has stopped in order."""
    node = start(1)
    node.wait_until_it_serves()
    assert node.stop() == 0
    return node


def test_a_directory_is_refused_to_another_node_and_to_a_standalone_one(joined: NodeProcess, start: Start) -> None:
    said = said_at_its_end(start(2, data_dir=joined.data_dir))
    assert "belongs to node 1 and this is node 2: look at node.id and at --data" in said
    alone = NodeProcess(joined.data_dir.parent, data_dir=joined.data_dir)
    assert "belongs to node 1 of a cluster, and this node is standalone" in said_at_its_end(alone)


def test_a_directory_is_refused_by_another_cluster_and_where_there_is_none(
    joined: NodeProcess, start: Start, path: str
) -> None:
    said = said_at_its_end(start(1, f"zookeeper.path={path}-none", data_dir=joined.data_dir))
    assert "and ZooKeeper has no cluster: look whether zookeeper.hosts and zookeeper.path are right" in said
    other = start(9, f"zookeeper.path={path}-other")
    other.wait_until_it_serves()
    said = said_at_its_end(start(1, f"zookeeper.path={path}-other", data_dir=joined.data_dir))
    assert "the data directory belongs to cluster" in said
    assert "start this node with its own directory and its own ZooKeeper" in said


def test_a_node_id_that_is_in_use_is_refused_with_the_one_that_has_it(start: Start) -> None:
    first = start(1)
    address = first.wait_until_it_serves()
    said = said_at_its_end(start(1, session_ms=1_000))  # it waits for so long whether the other one ends
    assert "node id 1 is in use by the node with directory" in said
    assert f"members {address}" in said
    assert "give each node an id of its own" in said
    assert first.is_running


def test_an_address_that_is_in_use_is_refused_by_its_setting(start: Start, zookeeper: LocalZooKeeper) -> None:
    said = said_at_its_end(start(1, f"peers.listen={zookeeper.address}"))
    assert f"cannot listen on {zookeeper.address} for other nodes" in said
    assert "or choose another as peers.listen" in said


def test_a_node_without_zookeeper_goes_on_trying_says_so_and_stops_well(start: Start) -> None:
    node = start(1, "zookeeper.hosts=127.0.0.1:1")
    node.wait_until_it_says("not-in-cluster", 60)
    assert "no server of ZooKeeper answers; zookeeper.hosts is 127.0.0.1:1" in node.said
    node.send(signal.SIGTERM)
    assert node.process.wait(60) == 0
    assert "listening on" not in node.said


def test_a_node_that_is_alone_where_three_make_a_cluster_says_so(start: Start) -> None:
    node = start(1)
    node.wait_until_it_serves()
    node.wait_until_it_says("no-shards", 60)
    assert "they are made when 3 nodes are there, which is its replication_factor, and there are 1" in node.said


def test_a_cluster_that_was_made_otherwise_than_is_set_is_joined_and_the_settings_are_named(
    joined: NodeProcess, start: Start
) -> None:
    node = start(2, "cluster.shards=7")
    node.wait_until_it_serves()
    node.wait_until_it_says("cluster.shards is set to 7, but cluster")
    node.wait_until_it_says("was made with 50, and that counts")


def test_garbage_where_the_cluster_is_ends_a_node_that_is_to_join(
    joined: NodeProcess, start: Start, zookeeper: LocalZooKeeper, path: str
) -> None:
    with zookeeper_client(zookeeper.address) as client:
        client.set(f"{path}/cluster", b"not what it was")
    said = said_at_its_end(start(1, data_dir=joined.data_dir))
    assert "/cluster in ZooKeeper cannot be read" in said
    assert "put its value right" in said


def cluster_disk(data_dir: Path) -> ClusterDisk:
    def nobody(*_: object) -> None:
        pass

    reports = Reports(nobody, nobody, nobody, nobody, nobody)
    return ClusterDisk.open(data_dir, 1, reports, new_directory_id="d")


def test_a_log_that_is_missing_is_told_at_the_start_and_others_are_opened(tmp_path: Path) -> None:
    disk = cluster_disk(tmp_path)
    for shard in (0, 1):
        disk.open_log(shard, 0)
        disk.append(shard, 0, 1, [b"record"])
    disk.close()
    (tmp_path / "shard-00001").rename(tmp_path / "elsewhere")
    log = RememberedLog()
    again = cluster_disk(tmp_path)
    opened = open_logs(again, 1_000, Signals(log.logger), log.logger)
    assert opened is not None
    assert {shard: found.end for shard, found in opened.items()} == {0: 1}
    assert again.damaged == {1}
    (line,) = log.of("log-damaged")
    assert "the log of shard 1 is missing: shard-00001 was in the data directory" in line["why"]
    again.close()


def test_a_log_that_is_damaged_is_moved_aside_at_the_start_and_others_are_opened(tmp_path: Path) -> None:
    disk = cluster_disk(tmp_path)
    for shard in (0, 1):
        disk.open_log(shard, 0)
        for offset in range(3):
            disk.append(shard, offset, 1, [b"record"])
    disk.close()
    (segment,) = [file for file in (tmp_path / "shard-00001").iterdir() if file.stat().st_size > 0]
    data = bytearray(segment.read_bytes())
    data[data.index(b"record")] ^= 0xFF
    segment.write_bytes(bytes(data))

    log = RememberedLog()
    again = cluster_disk(tmp_path)
    opened = open_logs(again, 1_000, Signals(log.logger), log.logger)
    assert opened is not None
    assert {shard: found.end for shard, found in opened.items()} == {0: 3}
    assert again.damaged == {1}
    (line,) = log.of("log-damaged")
    assert "the log of shard 1 is damaged, and moved aside" in line["why"]
    again.close()
