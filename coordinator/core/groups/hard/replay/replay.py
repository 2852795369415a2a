"""Replay: how each record changes hard state; the only code that does, live and while loading.

It trusts its records: they were decided by handlers that had checked them. An assertion here is a bug of ours or a
damaged log, and stops the node.
"""

from collections.abc import Callable, Sequence
from operator import add, attrgetter
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.groups.hard.account import bytes_of_decree, bytes_of_topic, charge, discharge
from coordinator.core.groups.hard.facts_index import FactsIndex
from coordinator.core.groups.hard.operator_records import GroupDeleted, ResetApplied
from coordinator.core.groups.hard.records import (
    MOST_TOGETHER,
    Advanced,
    ClaimsClosed,
    ClaimsGivenUp,
    ClaimsRunning,
    EventsNoted,
    Granted,
    GroupEmptied,
    GroupExpired,
    GroupSettings,
    IdentityAwaited,
    MemberEpochsAdvanced,
    MemberFacts,
    MemberJoined,
    MemberRemoved,
    MemberTarget,
    OffsetsCommitted,
    Record,
    RecoveryChanged,
    Released,
    StopBegan,
    StreamsAssigned,
    Taken,
    TargetsAssigned,
    TimeLived,
    TopicCommit,
    TopicSeen,
    TopicsMatched,
    TopicSteps,
    WentOutOfRange,
)
from coordinator.core.groups.hard.replay.changes import (
    await_by_instance_id,
    await_no_longer,
    commit,
    drop_offered,
    have_stop_why,
    keep_principal,
    own,
    positions_of,
    release,
    release_all,
    release_each,
    release_together,
    share_again,
    start_as_usual,
    start_by_policy,
)
from coordinator.core.groups.hard.replay.facts import count, uncount
from coordinator.core.groups.hard.replay.indexes import (
    ABOUT_OFFSETS,
    ABOUT_TOPICS,
    drop_from_indexes,
    index_offsets,
    index_topic,
    index_topics,
)
from coordinator.core.groups.hard.replay.life_replay import LIFE_REPLAY
from coordinator.core.groups.hard.replay.operator_replay import OPERATOR_REPLAY, delete_group
from coordinator.core.groups.hard.state import Grant, GroupState, MemberState, ShardState, TopicState
from coordinator.core.groups.hard.tables.claim_table import NO_CLAIMS, ClaimTable, OpenClaims, Owner
from coordinator.core.groups.hard.tables.timeline import NO_TIMELINE, Timeline
from coordinator.core.groups.partitions.names import one_for_all
from coordinator.core.groups.partitions.no_entries import NO_ENTRIES
from coordinator.core.groups.partitions.partition_set import NOTHING
from coordinator.core.groups.partitions.partition_table import NO_PARTITIONS, PartitionTable, numbers_by_topic


def replay(state: ShardState, record: Record, offset: int | None) -> None:
    """Apply one record; `offset` is its place in the log, None for a record of a snapshot."""
    kind = type(record)
    change = _REPLAY.get(kind)
    if change is None:
        _OF_THE_SHARD[kind](state, record)
        return
    if kind in _WITH_OWNER_EPOCH:
        owner_epoch = record.owner_epoch  # type: ignore[union-attr]
        assert offset is None or owner_epoch in {None, offset + state.epochs_ahead}, (
            f"the grant at offset {offset} has owner epoch {owner_epoch}, with epochs ahead by {state.epochs_ahead}"
        )
    group = state.groups.get(record.group_id)
    if group is None:
        group = state.groups[record.group_id] = GroupState(record.group_id)
    change(group, record)
    if kind not in _KEEPS_SIZE or group.offsets.bytes != group.counted_offsets:
        charge(state, group)
    if kind is OffsetsCommitted:  # most records are commits of topics that the group has seen: no call for them
        seen = group.topics
        for part in (*record.committed, *record.together):  # type: ignore[union-attr]
            if part.topic not in seen:
                index_topic(state, group.group_id, part.topic)
    elif kind in ABOUT_TOPICS:
        index_topics(state, group, record)
    elif kind in ABOUT_OFFSETS:
        index_offsets(state, group, record)


def _group_expired(state: ShardState, record: GroupExpired) -> None:
    group = state.groups.pop(record.group_id)
    discharge(state, group)
    drop_from_indexes(state, group)


def _group_emptied(state: ShardState, record: GroupEmptied) -> None:
    group = state.groups[record.group_id]
    # With the id that the group has: a record that was read has one of its own.
    group.emptied = GroupEmptied(group.group_id, record.at_ms, record.lived_ms)
    if record.lived_ms > state.lived_ms:
        state.lived_ms, state.lived_at_ms = record.lived_ms, record.at_ms


