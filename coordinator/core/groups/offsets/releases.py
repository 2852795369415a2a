"""Partitions that a member lets go of: the final offsets that it gives, and how their next owners get them."""

from collections.abc import Sequence

from coordinator.core.groups.bounds.allowance import without_metadata_that_has_no_room
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.records import OffsetsCommitted, Released
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.offsets import claims, committed_offsets
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation.read_only import why_read_only
from coordinator.core.groups.reconciliation.reconciler import Reconciler
from coordinator.core.groups.reconciliation.stopping import patience
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.protocol.parts import FinalOffset, PartitionResult


def release(
    desk: Desk, group: GroupState, member_id: str, finals: Sequence[FinalOffset]
) -> tuple[tuple[PartitionResult, ...], list[TopicPartition]]:
    """Let go of partitions with their final offsets; return a result for each that is named, and what was let go."""
    released, committed, results = claims.stop(group, member_id, finals, desk.clock.wall_ms)
    committed = without_metadata_that_has_no_room(desk, group, committed)
    if released:
        desk.journal.decide(Released(group.group_id, member_id, released, committed))
    return results, [(part.topic, part.partition) for part in released]


def take_last_offsets(desk: Desk, group: GroupState, member_id: str, finals: Sequence[FinalOffset]) -> None:
    """Commit where a member has come to that is about to be removed, which lets go of all it has.

    A member may have very many partitions. Offsets that it could have committed before it left, which are those of
    partitions without a claim, are committed together, as if it had.
    """
    together = None
    if why_read_only(group, member_id) is None and not any(final.metadata for final in finals):
        together = committed_offsets.finals_together(group, member_id, finals, desk.clock.wall_ms)
    if together is None:
        release(desk, group, member_id, finals)
    elif together:
        desk.journal.decide(OffsetsCommitted(group.group_id, together=tuple(together)))


def after_release(
    desk: Desk, reconciler: Reconciler, group: GroupState, member_id: str, released: Sequence[TopicPartition]
) -> None:
    """Hand on partitions that a member has just let go of, which is on record already."""
    if not released:
        return
    why = f"{member_id} let go"
    reconciler.stops.forget(group.group_id, member_id, released)
    patience.note_let_go(group, desk.soft_of(group.group_id), member_id, released)
    reconciler.note_lost(group.group_id, released, desk.now_ms, why)
    desk.note(group.group_id, EventKind.RELEASED, why, member_id=member_id, partitions=released)
    reconciler.reconcile(group.group_id, released, (member_id,))
