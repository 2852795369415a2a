"""Rules about groups and members: who is in, what is promised to whom, and epochs, which only grow."""

from collections.abc import Iterable

from msgspec import structs

from coordinator.core.groups.hard import operator_records as o
from coordinator.core.groups.hard import records as r
from coordinator.core.groups.partitions.in_topics import one_by_one
from coordinator.core.groups.partitions.partition_table import TopicPartition
from tests.sim.log.lived_time import group_expired
from tests.sim.log.ownership import end_grant, note_released
from tests.sim.log.recovery import note_joined, note_topic
from tests.sim.log.state import GroupModel, Log, Rule


def group_settings(log: Log, group: GroupModel, at: int, record: r.GroupSettings) -> None:
    if record.group_epoch < group.group_epoch:
        raise log.broken("epoch-regress", at, f"group epoch {record.group_epoch} after {group.group_epoch}")
    group.group_epoch = record.group_epoch
    group.handover = record.handover
    group.claim_timeout_ms = record.claim_timeout_ms
    group.reset_policy = record.reset_policy


def topic_seen(log: Log, group: GroupModel, at: int, record: r.TopicSeen) -> None:
    before = group.topics.get(record.topic)
    if before is not None and before[0] != record.topic_id:
        group.by_policy = {partition for partition in group.by_policy if partition[0] != record.topic}
    if not record.by_readers:
        note_topic(group, record.topic)
    group.topics[record.topic] = (record.topic_id, record.partitions)


def topics_matched(log: Log, group: GroupModel, at: int, record: r.TopicsMatched) -> None:
    group.never_by_policy.update(group.just_seen)
    group.just_seen.clear()
    for member_id in record.member_ids:
        facts = group.facts[member_id]
        if facts.pattern is None or not set(record.topics).isdisjoint(facts.exclusions):
            raise log.broken("foreign-topic", at, f"{facts}: {record}")
        group.facts[member_id] = structs.replace(facts, topics=record.topics)


def group_forgotten(log: Log, group: GroupModel, at: int, record: r.GroupExpired | o.GroupDeleted) -> None:
    if group.facts:
        raise log.broken("lost-group", at, f"{sorted(group.facts)} are members: {record}")
    held = [partition for partition in group.owners if group.is_held(partition)]
    if held and isinstance(record, r.GroupExpired):
        raise log.broken("hold-broken", at, f"{held} wait for their owners: {record}")
    for owner in group.owners.values():
        note_released(log, owner)
    if isinstance(record, r.GroupExpired):
        group_expired(log, group, at, record)
    del log.groups[record.group_id]


def member_joined(log: Log, group: GroupModel, at: int, record: r.MemberJoined) -> None:
    facts = record.facts
    member_id = facts.member_id
    if record.member_epoch != group.member_epochs.get(member_id, 0):
        raise log.broken("epoch-regress", at, f"{member_id} has {group.member_epochs.get(member_id)}: {record}")
    for other in group.facts.values():
        if other.member_id == member_id:
            continue
        if facts.instance_id is not None and other.instance_id == facts.instance_id:
            raise log.broken("double-identity", at, f"{other.member_id} has instance id {facts.instance_id}: {record}")
        if not set(facts.partitions).isdisjoint(other.partitions):
            raise log.broken("double-claimant", at, f"{other.member_id} has named {other.partitions}: {record}")
    if not set(facts.topics).isdisjoint(facts.exclusions):
        raise log.broken("foreign-topic", at, f"{facts.exclusions} are excluded: {record}")
    note_joined(log, record.group_id, group, facts)
    group.facts[member_id] = facts
    group.emptied_at = None
    group.instances[member_id] = facts.instance_id
    group.member_epochs[member_id] = record.member_epoch
    group.targets.setdefault(member_id, frozenset())
    group.joined_at.setdefault((member_id, facts.incarnation), []).append(at)
    for owner in group.owners.values():
        if owner.member_id == member_id:
            owner.is_abandoned = False
            owner.abandoned_at = None


def member_removed(log: Log, group: GroupModel, at: int, record: r.MemberRemoved) -> None:
    member_id = record.member_id
    if member_id not in group.facts:
        raise log.broken("no-such-member", at, f"{record}")
    del group.facts[member_id], group.member_epochs[member_id], group.targets[member_id]
    group.drained.discard(member_id)
    group.removed_at.setdefault(member_id, []).append(at)
    for partition in [key for key, owner in group.owners.items() if owner.member_id == member_id]:
        owner = group.owners[partition]
        if record.keeps_running_claims and owner.has_running_claim:
            owner.is_abandoned, owner.is_stopping, owner.abandoned_at = True, False, at
        else:
            end_grant(group, at, partition)


