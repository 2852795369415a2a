"""Values of the controller and of those it tells as messages to other nodes, and messages of nodes as those values.

As `words` has it for replicas: functions both ways, and PeerError for what makes no sense. What a controller tells is
obeyed by two rooms: by the replicas, as `Commands`, and by whoever sends members to leaders.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from coordinator.core.cluster import effects as cluster_fx
from coordinator.core.cluster import events as cluster_ev
from coordinator.core.cluster.znodes import NodeState
from coordinator.core.peers.effects import PeerAddress
from coordinator.core.peers.events import PeerSaid
from coordinator.core.peers.words import PeerError
from coordinator.core.replica import effects as replica_fx
from coordinator.core.replica import events as replica_ev
from coordinator.core.replica.replicas import Commands
from coordinator.protocol import peer_messages as wire
from coordinator.protocol.peer_messages.ranges import MAX_WHY
from coordinator.protocol.text.addresses import parse_address

PEERS_ADDRESS: Final = "peers"
"""The name under which a node registers the address of its listener for peers."""

_REASONS: Final = {
    cluster_ev.StepDownReason.STALLED: wire.StepDownReason.STALLED,
    cluster_ev.StepDownReason.CANNOT_LOAD: wire.StepDownReason.CANNOT_LOAD,
    cluster_ev.StepDownReason.LACKS_RECORDS: wire.StepDownReason.LACKS_RECORDS,
    cluster_ev.StepDownReason.SPOILT_EPOCH: wire.StepDownReason.SPOILT_EPOCH,
}
_HEARD_REASONS: Final = {said: reason for reason, said in _REASONS.items()}


# ---- out -------------------------------------------------------------------------------------------------------------


def told_of(effect: cluster_fx.TellNode) -> wire.TellNode:
    """Return how a controller tells a node what is in ZooKeeper."""
    return wire.TellNode(
        controller_id=effect.controller_id,
        controller_epoch=effect.controller_epoch,
        node_epoch=effect.node_epoch,
        number=effect.number,
        is_init=effect.is_init,
        states=tuple(
            wire.ShardState(
                it.shard,
                it.leader,
                it.leader_epoch,
                it.isr,
                it.replicas,
                it.version,
                it.leader_node_epoch,
                it.unclean_epoch,
            )
            for it in effect.states
        ),
        leaders=tuple(wire.ShardLeader(it.shard, it.leader, it.leader_epoch) for it in effect.leaders),
        stops=tuple(wire.ShardStop(it.shard, it.leader_epoch) for it in effect.stops),
        unreadable=effect.unreadable,
        nodes=tuple(
            wire.NodeInfo(
                it.node_id,
                it.node_epoch,
                tuple(wire.NodeAddress(name, address) for name, address in it.addresses),
                it.live_version,
                it.state is NodeState.DRAINING,
            )
            for it in effect.nodes
        ),
    )


def step_down_of(effect: replica_fx.StepDown) -> wire.StepDown:
    """Return how a leader asks to be replaced."""
    reason = cluster_ev.StepDownReason.STALLED
    if effect.lacks_committed:
        reason = cluster_ev.StepDownReason.LACKS_RECORDS
    elif effect.wants_epoch:
        reason = cluster_ev.StepDownReason.SPOILT_EPOCH
    elif effect.cannot_load:
        reason = cluster_ev.StepDownReason.CANNOT_LOAD
    why = effect.why[:MAX_WHY]
    return wire.StepDown(effect.shard, effect.leader_epoch, _REASONS[reason], why, effect.successor)


# ---- in --------------------------------------------------------------------------------------------------------------


def told(message: wire.TellNode, node_id: int) -> cluster_fx.TellNode:
    """Return what a controller tells this node; raises PeerError."""
    states = tuple(_state(it, node_id) for it in message.states)
    _must_differ("a shard", [*(it.shard for it in message.states), *(it.shard for it in message.leaders)])
    _must_differ("a shard to stop", [it.shard for it in message.stops])
    _must_differ("a node", [it.node_id for it in message.nodes])
    both = {it.shard for it in message.states} & {it.shard for it in message.stops}
    if both:
        raise PeerError(f"shard {min(both)} is to have a replica here and to have none")
    return cluster_fx.TellNode(
        node_id=node_id,
        controller_id=message.controller_id,
        controller_epoch=message.controller_epoch,
        node_epoch=message.node_epoch,
        number=message.number,
        is_init=message.is_init,
        states=states,
        leaders=tuple(cluster_fx.ShardLeader(it.shard, it.leader, it.leader_epoch) for it in message.leaders),
        stops=tuple(cluster_fx.ShardStop(it.shard, it.leader_epoch) for it in message.stops),
        unreadable=message.unreadable,
        nodes=tuple(
            cluster_fx.NodeInfo(
                it.node_id,
                it.node_epoch,
                tuple((address.name, address.address) for address in it.addresses),
                it.live_version,
                NodeState.DRAINING if it.is_draining else NodeState.READY,
            )
            for it in message.nodes
        ),
    )


def commands_of(effect: cluster_fx.TellNode, now_ms: int) -> Commands:
    """Return what the replicas of the node are to do of what it is told."""
    return Commands(
        now_ms,
        effect.controller_epoch,
        effect.node_epoch,
        tuple(
            replica_ev.LeaderAndIsr(
                now_ms,
                it.shard,
                it.leader_epoch,
                it.leader,
                it.isr,
                it.replicas,
                it.version,
                it.leader_node_epoch,
                it.unclean_epoch,
            )
            for it in effect.states
        ),
        tuple(replica_ev.StopReplica(now_ms, it.shard, it.leader_epoch, deletes=True) for it in effect.stops),
        effect.is_init,
        frozenset(effect.unreadable),
    )


def answer_in(said: PeerSaid, controller_epoch: int) -> cluster_ev.NodeAnswered | None:
    """Return a node's acknowledgement of what was told in this controller epoch, None if it is of another one."""
    message = said.message
    if not isinstance(message, wire.NodeAnswered) or message.controller_epoch != controller_epoch:
        return None
    return cluster_ev.NodeAnswered(said.peer, said.node_epoch, message.number)


