"""What a controller tells each node, and tells again until it is acknowledged: always the latest, never a queue.

Everything comes from what is in ZooKeeper, so a message that was lost, doubled or late is made up for by the next one.
One message a node is under way. The first to each life of a node is whole (`is_init`): what it has and is not told of
it moves aside, except for shards that are named as unreadable. After that it is told what has changed since what it has
acknowledged. A shard has changed when its leader epoch has: each change by a controller raises it, and what leaders
change within an epoch they say themselves.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from coordinator.core.cluster.effects import NodeInfo, ShardLeader, ShardState, ShardStop, TellNode
from coordinator.core.cluster.image import Image
from coordinator.core.cluster.znodes import ShardEntry, bucket_of

Acknowledged = Mapping[int, tuple[int, bool]]
"""By shard: the leader epoch that a node knows of, and whether it has a replica."""


@dataclass(frozen=True, slots=True)
class Mailbox:
    """One life of a node: what it has acknowledged, and the message under way.

    `waiting_since_ms` is since when it has not acknowledged anything, though there was something to tell.
    """

    node_epoch: int
    is_initiated: bool = False
    known: Acknowledged = field(default_factory=dict)
    known_nodes: tuple[NodeInfo, ...] = ()
    number: int = 0
    sent: TellNode | None = None
    waiting_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Outbox:
    """All that a controller has to tell, from its taking office to its leaving."""

    controller_id: int
    controller_epoch: int
    mailboxes: Mapping[int, Mailbox] = field(default_factory=dict)
    told_of: tuple[Image, Mapping[int, int], Set[tuple[int, int]]] | None = None
    """Of what everything has been said that could be, unless somebody has answered since."""


def tell(
    outbox: Outbox, image: Image, lives: Mapping[int, int], reached: Set[tuple[int, int]], now_ms: int
) -> tuple[Outbox, tuple[TellNode, ...]]:
    """Return what is to be said now to the nodes that live (node and node epoch), as far as they are reached.

    What was under way to a node that is not reached any more counts as not said.
    """
    seen = (image, lives, reached)
    if outbox.told_of is not None and outbox.told_of[0] is image and outbox.told_of[1:] == seen[1:]:
        return outbox, ()
    nodes = tuple(_info(node, image) for node in sorted(lives))
    entries = dict(image.shards())
    mailboxes: dict[int, Mailbox] = {}
    messages: list[TellNode] = []
    for node, node_epoch in sorted(lives.items()):
        box = outbox.mailboxes.get(node)
        if box is None or box.node_epoch != node_epoch:
            box = Mailbox(node_epoch)
        message = _next_message(outbox, box, node, image, entries, nodes)
        if message is None:
            box = replace(box, waiting_since_ms=None)
        elif box.waiting_since_ms is None:
            box = replace(box, waiting_since_ms=now_ms)
        if (node, node_epoch) not in reached:
            box = replace(box, sent=None)
        elif message is not None and box.sent is None:
            box = replace(box, sent=message, number=message.number)
            messages.append(message)
        mailboxes[node] = box
    return replace(outbox, mailboxes=mailboxes, told_of=seen), tuple(messages)


def take_answer(outbox: Outbox, node_id: int, node_epoch: int, number: int) -> Outbox:
    """Return the outbox after a node has acknowledged a message; any but the one under way says nothing new."""
    box = outbox.mailboxes.get(node_id)
    if box is None or box.node_epoch != node_epoch or box.sent is None or box.sent.number != number:
        return outbox
    said = box.sent
    known = dict(box.known)
    known |= {state.shard: (state.leader_epoch, True) for state in said.states}
    known |= {each.shard: (each.leader_epoch, False) for each in said.leaders}
    known |= {stop.shard: (stop.leader_epoch, False) for stop in said.stops}
    box = replace(box, is_initiated=True, known=known, known_nodes=said.nodes, sent=None, waiting_since_ms=None)
    return replace(outbox, mailboxes={**outbox.mailboxes, node_id: box}, told_of=None)


def unsaid(outbox: Outbox, node_id: int, node_epoch: int) -> Outbox:
    """Return the outbox after the connection to a node has ended: what was under way counts as not said.

    That is so whatever is known of ZooKeeper then, for the node may be reached again before anything is told.
    """
    box = outbox.mailboxes.get(node_id)
    if box is None or box.node_epoch != node_epoch or box.sent is None:
        return outbox
    return replace(outbox, mailboxes={**outbox.mailboxes, node_id: replace(box, sent=None)}, told_of=None)


def late(outbox: Outbox, timeout_ms: int, now_ms: int) -> frozenset[tuple[int, int]]:
    """Return the lives (node and node epoch) that have acknowledged nothing for so long, though there was something."""
    return frozenset(
        (node, box.node_epoch)
        for node, box in outbox.mailboxes.items()
        if box.waiting_since_ms is not None and now_ms - box.waiting_since_ms >= timeout_ms
    )


def knows_that_it_leads(outbox: Outbox, shard: int, entry: ShardEntry) -> bool:
    """Say whether a shard's leader has acknowledged that it leads, in the leader epoch that it does."""
    box = None if entry.leader is None else outbox.mailboxes.get(entry.leader)
    return box is not None and box.known.get(shard) == (entry.leader_epoch, True)


def _next_message(
    outbox: Outbox,
    box: Mailbox,
    node: int,
    image: Image,
    entries: Mapping[int, ShardEntry],
    nodes: tuple[NodeInfo, ...],
) -> TellNode | None:
    """Return what this node has not acknowledged, None if it knows everything."""
    states: list[ShardState] = []
    leaders: list[ShardLeader] = []
    stops: list[ShardStop] = []
    for shard, entry in sorted(entries.items()):
        is_replica = node in entry.replicas
        known = box.known.get(shard)
        if box.is_initiated and known == (entry.leader_epoch, is_replica):
            continue
        if is_replica:
            states.append(_state(shard, entry, image))
        else:
            leaders.append(ShardLeader(shard, entry.leader, entry.leader_epoch))
            if known is not None and known[1]:
                stops.append(ShardStop(shard, entry.leader_epoch))
    if box.is_initiated and not states and not leaders and nodes == box.known_nodes:
        return None
    return TellNode(
        node_id=node,
        controller_id=outbox.controller_id,
        controller_epoch=outbox.controller_epoch,
        node_epoch=box.node_epoch,
        number=box.number + 1,
        is_init=not box.is_initiated,
        states=tuple(states),
        leaders=tuple(leaders),
        stops=tuple(stops),
        unreadable=() if box.is_initiated else tuple(sorted(image.unreadable_shards())),
        nodes=nodes,
    )


def _state(shard: int, entry: ShardEntry, image: Image) -> ShardState:
    assert image.cluster is not None
    version = image.buckets[bucket_of(shard, image.cluster.value.buckets)].version
    return ShardState(
        shard, entry.leader, entry.leader_epoch, entry.isr, entry.replicas, version, entry.leader_node_epoch
    )


def _info(node: int, image: Image) -> NodeInfo:
    live = image.live[node]
    addresses = tuple(sorted(live.value.addresses.items()))
    return NodeInfo(node, live.value.node_epoch, addresses, live.version, live.value.state)