def _time_lived(state: ShardState, record: TimeLived) -> None:
    state.lived_ms, state.lived_at_ms = record.lived_ms, record.at_ms


def changes_target(before: MemberFacts | None, after: MemberFacts) -> bool:
    """True when a member with these facts instead of the former ones may be due other partitions."""
    return before is None or _wishes(before) != _wishes(after)


def _wishes(facts: MemberFacts) -> tuple[object, ...]:
    return facts.topics, facts.streams, facts.assignors, facts.pattern, facts.partitions, facts.commits


def _group_settings(group: GroupState, record: GroupSettings) -> None:
    group.group_epoch = record.group_epoch
    group.assignor = one_for_all(record.assignor)
    group.reset_policy = record.reset_policy
    group.handover = one_for_all(record.handover)
    group.claim_timeout_ms = record.claim_timeout_ms
    group.owner = one_for_all(record.owner) or group.owner
    group.is_target_stale = record.is_target_stale


def _topic_seen(group: GroupState, record: TopicSeen) -> None:
    seen = TopicState(
        one_for_all(record.topic_id), record.first_partitions, record.partitions, record.by_readers, record.earliest_why
    )
    before = group.topics.get(record.topic)
    if before is None or (before.topic_id, before.partitions) != (seen.topic_id, seen.partitions):
        group.is_target_stale = True
    if before is not None and before.topic_id != record.topic_id:
        # Whose offset was taken away was of the topic that is gone; the new one is read from its beginning.
        start_as_usual(group, record.topic, group.by_policy.numbers(record.topic))
    if before is not None:
        group.topics_bytes -= bytes_of_topic(record.topic, before)
    group.topics_bytes += bytes_of_topic(record.topic, seen)
    if group.topics is NO_ENTRIES:
        group.topics = {}
    group.topics[one_for_all(record.topic)] = seen


def _member_joined(group: GroupState, record: MemberJoined) -> None:
    facts = record.facts
    member = group.members.get(facts.member_id)
    if changes_target(member.facts if member else None, facts):
        group.is_target_stale = True
    if member is None:
        if group.members is NO_ENTRIES:
            group.members, group.by_facts = {}, FactsIndex()
        member = group.members[facts.member_id] = MemberState(facts)
        await_no_longer(group, facts.member_id)
        group.emptied = None
    else:
        uncount(group, member.facts)
        member.facts = facts
    member.member_epoch = record.member_epoch
    count(group, facts)


def _topics_matched(group: GroupState, record: TopicsMatched) -> None:
    for member_id in record.member_ids:
        member = group.members[member_id]
        uncount(group, member.facts)
        member.facts = replace(member.facts, topics=record.topics)
        count(group, member.facts)
    group.is_target_stale = True


def _member_removed(group: GroupState, record: MemberRemoved) -> None:
    member = group.members.pop(record.member_id)
    uncount(group, member.facts)
    decree = group.controls.drained.pop(record.member_id, None)
    if decree is not None:
        group.controls.bytes -= bytes_of_decree(record.member_id, decree)
    for topic, numbers in member.target.columns():
        _want_nothing(group, record.member_id, topic, numbers)
    release_all(group, record.member_id, keeps_running_claims=record.keeps_running_claims)
    if record.member_id in group.owned:
        _await(group, record.member_id, member.facts.instance_id, member.facts.principal)
    group.is_target_stale = True
    share_again(group)


def _want(group: GroupState, target: MemberTarget) -> None:
    """Have a member be due partitions besides those that it is due."""
    member = group.members[target.member_id]
    wanted = member.target.copy()
    if group.target_owners is NO_PARTITIONS:
        group.target_owners = PartitionTable()
    for each in target.topics:
        wanted.add_all(each.topic, each.partitions)
        if not each.partitions:
            continue
        owners = group.target_owners.rows_to_fill(each.topic)
        before = len(owners)
        owners.update(dict.fromkeys(each.partitions, target.member_id))
        group.target_count += len(owners) - before
    member.target = wanted


def _want_nothing(group: GroupState, member_id: str, topic: str, numbers: Sequence[int]) -> None:
    """Have a member be due nothing of a topic any longer; `numbers` are all that it has been due of it."""
    owners = group.target_owners.rows(topic)
    if len(owners) == len(numbers) and list(owners.values()).count(member_id) == len(owners):
        # Whoever is due a partition has it in its target, so these are the same.
        owners.clear()
        group.target_count -= len(numbers)
        group.target_owners.drop(topic)
    else:
        _want_no_longer(group, member_id, topic, numbers)


