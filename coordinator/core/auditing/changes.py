"""The state that a request changes, before and after, in the words of the audit log.

Partitions are `topic:number`. Where the answer says how something was, that counts, for it is of the moment of the
decision; pauses, drained members, pending resets and a group that is deleted are looked at when the request comes.
Nothing here knows who asks, nor whether there is an audit log.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, TypeAlias, TypeVar

from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    DrainNode,
    DrainNodeResponse,
    ElectLeaders,
    ElectLeadersResponse,
    ReassignShards,
    ReassignShardsResponse,
    Request,
    Response,
)
from coordinator.protocol.messages.operators import (
    CancelResets,
    CancelResetsResponse,
    ChangeDrain,
    ChangeDrainResponse,
    ChangePause,
    ChangePauseResponse,
    DeleteGroup,
    DeleteGroupResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    ReleaseClaims,
    ReleaseClaimsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import PartitionResult, ResetResult, ShardChange

Result = TypeVar("Result", PartitionResult, ResetResult)
State: TypeAlias = Mapping[str, str | int | None]
Verb: TypeAlias = (
    ChangePause
    | ChangeDrain
    | ResetOffsets
    | CancelResets
    | DeleteOffsets
    | DeleteGroup
    | ReleaseClaims
    | ReassignShards
    | ElectLeaders
    | DrainNode
    | CommitOffsets
)
"""Requests that change something by somebody's word: of operators, and commits of those that own nothing."""

_VERBS: Final = (
    ChangePause,
    ChangeDrain,
    ResetOffsets,
    CancelResets,
    DeleteOffsets,
    DeleteGroup,
    ReleaseClaims,
    ReassignShards,
    ElectLeaders,
    DrainNode,
)
WHOLE_GROUP: Final = "*"
"""The place of a pause of a whole group, which is apart from those of its partitions."""


def verb_of(request: Request) -> Verb | None:
    """Return a request that the audit log is about, else None: what an owner commits is no news to anybody."""
    if isinstance(request, CommitOffsets):
        is_owners = any(epoch is not None for topic in request.offsets for epoch in topic.owner_epochs)
        return None if is_owners else request
    return request if isinstance(request, _VERBS) else None


def state_before(request: Verb, group: GroupState | None) -> State:
    """Return how that stands which the answer will not tell; a group that does not exist has no offsets."""
    if group is None:
        committed = _committed_to(request) if isinstance(request, CommitOffsets) else ()
        return {_place(partition): None for partition in committed}
    controls = group.controls
    match request:
        case ChangePause(partitions=None):
            return {WHOLE_GROUP: _paused(controls.group_pause is not None)}
        case ChangePause():
            named = islice(request.partitions or (), MAX_NAMED)
            return {_place(partition): _paused(partition in controls.paused) for partition in named}
        case ChangeDrain(member_id=member_id):
            return {member_id: _drained(member_id in controls.drained)} if member_id in group.members else {}
        case CancelResets():
            pending = controls.resets if request.partitions is None else request.partitions
            held = (partition for partition in islice(pending, MAX_NAMED) if partition in controls.resets)
            return {_place(partition): controls.resets[partition].offset for partition in held}
        case DeleteGroup():
            return {"members": len(group.members), "offsets": len(group.offsets)} | _offsets(group, group.offsets)
        case CommitOffsets():
            return _offsets(group, _committed_to(request))
        case _:
            return {}


def change_of(request: Verb, response: Response, before: State) -> tuple[State, State, State]:
    """Return how it stood, how it stands or, of a dry run, would stand, and the code of each part that is refused."""
    refused: State = {}
    after: State = {}
    match request, response:
        case ResetOffsets(), ResetOffsetsResponse(results=results):
            good = _good(results)
            before = {place: result.old_offset for place, result in good.items()}
            after = {place: _new_offset(result) for place, result in good.items()}
            refused = _refused(results)
        case DeleteOffsets(), DeleteOffsetsResponse(results=results):
            before = {place: result.committed for place, result in _good(results).items()}
            after, refused = dict.fromkeys(before), _refused(results)
        case ReleaseClaims(), ReleaseClaimsResponse(results=results):
            before = dict.fromkeys(_good(results), "claimed")
            after, refused = dict.fromkeys(before, "released"), _refused(results)
        case CancelResets(), CancelResetsResponse(results=results):
            cancelled = _good(results)
            before = {place: state for place, state in before.items() if place in cancelled}
            after, refused = dict.fromkeys(before), _refused(results)
        case ChangePause(), ChangePauseResponse(error=ErrorCode.NONE):
            after = dict.fromkeys(before, _paused(request.is_paused))
        case ChangeDrain(), ChangeDrainResponse(error=ErrorCode.NONE):
            after = dict.fromkeys(before, _drained(request.is_drained))
        case DeleteGroup(), DeleteGroupResponse(error=ErrorCode.NONE):
            after = dict.fromkeys(before)
        case (ReassignShards(), ReassignShardsResponse(results=shards)) | (
            ElectLeaders(),
            ElectLeadersResponse(results=shards),
        ):
            done = [shard for shard in shards if shard.error is ErrorCode.NONE]
            before = {f"shard {shard.shard}": _led(shard.leader, shard.replicas) for shard in done}
            after = {f"shard {shard.shard}": _led(shard.new_leader, shard.new_replicas) for shard in done}
            refused = _refused_shards(shards)
        case DrainNode(), DrainNodeResponse(error=ErrorCode.NONE):
            after = {f"node {request.node_id}": "draining" if request.is_drained else "ready"}
        case CommitOffsets(), CommitOffsetsResponse(error=ErrorCode.NONE):
            refused = _refused(response.refused)
            wanted = _committed_to(request)
            after = {_place(partition): offset for partition, offset in wanted.items()}
            after = {place: offset for place, offset in after.items() if place not in refused}
            before = {place: state for place, state in before.items() if place in after}
    return before, after, refused


def _offsets(group: GroupState, partitions: Iterable[TopicPartition]) -> dict[str, str | int | None]:
    return {_place(partition): group.offsets.offset_of(partition) for partition in islice(partitions, MAX_NAMED)}


def _committed_to(request: CommitOffsets) -> dict[TopicPartition, int]:
    named = (
        ((topic.topic, number), offset)
        for topic in request.offsets
        for number, offset in zip(topic.partitions, topic.offsets, strict=True)
    )
    return dict(islice(named, MAX_NAMED))


def _good(results: Iterable[Result]) -> dict[str, Result]:
    return {_place((each.topic, each.partition)): each for each in results if each.error is ErrorCode.NONE}


def _refused(results: Iterable[PartitionResult | ResetResult]) -> State:
    bad = (each for each in results if each.error is not ErrorCode.NONE)
    return {_place((each.topic, each.partition)): each.error.name for each in bad}


def _new_offset(result: ResetResult) -> str | int | None:
    return f"{result.new_offset} once its owner has let go" if result.is_pending else result.new_offset


def _refused_shards(shards: Iterable[ShardChange]) -> State:
    return {f"shard {shard.shard}": shard.error.name for shard in shards if shard.error is not ErrorCode.NONE}


def _place(partition: TopicPartition) -> str:
    return f"{partition[0]}:{partition[1]}"


def _paused(is_paused: bool) -> str:  # noqa: FBT001 - a word for each
    return "paused" if is_paused else "not paused"


def _drained(is_drained: bool) -> str:  # noqa: FBT001 - a word for each
    return "drained" if is_drained else "not drained"


def _led(leader: int | None, replicas: tuple[int, ...]) -> str:
    return f"leader {leader}, replicas {', '.join(map(str, replicas))}"
