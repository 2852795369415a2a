"""Three real nodes, a real ZooKeeper and a real Kafka: a commit outlives the node that took it, and that comes back.

Every wait is for something that happens, so that a slow machine makes the test slow and nothing else.
"""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.local.cluster import LocalCluster
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalClusterNode
from coordinator.local.zookeeper import LocalZooKeeper
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    FetchOffsets,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
)
from coordinator.protocol.parts import GroupEvent, NodeAddress
from tests.helpers.processes import stands_still
from tests.helpers.raw_member import RawMember
from tests.helpers.waiting import wait_until
from tests.helpers.zookeeper_client import zookeeper_client

PATIENCE_S = 60.0
SHARDS = 4


pytestmark = pytest.mark.kafka


@pytest.fixture
def path() -> str:
    """Return a path in ZooKeeper that no other test has."""
    return f"/kcoord-{secrets.token_hex(4)}"


def settings_at(path: str) -> dict[str, object]:
    return {"cluster.shards": SHARDS, "zookeeper.path": path, "zookeeper.session_timeout_ms": 4_000}


@pytest.fixture
def cluster(kafka: LocalKafka, zookeeper: LocalZooKeeper, path: str, tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(kafka.bootstrap_servers, tmp_path, zookeeper=zookeeper, settings=settings_at(path)) as nodes:
        yield nodes


def found_by(node: LocalClusterNode, group: str) -> FindCoordinatorResponse | None:
    """Return whom a node names as the group's coordinator; None while it names nobody, or does not answer."""
    try:
        with RawMember(node.address, group) as tool:
            answer = tool.ask(FindCoordinator(group))
    except (EOFError, OSError):
        return None
    assert isinstance(answer, FindCoordinatorResponse)
    return answer if answer.error is ErrorCode.NONE else None


def leader_of(cluster: LocalCluster, group: str, *, above: int = 0) -> FindCoordinatorResponse:
    """Wait until all nodes that run name the same leader, in an epoch above another; return what they say."""
    found: list[FindCoordinatorResponse | None] = []

    def agree() -> bool:
        found[:] = [found_by(node, group) for node in cluster.nodes if node.is_running]
        first = found[0]
        return (
            first is not None
            and first.leader_epoch > above
            and all(
                each is not None and (each.coordinator, each.leader_epoch) == (first.coordinator, first.leader_epoch)
                for each in found
            )
        )

    wait_until(agree, timeout_s=PATIENCE_S, what=f"a leader above epoch {above}")
    assert found[0] is not None
    return found[0]


def served_by(leader: NodeAddress | None, ask: Callable[[str], object]) -> None:
    """Ask a leader again and again, for it may be loading, until what was asked is answered."""
    assert leader is not None

    def is_answered() -> bool:
        try:
            return bool(ask(f"{leader.host}:{leader.port}"))
        except (EOFError, OSError):
            return False

    wait_until(is_answered, timeout_s=PATIENCE_S, what=f"an answer of {leader}")


def served(cluster: LocalCluster, group: str, ask: Callable[[str], object]) -> None:
    """Ask whichever node leads at the time, which may change on a slow machine, until what was asked is answered."""

    def is_answered() -> bool:
        named = (found_by(node, group) for node in cluster.nodes if node.is_running)
        found = next((one.coordinator for one in named if one is not None and one.coordinator is not None), None)
        if found is None:
            return False
        try:
            return bool(ask(f"{found.host}:{found.port}"))
        except (EOFError, OSError):
            return False

    wait_until(is_answered, timeout_s=PATIENCE_S, what=f"an answer of whoever leads group {group}")


def committed_at(address: str, group: str) -> dict[str, int] | None:
    """Return what a leader says is committed of partition 0 of each topic; None for a refusal."""
    with RawMember(address, group) as tool:
        answer = tool.ask(FetchOffsets(group))
    if answer.error is not ErrorCode.NONE:
        return None
    return {each.topic: each.offset for each in answer.offsets}


class Committer:
    """A member of a group that is one and the same at whichever node it is, and stays until it goes elsewhere."""

    def __init__(self, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.member = self._member("127.0.0.1:1")
        self.owner_epochs: list[int] = []

    def commit(self, address: str, offset: int) -> bool:
        """Register, and commit as the owner of the partition; False for a refusal."""
        before, self.member = self.member, self._member(address)
        before.disconnect()
        self.member.member_id, self.member.incarnation = before.member_id, before.incarnation
        self.member.connect()
        if self.member.register().error is not ErrorCode.NONE:
            return False
        self.owner_epochs.append(self.member.wait_until_complete()[self.topic, 0].owner_epoch)
        return self.commit_next(offset)

    def commit_next(self, offset: int) -> bool:
        """Commit as the owner that it is."""
        parts = in_columns((OffsetToCommit(self.topic, 0, offset, self.owner_epochs[-1]),))
        return bool(self.member.ask(CommitOffsets(self.group, parts)).accepted == 1)

    def _member(self, address: str) -> RawMember:
        member = RawMember(address, self.group, self.topic)
        member.session_timeout_ms = 60_000  # it says nothing while its node is killed and others follow
        return member

    def events(self) -> tuple[GroupEvent, ...]:
        """Return the group's timeline as the member's node has it."""
        answer = self.member.ask(ListGroupEvents(self.group))
        assert isinstance(answer, ListGroupEventsResponse)
        return answer.events


def in_sync(zookeeper: LocalZooKeeper, path: str, shard: int) -> set[int]:
    """Return the nodes that ZooKeeper has as in sync with a shard."""
    return set(entry_of(zookeeper, path, shard)["isr"])


def entry_of(zookeeper: LocalZooKeeper, path: str, shard: int) -> dict[str, Any]:
    """Return what ZooKeeper has of a shard."""
    with zookeeper_client(zookeeper.address) as client:
        found = [json.loads(client.get(f"{path}/shards/{name}")[0]) for name in client.get_children(f"{path}/shards")]
    (entry,) = [bucket["shards"][str(shard)] for bucket in found if str(shard) in bucket["shards"]]
    assert isinstance(entry, dict)
    return entry


def snapshots_in(log: Path) -> list[str]:
    """Return the names of the whole snapshots in the folder of a shard's log."""
    return [file.name for file in log.glob("*.snapshot")] if log.exists() else []


def pause(node: LocalClusterNode) -> None:
    """Have a node stand still, and return when it does."""
    node.pause()
    wait_until(lambda: stands_still(node.process_group_id), timeout_s=PATIENCE_S, what="it stands still")


def node_of(cluster: LocalCluster, address: NodeAddress | None) -> LocalClusterNode:
    assert address is not None
    return next(node for node in cluster.nodes if node.number == address.node_id)


def test_a_commit_outlives_its_leader_which_is_killed_and_comes_back_in_sync(
    cluster: LocalCluster, zookeeper: LocalZooKeeper, path: str, topic: Callable[..., str]
) -> None:
    name, group = topic(), "g"
    member = Committer(group, name)
    first = leader_of(cluster, group)
    assert first.coordinator is not None
    assert f"{first.coordinator.host}:{first.coordinator.port}" == node_of(cluster, first.coordinator).address
    served_by(first.coordinator, lambda at: member.commit(at, 41))
    told = member.events()
    assert {"member-joined", "rebalance", "granted"} <= {event.kind for event in told}

    node_of(cluster, first.coordinator).kill()
    second = leader_of(cluster, group, above=first.leader_epoch)
    assert second.coordinator != first.coordinator
    served_by(second.coordinator, lambda at: committed_at(at, group) == {name: 41})
    served_by(second.coordinator, lambda at: member.commit(at, 42))
    assert len(set(member.owner_epochs)) == 1, "it owns what it owned, under the same epoch"
    events = member.events()
    assert events[: len(told)] == told, "what happened is told by whoever leads now"
    assert [event.kind for event in events[len(told) :]] == ["member-returned"], "and nothing has since"
    member.member.disconnect()

    node_of(cluster, first.coordinator).start()
    everybody = {node.number for node in cluster.nodes}
    wait_until(lambda: in_sync(zookeeper, path, first.shard) == everybody, timeout_s=PATIENCE_S, what="all in sync")

    node_of(cluster, second.coordinator).kill()
    third = leader_of(cluster, group, above=second.leader_epoch)
    assert third.coordinator not in (second.coordinator, None)
    served_by(third.coordinator, lambda at: committed_at(at, group) == {name: 42})
    assert not [node.number for node in cluster.nodes if '"level":"critical"' in node.log_path.read_text()]


def test_a_cluster_that_stops_in_order_ends_well_and_has_everything_when_it_starts_again(
    cluster: LocalCluster, topic: Callable[..., str]
) -> None:
    name, group = topic(), "g"
    member = Committer(group, name)
    served(cluster, group, lambda at: member.commit(at, 7))
    member.member.disconnect()
    before = leader_of(cluster, group)
    cluster.stop()
    for node in cluster.nodes:
        last = json.loads(node.log_path.read_text().splitlines()[-1])
        assert (last["event"], last["level"], last["why"]) == ("stopped", "info", "SIGTERM came")
    cluster.start()
    after = leader_of(cluster, group, above=before.leader_epoch)
    served_by(after.coordinator, lambda at: committed_at(at, group) == {name: 7})


def test_a_node_whose_disk_was_replaced_gets_the_leaders_snapshot_and_is_in_sync_again(
    kafka: LocalKafka, zookeeper: LocalZooKeeper, path: str, tmp_path: Path, topic: Callable[..., str]
) -> None:
    name, group = topic(), "g"
    settings = settings_at(path) | {"group.snapshot_interval_bytes": 65_536}
    with LocalCluster(kafka.bootstrap_servers, tmp_path, zookeeper=zookeeper, settings=settings) as cluster:
        member = Committer(group, name)
        found = leader_of(cluster, group)
        served_by(found.coordinator, lambda at: member.commit(at, 0))
        leader = node_of(cluster, found.coordinator)
        other = next(node for node in cluster.nodes if node is not leader)
        logs = [node.data_dir / "data" / f"shard-{found.shard:05d}" for node in (leader, other)]

        committed = 0
        while not snapshots_in(logs[0]):
            committed += 1
            assert member.commit_next(committed)
        wait_until(lambda: snapshots_in(logs[1]), timeout_s=PATIENCE_S, what="a snapshot of the follower's own")
        other.kill()
        shutil.rmtree(other.data_dir / "data")
        other.start()
        everybody = {node.number for node in cluster.nodes}
        wait_until(lambda: in_sync(zookeeper, path, found.shard) == everybody, timeout_s=PATIENCE_S, what="all in sync")
        assert snapshots_in(logs[1])

        member.member.disconnect()
        leader.kill()
        after = leader_of(cluster, group, above=found.leader_epoch)
        served_by(after.coordinator, lambda at: committed_at(at, group) == {name: committed})


def test_a_copy_of_a_directory_that_is_put_back_while_all_nodes_are_down_is_not_led_with(
    cluster: LocalCluster, zookeeper: LocalZooKeeper, path: str, topic: Callable[..., str]
) -> None:
    name, group = topic(), "g"
    member = Committer(group, name)
    first = leader_of(cluster, group)
    served_by(first.coordinator, lambda at: member.commit(at, 0))
    everybody = {node.number for node in cluster.nodes}
    wait_until(lambda: in_sync(zookeeper, path, first.shard) == everybody, timeout_s=PATIENCE_S, what="all in sync")

    old = node_of(cluster, first.coordinator)
    data, copy = old.data_dir / "data", old.data_dir / "copy"
    pause(old)
    shutil.copytree(data, copy)
    old.resume()
    after = leader_of(cluster, group)
    served_by(after.coordinator, lambda at: member.commit(at, 41))
    member.member.disconnect()
    wait_until(lambda: in_sync(zookeeper, path, first.shard) == everybody, timeout_s=PATIENCE_S, what="all in sync")
    for node in cluster.nodes:
        pause(node)  # so that nobody takes another out of the in-sync set who is killed before
    cluster.kill()
    shutil.rmtree(data)
    copy.rename(data)

    old.start()
    others = [node for node in cluster.nodes if node is not old]

    def is_elected() -> bool:
        entry = entry_of(zookeeper, path, first.shard)
        return entry["leader"] == old.number and entry["leader_epoch"] > after.leader_epoch

    wait_until(is_elected, timeout_s=PATIENCE_S, what="the old one elected, which is alone")
    others[0].start()
    asked = f"shard {first.shard} wants another leader: the log of node {others[0].number}, in sync, ends at"
    wait_until(lambda: asked in old.log_path.read_text(), timeout_s=PATIENCE_S, what="the longer log heard of")
    last = leader_of(cluster, group, above=after.leader_epoch)
    assert last.coordinator is not None
    served_by(last.coordinator, lambda at: committed_at(at, group) == {name: 41})


def test_dev_up_starts_a_cluster_says_what_to_try_and_starts_a_node_again_that_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "coordinator", "dev", "up", "--nodes", "3", "--data", str(tmp_path)]
    notes = tmp_path / "notes"
    with notes.open("w") as stderr, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as up:
        try:
            assert up.stdout is not None
            said = dict(up.stdout.readline().split() for _ in range(3))
            assert list(said) == ["kafka", "zookeeper", "coordinator"]
            addresses = said["coordinator"].split(",")
            assert len(set(addresses)) == 3
            told = re.search(r"kill -9 (\d+) ends node 1", notes.read_text())
            assert told is not None
            assert f"KCOORD_COORDINATOR={said['coordinator']}" in notes.read_text()
            os.kill(int(told[1]), signal.SIGKILL)
            wait_until(lambda: "Node 1 serves again." in notes.read_text(), timeout_s=PATIENCE_S)
            with RawMember(addresses[0], "g") as tool:
                assert isinstance(tool.ask(FindCoordinator("g")), FindCoordinatorResponse)
            up.terminate()
            assert up.wait(PATIENCE_S) == 0
        finally:
            up.kill()
    assert "stopped" in notes.read_text()
