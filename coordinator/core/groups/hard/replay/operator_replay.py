"""Replay of what operators did; `replay` calls it for their records, live and while loading."""

from collections.abc import Callable
from typing import Any, Final

from coordinator.core.groups.hard.account import bytes_of_decree, discharge
from coordinator.core.groups.hard.controls import NO_CONTROLS, Controls, Decree, PendingReset
from coordinator.core.groups.hard.operator_records import (
    ClaimsReleased,
    DrainChanged,
    GroupDeleted,
    OffsetsDeleted,
    PauseChanged,
    ResetApplied,
    ResetsCancelled,
    ResetsPlanned,
)
from coordinator.core.groups.hard.records import CommittedPart
from coordinator.core.groups.hard.replay.changes import (
    commit,
    own,
    release,
    release_each,
    start_as_usual,
    start_by_policy,
)
from coordinator.core.groups.hard.replay.indexes import drop_from_indexes
from coordinator.core.groups.hard.state import Grant, GroupState, ShardState
from coordinator.core.groups.partitions.partition_table import NO_PARTITIONS, PartitionTable


def delete_group(state: ShardState, record: GroupDeleted) -> None:
    """Forget a group."""
    group = state.groups.pop(record.group_id)
    assert not group.members, f"group {record.group_id} is deleted while it has members"
    discharge(state, group)
    drop_from_indexes(state, group)


def _pause_changed(group: GroupState, record: PauseChanged) -> None:
    decree = Decree(record.who, record.why, record.at_ms)
    controls = _controls_to_change(group)
    if record.partitions is None:
        before = controls.group_pause
        controls.group_pause = decree if record.is_paused else None
        _replace(controls, "", before, controls.group_pause)
        return
    for partition in record.partitions:
        before = controls.paused.pop(partition, None)
        if record.is_paused:
            controls.paused[partition] = decree
        _replace(controls, partition[0], before, decree if record.is_paused else None)


def _controls_to_change(group: GroupState) -> Controls:
    """Return the controls of a group, its own from now on."""
    if group.controls is NO_CONTROLS:
        group.controls = Controls()
    return group.controls


def _replace(controls: Controls, name: str, before: Decree | None, after: Decree | None) -> None:
    """Keep the account when one decree comes in the place of another."""
    if before is not None:
        controls.bytes -= bytes_of_decree(name, before)
    if after is not None:
        controls.bytes += bytes_of_decree(name, after)


def _drain_changed(group: GroupState, record: DrainChanged) -> None:
    controls = _controls_to_change(group)
    before = controls.drained.pop(record.member_id, None)
    after = Decree(record.who, record.why, record.at_ms) if record.is_drained else None
    if after is not None:
        controls.drained[record.member_id] = after
    _replace(controls, record.member_id, before, after)
    group.is_target_stale = True


def _resets_planned(group: GroupState, record: ResetsPlanned) -> None:
    decree = Decree(record.who, record.why, record.at_ms)
    controls = _controls_to_change(group)
    for planned in record.resets:
        before = controls.resets.get((planned.topic, planned.partition))
        _replace(controls, planned.topic, before.decree if before is not None else None, decree)
        controls.resets[planned.topic, planned.partition] = PendingReset(
            planned.topic_id, planned.offset, planned.leader_epoch, planned.releases_claims, decree
        )


def _reset_applied(group: GroupState, record: ResetApplied) -> None:
    partition = (record.topic, record.partition)
    _replace(group.controls, record.topic, group.controls.resets.pop(partition).decree, None)
    if record.member_id is None and group.claims.is_running(partition):
        group.is_target_stale = True  # what was held for somebody gone is in no target
    if partition in group.grants:
        release(group, partition)
    part = CommittedPart(
        record.topic, record.topic_id, record.partition, record.offset, record.leader_epoch, "", record.at_ms, None
    )
    commit(group, (part,))
    start_as_usual(group, record.topic, (record.partition,))
    if record.member_id is not None:
        assert record.owner_epoch is not None, "a grant has an owner epoch"
        if group.grants is NO_PARTITIONS:
            group.grants = PartitionTable()
        group.grants[partition] = Grant(record.member_id, record.topic_id, record.owner_epoch)
        own(group, record.member_id, record.topic, (record.partition,))


def _resets_cancelled(group: GroupState, record: ResetsCancelled) -> None:
    for partition in record.partitions:
        _replace(group.controls, partition[0], group.controls.resets.pop(partition).decree, None)


def _offsets_deleted(group: GroupState, record: OffsetsDeleted) -> None:
    for partition in record.partitions:
        del group.offsets[partition]
    start_by_policy(group, record.partitions)


def _claims_released(group: GroupState, record: ClaimsReleased) -> None:
    release_each(group, record.partitions)
    group.is_target_stale = True


OPERATOR_REPLAY: Final[dict[type, Callable[[GroupState, Any], None]]] = {
    PauseChanged: _pause_changed,
    DrainChanged: _drain_changed,
    ResetsPlanned: _resets_planned,
    ResetApplied: _reset_applied,
    ResetsCancelled: _resets_cancelled,
    OffsetsDeleted: _offsets_deleted,
    ClaimsReleased: _claims_released,
}
"""The change that each record of an operator makes to its group; GroupDeleted changes the shard instead."""
