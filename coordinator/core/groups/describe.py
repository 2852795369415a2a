"""Groups as an operator sees them: lists and descriptions, read from hard state and what is known of connections.

Both are told in pages of bounded size (decision 0024), so that a large group holds nobody up.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from coordinator.core.groups.assignment.streams import stream_of
from coordinator.core.groups.bounds.expiry import forgotten_in_ms
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.account import bytes_of
from coordinator.core.groups.hard.state import Grant, GroupState
from coordinator.core.groups.hard.tables.claim_table import OpenClaim
from coordinator.core.groups.hard.tables.committed_table import Committed
from coordinator.core.groups.partitions.pages import next_names, next_numbers
from coordinator.core.groups.partitions.partition_table import TopicPartition, is_same_topic
from coordinator.core.groups.status import group_status, member_status
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import (
    Claim,
    ClaimState,
    DescribedUpTo,
    GroupSummary,
    MemberDescription,
    PartitionDescription,
)


def summaries(desk: Desk, after: str, most: int, is_shown: Callable[[str], bool] | None = None) -> list[GroupSummary]:
    """Return a line for each of the first groups of a shard behind one, by id, of those that are shown: so many."""
    groups = desk.journal.state.groups
    names = groups.keys() if is_shown is None else list(filter(is_shown, groups))
    return [
        GroupSummary(
            group_id,
            str(group_status(groups[group_id], desk.soft.get(group_id))),
            groups[group_id].group_epoch,
            len(groups[group_id].members),
            groups[group_id].counted_bytes,
        )
        for group_id in next_names(names, after, most)
    ]


def describe(desk: Desk, group: GroupState, after: DescribedUpTo | None, most: int) -> DescribeGroupResponse:
    """Describe a group: its members by id, then its partitions by topic and number, at most so many in all."""
    mark = after or DescribedUpTo()
    member_ids = next_names(group.members, mark.member_id, most + 1) if not mark.topic else []
    up_to = None
    partitions: list[PartitionDescription] = []
    if len(member_ids) > most:
        del member_ids[most:]
        up_to = DescribedUpTo(member_ids[-1])
    else:
        left = most - len(member_ids)
        partitions = list(islice(_describe_partitions(desk, group, (mark.topic, mark.partition), left + 1), left + 1))
        if len(partitions) > left:
            del partitions[left:]
            last = partitions[-1] if partitions else None
            up_to = DescribedUpTo(member_ids[-1] if member_ids else "")
            up_to = DescribedUpTo("", last.topic, last.partition) if last is not None else up_to
    desk.meter.note(len(member_ids) + len(partitions))
    desk.meter.pass_over(len(group.members))
    return DescribeGroupResponse(
        group_id=group.group_id,
        state=str(group_status(group, desk.soft.get(group.group_id))),
        group_epoch=group.group_epoch,
        assignor=group.assignor,
        reset_policy=group.reset_policy,
        handover=group.handover,
        members=tuple([_describe_member(desk, group, member_id) for member_id in member_ids]),
        partitions=tuple(partitions),
        forgotten_in_ms=forgotten_in_ms(desk, group),
        up_to=up_to,
        bytes=bytes_of(group),
        kafka_failure=desk.catalog.failure or "",
        claim_timeout_ms=group.claim_timeout_ms,
        topic_ids=tuple(_topic_ids(desk, group, partitions)),
    )


def _topic_ids(desk: Desk, group: GroupState, partitions: Iterable[PartitionDescription]) -> Iterator[tuple[str, str]]:
    for topic in dict.fromkeys(one.topic for one in partitions):
        topic_id = desk.topic_id_now(group, topic)
        if topic_id:
            yield topic, topic_id


def _describe_member(desk: Desk, group: GroupState, member_id: str) -> MemberDescription:
    member = group.members[member_id]
    session = desk.session_of(group.group_id, member_id)
    is_connected = session is not None and session.connection_id is not None
    return MemberDescription(
        member_id=member_id,
        instance_id=member.facts.instance_id,
        client_id=member.facts.client_id,
        host=member.facts.host,
        pid=member.facts.pid,
        state=str(member_status(group, member_id)),
        member_epoch=member.member_epoch,
        streams=member.facts.streams,
        connected=is_connected,
        owned=len(group.owned_by(member_id)),
        target=len(member.target),
        commits=member.facts.commits,
        isolation_level=member.facts.isolation_level,
        unpolled_ms=session.unpolled_ms if session is not None and is_connected else None,
    )


def _describe_partitions(
    desk: Desk, group: GroupState, after: TopicPartition, most: int
) -> Iterator[PartitionDescription]:
    """Yield what the group has or reads behind a partition, topic by topic; at most so many of each topic."""
    seen = group.topics
    read = {topic for topic in group.by_facts.subscribers if topic in seen and seen[topic].partitions}
    topics = {*group.offsets.topics(), *group.grants.topics(), *read}
    desk.meter.pass_over(len(topics))
    begin, last = after
    for topic in ([begin] if begin in topics else []) + next_names(topics, begin, most):
        offsets, grants = group.offsets.rows(topic), group.grants.rows(topic)
        size = seen[topic].partitions if topic in read else 0
        numbers = next_numbers(last if topic == begin else -1, most, offsets.keys(), grants.keys(), size)
        for number in numbers:
            grant, known = grants.get(number), offsets.get(number)
            committed, leader_epoch, _ = (None, None, "") if known is None else known.position_of(number)
            claim, claim_state = _describe_claim((topic, number), grant, group.claims.get((topic, number)))
            yield PartitionDescription(
                topic=topic,
                partition=number,
                committed=committed,
                end_offset=end_for(desk, topic, number, known),
                member_id=grant.member_id if grant is not None else None,
                owner_epoch=grant.owner_epoch if grant is not None else None,
                is_stopping=grant is not None and grant.is_stopping,
                claim=claim,
                claim_state=claim_state,
                leader_epoch=leader_epoch,
                stream=stream_of(group, (topic, number)) if grant is not None and grant.stream is not None else None,
            )


def end_for(desk: Desk, topic: str, number: int, known: Committed | None) -> int | None:
    """Return the end of the log that a partition's committed offset is of, when known.

    A topic that was deleted and made again has another log, of which that offset says nothing.
    """
    now = desk.catalog.topic(topic) if known is not None else None
    if known is not None and now is not None and not is_same_topic(known.topic_id, now.topic_id):
        return None
    return desk.catalog.end_of(topic, number)


def _describe_claim(
    partition: TopicPartition, grant: Grant | None, found: OpenClaim | None
) -> tuple[Claim | None, ClaimState | None]:
    if grant is None or found is None:
        return None, None
    state = ClaimState.RUNNING if found.is_running else ClaimState.OFFERED
    topic, number = partition
    claim = Claim(topic, grant.topic_id, number, grant.owner_epoch, found.from_offset, found.until_offset)
    return claim, state
