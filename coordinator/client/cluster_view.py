"""A cluster as all of its nodes together describe it: of each thing what whoever knows most of it says.

Of a node the controller knows most, of a shard its leader in the greatest epoch. What is not as it should be is said in
sentences, what costs most first. Nothing is asked here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from coordinator.client.every_node import NodesFound
from coordinator.protocol.messages import DescribeClusterResponse
from coordinator.protocol.parts import NodeDescription, ShardDescription
from coordinator.protocol.text.addresses import Address, format_address
from coordinator.protocol.vocabulary import NodeStatus, ShardStatus

LED: Final = frozenset({ShardStatus.SERVING, ShardStatus.LOADING, ShardStatus.STALLED})
"""The states of a shard on the node that leads it."""
MOST_SHARDS_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node; `why_not_asked` is empty if it answered. `leads`, `replicas` and `in_sync` count shards.

    `unheard_by` are the nodes that answered and are not in contact with it, though it has a session with ZooKeeper.
    `unreached` is why a node that answered elsewhere cannot be asked at its `address`, where members are sent.
    """

    described: NodeDescription
    address: Address | None
    why_not_asked: str
    is_controller: bool
    leads: int
    replicas: int
    in_sync: int
    unheard_by: tuple[int, ...] = ()
    unreached: str = ""


@dataclass(frozen=True, slots=True)
class ShardView:
    """One shard; `status` is how it is at its leader, None if that was not asked.

    `copies` has, by node, how it is on each that answered and has its log.
    """

    shard: int
    leader: int | None
    leader_epoch: int
    status: str | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    log_end: int | None
    high_watermark: int | None
    copies: Mapping[int, ShardDescription]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """The replicas that come and go, as the controller knows them."""

    @property
    def target(self) -> tuple[int, ...]:
        """Return the replicas that the shard has, or has when its reassignment is done."""
        return tuple(node for node in self.replicas if node not in self.removing)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All of a cluster; `cluster_id` is None for a node that is alone."""

    cluster_id: str | None
    controller: int | None
    controller_epoch: int | None
    replication_factor: int
    min_insync_replicas: int
    nodes: tuple[NodeView, ...]
    shards: tuple[ShardView, ...]
    unheard_zookeeper: tuple[int, ...]
    """The nodes that answered and have not heard from ZooKeeper."""
    stuck: tuple[str, ...] = ()
    """The sentences of nodes about what a person has to put right in ZooKeeper."""

    def troubles(self) -> list[str]:
        """Return what is not as it should be, a sentence each without its full stop."""
        return [
            *self.troubles_of_leaders(),
            *self.troubles_of_replicas(),
            *self.troubles_of_moves(),
            *self.troubles_of_nodes(),
            *self.troubles_of_zookeeper(),
        ]

    def troubles_of_leaders(self) -> Iterable[str]:
        """Say which shards are not served, or perhaps not."""
        leaderless = [shard.shard for shard in self.shards if shard.leader is None]
        if leaderless:
            yield f"{shards_have(leaderless)} no leader: groups there are not served"
        for status in (ShardStatus.LOADING, ShardStatus.STALLED):
            waiting = [shard.shard for shard in self.shards if shard.status == status]
            if waiting:
                yield f"{shards_have(waiting)} a leader that is {status}: groups there wait"
        gone = [shard.shard for shard in self.shards if shard.leader is not None and shard.status is None]
        if gone:
            yield f"{shards_have(gone)} a leader that could not be asked"

    def troubles_of_replicas(self) -> Iterable[str]:
        """Say which shards have too few replicas in sync."""
        short = [shard for shard in self.shards if shard.isr and len(shard.isr) < len(shard.replicas)]
        led = [shard for shard in short if shard.leader is not None]
        least = [shard.shard for shard in led if len(shard.isr) == self.min_insync_replicas]
        too_few = [shard.shard for shard in led if len(shard.isr) < self.min_insync_replicas]
        if short:
            yield f"{shards_have([shard.shard for shard in short])} fewer replicas in sync than there are"
        if too_few:
            yield (
                f"{shards_have(too_few)} fewer replicas in sync than min_insync_replicas, which is "
                f"{self.min_insync_replicas}: groups there wait until others have caught up"
            )
        if least:
            yield f"{shards_have(least)} no replica in sync to spare: if one more is lost, nothing is committed there"

    def troubles_of_moves(self) -> Iterable[str]:
        """Say which new replicas are waited for; a node that is not there may never come."""
        waiting: dict[int, list[int]] = {}
        for shard in self.shards:
            for node in shard.adding:
                if node not in shard.isr:
                    waiting.setdefault(node, []).append(shard.shard)
        silent = {node.described.node_id for node in self.nodes if node.why_not_asked}
        for number, shards in sorted(waiting.items()):
            way_out = (
                ", which is not there: start it, or name other replicas, or those of before, with `kcoord shard "
                "reassign SHARD… --replicas NODE,…`"
            )
            where = way_out if number in silent else ""
            yield f"{shards_have(shards)} a reassignment that waits until node {number} is in sync{where}"

    def troubles_of_nodes(self) -> Iterable[str]:
        """Say which nodes are not there or not as they should be, and whether nobody is the controller."""
        if self.cluster_id is not None and self.controller is None:
            yield "no node knows a controller: what a node led that is lost has no leader"
        for node in self.nodes:
            number = node.described.node_id
            where = "" if node.address is None else f" at {format_address(node.address)}"
            is_gone = node.described.status == NodeStatus.GONE
            if is_gone and not node.why_not_asked:
                yield f"node {number}{where} answers and has no session with ZooKeeper"
            elif is_gone and node.replicas:
                yield f"node {number} is gone: it has no session with ZooKeeper"
            elif is_gone:
                pass  # nobody misses it: it has had everything moved away
            elif node.why_not_asked:
                yield f"node {number}{where} could not be asked: it {node.why_not_asked}"
            elif node.unreached:
                yield (
                    f"node {number} answers, but{where}, where members are sent, it {node.unreached}; look at its "
                    "node.advertised"
                )
            elif node.described.status == NodeStatus.DRAINING:
                yield f"node {number}{where} is being drained"
            elif node.unheard_by:
                nodes = "nodes" if len(node.unheard_by) > 1 else "node"
                yield (
                    f"node {number}{where} is not in contact with {nodes} {', '.join(map(str, node.unheard_by))}: look "
                    "at peers.advertised of both, and whether anything between them keeps them apart"
                )

    def troubles_of_zookeeper(self) -> Iterable[str]:
        """Say which nodes do not hear ZooKeeper, and what a person has to put right there."""
        for number in self.unheard_zookeeper:
            yield f"node {number} does not hear ZooKeeper"
        yield from self.stuck


def view(found: NodesFound, unreached: Mapping[int, str] = MappingProxyType({})) -> ClusterView:
    """Return what the nodes that answered say together; `unreached` is of `find_unreached`."""
    told = _by_knowledge(found.descriptions.values())
    first = told[0]
    shards = tuple(_shard(shard, found.descriptions) for shard in _numbers(found.descriptions.values()))
    described: dict[int, NodeDescription] = {}
    for description in told:
        for node in description.nodes:
            described.setdefault(node.node_id, node)
    nodes = tuple(
        replace(_node(described[number], found, shards, first.controller), unreached=unreached.get(number, ""))
        for number in sorted(described)
    )
    return ClusterView(
        first.cluster_id,
        first.controller,
        first.controller_epoch,
        first.replication_factor,
        first.min_insync_replicas,
        nodes,
        shards,
        tuple(sorted(number for number, each in found.descriptions.items() if each.is_up_to_date is False)),
        tuple(dict.fromkeys(why for each in told for why in each.stuck)),
    )


def _by_knowledge(told: Iterable[DescribeClusterResponse]) -> list[DescribeClusterResponse]:
    """Return what nodes told, the controller's first, then by the controller epoch and by who hears ZooKeeper."""

    def rank(each: DescribeClusterResponse) -> tuple[bool, int, bool, int]:
        is_late = each.is_up_to_date is False
        return is_late, -(each.controller_epoch or 0), each.controller != each.node_id, each.node_id

    return sorted(told, key=rank)


