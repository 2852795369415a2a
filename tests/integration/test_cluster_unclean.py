"""The disks of all that were in sync with a shard are gone, and a person has the replica lead that was behind.

Three real nodes, a real ZooKeeper and a real Kafka. One node is away while members commit and get other partitions; of
the other two one loses its disk, and one comes back only when everything goes on without it.
"""

import json
import re
import secrets
import shutil
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.local.cluster import LocalCluster
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalClusterNode
from coordinator.local.zookeeper import LocalZooKeeper
from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import LeaveGroup
from spark_kcoord.member.client import MemberClient
from tests.helpers.waiting import wait_until
from tests.integration.test_cluster import (
    Committer,
    committed_at,
    entry_of,
    in_sync,
    leader_of,
    node_of,
    served,
    served_by,
)
from tests.integration.test_cluster_members import member_of
from tests.integration.test_cluster_operated import events_of

PATIENCE_S = 60.0
GROUP = "g"
WHY = "both disks burnt"

pytestmark = pytest.mark.kafka


class Operator:
    """Somebody who knows the address of one node, and asks for an unclean election of shard 0."""

    def __init__(self, address: str) -> None:
        self._address = address

    def status(self) -> str:
        """Return what `kcoord cluster status` says."""
        return str(self._tool("cluster", "status").output)

    def elect(self, *more: str) -> tuple[int, str, str]:
        """Return exit code, output, and what was said beside it, of a verb that is a dry run unless `more` says so."""
        result = self._tool("shard", "elect", "0", "--unclean", "--why", WHY, *more)
        return result.exit_code, " ".join(result.stdout.split()), " ".join(result.stderr.split())

    def log_end(self) -> int:
        """Return where the leader's log of shard 0 ends."""
        (shard,) = json.loads(self._tool("shard", "list", "-o", "json").stdout)
        return int(shard["log_end_offset"])

    def _tool(self, *arguments: str) -> Any:
        return CliRunner().invoke(app, [*arguments, "--coordinator", self._address])


def commit(client: MemberClient, topic: str, offset: int, owner_epoch: int) -> ErrorCode:
    (result,) = client.commit([OffsetToCommit(topic, 0, offset, owner_epoch)])
    return result.error


def owner_epoch(client: MemberClient) -> int:
    """Return the owner epoch under which a member has its partition now, 0 for none."""
    return max((part.owner_epoch for part in client.assignment().partitions), default=0)


