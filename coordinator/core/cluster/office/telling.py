"""A controller's messages to each node, said again until they are acknowledged: the latest ones, never a queue.

Everything comes from what is in ZooKeeper, so a message that was lost, doubled or late is made up for by the next one.
One message a node is under way. The first to each life of a node is whole (`is_init`): what it has and is not told of
it moves aside, except for shards that are named as unreadable. After that it is told what has changed since what it has
acknowledged. A shard has changed when its leader epoch has: each change by a controller raises it, and what leaders
change within an epoch they say themselves. Which shards a node has to be told of is kept by bucket, and looked for
again where the bucket or what the node has acknowledged of it has changed.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from operator import itemgetter

from coordinator.core.cluster.effects import NodeInfo, ShardLeader, ShardState, ShardStop, TellNode
from coordinator.core.cluster.image import Image
from coordinator.core.cluster.office.index import BucketIndex, ShardIndex
from coordinator.core.cluster.znodes import ShardEntry

Acknowledged = Mapping[int, tuple[int, bool]]
"""By shard: the leader epoch that a node knows of, and whether it has a replica."""


@dataclass(frozen=True, slots=True)
class Owed:
    """The shards of a bucket, as this very one, that a node has not acknowledged."""

    bucket: BucketIndex
    shards: tuple[int, ...]


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
    owed: Mapping[int, Owed] = field(default_factory=dict)
    """By bucket; one that is not here has not been looked at since what is known of it has changed."""


@dataclass(frozen=True, slots=True)
class Outbox:
    """All that a controller has to tell, from its taking office to its leaving."""

    controller_id: int
    controller_epoch: int
    mailboxes: Mapping[int, Mailbox] = field(default_factory=dict)
    told_of: tuple[ShardIndex, Mapping[int, int], Set[tuple[int, int]]] | None = None
    """Of what everything has been said that could be, unless somebody has answered since."""


def tell(
    outbox: Outbox, index: ShardIndex, lives: Mapping[int, int], reached: Set[tuple[int, int]], now_ms: int
) -> tuple[Outbox, tuple[TellNode, ...]]:
    """Return what is to be said now to the nodes that live (node and node epoch), as far as they are reached.

    What was under way to a node that is not reached any more counts as not said.
    """
    seen = (index, lives, reached)
    if outbox.told_of is not None and outbox.told_of[0] is index and outbox.told_of[1:] == seen[1:]:
        return outbox, ()
    nodes = tuple(_info(node, index.image) for node in sorted(lives))
    mailboxes: dict[int, Mailbox] = {}
    messages: list[TellNode] = []
    for node, node_epoch in sorted(lives.items()):
        box = outbox.mailboxes.get(node)
        if box is None or box.node_epoch != node_epoch:
            box = Mailbox(node_epoch)
        box = replace(box, owed=_owed(box, node, index))
        is_news = not box.is_initiated or nodes != box.known_nodes or any(owed.shards for owed in box.owed.values())
        if not is_news:
            box = replace(box, waiting_since_ms=None)
        elif box.waiting_since_ms is None:
            box = replace(box, waiting_since_ms=now_ms)
        if (node, node_epoch) not in reached:
            box = replace(box, sent=None)
        elif is_news and box.sent is None:
            message = _next_message(outbox, box, node, index, nodes)
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
    news = {state.shard for state in said.states} | {each.shard for each in said.leaders}
    # With the first answer all changes: until then a node is told of everything, whatever is known of it.
    owed = {
        number: owed for number, owed in box.owed.items() if box.is_initiated and news.isdisjoint(owed.bucket.entries)
    }
    box = replace(
        box, is_initiated=True, known=known, known_nodes=said.nodes, sent=None, waiting_since_ms=None, owed=owed
    )
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


def _owed(box: Mailbox, node: int, index: ShardIndex) -> dict[int, Owed]:
    """Return what a node has not acknowledged, of every bucket."""
    owed: dict[int, Owed] = {}
    for number, bucket in index.buckets.items():
        kept = box.owed.get(number)
        if kept is not None and kept.bucket is bucket:
            owed[number] = kept
            continue
        shards = (
            shard
            for shard, entry in bucket.entries.items()
            if not box.is_initiated or box.known.get(shard) != (entry.leader_epoch, node in entry.replicas)
        )
        owed[number] = Owed(bucket, tuple(shards))
    return owed


def _next_message(outbox: Outbox, box: Mailbox, node: int, index: ShardIndex, nodes: tuple[NodeInfo, ...]) -> TellNode:
    """Return all that this node has not acknowledged."""
    states: list[ShardState] = []
    leaders: list[ShardLeader] = []
    stops: list[ShardStop] = []
    for shard, bucket in sorted(
        ((shard, owed.bucket) for owed in box.owed.values() for shard in owed.shards), key=itemgetter(0)
    ):
        entry = bucket.entries[shard]
        if node in entry.replicas:
            states.append(_state(shard, entry, bucket.bucket.version))
        else:
            leaders.append(ShardLeader(shard, entry.leader, entry.leader_epoch))
            if box.known.get(shard, (0, False))[1]:
                stops.append(ShardStop(shard, entry.leader_epoch))
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
        unreadable=() if box.is_initiated else tuple(sorted(index.image.unreadable_shards())),
        nodes=nodes,
    )


def _state(shard: int, entry: ShardEntry, version: int) -> ShardState:
    return ShardState(
        shard,
        entry.leader,
        entry.leader_epoch,
        entry.isr,
        entry.replicas,
        version,
        entry.leader_node_epoch,
        entry.unclean_epoch,
    )


def _info(node: int, image: Image) -> NodeInfo:
    live = image.live[node]
    addresses = tuple(sorted(live.value.addresses.items()))
    return NodeInfo(node, live.value.node_epoch, addresses, live.version, live.value.state)