def _numbers(told: Iterable[DescribeClusterResponse]) -> list[int]:
    return sorted({shard.shard for each in told for shard in each.shards})


def _shard(number: int, told: Mapping[int, DescribeClusterResponse]) -> ShardView:
    seen = {node: shard for node, each in told.items() for shard in each.shards if shard.shard == number}
    leader_epoch = max(shard.leader_epoch for shard in seen.values())
    newest = {node: shard for node, shard in seen.items() if shard.leader_epoch == leader_epoch}
    leads = {node: shard for node, shard in newest.items() if shard.status in LED}
    leader = next((shard.leader for shard in (leads or newest).values()), None)
    own = leads.get(leader) if leader is not None else None
    replicas = own.replicas if own is not None else ()
    isr = own.isr if own is not None else ()
    return ShardView(
        number,
        leader,
        leader_epoch,
        None if own is None else own.status,
        replicas or _first(shard.replicas for shard in (*newest.values(), *seen.values())),
        isr or _first(shard.isr for shard in newest.values()),
        None if own is None else own.log_end,
        None if own is None else own.high_watermark,
        {node: shard for node, shard in sorted(seen.items()) if shard.status != ShardStatus.ELSEWHERE},
        _first(shard.adding for shard in newest.values()),
        _first(shard.removing for shard in newest.values()),
    )


def _first(known: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return next((each for each in known if each), ())


def _node(
    described: NodeDescription, found: NodesFound, shards: Sequence[ShardView], controller: int | None
) -> NodeView:
    number = described.node_id
    address = (described.host, described.port) if described.host else found.addresses.get(number)
    why_not = ""
    if number not in found.descriptions:
        why_not = "has no address" if address is None else found.why_not.get(address, "was not asked")
    return NodeView(
        described,
        address,
        why_not,
        number == controller,
        sum(shard.leader == number for shard in shards),
        sum(number in shard.replicas for shard in shards),
        sum(number in shard.isr for shard in shards),
        tuple(
            sorted(
                node
                for node, told in found.descriptions.items()
                for seen in told.nodes
                if seen.node_id == number != node and not seen.is_heard and seen.status != NodeStatus.GONE
            )
        ),
    )


def shards_have(numbers: Sequence[int]) -> str:
    """Name shards as the subject of a sentence, with its verb, which is to have."""
    named = ", ".join(str(number) for number in numbers[:MOST_SHARDS_NAMED])
    more = f" and {len(numbers) - MOST_SHARDS_NAMED} more" if len(numbers) > MOST_SHARDS_NAMED else ""
    return f"{'shards' if len(numbers) > 1 else 'shard'} {named}{more} {'have' if len(numbers) > 1 else 'has'}"
