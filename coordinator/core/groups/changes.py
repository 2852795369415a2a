"""The small changes of which replay is made: an offset written, a claim closed, a partition let go, an index kept."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

from msgspec.structs import replace

from coordinator.core.groups.partition_table import TopicPartition
from coordinator.core.groups.records import CommittedPart
from coordinator.core.groups.state import GroupState

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def commit(group: GroupState, parts: Iterable[CommittedPart]) -> None:
    """Write committed offsets."""
    for part in parts:
        group.offsets.write(part)


def close_claim(group: GroupState, partition: TopicPartition) -> None:
    """Close the claim of a grant, if it has one."""
    group.grants[partition] = replace(group.grants[partition], claim=None)


def release(group: GroupState, partition: TopicPartition) -> None:
    """End the grant of a partition and whatever hangs on it."""
    owner = group.grants.pop(partition).member_id
    discard(group.owned, owner, partition)
    discard(group.stopping, owner, partition)
    if owner not in group.members and owner not in group.owned:
        await_no_longer(group, owner)


def release_all(group: GroupState, member_id: str, *, keeps_running_claims: bool) -> None:
    """End the grants of a member that is gone, but for running claims that are kept: those it lets go of no more."""
    group.stopping.pop(member_id, None)
    owned = group.owned.pop(member_id, set())
    kept: set[TopicPartition] = set()
    for topic, of_topic in _by_topic(owned).items():
        grants = group.grants.rows_to_fill(topic)
        for partition in of_topic:
            grant = grants[partition[1]]
            if keeps_running_claims and grant.claim is not None and grant.claim.is_running:
                grants[partition[1]] = replace(grant, stop_why=None)
                kept.add(partition)
            else:
                del grants[partition[1]]
        if not grants:
            group.grants.drop(topic)
    if kept:
        group.owned[member_id] = kept
    else:
        await_no_longer(group, member_id)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        by_topic.setdefault(partition[0], []).append(partition)
    return by_topic


def await_no_longer(group: GroupState, member_id: str) -> None:
    """Forget by which instance id a member that was gone would be known again."""
    for instance_id in [instance_id for instance_id, awaited in group.awaited.items() if awaited == member_id]:
        del group.awaited[instance_id]


def discard(index: dict[K, set[V]], key: K, value: V) -> None:
    """Take a value out of an index without leaving an empty set."""
    values = index.get(key)
    if values is not None:
        values.discard(value)
        if not values:
            del index[key]
