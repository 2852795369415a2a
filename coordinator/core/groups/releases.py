"""What follows when a member has let go of partitions: they are free, and their next owners get them."""

from collections.abc import Sequence

from coordinator.core.groups import patience
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.ownership import Ownership
from coordinator.core.groups.partition_table import TopicPartition
from coordinator.core.groups.state import GroupState
from coordinator.core.groups.timeline import EventKind


def after_release(
    desk: Desk, ownership: Ownership, group: GroupState, member_id: str, released: Sequence[TopicPartition]
) -> None:
    """Hand on partitions that a member has just let go of, which is on record already."""
    if not released:
        return
    why = f"{member_id} let go"
    ownership.stops.forget(group.group_id, member_id, released)
    patience.note_let_go(group, desk.soft_of(group.group_id), member_id, released)
    ownership.note_lost(group.group_id, released, desk.now_ms, why)
    desk.note(group.group_id, EventKind.RELEASED, why, member_id=member_id, partitions=released)
    ownership.reconcile(group.group_id, released, (member_id,))