def _want_no_longer(group: GroupState, member_id: str, topic: str, numbers: Sequence[int]) -> None:
    """Have a member be due partitions no longer, unless another is by now."""
    owners = group.target_owners.rows(topic)
    before = len(owners)
    if len(numbers) == before and set(owners.values()) == {member_id} and owners.keys() == set(numbers):
        owners.clear()
    for number in numbers if owners else ():
        owner = owners.pop(number, None)
        if owner is not None and owner != member_id:
            owners[number] = owner
    group.target_count += len(owners) - before
    if before and not owners:
        group.target_owners.drop(topic)


def _targets_assigned(group: GroupState, record: TargetsAssigned) -> None:
    members = group.members
    for target in record.targets:
        for topic, numbers in members[target.member_id].target.columns():
            _want_nothing(group, target.member_id, topic, numbers)
        members[target.member_id].target = NOTHING
    for target in record.lost:
        left = members[target.member_id].target.copy()
        for each in target.topics:
            left.discard_all(each.topic, each.partitions)
            _want_no_longer(group, target.member_id, each.topic, each.partitions)
        members[target.member_id].target = left
    for target in (*record.targets, *record.gained):
        _want(group, target)
    group.group_epoch = record.group_epoch
    group.assignor = record.assignor
    group.is_target_stale = record.is_stale


def _member_epochs_advanced(group: GroupState, record: MemberEpochsAdvanced) -> None:
    for member_id in record.member_ids:
        group.members[member_id].member_epoch = record.member_epoch


def _stop_began(group: GroupState, record: StopBegan) -> None:
    for topic, numbers in numbers_by_topic(record.partitions).items():
        have_stop_why(group.grants.rows_to_fill(topic), numbers, record.why)
    if group.stopping is NO_ENTRIES:
        group.stopping = {}
    group.stopping.setdefault(record.member_id, set()).update(record.partitions)


def _granted(group: GroupState, record: Granted) -> None:
    granted = group.grants.rows(record.topic)
    if not granted.keys().isdisjoint(record.partitions):
        release_together(group, record.topic, [number for number in record.partitions if number in granted])
    grant = Grant(record.member_id, record.topic_id, record.owner_epoch)
    if group.grants is NO_PARTITIONS:
        group.grants = PartitionTable()
    rows = group.grants.rows_to_fill(record.topic)
    for number in record.partitions:
        rows[number] = grant
    own(group, record.member_id, record.topic, record.partitions)
    if record.is_read_only:
        if record.starts is not None:
            for number in record.partitions:
                start, leader_epoch, _ = record.starts.position_of(number)
                rows[number] = replace(grant, start=start, start_leader_epoch=leader_epoch)
        return
    if group.by_policy:
        start_as_usual(group, record.topic, record.partitions)
    if record.starts is not None:
        group.offsets.write_together(record.starts)


def _went_out_of_range(group: GroupState, record: WentOutOfRange) -> None:
    for partition in record.partitions:
        if partition in group.grants:
            release(group, partition)
        if partition in group.offsets:
            del group.offsets[partition]
    start_by_policy(group, record.partitions)


def _released(group: GroupState, record: Released) -> None:
    commit(group, record.committed)
    release_each(group, [(part.topic, part.partition) for part in record.partitions])


def _offsets_committed(group: GroupState, record: OffsetsCommitted) -> None:
    commit(group, record.committed)
    for together in record.together:
        group.offsets.write_together(together)


def _advanced(group: GroupState, record: Advanced) -> None:
    finished = {steps.topic: _step_on(group, record.member_id, steps, record.commit_ms) for steps in record.finished}
    # What is claimed again, of the same partitions, takes the place of what is finished.
    again = [steps.topic for steps in record.offered if not steps.partitions]
    for steps in record.finished:
        if steps.topic not in again:
            group.claims.close_all(steps.topic, steps.partitions)
    if record.finals:
        commit(group, record.finals)
    for part in record.released:
        release(group, (part.topic, part.partition))
    if not record.keeps_offered:
        drop_offered(group, record.member_id)
    if record.offered and group.claims is NO_CLAIMS:
        group.claims = ClaimTable()
    for steps in record.offered:
        numbers = steps.partitions
        if numbers:
            begins, owner = positions_of(group, steps.topic, numbers), _owner_of(group, record.member_id, steps)
        else:
            numbers, begins, owner = finished[steps.topic]
        group.claims.open(steps.topic, OpenClaims(numbers, begins, tuple(map(add, begins, steps.steps))), owner)


