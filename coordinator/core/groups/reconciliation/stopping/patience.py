"""The time for which a partition's owner is waited for once it has to let go, so that micro-batches come to an end.

A partition is not taken for a member that was late with it itself, while its committed offset stands where it stood
then; and each time it was taken since, its next owner has twice as long. So between two commits a partition is taken
once from each member at most: whoever has it then commits, dies, or meets an operator, whose word is not put off. For a
member that never commits, to let go in time is as good. All this is soft: after a restart every stop has a full
deadline, and members may be late once more.
"""

from collections.abc import Iterable
from typing import Final

from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.soft.group_soft import GroupSoft, LateOwners

MOST_DOUBLINGS: Final = 10
"""The most doublings of an owner's time."""


def timeout_ms(group: GroupState, soft: GroupSoft, partition: TopicPartition) -> int:
    """Return within which time a partition's owner has to let go of it."""
    own_ms = group.members[group.grants[partition].member_id].facts.rebalance_timeout_ms
    late = late_owners(group, soft, partition)
    if late is None or _has_to_go(group, partition):
        return own_ms
    return own_ms * (1 << min(late.times, MOST_DOUBLINGS))


def is_waited_for(group: GroupState, soft: GroupSoft, partition: TopicPartition) -> bool:
    """True when a partition stays with its owner beyond the deadline: nobody else is to have it, or who was late."""
    if _has_to_go(group, partition):
        return False
    wanted_by = group.wanted_owner(partition)
    if wanted_by is None:
        return group.is_target_stale  # the next target says who is to have it
    late = late_owners(group, soft, partition)
    return wanted_by == group.grants[partition].member_id or (late is not None and wanted_by in late.member_ids)


def note_taken(group: GroupState, soft: GroupSoft, member_id: str, partitions: list[TopicPartition]) -> None:
    """Remember who was late with partitions that are about to be taken."""
    for partition in partitions:
        late = late_owners(group, soft, partition) or LateOwners(_committed(group, partition))
        soft.late_owners[partition] = LateOwners(late.committed, late.member_ids | {member_id}, late.times + 1)


def note_let_go(group: GroupState, soft: GroupSoft, member_id: str, partitions: Iterable[TopicPartition]) -> None:
    """Forget who was late with partitions that a member has let go of which never commits: it is as far as it gets."""
    if soft.late_owners and member_id in group.by_facts.readers:
        for partition in partitions:
            soft.late_owners.pop(partition, None)


def late_owners(group: GroupState, soft: GroupSoft, partition: TopicPartition) -> LateOwners | None:
    """Return from whom a partition was taken since its offset was committed last, if from anybody."""
    late = soft.late_owners.get(partition)
    return late if late is not None and late.committed == _committed(group, partition) else None


def _committed(group: GroupState, partition: TopicPartition) -> int | None:
    committed = group.offsets.get(partition)
    return committed.offset if committed is not None else None


def _has_to_go(group: GroupState, partition: TopicPartition) -> bool:
    """True when an operator wants the partition let go, or its topic is no more."""
    grant, controls = group.grants[partition], group.controls
    return (
        partition in controls.resets
        or controls.pause_of(partition) is not None
        or grant.member_id in controls.drained
        or grant.topic_id != group.topics[partition[0]].topic_id
    )
