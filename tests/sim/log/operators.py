"""Rules about what operators do: pauses, drains, resets, deletions, released claims; a dry run writes nothing.

That a paused partition is granted to nobody is a rule about grants, in `ownership`.
"""

from coordinator.core.groups.hard import operator_records as o
from tests.sim.log import offsets
from tests.sim.log.ownership import end_grant, grant, let_go, note_released, take_owner_epoch
from tests.sim.log.state import GroupModel, Log, Owner, Rule

DRY = "dry"
"""Who asks for dry runs."""


def pause_changed(log: Log, group: GroupModel, at: int, record: o.PauseChanged) -> None:
    if record.partitions is None:
        group.is_paused = record.is_paused
    elif record.is_paused:
        group.paused.update(record.partitions)
    else:
        group.paused.difference_update(record.partitions)


def drain_changed(log: Log, group: GroupModel, at: int, record: o.DrainChanged) -> None:
    if record.member_id not in group.facts:
        raise log.broken("no-such-member", at, f"{record}")
    if record.is_drained:
        group.drained.add(record.member_id)
    else:
        group.drained.discard(record.member_id)


def resets_planned(log: Log, group: GroupModel, at: int, record: o.ResetsPlanned) -> None:
    group.resets.update({(planned.topic, planned.partition): planned for planned in record.resets})


def resets_cancelled(log: Log, group: GroupModel, at: int, record: o.ResetsCancelled) -> None:
    for partition in record.partitions:
        if group.resets.pop(partition, None) is None:
            raise log.broken("phantom-reset", at, f"no reset of {partition} was planned: {record}")


def reset_applied(log: Log, group: GroupModel, at: int, record: o.ResetApplied) -> None:
    partition = (record.topic, record.partition)
    planned = group.resets.pop(partition, None)
    if planned is None or planned.offset != record.offset:
        raise log.broken("phantom-reset", at, f"{planned} was planned: {record}")
    owner = group.owners.get(partition)
    if owner is not None and not owner.is_abandoned:
        raise log.broken("double-owner", at, f"{owner.member_id} has {partition} still: {record}")
    if group.is_held(partition) and not planned.releases_claims:
        raise log.broken("hold-broken", at, f"{owner} may come back: {record}")
    if record.member_id is not None and record.owner_epoch is not None:
        if partition not in group.targets.get(record.member_id, frozenset()):
            raise log.broken("grant-beside-target", at, f"{record}")
        take_owner_epoch(log, at, record.owner_epoch)
        grant(log, group, at, partition, Owner(record.member_id, record.topic_id, record.owner_epoch))
    elif owner is not None:
        note_released(log, owner)
        end_grant(group, at, partition)
    group.by_policy.discard(partition)
    group.history.moved((record.topic, record.topic_id, record.partition), record.offset, "a reset")
    offsets.write(group, at, partition, record.topic_id, record.offset, None)
    offsets.note_start(log, record.topic, record.topic_id, record.partition, record.offset)
    log.resets += 1


def offsets_deleted(log: Log, group: GroupModel, at: int, record: o.OffsetsDeleted) -> None:
    for partition in record.partitions:
        if partition in group.owners:
            raise log.broken("lost-commit", at, f"{group.owners[partition]} owns {partition}: {record}")
        if not group.commits.get(partition) or group.commits[partition][-1].offset is None:
            raise log.broken("phantom-delete", at, f"{partition} had no offset: {record}")
        offsets.forget(group, at, partition)
        group.by_policy.add(partition)


def claims_released(log: Log, group: GroupModel, at: int, record: o.ClaimsReleased) -> None:
    let_go(log, group, at, record.partitions, is_by_operator=True)


RULES: dict[type, Rule] = {
    o.PauseChanged: pause_changed,
    o.DrainChanged: drain_changed,
    o.ResetsPlanned: resets_planned,
    o.ResetsCancelled: resets_cancelled,
    o.ResetApplied: reset_applied,
    o.OffsetsDeleted: offsets_deleted,
    o.ClaimsReleased: claims_released,
}