def step_down_in(message: wire.StepDown, node_id: int, node_epoch: int) -> cluster_ev.StepDown:
    """Return the wish to be replaced of the node that has said it, in the life in which it has."""
    reason = _HEARD_REASONS[message.reason]
    return cluster_ev.StepDown(message.shard, message.leader_epoch, reason, node_id, node_epoch, message.successor)


def peer_address(node: cluster_fx.NodeInfo) -> PeerAddress | None:
    """Return where a node listens for others, None if it names no address that can be read."""
    return listens_at(dict(node.addresses), node.node_epoch)


def listens_at(addresses: Mapping[str, str], node_epoch: int) -> PeerAddress | None:
    """Return where a node with these addresses listens for others, None if none of them can be read as that."""
    text = addresses.get(PEERS_ADDRESS)
    try:
        return None if text is None else PeerAddress((parse_address(text),), node_epoch)
    except ValueError:
        return None


def _state(state: wire.ShardState, node_id: int) -> cluster_fx.ShardState:
    name = f"shard {state.shard}"
    for nodes in (state.isr, state.replicas):
        _must_differ(f"{name}: a node", nodes)
    if node_id not in state.replicas:
        raise PeerError(f"{name} has no replica on node {node_id}, which is told as if it had")
    if not set(state.isr) <= set(state.replicas):
        raise PeerError(f"{name} has an ISR {state.isr} that is no part of its replicas {state.replicas}")
    if state.leader is not None and state.leader not in state.isr:
        raise PeerError(f"{name} has a leader {state.leader} that is not in its ISR {state.isr}")
    if (state.leader is None) != (state.leader_node_epoch is None):
        raise PeerError(f"{name} has a leader without a life, or a life without a leader")
    if state.unclean_epoch > state.leader_epoch:
        raise PeerError(f"{name} has an unclean election of epoch {state.unclean_epoch}, which is to come")
    return cluster_fx.ShardState(
        state.shard,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.replicas,
        state.version,
        state.leader_node_epoch,
        state.unclean_epoch,
    )


def _must_differ(of: str, numbers: Iterable[int]) -> None:
    seen: set[int] = set()
    for number in numbers:
        if number in seen:
            raise PeerError(f"{of} is named twice: {number}")
        seen.add(number)
