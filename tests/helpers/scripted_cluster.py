"""A cluster of scripted nodes on loopback sockets: each says of itself and the others what a test has them say."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeCluster,
    DescribeClusterResponse,
    ErrorResponse,
    ListGroups,
    ListGroupsResponse,
    Request,
    Response,
)
from coordinator.protocol.parts import GroupSummary, NodeDescription, ShardDescription
from coordinator.protocol.text.addresses import Address, format_address
from tests.helpers.loopback_coordinator import unused_address
from tests.helpers.scripted_coordinator import Answer, ScriptedCoordinator

NOT_HERE = ErrorResponse(ErrorCode.NOT_COORDINATOR, "shard 1 is not led by this node")


@dataclass
class Script:
    """The things to be said: by shard its leader, by node its address once it runs, and the groups of each shard.

    `gone` are nodes without a session with ZooKeeper, `isr` the in-sync sets that are not whole.
    """

    leaders: dict[int, int | None]
    groups: dict[int, tuple[str, ...]] = field(default_factory=dict)
    gone: frozenset[int] = frozenset()
    isr: dict[int, tuple[int, ...]] = field(default_factory=dict)
    status: dict[int, str] = field(default_factory=dict)
    controller: int | None = 1
    cluster_id: str = "c1"
    addresses: dict[int, Address] = field(default_factory=dict)
    changes: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By node: fields of its description that are otherwise."""

    def describe(self, node: int) -> DescribeClusterResponse:
        """Return what a node says of the cluster."""
        replicas = tuple(sorted(self.addresses))
        known: dict[str, Any] = {
            "node_id": node,
            "nodes": tuple(self._node(each) for each in replicas),
            "shards": tuple(self._shard(node, shard, replicas) for shard in sorted(self.leaders)),
            "cluster_id": self.cluster_id,
            "controller": self.controller,
            "controller_epoch": 9,
            "replication_factor": len(replicas),
            "min_insync_replicas": 2,
            "is_up_to_date": True,
            "wall_ms": round(time.time() * 1000),
        }
        return DescribeClusterResponse(**(known | self.changes.get(node, {})))

    def _node(self, node: int) -> NodeDescription:
        if node in self.gone:
            return NodeDescription(node, "gone")
        return NodeDescription(node, "ready", *self.addresses[node], 4, f"rack-{node}", "1.2.3", is_heard=True)

    def _shard(self, node: int, shard: int, replicas: tuple[int, ...]) -> ShardDescription:
        leader = self.leaders[shard]
        leads = node == leader
        status = self.status.get(shard, "serving") if leads else "offline" if leader is None else "following"
        isr = self.isr.get(shard, replicas) if leads or node == self.controller else ()
        return ShardDescription(shard, status, 5, leader, replicas, isr, 100 if leads else 90, 95)

    def list_groups(self, node: int, request: Request) -> Response:
        """Return the groups of the shards that a node leads."""
        assert isinstance(request, ListGroups)
        led = tuple(shard for shard, leader in sorted(self.leaders.items()) if leader == node)
        if len(led) < len(self.leaders) and not request.of_served:
            return NOT_HERE
        groups = tuple(GroupSummary(group, "Stable", 1, 1) for shard in led for group in self.groups.get(shard, ()))
        return ListGroupsResponse(groups, None, led if request.of_served else ())


@contextmanager
def scripted_cluster(
    script: Script, nodes: tuple[int, ...] = (1, 2, 3), dead: tuple[int, ...] = (), **answers: Mapping[Any, Answer]
) -> Iterator[dict[int, ScriptedCoordinator]]:
    """Run the nodes; those that are `dead` have an address at which nobody listens."""
    with ExitStack() as stack:
        running: dict[int, ScriptedCoordinator] = {}
        for node in nodes:
            if node in dead:
                script.addresses[node] = unused_address()
                continue
            known: dict[Any, Any] = {
                DescribeCluster: lambda _, node=node: script.describe(node),
                ListGroups: lambda request, node=node: script.list_groups(node, request),
            }
            running[node] = ScriptedCoordinator(known | dict(answers.get(f"node_{node}", {})))
            script.addresses[node] = running[node].address
        for coordinator in running.values():
            stack.enter_context(coordinator)
        yield running


def bootstrap(script: Script, *nodes: int) -> str:
    """Return the addresses of nodes as people type them."""
    return ",".join(format_address(script.addresses[node]) for node in nodes or sorted(script.addresses))
