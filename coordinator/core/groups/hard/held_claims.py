"""Running claims whose owner is gone: under `hold` they wait for the same identity.

A held partition is nobody's to give: it is in no target and is granted to no other member. It is free again when
the same identity is back, when an operator lets the claim go, or when the group's claim time-out is over. All of
it follows from hard state; how long is watched by `claim_watch`.
"""

from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.partitions.partition_set import PartitionSet
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.vocabulary import Handover


def is_held(group: GroupState, partition: TopicPartition) -> bool:
    """True when a partition waits for the identity that left a running claim on it."""
    grant = group.grants.get(partition)
    return (
        grant is not None
        and group.handover == Handover.HOLD
        and grant.member_id not in group.members
        and group.claims.is_running(partition)
    )


def awaited_owners(group: GroupState) -> list[str]:
    """Return the identities that are gone and left running claims which the group holds for them."""
    if group.handover != Handover.HOLD:
        return []
    return [
        owner
        for owner, partitions in group.owned.items()
        if owner not in group.members
        and any(group.claims.any_running(topic, numbers) for topic, numbers in partitions.columns())
    ]


def held_for(group: GroupState, owner: str) -> PartitionSet:
    """Return the partitions that wait for an identity which is gone."""
    held = PartitionSet()
    if group.handover == Handover.HOLD and owner not in group.members:
        for topic, numbers in group.owned_by(owner).columns():
            held.add_all(topic, numbers)
            held.discard_all(topic, group.claims.idle_of(owner, topic, numbers))
    return held


def held_columns(group: GroupState) -> list[tuple[str, list[int]]]:
    """Return the partitions that wait for identities that are gone, as topics with numbers."""
    if group.handover != Handover.HOLD:
        return []
    columns = [its.columns() for owner, its in group.owned.items() if owner not in group.members]
    return [(topic, group.claims.running(topic, numbers)) for theirs in columns for topic, numbers in theirs]


def outlives_stop(group: GroupState, partition: TopicPartition) -> bool:
    """True when an owner may overstay the deadline for this partition, because it still reads under `hold`."""
    return group.handover == Handover.HOLD and group.claims.is_running(partition)


def why_left(group: GroupState, member_id: str) -> str:
    """Say why a partition whose owner left a running claim cannot be changed, and what to do."""
    return (
        f"its owner {say_awaited(group, member_id)} is gone and left a running claim; wait for it to come back, or "
        "have the claim released"
    )


def say_awaited(group: GroupState, member_id: str) -> str:
    """Name an identity that is gone, as one to wait for."""
    for instance_id, awaited in group.awaited.items():
        if awaited == member_id:
            return f"{member_id} (instance {instance_id})"
    return member_id