def _step_on(
    group: GroupState, member_id: str, steps: TopicSteps, commit_ms: int
) -> tuple[tuple[int, ...], tuple[int, ...], Owner]:
    """Move committed offsets on, under the owner epochs of the grants; return of which partitions, to where, whose."""
    numbers = steps.partitions
    offsets = tuple(map(add, positions_of(group, steps.topic, numbers), steps.steps))
    owner = _owner_of(group, member_id, steps)
    whole = TopicCommit(steps.topic, steps.topic_id, commit_ms, numbers, offsets, owner.owner_epochs)
    for piece in whole.cut() if len(numbers) > MOST_TOGETHER else (whole,):
        group.offsets.write_together(piece)
    return numbers, offsets, owner


def _owner_of(group: GroupState, member_id: str, steps: TopicSteps) -> Owner:
    """Return under which owner epochs partitions are owned, which what is claimed of them may know already."""
    place = group.claims.rows(steps.topic).get(steps.partitions[0])
    if place is not None and place.is_of(steps.partitions):
        owner = place.owner
        if owner.grants_changes == group.grants.changes and owner.owner_epochs and owner.member_id == member_id:
            return owner
    owner_epochs = tuple(map(_owner_epoch_of, map(group.grants.rows(steps.topic).__getitem__, steps.partitions)))
    return Owner(group.grants.changes, member_id, steps.topic_id, owner_epochs)


def _claims_running(group: GroupState, record: ClaimsRunning) -> None:
    for each in record.topics:
        group.claims.run(each.topic, each.partitions)


def _claims_closed(group: GroupState, record: ClaimsClosed) -> None:
    for each in record.topics:
        group.claims.close_all(each.topic, each.partitions)


def _identity_awaited(group: GroupState, record: IdentityAwaited) -> None:
    _await(group, record.member_id, record.instance_id, record.principal)


def _await(group: GroupState, member_id: str, instance_id: str | None, principal: str) -> None:
    """Note by what a member that is gone and left running claims would be known again, and whose it was."""
    if instance_id:
        await_by_instance_id(group, instance_id, member_id)
    if principal:
        keep_principal(group, member_id, one_for_all(principal))


def _claims_given_up(group: GroupState, record: ClaimsGivenUp) -> None:
    release_each(group, record.partitions)
    group.is_target_stale = True


def _recovery_changed(group: GroupState, record: RecoveryChanged) -> None:
    group.was_forgotten = True
    group.recovery_ms = record.wait_ms


def _taken(group: GroupState, record: Taken) -> None:
    release_each(group, record.partitions)


def _events_noted(group: GroupState, record: EventsNoted) -> None:
    if group.timeline is NO_TIMELINE:
        group.timeline = Timeline()
    group.timeline.take(record.first, record.entries, record.dropped)


def _streams_assigned(group: GroupState, record: StreamsAssigned) -> None:
    for topic, number, stream in record.streams:
        group.grants[topic, number] = replace(group.grants[topic, number], stream=stream)


_REPLAY: Final[dict[type[Record], Callable[[GroupState, Any], None]]] = {
    GroupSettings: _group_settings,
    TopicSeen: _topic_seen,
    MemberJoined: _member_joined,
    MemberRemoved: _member_removed,
    TargetsAssigned: _targets_assigned,
    MemberEpochsAdvanced: _member_epochs_advanced,
    StopBegan: _stop_began,
    Granted: _granted,
    Released: _released,
    OffsetsCommitted: _offsets_committed,
    Advanced: _advanced,
    ClaimsRunning: _claims_running,
    ClaimsClosed: _claims_closed,
    IdentityAwaited: _identity_awaited,
    ClaimsGivenUp: _claims_given_up,
    TopicsMatched: _topics_matched,
    WentOutOfRange: _went_out_of_range,
    StreamsAssigned: _streams_assigned,
    RecoveryChanged: _recovery_changed,
    Taken: _taken,
    EventsNoted: _events_noted,
    **OPERATOR_REPLAY,
}

_OF_THE_SHARD: Final[dict[type[Record], Callable[[ShardState, Any], None]]] = {
    GroupDeleted: delete_group,
    GroupEmptied: _group_emptied,
    GroupExpired: _group_expired,
    TimeLived: _time_lived,
    **LIFE_REPLAY,
}

_owner_epoch_of = attrgetter("owner_epoch")
_WITH_OWNER_EPOCH: Final = frozenset({Granted, ResetApplied})
_KEEPS_SIZE: Final = frozenset(
    {
        OffsetsCommitted,
        Advanced,
        ClaimsRunning,
        ClaimsClosed,
        Released,
        MemberEpochsAdvanced,
        StopBegan,
        StreamsAssigned,
        EventsNoted,
    }
)
"""Records that change nothing of a group's account but its offsets, which show it themselves."""
