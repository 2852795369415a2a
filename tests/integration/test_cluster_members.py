"""A member and the tools on three real nodes: the group's leader is killed, and the member keeps what it has.

Every wait is for something that happens, so that a slow machine makes the test slow and nothing else.
"""

import json
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.local.cluster import LocalCluster
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.zookeeper import LocalZooKeeper
from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import ResetPolicy
from coordinator.protocol.text.addresses import parse_addresses
from spark_kcoord.member.client import MemberClient, fetch_offsets
from spark_kcoord.member.settings import MemberSettings
from tests.helpers.processes import stands_still
from tests.helpers.waiting import wait_until

PATIENCE_S = 60.0
SHARDS = 4

pytestmark = pytest.mark.kafka


@pytest.fixture
def cluster(kafka: LocalKafka, zookeeper: LocalZooKeeper, tmp_path: Path) -> Iterator[LocalCluster]:
    path = f"/kcoord-{secrets.token_hex(4)}"
    settings = {"cluster.shards": SHARDS, "zookeeper.path": path, "zookeeper.session_timeout_ms": 4_000}
    with LocalCluster(kafka.bootstrap_servers, tmp_path, zookeeper=zookeeper, settings=settings) as nodes:
        yield nodes


def tool(addresses: str, *arguments: str) -> Any:
    """Run a verb and return its result, with its JSON as `told`."""
    result = CliRunner().invoke(app, [*arguments, "--coordinator", addresses, "-o", "json"])
    result.told = json.loads(result.stdout) if result.stdout else None  # type: ignore[attr-defined]
    return result


def rebalances(addresses: str, group: str) -> list[dict[str, Any]]:
    """Return the rebalances in a group's timeline."""
    told = tool(addresses, "group", "events", group, "--kind", "rebalance").told
    return [event for event in told if event["kind"] == "rebalance"]


def is_well(addresses: str) -> bool:
    return bool(tool(addresses, "cluster", "status").exit_code == 0)


def member_of(addresses: str, group: str, topic: str) -> MemberClient:
    """Return a member that is told these addresses and has not joined yet."""
    settings = MemberSettings(
        coordinators=parse_addresses(addresses),
        group_id=group,
        client_id="test",
        topics=(topic,),
        reset_policy=ResetPolicy("earliest"),
    )
    return MemberClient(settings)


class Watcher:
    """Looks without a pause at the partitions that a member owns, until it is stopped."""

    def __init__(self, client: MemberClient) -> None:
        self.seen: set[tuple[int, ...]] = set()
        self._client = client
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(0.001):
            self.seen.add(tuple(part.partition for part in self._client.assignment().partitions))


def test_member_keeps_its_partitions_while_its_leader_is_killed_and_tools_say_what_there_is(
    cluster: LocalCluster, topic: Callable[..., str]
) -> None:
    name, group, everybody = topic(partitions=3), "g", cluster.addresses
    wait_until(lambda: is_well(everybody), timeout_s=PATIENCE_S, what="all shards are served and in sync")
    assert [node["node_id"] for node in tool(everybody, "node", "list").told] == [1, 2, 3]
    shards = tool(everybody, "shard", "list").told
    assert [(shard["shard"], shard["state"], len(shard["in_sync"])) for shard in shards] == [
        (shard, "serving", 3) for shard in range(SHARDS)
    ]
    client = member_of(everybody, group, name)
    try:
        client.join()
        held = client.wait_for_assignment(complete=True, timeout_s=PATIENCE_S)
        assert [part.partition for part in held.partitions] == [0, 1, 2]
        epochs = [part.owner_epoch for part in held.partitions]

        def commit(offset: int) -> list[ErrorCode]:
            offsets = [OffsetToCommit(name, number, offset, epoch) for number, epoch in enumerate(epochs)]
            return [result.error for result in client.commit(offsets)]

        assert commit(1) == [ErrorCode.NONE] * 3
        (state,) = [tool(everybody, "group", "describe", group, "--state").told]
        leader = state["coordinator"]["node_id"]
        killed = next(node for node in cluster.nodes if node.number == leader)
        others = ",".join(node.address for node in cluster.nodes if node is not killed)
        planned = rebalances(everybody, group)
        with Watcher(client) as watcher:
            killed.kill()
            assert set(fetch_offsets(parse_addresses(everybody), group, timeout_s=PATIENCE_S).values()) == {1}
            assert commit(2) == [ErrorCode.NONE] * 3
            wait_until(lambda: client.assignment().is_complete, timeout_s=PATIENCE_S, what="all has followed")
        assert watcher.seen == {(0, 1, 2)}, "it has what it had, all the while"
        assert [part.owner_epoch for part in client.assignment().partitions] == epochs

        state = tool(everybody, "group", "describe", group, "--state").told
        assert state["coordinator"]["node_id"] != leader
        assert rebalances(everybody, group) == planned

        def is_listed() -> bool:
            listed = tool(everybody, "group", "list")
            assert f"the node at {killed.address} could not be asked: it cannot be reached" in listed.stderr
            return listed.exit_code == 0 and [each["group"] for each in listed.told] == [group]

        wait_until(is_listed, timeout_s=PATIENCE_S, what="every shard is served by those that live")

        def is_gone() -> bool:
            states = {node["node_id"]: node["state"] for node in tool(others, "node", "list").told}
            return states[leader] == "gone"

        wait_until(is_gone, timeout_s=PATIENCE_S, what="ZooKeeper has ended the session of the killed node")
        status = tool(others, "cluster", "status")
        assert status.exit_code == 4
        assert f"node {leader} is gone: it has no session with ZooKeeper" in status.told["troubles"]
        for node in tool(others, "shard", "list").told:
            assert node["leader"] != leader

        killed.start()
        wait_until(lambda: is_well(cluster.addresses), timeout_s=PATIENCE_S, what="it is back in sync")
        assert commit(3) == [ErrorCode.NONE] * 3
        client.leave()
    finally:
        client.close()


def test_member_goes_on_elsewhere_while_its_leader_stands_still_and_no_commit_of_it_counts_afterwards(
    cluster: LocalCluster, topic: Callable[..., str]
) -> None:
    name, group, everybody = topic(), "g", cluster.addresses
    wait_until(lambda: is_well(everybody), timeout_s=PATIENCE_S, what="all shards are served and in sync")
    client = member_of(everybody.split(",")[0], group, name)
    try:
        client.join()
        (part,) = client.wait_for_assignment(complete=True, timeout_s=PATIENCE_S).partitions

        def commit(offset: int) -> ErrorCode:
            (result,) = client.commit([OffsetToCommit(name, 0, offset, part.owner_epoch)])
            return result.error

        assert commit(1) is ErrorCode.NONE
        leader = tool(everybody, "group", "describe", group, "--state").told["coordinator"]["node_id"]
        stopped = next(node for node in cluster.nodes if node.number == leader)
        stopped.pause()
        wait_until(lambda: stands_still(stopped.process_group_id), timeout_s=PATIENCE_S, what="it stands still")
        try:
            assert commit(2) is ErrorCode.NONE
            assert [part.owner_epoch for part in client.assignment().partitions] == [part.owner_epoch]
        finally:
            stopped.resume()
        wait_until(lambda: is_well(everybody), timeout_s=PATIENCE_S, what="it follows the others")
        assert commit(3) is ErrorCode.NONE
        for node in cluster.nodes:
            assert fetch_offsets(parse_addresses(node.address), group, timeout_s=PATIENCE_S) == {(name, 0): 3}
    finally:
        client.close()