def identity_awaited(log: Log, group: GroupModel, at: int, record: r.IdentityAwaited) -> None:
    raise log.broken("snapshot-only", at, f"this belongs to snapshots, where a removal is not: {record}")


def targets_assigned(log: Log, group: GroupModel, at: int, record: r.TargetsAssigned) -> None:
    is_next_part = group.is_target_in_parts and record.group_epoch == group.group_epoch
    if record.group_epoch <= group.group_epoch and not is_next_part:
        raise log.broken("epoch-regress", at, f"group epoch {record.group_epoch} after {group.group_epoch}")
    group.group_epoch = record.group_epoch
    group.is_target_in_parts = record.is_stale
    for target in (*record.targets, *record.lost, *record.gained):
        if target.member_id not in group.facts:
            raise log.broken("no-such-member", at, f"{target}")
    for target in record.targets:
        group.targets[target.member_id] = frozenset(one_by_one(target.topics))
        _must_be_read(log, group, at, target.member_id, group.targets[target.member_id])
    for target in record.lost:
        group.targets[target.member_id] -= frozenset(one_by_one(target.topics))
    for target in record.gained:
        # What it has still of a topic that it reads no longer, it had before; the next target takes it away.
        gained = frozenset(one_by_one(target.topics))
        group.targets[target.member_id] |= gained
        _must_be_read(log, group, at, target.member_id, gained)
    given: set[TopicPartition] = set()
    for member_id, partitions in group.targets.items():
        if given & partitions:
            raise log.broken("double-target", at, f"{sorted(given & partitions)} are given to {member_id} too")
        given |= partitions
    if record.is_stale:
        # More parts follow, or what changed since the target was computed is yet to be taken in.
        return
    for member_id, partitions in group.targets.items():
        _must_be_read(log, group, at, member_id, partitions)
        if member_id in group.drained and partitions:
            raise log.broken("drained-target", at, f"{member_id} is drained and gets {sorted(partitions)}")
        named = group.facts[member_id].partitions
        if named and not partitions <= set(named):
            raise log.broken("foreign-target", at, f"{member_id} names {named} and gets {sorted(partitions)}")
    wanted = due(group)
    if given != wanted:
        raise log.broken("incomplete-target", at, f"{sorted(wanted ^ given)} are missing or too many")


def _must_be_read(log: Log, group: GroupModel, at: int, member_id: str, partitions: frozenset[TopicPartition]) -> None:
    facts = group.facts[member_id]
    if any(topic not in facts.topics for topic, _ in partitions):
        raise log.broken("foreign-target", at, f"{facts} gets {sorted(partitions)}")


def due(group: GroupModel) -> set[TopicPartition]:
    """Return what members are due: all that is read, less what is held, or named by one who is drained."""
    takers = [facts for member_id, facts in group.facts.items() if member_id not in group.drained]
    named = {partition for facts in group.facts.values() for partition in facts.partitions}
    shared = {topic for facts in takers if not facts.partitions for topic in facts.topics}
    assigned = {key for key in _partitions(group, shared) if not group.is_held(key)} - named
    return assigned | {
        (topic, number)
        for facts in takers
        for topic, number in facts.partitions
        if number < group.topics.get(topic, ("", 0))[1]
    }


def _partitions(group: GroupModel, topics: Iterable[str]) -> set[TopicPartition]:
    return {(topic, number) for topic in topics if topic in group.topics for number in range(group.topics[topic][1])}


def member_epochs_advanced(log: Log, group: GroupModel, at: int, record: r.MemberEpochsAdvanced) -> None:
    for member_id in record.member_ids:
        if not group.member_epochs[member_id] <= record.member_epoch <= group.group_epoch:
            raise log.broken("epoch-regress", at, f"{member_id} was in {group.member_epochs[member_id]}: {record}")
        if any(owner.member_id == member_id and owner.is_stopping for owner in group.owners.values()):
            raise log.broken("epoch-before-revoke", at, f"{member_id} still has to let go")
        group.member_epochs[member_id] = record.member_epoch


RULES: dict[type, Rule] = {
    r.GroupSettings: group_settings,
    r.TopicSeen: topic_seen,
    r.TopicsMatched: topics_matched,
    r.GroupExpired: group_forgotten,
    o.GroupDeleted: group_forgotten,
    r.MemberJoined: member_joined,
    r.MemberRemoved: member_removed,
    r.IdentityAwaited: identity_awaited,
    r.TargetsAssigned: targets_assigned,
    r.MemberEpochsAdvanced: member_epochs_advanced,
}
