"""What members are told about their partitions, cut into pushes of bounded size."""

from collections.abc import Collection, Iterable, Iterator

from coordinator.core.groups.catalog import Catalog
from coordinator.core.groups.partition_table import TopicPartition
from coordinator.core.groups.state import GroupState
from coordinator.protocol.messages import StartFetcher, StopFetcher
from coordinator.protocol.parts import OwnedPartition, StartPartition


def start_fetchers(
    group: GroupState,
    member_id: str,
    partitions: Collection[TopicPartition],
    catalog: Catalog,
    most: int,
    *,
    is_complete: bool,
) -> Iterator[StartFetcher]:
    """Yield at least one push that names these partitions of a member; only the last can be complete."""
    member = group.members[member_id]
    wants_streams = member.facts.wants_streams
    parts = [_start_partition(group, partition, catalog, wants_streams=wants_streams) for partition in partitions]
    last = max(0, len(parts) - 1) // most
    for index in range(last + 1):
        yield StartFetcher(
            partitions=tuple(parts[index * most : (index + 1) * most]),
            is_complete=is_complete and index == last,
            member_epoch=member.member_epoch,
            group_epoch=group.group_epoch,
        )


def _start_partition(
    group: GroupState, partition: TopicPartition, catalog: Catalog, *, wants_streams: bool
) -> StartPartition:
    topic, number = partition
    grant = group.grants[partition]
    committed = group.offsets[partition]
    host, port = catalog.leader_of(topic, number) or (None, None)
    return StartPartition(
        topic=topic,
        topic_id=grant.topic_id,
        partition=number,
        owner_epoch=grant.owner_epoch,
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        leader_host=host,
        leader_port=port,
        stream=grant.stream if wants_streams else None,
    )


def stop_fetchers(
    group: GroupState, partitions: Iterable[TopicPartition], deadline_ms: int, most: int
) -> Iterator[StopFetcher]:
    """Yield the pushes that ask for these partitions, which are being stopped, by reason."""
    by_why: dict[str, list[OwnedPartition]] = {}
    for partition in partitions:
        grant = group.grants[partition]
        assert grant.stop_why is not None, f"{partition} is not being stopped"
        by_why.setdefault(grant.stop_why, []).append(OwnedPartition(*partition, grant.owner_epoch))
    for why, parts in by_why.items():
        for begin in range(0, len(parts), most):
            yield StopFetcher(partitions=tuple(parts[begin : begin + most]), deadline_ms=deadline_ms, why=why)
