"""Changes that operators want in the cluster, as this node answers them: what would be done, and what it begins.

Shards are the controller's, so only the node that holds the office, and has read them all, decides upon them; whether a
node is drained is its own. A dry run is judged exactly as the change itself and begins nothing. Whoever asks is
recorded with the reason.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from coordinator.core.cluster.events import ElectUnclean, GiveBackShard, ReassignShard, ShardWish, StateWanted
from coordinator.core.cluster.image import Image
from coordinator.core.cluster.znodes import CLUSTER, NodeState
from coordinator.core.cluster_node.answers.draining import HandOver
from coordinator.core.cluster_node.rooms import Rooms
from coordinator.core.requests.cluster_of_one import ChangeOfCluster
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DrainNode,
    DrainNodeResponse,
    ElectLeaders,
    ElectLeadersResponse,
    ReassignShards,
    ReassignShardsResponse,
)
from coordinator.protocol.parts import ShardChange

MOST_SAID: Final = 250
"""The most letters of who asks, and of why, that are recorded."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to an operator, what this node begins to do of it, and what is recorded; empty for a dry run."""

    response: ChangeOfCluster
    begins: tuple[ShardWish | StateWanted, ...] = ()
    recorded: str = ""


def answer_operator(
    request: ReassignShards | ElectLeaders | DrainNode,
    node_id: int,
    rooms: Rooms,
    controller: int | None,
    hands_over: HandOver,
    now_ms: int,
) -> Answer:
    """Answer a request; `controller` is the one that was obeyed last."""
    office = rooms.controller.observer.image if rooms.knows_shards else None
    why_not = partial(rooms.why_not, now_ms)
    match request:
        case DrainNode():
            return _drain(request, node_id, hands_over, is_stopping=rooms.registration.is_stopping)
        case ReassignShards() | ElectLeaders() if office is None:
            return Answer(_not_controller(request, node_id, controller, has_office=rooms.has_office))
        case ReassignShards():
            wishes: list[ShardWish] = [ReassignShard(each.shard, tuple(each.replicas)) for each in request.shards]
            times = Counter(wish.shard for wish in wishes)
            whys = [why_not(wish) or _why_not_twice(wish.shard, times[wish.shard]) for wish in wishes]
            results = tuple(_result(wish, why, office) for wish, why in zip(wishes, whys, strict=True))
            return _begun(request, ReassignShardsResponse(results=results), wishes, whys)
        case ElectLeaders():
            wishes = [GiveBackShard(shard) for shard in request.shards]
            wishes += [ElectUnclean(each.shard, each.node_id, each.leader_epoch) for each in request.unclean]
            whys = [why_not(wish) for wish in wishes]
            results = tuple(_result(wish, why, office) for wish, why in zip(wishes, whys, strict=True))
            return _begun(request, ElectLeadersResponse(results=results), wishes, whys)


def _why_not_twice(shard: int, times: int) -> str:
    return "" if times == 1 else f"shard {shard} is named more than once: say once which replicas it is to have"


def _drain(request: DrainNode, node_id: int, hands_over: HandOver, *, is_stopping: bool) -> Answer:
    why = ""
    if request.node_id != node_id:
        why = f"this is node {node_id} and not node {request.node_id}: ask that one itself"
    elif is_stopping and not request.is_drained:
        why = f"node {node_id} was told to stop and hands on what it leads: it is filled again once it has started"
    if why:
        return Answer(DrainNodeResponse(ErrorCode.INVALID_REQUEST, why))
    response = DrainNodeResponse(led=hands_over.led, kept=hands_over.kept)
    if request.is_dry_run:
        return Answer(response)
    state = NodeState.DRAINING if request.is_drained else NodeState.READY
    what = "be drained" if request.is_drained else "be filled again"
    return Answer(response, (StateWanted(state),), f"this node is to {what}, says {_by(request)}")


def _not_controller(
    request: ReassignShards | ElectLeaders, node_id: int, controller: int | None, *, has_office: bool
) -> ReassignShardsResponse | ElectLeadersResponse:
    knows = "it knows of none; ask again in a moment" if controller is None else f"node {controller} was, when it heard"
    why = f"node {node_id} is not the controller; {knows}"
    if has_office:
        why = (
            f"node {node_id} is the controller and does not know all shards now; ask again in a moment, or when "
            f"{CLUSTER} in ZooKeeper is put right"
        )
    kind = ReassignShardsResponse if isinstance(request, ReassignShards) else ElectLeadersResponse
    return kind(ErrorCode.NOT_CONTROLLER, why)


def _begun(
    request: ReassignShards | ElectLeaders, response: ChangeOfCluster, wishes: Sequence[ShardWish], whys: Sequence[str]
) -> Answer:
    begins = tuple(wish for wish, why in zip(wishes, whys, strict=True) if not why)
    if request.is_dry_run or not begins:
        return Answer(response)
    return Answer(response, begins, f"{'; '.join(_show(wish) for wish in begins)}; says {_by(request)}")


def _result(wish: ShardWish, why: str, image: Image) -> ShardChange:
    entry = image.shard(wish.shard)
    if entry is None:
        return ShardChange(wish.shard, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
    new_replicas, new_leader, code = entry.replicas, entry.leader, ErrorCode.NONE
    if isinstance(wish, ReassignShard):
        new_replicas = wish.replicas
        if entry.leader not in wish.replicas:
            new_leader = next(iter(wish.replicas), None)
        code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    else:
        is_unclean = isinstance(wish, ElectUnclean)
        new_leader = wish.node_id if isinstance(wish, ElectUnclean) else entry.replicas[0]
        is_led = entry.leader is not None if is_unclean else entry.leader == new_leader
        code = ErrorCode.ELECTION_NOT_NEEDED if is_led else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    if not why:
        code = ErrorCode.NONE
    return ShardChange(wish.shard, code, why, entry.replicas, new_replicas, entry.leader, new_leader)


def _show(wish: ShardWish) -> str:
    if isinstance(wish, GiveBackShard):
        return f"shard {wish.shard} is to be led by its first replica"
    if isinstance(wish, ElectUnclean):
        return f"shard {wish.shard} is to be led by node {wish.node_id}, which is not in sync: what that lacks is lost"
    return f"shard {wish.shard} is to have replicas {', '.join(map(str, wish.replicas))}"


def _by(request: ReassignShards | ElectLeaders | DrainNode) -> str:
    who, why = request.who[:MOST_SAID] or "nobody", request.why[:MOST_SAID]
    return f"{who}: {why}" if why else who
