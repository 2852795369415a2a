"""The values that a client returns, made of what coordinators say. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from coordinator.client.cluster_view import NodeView, ShardView
from coordinator.client.operating.lag import lag_by_topic, lag_of
from coordinator.client.operating.resets import delta_of, state_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import (
    CommittedOffset,
    ControlDescription,
    GroupEvent,
    GroupSummary,
    MemberDescription,
    PartitionDescription,
    PartitionResult,
    ResetResult,
)
from coordinator.protocol.text.addresses import format_address
from coordinator.protocol.vocabulary import ControlKind
from spark_kcoord.client import values


def time_of(at_ms: int) -> datetime:
    """Return milliseconds since 1970 as a datetime in UTC; of a time that none can be, the last that one can."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.max.replace(tzinfo=UTC)


def group_of(said: GroupSummary) -> values.Group:
    """Return one line of the list of groups."""
    return values.Group(said.group_id, str(said.state), said.members, said.group_epoch, said.bytes)


def group_waited_for(said: DescribeGroupResponse) -> values.Group:
    """Return a group that was described as one line of the list of groups."""
    return values.Group(said.group_id, str(said.state), len(said.members), said.group_epoch, said.bytes)


def described(said: DescribeGroupResponse, controls: Collection[ControlDescription]) -> values.GroupDescription:
    """Return a group with what operators have decided about it."""
    return values.GroupDescription(
        group=said.group_id,
        state=str(said.state),
        group_epoch=said.group_epoch,
        assignor=said.assignor,
        handover=str(said.handover),
        members=members_of(said, controls),
        partitions=tuple(map(partition_of, said.partitions)),
        controls=tuple(map(control_of, controls)),
        forgotten_in_ms=said.forgotten_in_ms,
        kafka_failure=said.kafka_failure,
        bytes=said.bytes,
    )


def members_of(said: DescribeGroupResponse, controls: Iterable[ControlDescription]) -> tuple[values.Member, ...]:
    """Return a group's members."""
    drained = {control.member_id for control in controls if control.kind == ControlKind.MEMBER_DRAINED}
    return tuple(_member(member, is_drained=member.member_id in drained) for member in said.members)


def _member(said: MemberDescription, *, is_drained: bool) -> values.Member:
    return values.Member(
        member_id=said.member_id,
        instance_id=said.instance_id,
        client_id=said.client_id,
        host=said.host,
        pid=said.pid,
        state=str(said.state),
        member_epoch=said.member_epoch,
        streams=said.streams,
        is_connected=said.connected,
        is_drained=is_drained,
        owned=said.owned,
        target=said.target,
        isolation_level=str(said.isolation_level),
        unpolled_ms=said.unpolled_ms,
    )


def partition_of(said: PartitionDescription) -> values.Partition:
    """Return one partition of a group."""
    claim = None
    if said.claim is not None and said.claim_state is not None:
        ends = (said.claim.from_offset, said.claim.until_offset)
        claim = values.Claim(*ends, said.claim.owner_epoch, said.claim_state.name)
    return values.Partition(
        topic=said.topic,
        partition=said.partition,
        committed=said.committed,
        end=said.end_offset,
        lag=lag_of(said),
        owner=said.member_id,
        owner_epoch=said.owner_epoch,
        is_stopping=said.is_stopping,
        claim=claim,
    )


def control_of(said: ControlDescription) -> values.Control:
    """Return what an operator decided."""
    return values.Control(
        kind=str(said.kind),
        who=said.who,
        reason=said.why,
        at=time_of(said.at_ms),
        topic=said.topic or None,
        partition=said.partition,
        member_id=said.member_id or None,
        offset=said.offset,
    )


def lag_told(group: str, partitions: Iterable[PartitionDescription]) -> values.GroupLag:
    """Return a group's lag."""
    topics = lag_by_topic(partitions)
    return values.GroupLag(group, sum(each.lag for each in topics), sum(each.unknown for each in topics), topics)


def committed_of(said: Iterable[CommittedOffset]) -> dict[TopicPartition, values.CommittedOffset]:
    """Return committed offsets by partition."""
    return {
        (each.topic, each.partition): values.CommittedOffset(
            each.offset, time_of(each.commit_ms), each.metadata, each.leader_epoch, each.topic_id
        )
        for each in said
    }


def event_of(said: GroupEvent) -> values.Event:
    """Return one entry of a timeline."""
    return values.Event(
        sequence=said.sequence,
        at=time_of(said.at_ms),
        kind=str(said.kind),
        member_id=said.member_id or None,
        why=said.why,
        group_epoch=said.group_epoch,
        partitions=said.partitions,
        partition_count=max(said.partition_count, len(said.partitions)),
        duration_ms=said.duration_ms,
    )


def node_of(said: NodeView) -> values.Node:
    """Return one node."""
    return values.Node(
        node_id=said.described.node_id,
        address=None if said.address is None else format_address(said.address),
        state=str(said.described.status),
        why_not_asked=said.why_not_asked,
        is_controller=said.is_controller,
        leads=said.leads,
        replicas=said.replicas,
        in_sync=said.in_sync,
        node_epoch=said.described.node_epoch,
        rack=said.described.rack,
        release=said.described.release,
    )


def shard_of(said: ShardView) -> values.Shard:
    """Return one shard."""
    return values.Shard(
        shard=said.shard,
        leader=said.leader,
        leader_epoch=said.leader_epoch,
        state=None if said.status is None else str(said.status),
        replicas=said.replicas,
        isr=said.isr,
        log_end=said.log_end,
        high_watermark=said.high_watermark,
    )


def reset_told(group: str, said: Iterable[ResetResult], *, dry: bool) -> values.Reset:
    """Return the outcome of a reset."""
    rows = tuple(
        values.PartitionReset(
            topic=each.topic,
            partition=each.partition,
            old=each.old_offset,
            new=each.new_offset,
            delta=delta_of(each),
            state=state_of(each, dry=dry),
            error=_error(each),
            remark=each.message,
        )
        for each in said
    )
    return values.Reset(group, dry, rows)


def deleted_told(group: str, said: Iterable[PartitionResult], *, dry: bool) -> values.DeletedOffsets:
    """Return the outcome of deleting offsets."""
    rows = tuple(
        values.DeletedOffset(each.topic, each.partition, each.committed, _error(each), each.message) for each in said
    )
    return values.DeletedOffsets(group, dry, rows)


def _error(said: ResetResult | PartitionResult) -> str | None:
    return None if said.error is ErrorCode.NONE else said.error.name
