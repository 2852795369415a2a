"""What members are told about their partitions, cut into pushes of bounded size."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from coordinator.core.groups.catalog import Catalog
from coordinator.core.groups.committed_table import positions
from coordinator.core.groups.partition_table import TopicPartition
from coordinator.core.groups.state import GroupState
from coordinator.protocol.messages import FetcherTaken, StartFetcher, StopFetcher
from coordinator.protocol.parts import OwnedPartition, StartPartition

_MOST_NOTES: Final = 20
"""Sentences of one push; the timeline has them all."""


def start_fetchers(
    group: GroupState,
    member_id: str,
    partitions: Collection[TopicPartition],
    catalog: Catalog,
    most: int,
    *,
    is_complete: bool,
    notes: Sequence[str] = (),
) -> Iterator[StartFetcher]:
    """Yield at least one push that names these partitions of a member; only the last can be complete."""
    member = group.members[member_id]
    wants_streams = member.facts.wants_streams
    parts = list(_start_partitions(group, partitions, catalog, wants_streams=wants_streams))
    last = max(0, len(parts) - 1) // most
    for index in range(last + 1):
        yield StartFetcher(
            partitions=tuple(parts[index * most : (index + 1) * most]),
            is_complete=is_complete and index == last,
            member_epoch=member.member_epoch,
            group_epoch=group.group_epoch,
            notes=tuple(notes[:_MOST_NOTES]) if index == 0 else (),
        )


def _start_partitions(
    group: GroupState, partitions: Iterable[TopicPartition], catalog: Catalog, *, wants_streams: bool
) -> Iterator[StartPartition]:
    for topic, of_topic in groupby(partitions, itemgetter(0)):
        grants, numbers = group.grants.rows(topic), [number for _, number in of_topic]
        committed, leaders = positions(group.offsets.rows(topic), numbers), catalog.leaders_of(topic, numbers)
        for number, known, (host, port) in zip(numbers, committed, leaders, strict=True):
            grant = grants[number]
            offset, leader_epoch = grant.start, grant.start_leader_epoch
            if offset is None:
                assert known is not None, f"{topic}-{number} is granted and starts nowhere"
                offset, leader_epoch = known
            yield StartPartition(
                topic,
                grant.topic_id,
                number,
                grant.owner_epoch,
                offset,
                leader_epoch,
                host,
                port,
                grant.stream if wants_streams else None,
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


def fetchers_taken(
    group: GroupState, partitions: Collection[TopicPartition], why: str, most: int
) -> Iterator[FetcherTaken]:
    """Yield the pushes that say that these partitions, which are still granted, are about to be taken."""
    parts = [OwnedPartition(*partition, group.grants[partition].owner_epoch) for partition in partitions]
    for begin in range(0, len(parts), most):
        yield FetcherTaken(partitions=tuple(parts[begin : begin + most]), why=why)
