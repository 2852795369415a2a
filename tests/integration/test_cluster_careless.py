"""A careless operator at three real nodes that serve: ZooKeeper wiped, spoilt, and an address that nobody reaches.

Whatever was acknowledged stays, commits go on as long as nobody has to be elected, and `kcoord cluster status` names
what is wrong and what to do.
"""

import itertools
import json
import secrets
from collections.abc import Iterator
from contextlib import suppress

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from coordinator.client.request import RequestError, ask
from coordinator.local.cluster import LocalCluster
from coordinator.local.node import LocalClusterNode
from coordinator.local.zookeeper import LocalZooKeeper
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse, FetchOffsets, FetchOffsetsResponse
from coordinator.protocol.text.addresses import parse_addresses
from tests.helpers.node_process import NO_KAFKA
from tests.helpers.waiting import wait_until
from tests.helpers.watched_cluster import wait_until_status_says, wait_until_well
from tests.helpers.zookeeper_client import zookeeper_client

PATIENCE_S = 90.0
GROUPS = ("a", "b", "c", "d")
SHARDS = 4
OFFSETS = itertools.count(1)
"""The offsets to commit: no test goes below what another has committed."""


@pytest.fixture(scope="module")
def path() -> str:
    """Return a path in ZooKeeper that no other test has."""
    return f"/kcoord-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def settings(path: str) -> dict[str, object]:
    return {"cluster.shards": SHARDS, "zookeeper.path": path, "zookeeper.session_timeout_ms": 4_000}


@pytest.fixture(scope="module")
def cluster(
    zookeeper: LocalZooKeeper, settings: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """Yield three nodes; each test leaves them well."""
    folder = tmp_path_factory.mktemp("nodes")
    with LocalCluster(NO_KAFKA, folder, zookeeper=zookeeper, settings=settings) as nodes:
        wait_until_well(nodes.addresses)
        yield nodes


@pytest.fixture
def client(zookeeper: LocalZooKeeper) -> Iterator[KazooClient]:
    with zookeeper_client(zookeeper.address, timeout_s=30) as connected:
        yield connected


def commit(cluster: LocalCluster) -> int:
    """Have every group commit further than before, however often that has to be asked; return the offset."""
    offset = next(OFFSETS)
    addresses = parse_addresses(cluster.addresses)
    for group in GROUPS:
        request = CommitOffsets(group, in_columns((OffsetToCommit("t", 0, offset),)))

        def is_accepted(request: CommitOffsets = request) -> bool:
            try:
                answer = ask(addresses, request, PATIENCE_S)
            except RequestError:
                return False
            assert isinstance(answer, CommitOffsetsResponse)
            return answer.accepted == 1

        wait_until(is_accepted, timeout_s=PATIENCE_S, what=f"a commit of {group}")
    return offset


def committed(cluster: LocalCluster) -> dict[str, int]:
    """Return what is committed of each group."""
    found = {}
    for group in GROUPS:
        answer = ask(parse_addresses(cluster.addresses), FetchOffsets(group), PATIENCE_S)
        assert isinstance(answer, FetchOffsetsResponse)
        assert answer.error is ErrorCode.NONE, answer
        found[group] = answer.offsets[0].offset
    return found


def everywhere(offset: int) -> dict[str, int]:
    return dict.fromkeys(GROUPS, offset)


Copy = dict[str, bytes]


def copied(client: KazooClient, at: str) -> Copy:
    """Return all below a path that does not end with a session."""
    try:
        value, stat = client.get(at)
    except NoNodeError:
        return {}
    if stat.ephemeralOwner:
        return {}
    below = [copied(client, f"{at}/{name}") for name in client.get_children(at)]
    return {at: value} | {each: data for part in below for each, data in part.items()}


def wipe(client: KazooClient, at: str) -> None:
    """Delete all below a path, and again while nodes that live write something there."""

    def is_gone() -> bool:
        with suppress(NoNodeError, NotEmptyError):
            client.delete(at, recursive=True)
        return client.exists(at) is None

    wait_until(is_gone, timeout_s=PATIENCE_S, what=f"{at} is gone")


def put_back(client: KazooClient, copy: Copy) -> None:
    """Have everything be as it was copied."""
    for at, value in sorted(copy.items()):
        try:
            client.create(at, value)
        except NodeExistsError:  # which was not deleted, or a node has made it again
            client.set(at, value)


def test_nodes_serve_on_when_zookeepers_data_is_wiped_until_its_newest_is_put_back(
    cluster: LocalCluster, client: KazooClient, path: str
) -> None:
    offset = commit(cluster)
    newest = copied(client, path)
    wipe(client, path)
    wait_until_status_says(cluster.addresses, "ZooKeeper has no /cluster any more", "put its data back")
    offset = commit(cluster)
    assert committed(cluster) == everywhere(offset)

    put_back(client, newest)
    for node in cluster.nodes:
        node.restart()
    wait_until_well(cluster.addresses)
    assert committed(cluster) == everywhere(offset)
    offset = commit(cluster)
    assert committed(cluster) == everywhere(offset)


def test_garbage_in_zookeeper_is_named_and_harms_nothing(cluster: LocalCluster, client: KazooClient, path: str) -> None:
    offset = commit(cluster)
    buckets = [f"{path}/shards/{name}" for name in client.get_children(f"{path}/shards")]
    right = {bucket: client.get(bucket)[0] for bucket in buckets}
    for bucket in buckets:
        client.set(bucket, b"\xff garbage")
    wait_until_status_says(
        cluster.addresses, "/shards/0 cannot be read, so its shards stay as they are", "put its value right"
    )
    offset = commit(cluster)

    for bucket, value in right.items():
        client.set(bucket, value)
    wait_until_well(cluster.addresses)
    entry = json.loads(right[buckets[0]])
    shard = next(iter(entry["shards"]))
    entry["shards"][shard]["isr"] = [77]
    client.set(buckets[0], json.dumps(entry).encode())
    wait_until_status_says(cluster.addresses, f"shard {shard} in", "cannot be used", "put its entry right")
    offset = commit(cluster)
    entry = json.loads(right[buckets[0]])
    entry["shards"][shard]["leader_epoch"] -= 1
    client.set(buckets[0], json.dumps(entry).encode())
    wait_until_status_says(cluster.addresses, f"shard {shard} in", "an older value was put in the place of a newer one")
    offset = commit(cluster)
    client.set(buckets[0], right[buckets[0]])
    wait_until_well(cluster.addresses)
    assert committed(cluster) == everywhere(offset)


def test_a_node_whose_address_others_cannot_reach_is_named_with_the_setting(
    cluster: LocalCluster, zookeeper: LocalZooKeeper, settings: dict[str, object]
) -> None:
    offset = commit(cluster)
    third = cluster.nodes[2]
    third.kill()
    wrong = {**settings, "peers.advertised": "127.0.0.1:1"}
    with LocalClusterNode(3, NO_KAFKA, zookeeper.address, third.data_dir, port=third.port, settings=wrong):
        wait_until_status_says(
            cluster.addresses, "node 3", "is not in contact with nodes 1, 2: look at peers.advertised of both"
        )
        offset = commit(cluster)
    third.start()
    wait_until_well(cluster.addresses)
    assert committed(cluster) == everywhere(offset)
