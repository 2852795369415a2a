"""Documents of what is known: of groups, their partitions and members, topics, nodes and shards. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, TypeVar

from coordinator.client.cluster_view import MOST_SHARDS_NAMED, ClusterView
from coordinator.console.documents import (
    Claim,
    Control,
    Event,
    GroupDetails,
    Member,
    Node,
    Overview,
    Partition,
    Rebalance,
    Rows,
    Shard,
    Topic,
    TopicGroup,
    TopicLag,
)
from coordinator.console.known.group_seen import GroupSeen, Measured, lag_seconds
from coordinator.console.known.picture import Heard
from coordinator.console.known.selection import Chosen
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import ControlDescription, GroupEvent, PartitionDescription
from coordinator.protocol.text.addresses import format_address
from coordinator.protocol.text.counts import counted
from coordinator.protocol.vocabulary import EventKind, NodeStatus

_Row = TypeVar("_Row")

MOST_RANGES: Final = 200
"""Ranges of partitions that the assignment of one member is told in."""


def rows_of(chosen: Chosen[_Row], as_of_ms: int | None, trouble: str | None) -> Rows[_Row]:
    """Return a page of rows as a document."""
    return Rows(
        rows=list(chosen.rows),
        total=chosen.total,
        page=chosen.page,
        pages=chosen.pages,
        per_page=chosen.per_page,
        as_of_ms=as_of_ms,
        trouble=trouble,
    )


def overview(heard: Heard) -> Overview:
    """Return all at once."""
    rows = [group.row for group in heard.groups]
    cluster, is_heard = heard.cluster, heard.as_of_ms is not None
    lags = [row.lag for row in rows if row.lag is not None]
    return Overview(
        cluster_id=cluster.cluster_id if cluster else None,
        controller=cluster.controller if cluster else None,
        controller_epoch=cluster.controller_epoch if cluster else None,
        replication_factor=cluster.replication_factor if cluster else None,
        min_insync_replicas=cluster.min_insync_replicas if cluster else None,
        nodes=len(cluster.nodes) if cluster else None,
        shards=len(cluster.shards) if cluster else None,
        groups=len(rows) if is_heard else None,
        described=sum(row.as_of_ms is not None for row in rows) if is_heard else None,
        members=sum(row.members for row in rows) if is_heard else None,
        lag=sum(lags) if lags else None,
        by_state=dict(sorted(Counter(row.state for row in rows).items())),
        by_status=dict(sorted(Counter(row.status for row in rows if row.status is not None).items())),
        troubles=cluster.troubles() if cluster else [],
        unlisted_shards=list(heard.unlisted),
        as_of_ms=heard.as_of_ms,
        trouble=heard.trouble if cluster else trouble_of(heard),  # else `unlisted_shards` says it
    )


def trouble_of(heard: Heard) -> str | None:
    """Say why groups may be missing from what is known, or may be old; None while all is heard."""
    if heard.trouble is not None or not heard.is_partial:
        return heard.trouble
    numbers = heard.unlisted
    named = ", ".join(map(str, numbers[:MOST_SHARDS_NAMED])) or "some shards"
    more = f" and {len(numbers) - MOST_SHARDS_NAMED} more" if len(numbers) > MOST_SHARDS_NAMED else ""
    word = ("shard " if len(numbers) == 1 else "shards ") if numbers else ""
    return f"groups of {word}{named}{more} may be missing, or are as they were: no node serves them now"


def trouble_of_topics(heard: Heard) -> str | None:
    """Say why topics of groups may be missing; None while every group has been described."""
    left = sum(group.measured is None for group in heard.groups)
    if not left:
        return trouble_of(heard)
    return trouble_of(heard) or f"topics of {counted(left, 'group')} that were not described yet may be missing"


def group_details(group: GroupSeen, trouble: str | None) -> GroupDetails:
    """Return one group by itself."""
    measured = group.measured
    described = None if measured is None else measured.description
    policy = None if described is None else described.reset_policy
    return GroupDetails(
        summary=group.row,
        assignor=(described.assignor or None) if described else None,
        reset_policy=None if policy is None else _policy_text(policy.kind, policy.timestamp_ms),
        handover=(described.handover or None) if described else None,
        forgotten_in_ms=described.forgotten_in_ms if described else None,
        kafka_failure=(described.kafka_failure or None) if described else None,
        lag_by_topic=[] if measured is None else _lag_by_topic(measured),
        as_of_ms=None if measured is None else measured.as_of_ms,
        trouble=trouble,
    )


def partitions(measured: Measured, places: Iterable[int]) -> list[Partition]:
    """Return the partitions of a group at these places of its description."""
    description = measured.description
    members = {member.member_id: member for member in description.members}
    found = []
    for place in places:
        said = description.partitions[place]
        owner = members.get(said.member_id or "")
        lag_ms, status = measured.lags_ms[place], measured.statuses[place]
        found.append(
            Partition(
                topic=said.topic,
                partition=said.partition,
                committed=said.committed,
                end=said.end_offset,
                lag=measured.lags[place],
                lag_seconds=None if lag_ms is None else lag_ms / 1000,
                consumer_id=said.member_id,
                client_id=owner.client_id if owner else None,
                host=owner.host if owner else None,
                owner_epoch=said.owner_epoch,
                last_commit_ms=measured.commits_ms[place],
                status=None if status is None else str(status),
                is_stopping=said.is_stopping,
                stream=said.stream,
                claim=_claim(said),
            )
        )
    return found


def members(measured: Measured) -> list[Member]:
    """Return the members of a group, each with its lag and its assignment."""
    owned: dict[str, list[TopicPartition]] = {}
    lags: dict[str, int] = {}
    for said, lag in zip(measured.description.partitions, measured.lags, strict=True):
        if said.member_id is not None:
            owned.setdefault(said.member_id, []).append((said.topic, said.partition))
            if lag is not None:
                lags[said.member_id] = lags.get(said.member_id, 0) + lag
    return [
        Member(
            consumer_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.host,
            pid=member.pid,
            state=member.state,
            member_epoch=member.member_epoch,
            streams=member.streams,
            connected=member.connected,
            partitions=member.owned,
            target_partitions=member.target,
            lag=lags.get(member.member_id),
            commits=member.commits,
            isolation_level=member.isolation_level,
            unpolled_ms=member.unpolled_ms,
            assignment=ranges(owned.get(member.member_id, ())),
        )
        for member in measured.description.members
    ]


def ranges(named: Iterable[TopicPartition], most: int = MOST_RANGES) -> str:
    """Write partitions as `topic:0-3,7 other:5`, and how many ranges are left out."""
    texts: list[str] = []
    count = 0
    for topic, mine in groupby(sorted(named), key=lambda one: one[0]):
        numbers: list[str] = []
        for begin, end in _runs([number for _, number in mine]):
            count += 1
            if count <= most:
                numbers.append(str(begin) if begin == end else f"{begin}-{end}")
        if numbers:
            texts.append(f"{topic}:{','.join(numbers)}")
    return " ".join(texts) + (f" and {count - most} ranges more" if count > most else "")


def events(said: Iterable[GroupEvent]) -> list[Event]:
    """Return entries of a timeline, in their order."""
    return [
        Event(
            sequence=event.sequence,
            at_ms=event.at_ms,
            kind=event.kind,
            consumer_id=event.member_id or None,
            group_epoch=event.group_epoch,
            partitions=ranges(event.partitions),
            partition_count=max(event.partition_count, len(event.partitions)),
            duration_ms=event.duration_ms,
            why=event.why,
        )
        for event in said
    ]


def rebalances(said: Iterable[GroupEvent]) -> list[Rebalance]:
    """Return the rebalances of a timeline, newest first: each ends when the group is stable in its epoch."""
    found: list[Rebalance] = []
    ends: dict[int, GroupEvent] = {}
    for event in sorted(said, key=lambda event: -event.sequence):
        if event.kind == EventKind.STABLE:
            ends[event.group_epoch] = event
        elif event.kind == EventKind.REBALANCE:
            end = ends.pop(event.group_epoch, None)
            found.append(
                Rebalance(
                    at_ms=event.at_ms,
                    group_epoch=event.group_epoch,
                    why=event.why,
                    partition_count=max(event.partition_count, len(event.partitions)),
                    duration_ms=None if end is None else end.duration_ms,
                )
            )
    return found


def controls(said: Iterable[ControlDescription]) -> list[Control]:
    """Return the decisions of operators that stand."""
    return [
        Control(
            kind=control.kind,
            topic=control.topic or None,
            partition=control.partition,
            consumer_id=control.member_id or None,
            new_offset=control.offset,
            who=control.who,
            why=control.why or None,
            at_ms=control.at_ms,
        )
        for control in said
    ]


def topics(groups: Iterable[GroupSeen]) -> list[Topic]:
    """Return the topics that groups read, by name."""
    counts: dict[str, int] = {}
    readers: dict[str, int] = {}
    lags: dict[str, int] = {}
    for group in groups:
        for topic in () if group.measured is None else _lag_by_topic(group.measured):
            counts[topic.topic] = max(counts.get(topic.topic, 0), topic.partitions)
            readers[topic.topic] = readers.get(topic.topic, 0) + 1
            if topic.lag is not None:
                lags[topic.topic] = lags.get(topic.topic, 0) + topic.lag
    return [
        Topic(topic=name, partitions=counts[name], groups=readers[name], lag=lags.get(name)) for name in sorted(counts)
    ]


def topic_groups(topic: str, groups: Iterable[GroupSeen]) -> list[TopicGroup]:
    """Return the groups that read a topic, with their lag there."""
    found = []
    for group in groups:
        mine = (
            next((one for one in _lag_by_topic(group.measured) if one.topic == topic), None) if group.measured else None
        )
        if mine is not None:
            found.append(
                TopicGroup(
                    group=group.row.group,
                    state=group.row.state,
                    members=group.row.members,
                    partitions=mine.partitions,
                    lag=mine.lag,
                    max_lag=mine.max_lag,
                    lag_seconds=mine.lag_seconds,
                    status=group.row.status,
                )
            )
    return found


def nodes(cluster: ClusterView | None) -> list[Node]:
    """Return the nodes."""
    return [
        Node(
            node_id=node.described.node_id,
            address=None if node.address is None else format_address(node.address),
            state=(
                f"{node.described.status}, silent"
                if node.why_not_asked and node.described.status != NodeStatus.GONE
                else node.described.status
            ),
            why_not_asked=node.why_not_asked or None,
            is_controller=node.is_controller,
            leads=node.leads,
            replicas=node.replicas,
            in_sync=node.in_sync,
            node_epoch=node.described.node_epoch,
            rack=node.described.rack or None,
            release=node.described.release or None,
        )
        for node in (cluster.nodes if cluster else ())
    ]


def shards(cluster: ClusterView | None) -> list[Shard]:
    """Return the shards."""
    return [
        Shard(
            shard=shard.shard,
            state=shard.status,
            leader=shard.leader,
            leader_epoch=shard.leader_epoch,
            replicas=list(shard.replicas),
            isr=list(shard.isr),
            adding=list(shard.adding),
            removing=list(shard.removing),
            log_end_offset=shard.log_end,
            high_watermark=shard.high_watermark,
        )
        for shard in (cluster.shards if cluster else ())
    ]


def _policy_text(kind: str, timestamp_ms: int | None) -> str:
    return kind if timestamp_ms is None else f"{kind} {timestamp_ms}"


def _claim(said: PartitionDescription) -> Claim | None:
    if said.claim is None or said.claim_state is None:
        return None
    return Claim(
        from_offset=said.claim.from_offset,
        until_offset=said.claim.until_offset,
        owner_epoch=said.claim.owner_epoch,
        state=said.claim_state.name,
    )


def _lag_by_topic(measured: Measured) -> list[TopicLag]:
    places: dict[str, list[int]] = {}
    for place, said in enumerate(measured.description.partitions):
        places.setdefault(said.topic, []).append(place)
    found = []
    for topic in sorted(places):
        known = [lag for place in places[topic] if (lag := measured.lags[place]) is not None]
        found.append(
            TopicLag(
                topic=topic,
                partitions=len(places[topic]),
                lag=sum(known) if known else None,
                max_lag=max(known, default=None),
                lag_seconds=lag_seconds((measured.lags[place], measured.lags_ms[place]) for place in places[topic]),
                unknown=len(places[topic]) - len(known),
            )
        )
    return found


def _runs(numbers: Sequence[int]) -> Iterable[tuple[int, int]]:
    begin = end = numbers[0]
    for number in numbers[1:]:
        if number != end + 1:
            yield begin, end
            begin = number
        end = number
    yield begin, end
