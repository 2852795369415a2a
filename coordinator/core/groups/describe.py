"""Groups as an operator sees them: lists and descriptions, read from hard state and what is known of connections."""

from collections.abc import Iterator

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.expiry import forgotten_in_ms
from coordinator.core.groups.group import group_status
from coordinator.core.groups.member import member_status
from coordinator.core.groups.partition_table import TopicPartition
from coordinator.core.groups.state import Grant, GroupState
from coordinator.core.groups.streams import stream_of
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import Claim, ClaimState, GroupSummary, MemberDescription, PartitionDescription


def summaries(desk: Desk) -> list[GroupSummary]:
    """Return a line for every group of a shard."""
    return [
        GroupSummary(
            group.group_id,
            str(group_status(group, desk.soft_of(group.group_id))),
            group.group_epoch,
            len(group.members),
        )
        for group in desk.journal.state.groups.values()
    ]


def describe(desk: Desk, group: GroupState) -> DescribeGroupResponse:
    """Describe a group: its members by id, its partitions by topic and number."""
    return DescribeGroupResponse(
        group_id=group.group_id,
        state=str(group_status(group, desk.soft_of(group.group_id))),
        group_epoch=group.group_epoch,
        assignor=group.assignor,
        reset_policy=group.reset_policy,
        handover=group.handover,
        members=tuple(_describe_member(desk, group, member_id) for member_id in sorted(group.members)),
        partitions=tuple(_describe_partitions(desk, group)),
        forgotten_in_ms=forgotten_in_ms(desk, group),
    )


def _describe_member(desk: Desk, group: GroupState, member_id: str) -> MemberDescription:
    member = group.members[member_id]
    session = desk.session_of(group.group_id, member_id)
    return MemberDescription(
        member_id=member_id,
        instance_id=member.facts.instance_id,
        client_id=member.facts.client_id,
        host=member.facts.host,
        pid=member.facts.pid,
        state=str(member_status(group, member_id)),
        member_epoch=member.member_epoch,
        streams=member.facts.streams,
        connected=session is not None and session.connection_id is not None,
        owned=len(group.owned.get(member_id, ())),
        target=len(member.target),
        commits=member.facts.commits,
        isolation_level=member.facts.isolation_level,
    )


def _describe_partitions(desk: Desk, group: GroupState) -> Iterator[PartitionDescription]:
    """Yield what the group has, is to have or reads, topic by topic."""
    wanted: dict[str, set[int]] = {}
    for topic, number in group.target_owners:
        wanted.setdefault(topic, set()).add(number)
    for topic in {*group.offsets.topics(), *group.grants.topics(), *group.subscribers}:
        numbers = wanted.setdefault(topic, set())
        numbers.update(group.offsets.rows(topic), group.grants.rows(topic))
        seen = group.topics.get(topic)
        if seen is not None and topic in group.subscribers:
            numbers.update(range(seen.partitions))
    for topic in sorted(wanted):
        offsets, grants = group.offsets.rows(topic), group.grants.rows(topic)
        for number in sorted(wanted[topic]):
            grant, known = grants.get(number), offsets.get(number)
            committed, leader_epoch, _ = (None, None, "") if known is None else known.position_of(number)
            claim, claim_state = _describe_claim((topic, number), grant)
            yield PartitionDescription(
                topic=topic,
                partition=number,
                committed=committed,
                end_offset=desk.catalog.end_of(topic, number),
                member_id=grant.member_id if grant is not None else None,
                owner_epoch=grant.owner_epoch if grant is not None else None,
                is_stopping=grant is not None and grant.is_stopping,
                claim=claim,
                claim_state=claim_state,
                leader_epoch=leader_epoch,
                stream=stream_of(group, (topic, number)) if grant is not None and grant.stream is not None else None,
            )


def _describe_claim(partition: TopicPartition, grant: Grant | None) -> tuple[Claim | None, ClaimState | None]:
    if grant is None or grant.claim is None:
        return None, None
    state = ClaimState.RUNNING if grant.claim.is_running else ClaimState.OFFERED
    topic, number = partition
    claim = Claim(topic, grant.topic_id, number, grant.owner_epoch, grant.claim.from_offset, grant.claim.until_offset)
    return claim, state
