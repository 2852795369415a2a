"""Operators at three real nodes: a rolling restart, a node that is added and one that is removed, noticed by nobody.

Every wait is for something that happens, so that a slow machine makes the test slow and nothing else.
"""

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.local.cluster import LocalCluster
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalClusterNode
from coordinator.local.zookeeper import LocalZooKeeper
from coordinator.protocol.errors import ErrorCode
from tests.helpers.steady_members import SteadyMember
from tests.helpers.waiting import wait_until
from tests.helpers.watched_cluster import events_of
from tests.integration.test_cluster_members import rebalances

PATIENCE_S = 60.0
SHARDS = 4
GROUPS = ("a", "b", "c")

pytestmark = pytest.mark.kafka


@pytest.fixture
def settings() -> dict[str, object]:
    """Return the settings of a cluster that no other test has."""
    path = f"/kcoord-{secrets.token_hex(4)}"
    return {"cluster.shards": SHARDS, "zookeeper.path": path, "zookeeper.session_timeout_ms": 4_000}


@pytest.fixture
def cluster(
    kafka: LocalKafka, zookeeper: LocalZooKeeper, settings: dict[str, object], tmp_path: Path
) -> Iterator[LocalCluster]:
    with LocalCluster(kafka.bootstrap_servers, tmp_path, zookeeper=zookeeper, settings=settings) as nodes:
        yield nodes


def tool(addresses: str, *arguments: str) -> Any:
    """Run a verb and return its result, with its JSON as `told`."""
    result = CliRunner().invoke(app, [*arguments, "--coordinator", addresses, "-o", "json"])
    result.told = json.loads(result.stdout) if result.stdout else None  # type: ignore[attr-defined]
    return result


def wait_until_well(cluster: LocalCluster) -> None:
    wait_until(
        lambda: tool(cluster.addresses, "cluster", "status").exit_code == 0,
        timeout_s=PATIENCE_S,
        what="all shards are served and in sync",
    )


def replicas_of(cluster: LocalCluster) -> list[tuple[int, ...]]:
    """Return the replicas of each shard, as tools show them."""
    return [tuple(shard["replicas"]) for shard in tool(cluster.addresses, "shard", "list").told]


def test_node_is_added_and_another_removed_while_members_commit(
    cluster: LocalCluster,
    kafka: LocalKafka,
    zookeeper: LocalZooKeeper,
    settings: dict[str, object],
    topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    name, everybody = topic(), cluster.addresses
    wait_until_well(cluster)
    fourth = LocalClusterNode(4, kafka.bootstrap_servers, zookeeper.address, tmp_path / "node-4", settings=settings)
    with ExitStack() as stack:
        members = [stack.enter_context(SteadyMember(everybody, group, name)) for group in GROUPS]
        stack.enter_context(fourth)
        dry = tool(everybody, "shard", "reassign", "--nodes", "1,2,3,4")
        assert {node for row in dry.told for node in row["added"]} == {4}
        assert set().union(*replicas_of(cluster)) == {1, 2, 3}, "nothing was done"
        done = tool(everybody, "shard", "reassign", "--nodes", "1,2,3,4", "--execute", "--wait", "--timeout", "60")
        assert (done.exit_code, done.told) == (0, dry.told)
        loads = Counter(node for replicas in replicas_of(cluster) for node in replicas)
        assert sorted(loads.items()) == [(node, 3) for node in (1, 2, 3, 4)]

        assert tool(everybody, "node", "drain", "1", "--execute", "--wait", "--timeout", "60").exit_code == 0
        assert tool(everybody, "node", "describe", "1").told["state"] == "draining"
        assert not any(1 in shard["in_sync"] for shard in tool(everybody, "shard", "list").told)
        assert tool(everybody, "node", "undrain", "1", "--execute").exit_code == 0
        wait_until_well(cluster)
        tool(everybody, "shard", "elect", "--execute")
        wait_until(
            lambda: all(shard["leader"] == shard["replicas"][0] for shard in tool(everybody, "shard", "list").told),
            timeout_s=PATIENCE_S,
            what="shards are led by their first replicas",
        )

        begun = tool(everybody, "node", "remove", "2", "--execute")
        assert (begun.exit_code, "stop it" in begun.stderr) == (0, False), begun.stderr
        gone = tool(everybody, "node", "remove", "2", "--execute", "--wait", "--timeout", "60")
        assert (gone.exit_code, "stop it" in gone.stderr) == (0, True), gone.stderr
        assert set().union(*replicas_of(cluster)) == {1, 3, 4}
        cluster.nodes[1].stop()
        for member in members:
            assert (member.failures, set(member.results)) == ([], {ErrorCode.NONE})
            assert len(member.owned) == 1, "it has owned the same all the while, under the same epochs"
        refused = tool(everybody, "shard", "reassign", "0", "--replicas", "1,2,3")
        assert refused.exit_code == 4
        assert "node 2 is not there, is being drained or refuses connections of other nodes" in refused.stderr


def test_rolling_restart_costs_members_no_commit_and_no_rebalance(
    cluster: LocalCluster, topic: Callable[..., str]
) -> None:
    name, everybody = topic(), cluster.addresses
    wait_until_well(cluster)
    with ExitStack() as stack:
        members = [stack.enter_context(SteadyMember(everybody, group, name)) for group in GROUPS]
        planned = [rebalances(everybody, group) for group in GROUPS]
        led = 0
        for node in cluster.nodes:
            led += tool(everybody, "node", "describe", str(node.number)).told["leads"]
            before = [len(member.results) for member in members]
            node.stop()
            (drained,) = events_of(node, "drained")
            assert "others lead what this node led" in drained["why"]
            node.start()
            wait_until_well(cluster)
            wait_until(
                lambda before=before: all(len(m.results) > n for m, n in zip(members, before, strict=True)),
                timeout_s=PATIENCE_S,
                what="everybody has committed since",
            )
        assert led >= SHARDS, "each shard has changed its leader"
        for member in members:
            assert (member.failures, set(member.results)) == ([], {ErrorCode.NONE})
            assert len(member.owned) == 1, "it has owned the same all the while, under the same epochs"
        assert [rebalances(everybody, group) for group in GROUPS] == planned
    assert not [node.number for node in cluster.nodes if '"level":"critical"' in node.log_path.read_text()]
