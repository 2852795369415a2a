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