def test_a_shard_goes_on_from_the_log_that_is_left_when_a_person_says_so(
    kafka: LocalKafka, zookeeper: LocalZooKeeper, tmp_path: Path, topic: Callable[..., str]
) -> None:
    path, name = f"/kcoord-{secrets.token_hex(4)}", topic()
    settings = {"cluster.shards": 1, "zookeeper.path": path, "zookeeper.session_timeout_ms": 4_000}
    with ExitStack() as stack:
        cluster = LocalCluster(kafka.bootstrap_servers, tmp_path, zookeeper=zookeeper, settings=settings)
        stack.enter_context(cluster)
        found = leader_of(cluster, GROUP)
        longer = node_of(cluster, found.coordinator)
        behind, burnt = (node for node in cluster.nodes if node is not longer)
        everybody, kept = {1, 2, 3}, {longer.number, burnt.number}
        first = Committer(GROUP, name)
        served_by(found.coordinator, lambda at: first.commit(at, 41))
        first.member.ask(LeaveGroup())
        first.member.disconnect()
        wait_until(lambda: in_sync(zookeeper, path, 0) == everybody, timeout_s=PATIENCE_S, what="all in sync")
        behind.kill()
        wait_until(lambda: in_sync(zookeeper, path, 0) == kept, timeout_s=PATIENCE_S, what="one is out of sync")
        end = Operator(longer.address).log_end()

        client = stack.enter_context(closing(member_of(cluster.addresses, GROUP, name)))
        client.join()
        (lost,) = client.wait_for_assignment(complete=True, timeout_s=PATIENCE_S).partitions
        assert commit(client, name, 42, lost.owner_epoch) is ErrorCode.NONE
        for node in (longer, burnt):
            node.kill()
        shutil.rmtree(burnt.data_dir / "data")
        left = LocalClusterNode(
            behind.number,
            kafka.bootstrap_servers,
            zookeeper.address,
            behind.data_dir,
            port=behind.port,
            settings=settings | {"audit.file": tmp_path / "audit.log"},
        )
        stack.enter_context(left)
        operator = Operator(left.address)
        wait_until(lambda: "shard 0 has no leader" in operator.status(), timeout_s=PATIENCE_S, what="nobody leads")
        wait_until(lambda: entry_of(zookeeper, path, 0)["leader"] is None, timeout_s=PATIENCE_S, what="it is written")
        before = entry_of(zookeeper, path, 0)
        assert (before["leader"], set(before["isr"])) == (None, kept)

        code, shown, told = operator.elect()
        assert (code, shown.split()[-1]) == (0, str(left.number))
        silent = ", ".join(map(str, sorted(kept)))
        has = re.search(rf"Shard 0 on node {left.number}: (\d+) records, the last of leader epoch (\d+);", told)
        assert has is not None, told
        # What was said between the death of the one and the end of its place in sync is in the log of the other alone.
        assert (0 < int(has[1]) <= end, int(has[2])) == (True, found.leader_epoch)
        assert f"replicas that do not answer: {silent}; in sync: {silent}." in told
        assert f"whatever was acknowledged from record {has[1]} of shard 0 on" in told
        assert f"in leader epochs up to {before['leader_epoch']}, is lost" in told
        assert entry_of(zookeeper, path, 0) == before, "it was a dry run"

        assert operator.elect("--execute")[0] == 0
        wait_until(lambda: in_sync(zookeeper, path, 0) == {left.number}, timeout_s=PATIENCE_S, what="it is elected")
        elected = entry_of(zookeeper, path, 0)
        assert (elected["leader"], elected["unclean_epoch"]) == (left.number, elected["leader_epoch"])
        too_few = "fewer replicas in sync than min_insync_replicas, which is 2"
        wait_until(lambda: too_few in operator.status(), timeout_s=PATIENCE_S, what="that groups wait is said")
        for node in (burnt, longer):
            node.begin()
        for node in (burnt, longer):
            node.await_ready()
        served(cluster, GROUP, lambda at: committed_at(at, GROUP) == {name: 41})

        assert commit(client, name, 43, lost.owner_epoch) is not ErrorCode.NONE
        wait_until(lambda: owner_epoch(client) > lost.owner_epoch, timeout_s=PATIENCE_S, what="granted anew")
        assert commit(client, name, 43, owner_epoch(client)) is ErrorCode.NONE
        served(cluster, GROUP, lambda at: committed_at(at, GROUP) == {name: 43})

        wait_until(lambda: in_sync(zookeeper, path, 0) == everybody, timeout_s=PATIENCE_S, what="all in sync")
        everywhere = Operator(cluster.addresses)
        wait_until(lambda: "All is well" in everywhere.status(), timeout_s=PATIENCE_S, what="all is well")
        (aside,) = events_of(longer, "log-set-aside")
        assert f"in epoch {elected['unclean_epoch']} a person had a replica lead that lacked records" in aside["why"]
        assert int(aside["why"].partition("it ends at ")[2].split()[0]) > end
        assert len(list((longer.data_dir / "data").glob("aside-00000-*"))) == 1

        (recorded,) = events_of(left, "operator")
        assert WHY in recorded["why"]
        lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
        done = [line for line in lines if line["verb"] == "ElectLeaders"]
        assert [(line["outcome"], line["why"]) for line in done] == [("dry-run", WHY), ("done", WHY)]
        assert done[1]["after"] == {"shard 0": f"leader {left.number}, replicas 1, 2, 3"}
