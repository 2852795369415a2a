"""Three real nodes, their ZooKeeper and members that commit all the time: what shows of what is done to them.

The members are one a group, each with a topic of one partition. Whatever is done, each has to have noticed nothing but
a pause, every node has to say the same committed offset, and nothing may have been rebalanced (`must_have_kept`).
"""

import json
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.local.cluster import LocalCluster
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalClusterNode
from coordinator.local.process.running import Running
from coordinator.local.zookeeper import LocalZooKeeper, LocalZooKeeperQuorum
from coordinator.protocol.text.addresses import parse_addresses
from spark_kcoord.member.client import fetch_offsets
from tests.helpers.steady_members import SteadyMember
from tests.helpers.waiting import wait_until
from tests.helpers.zookeeper_client import zookeeper_client

PATIENCE_S = 90.0
SHARDS = 4
GROUPS = ("a", "b", "c")


def wait_until_well(addresses: str) -> float:
    """Wait until `kcoord cluster status` has nothing to say; return the seconds it took."""
    return _wait_for_status(addresses, lambda said: not said, "nothing")


def wait_until_status_says(addresses: str, *words: str) -> float:
    """Wait until `kcoord cluster status` says all of this; return the seconds it took."""
    return _wait_for_status(addresses, lambda said: bool(said) and all(word in said for word in words), str(words))


def _wait_for_status(addresses: str, is_it: Callable[[str], bool], wanted: str) -> float:
    said = ""

    def is_said() -> bool:
        nonlocal said
        result = CliRunner().invoke(app, ["cluster", "status", "--coordinator", addresses])
        said = " ".join(f"{result.stdout} {result.stderr}".split()) if result.exit_code else ""
        return is_it(said)

    try:
        return wait_until(is_said, timeout_s=PATIENCE_S)
    except AssertionError:
        raise AssertionError(f"cluster status was to say {wanted}, and says: {said or 'nothing'}") from None


