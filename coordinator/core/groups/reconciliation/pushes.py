"""The pushes that tell members about their partitions, each of bounded size."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from operator import itemgetter
from typing import Final

from coordinator.core.groups.hard.state import Grant, GroupState
from coordinator.core.groups.hard.tables.committed_table import positions
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation.start_offsets import NoStart, policy_start
from coordinator.core.kafka_metadata import Catalog
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FetcherTaken, StartFetcher, StopFetcher
from coordinator.protocol.parts import OwnedPartition, PartitionResult, StartPartition

_MOST_NOTES: Final = 20
"""Sentences of one push; the timeline has them all."""
_MOST: Final = 100
_LOOKED_AT: Final = 1_000
"""Withheld partitions that a member is told, and those of the group that are looked at for it."""


def start_fetchers(
    group: GroupState,
    member_id: str,
    partitions: Collection[TopicPartition],
    catalog: Catalog,
    most: int,
    *,
    is_complete: bool,
    notes: Sequence[str] = (),
    to_follow: int = 0,
) -> Iterator[StartFetcher]:
    """Yield at least one push that names these partitions of a member; only the last can be complete.

    `to_follow` says how many it is still to be told after them of those that it had when it registered.
    """
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
            to_follow=to_follow,
        )


def _start_partitions(
    group: GroupState, partitions: Iterable[TopicPartition], catalog: Catalog, *, wants_streams: bool
) -> Iterator[StartPartition]:
    """Yield what a member is told of partitions, column by column: it may have very many."""
    for topic, of_topic in groupby(partitions, itemgetter(0)):
        numbers = [number for _, number in of_topic]
        grants = list(map(group.grants.rows(topic).__getitem__, numbers))
        starts = positions(group.offsets.rows(topic), numbers)
        if None in starts or any(grant.start is not None for grant in grants):
            starts = [_start(*each) for each in zip(grants, starts, strict=True)]
        offsets, leader_epochs = zip(*[start for start in starts if start is not None], strict=True)
        hosts, ports = zip(*catalog.leaders_of(topic, numbers), strict=True)
        yield from map(
            StartPartition,
            repeat(topic),
            [grant.topic_id for grant in grants],
            numbers,
            [grant.owner_epoch for grant in grants],
            offsets,
            leader_epochs,
            hosts,
            ports,
            [grant.stream for grant in grants] if wants_streams else repeat(None),
        )


def _start(grant: Grant, known: tuple[int, int | None] | None) -> tuple[int, int | None]:
    """Return where a partition is read from: where the group is, unless its owner commits nothing and begins itself."""
    if grant.start is not None:
        return grant.start, grant.start_leader_epoch
    assert known is not None, f"{grant} starts nowhere"
    return known


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


def withheld_from(
    group: GroupState, member_id: str, unresolved_why: Mapping[TopicPartition, str]
) -> tuple[PartitionResult, ...]:
    """Return what a member does not get for want of a start, and why; of very many some.

    `unresolved_why` says it of all partitions of the group, which are few but where the policy is none.
    """
    policy = policy_start(group.reset_policy)
    found = []
    for partition, why in list(unresolved_why.items())[:_LOOKED_AT]:
        if group.wanted_owner(partition) != member_id or partition in group.grants:
            continue
        is_for_good = isinstance(policy, NoStart) and policy.why == why
        error = ErrorCode.OFFSET_OUT_OF_RANGE if is_for_good else ErrorCode.OFFSET_NOT_AVAILABLE
        found.append(PartitionResult(*partition, error, why))
    return tuple(found[:_MOST])