class WatchedCluster(Running):
    """The nodes and members, beside a ZooKeeper and a Kafka that run; a context manager."""

    def __init__(
        self,
        kafka: LocalKafka,
        zookeeper: LocalZooKeeper | LocalZooKeeperQuorum,
        folder: Path,
        *,
        session_timeout_ms: int = 4_000,
    ) -> None:
        self.kafka = kafka
        self.zookeeper = zookeeper
        self.folder = folder
        self.path = f"/kcoord-{secrets.token_hex(4)}"
        self.settings: dict[str, object] = {
            "cluster.shards": SHARDS,
            "zookeeper.path": self.path,
            "zookeeper.session_timeout_ms": session_timeout_ms,
        }
        self.members: list[SteadyMember] = []
        self._stack = ExitStack()
        self._cluster = LocalCluster(kafka.bootstrap_servers, folder, zookeeper=zookeeper, settings=self.settings)
        self._planned: list[object] = []

    def start(self) -> None:
        """Start the nodes, and the members once all is well."""
        with ExitStack() as stack:
            stack.enter_context(self._cluster)
            self.wait_until_well()
            for group in GROUPS:
                topic = f"{group}-{secrets.token_hex(4)}"
                self.kafka.create_topic(topic, 1)
                self.members.append(stack.enter_context(SteadyMember(self.addresses, group, topic)))
            self.wait_until_all_have_committed()
            self._planned = self._rebalances()
            self._stack = stack.pop_all()

    def stop(self) -> None:
        """Stop the members, then the nodes."""
        self._stack.close()

    # ---- the nodes --------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[LocalClusterNode, ...]:
        """Return nodes 1, 2 and 3."""
        return tuple(self._cluster.nodes)

    @property
    def addresses(self) -> str:
        """Return the nodes' addresses for members."""
        return self._cluster.addresses

    def node(self, number: int) -> LocalClusterNode:
        """Return a node by its number."""
        return self._cluster.nodes[number - 1]

    def another(self, number: int, folder: str, **settings: object) -> LocalClusterNode:
        """Return a node that is not started, with a number, and a folder below that of the cluster."""
        return LocalClusterNode(
            number,
            self.kafka.bootstrap_servers,
            self.zookeeper.hosts,
            self.folder / folder,
            settings=self.settings | settings,
        )

    # ---- as an operator sees it -------------------------------------------------------------------------------------

    def tool(self, *arguments: str) -> Any:
        """Run a verb and return its result."""
        return CliRunner().invoke(app, [*arguments, "--coordinator", self.addresses])

    def wait_until_well(self) -> float:
        """Wait until `kcoord cluster status` has nothing to say; return the seconds it took."""
        return wait_until_well(self.addresses)

    def wait_until_status_says(self, *words: str) -> float:
        """Wait until `kcoord cluster status` says all of this; return the seconds it took."""
        return wait_until_status_says(self.addresses, *words)

    # ---- as ZooKeeper has it ----------------------------------------------------------------------------------------

    def entry(self, shard: int) -> dict[str, Any]:
        """Return what ZooKeeper has of a shard; there are few, so each has a bucket of its own."""
        with zookeeper_client(self.zookeeper.hosts, timeout_s=20) as client:
            value: dict[str, Any] = json.loads(client.get(f"{self.path}/shards/{shard}")[0])["shards"][str(shard)]
            return value

    def session_of(self, node: int) -> int:
        """Return the id of the ZooKeeper session under which a node is registered, 0 while it is not."""
        with zookeeper_client(self.zookeeper.hosts, timeout_s=20) as client:
            stat = client.exists(f"{self.path}/nodes/live/{node}")
            return 0 if stat is None else int(stat.ephemeralOwner)

    def controller(self) -> int:
        """Return the number of the node that is the controller."""
        with zookeeper_client(self.zookeeper.hosts, timeout_s=20) as client:
            return int(json.loads(client.get(f"{self.path}/controller/active")[0])["node_id"])

    # ---- the members ------------------------------------------------------------------------------------------------

    def wait_until_all_have_committed(self) -> float:
        """Wait until each member has had a commit accepted that it asked for from now on; return the seconds."""
        before = [len(member.results) for member in self.members]

        def have_all() -> bool:  # of two results the second is of a commit that was begun later
            return all(len(member.results) >= was + 2 for member, was in zip(self.members, before, strict=True))

        return wait_until(have_all, timeout_s=PATIENCE_S, what="everybody has committed since")

    def must_have_kept(self) -> None:
        """Raise AssertionError unless nothing acknowledged is lost, nothing was rebalanced and no member noticed."""
        for member in self.members:
            assert member.has_noticed_nothing, (member.group, member.failures, set(member.results), member.owned)
            acknowledged = len(member.results)
            for node in self.nodes:
                found = fetch_offsets(parse_addresses(node.address), member.group, timeout_s=PATIENCE_S)
                assert found[member.topic, 0] >= acknowledged, (member.group, node.number, found, acknowledged)
        assert self._rebalances() == self._planned

    def _rebalances(self) -> list[object]:
        """Return the rebalances in the timeline of each group."""
        told = [json.loads(self.tool("group", "events", group, "-o", "json").stdout) for group in GROUPS]
        return [[event for event in events if event["kind"] == "rebalance"] for events in told]


def events_of(node: LocalClusterNode, name: str) -> list[dict[str, Any]]:
    """Return the lines of a node's log that are of one kind."""
    lines = [line for line in node.log_path.read_text().splitlines() if line.startswith("{")]
    return [line for line in map(json.loads, lines) if line["event"] == name]


def said_since(node: LocalClusterNode, act: Callable[[], object]) -> list[dict[str, Any]]:
    """Do something, and return the lines that a node has logged meanwhile."""
    before = node.log_path.stat().st_size
    act()
    with node.log_path.open("rb") as log:
        log.seek(before)
        return [json.loads(line) for line in log.read().decode().splitlines() if line.startswith("{")]
