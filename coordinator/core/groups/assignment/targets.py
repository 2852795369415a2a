"""The next target of a group, and how it is computed.

A target says where partitions belong; it is computed from the members as they are, by an assignor that all of them
name, and starts from the target before it so that little moves. Bringing partitions there is `reconciler`'s business.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from itertools import compress, repeat

from coordinator.core.groups.assignment.assignors import (
    Assignor,
    AssignorInput,
    AssignorMember,
    Pace,
    Partitions,
    Turns,
    gather,
    let_go,
    portions,
)
from coordinator.core.groups.assignment.assignors.assignor import A_SET
from coordinator.core.groups.assignment.reserved import assign_around
from coordinator.core.groups.assignment.subscriptions import explicit_target
from coordinator.core.groups.hard.held_claims import held_columns
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.partitions.in_topics import TopicNumbers
from coordinator.core.groups.partitions.partition_table import TopicPartition, numbers_by_topic
from coordinator.core.groups.soft.staged_target import Change, StagedTarget, cut

_NOTHING: Partitions = frozenset()
_DENSE = 8
"""Numbers are dense where one of so many is there, at least."""


def choose_assignor(group: GroupState, known_assignors: Mapping[str, Assignor]) -> str:
    """Return the assignor that all members name and most name first; the order of the known ones decides a tie."""
    common = [name for name in known_assignors if group.by_facts.assignor_supporters.get(name, 0) == len(group.members)]
    assert common, f"group {group.group_id} has no assignor that all members name"
    return max(common, key=lambda name: group.by_facts.assignor_favourites.get(name, 0))


def plan_targets(group: GroupState, known_assignors: Mapping[str, Assignor], most: int) -> Turns[StagedTarget]:
    """Compute the target of the next group epoch, to be taken in parts of about `most` partitions.

    It is computed from the group as it is now, also when the group changes between two turns.
    """
    if not group.members:
        return StagedTarget(group.group_epoch + 1, group.assignor, deque())
    name = choose_assignor(group, known_assignors)
    next_epoch, targets = group.group_epoch + 1, {key: member.target for key, member in group.members.items()}
    given, named = _given(group)
    held = held_columns(group) if given.members else []
    there_are = {topic: seen.partitions for topic, seen in group.topics.items()}
    reserved = set(group.by_facts.explicit) if given.members else set()
    # A member that has not been in an epoch yet starts from what it has.
    owned = {
        one.member_id: its.copy()
        for one in given.members
        if not group.members[one.member_id].member_epoch and (its := group.owned.get(one.member_id)) is not None
    }
    pace = Pace()
    for topic, numbers in held:
        for some in portions(numbers):
            reserved.update(zip(repeat(topic), some))
            if pace.is_over(len(some)):
                yield
    assigned: dict[str, Partitions] = {}
    for member_id, its_own in named.items():
        assigned[member_id] = explicit_target(there_are, its_own)
        if pace.is_over(len(its_own)):
            yield
    if pace.is_over(A_SET * len(there_are)):  # topics were gone through for what an assignor is told
        yield
    if given.members:
        # No set that is a member's target changes, so each is passed on as it is.
        current: dict[str, Partitions] = {one.member_id: targets[one.member_id] for one in given.members}
        current |= owned
        assigned |= yield from assign_around(known_assignors[name], replace(given, current=current), reserved)
    yield
    losses: list[Change] = []
    gains: list[Change] = []
    for member_id, before in targets.items():
        target = assigned.pop(member_id, _NOTHING)
        if target is before:
            continue
        had = yield from gather(before, pace)
        lost = yield from _in_columns((yield from _without(had, target, pace)), pace)
        gained = yield from _in_columns((yield from _without(target, had, pace)), pace)
        losses += cut(member_id, lost, most, is_gain=False)
        gains += cut(member_id, gained, most, is_gain=True)
        yield from let_go(had, pace)
        yield from let_go(target, pace)
    is_large = sum(change.size + 1 for change in (*losses, *gains)) > most
    return StagedTarget(next_epoch, name, deque([*losses, *gains]), is_large)


def _given(group: GroupState) -> tuple[AssignorInput, dict[str, tuple[TopicPartition, ...]]]:
    """Return what an assignor is told, but for what its members have, and what members name that none decides about."""
    drained = group.controls.drained
    members: list[AssignorMember] = []
    named: dict[str, tuple[TopicPartition, ...]] = {}
    subscriptions: dict[tuple[str, ...], frozenset[str]] = {}
    for member_id, member in group.members.items():
        facts = member.facts
        if member_id in drained:
            continue
        if facts.partitions:
            named[member_id] = facts.partitions
            continue
        topics = subscriptions.get(facts.topics)
        if topics is None:
            topics = subscriptions[facts.topics] = frozenset(facts.topics)
        members.append(AssignorMember(member_id, topics, facts.streams))
    sizes = {topic: group.topics[topic].partitions for topic in group.by_facts.subscribers if topic in group.topics}
    return AssignorInput(tuple(members), sizes, {}), named


def _without(partitions: Partitions, others: Partitions, pace: Pace) -> Turns[list[TopicPartition]]:
    """Return those that are not among others."""
    found: list[TopicPartition] = []
    for some in portions(partitions):
        found += [one for one in some if one not in others]
        if pace.is_over(len(some)):
            yield
    return found


def _in_columns(partitions: list[TopicPartition], pace: Pace) -> Turns[tuple[TopicNumbers, ...]]:
    """Return partitions by topic, ascending."""
    found: dict[str, list[int]] = {}
    for some in portions(partitions):
        for topic, numbers in numbers_by_topic(some).items():
            found.setdefault(topic, []).extend(numbers)
        if pace.is_over(len(some)):
            yield
    columns = []
    for topic in sorted(found):
        columns.append(TopicNumbers(topic, _ascending(found[topic])))
        if pace.is_over(len(found[topic])):
            yield
    return tuple(columns)


def _ascending(numbers: list[int]) -> tuple[int, ...]:
    """Return numbers in order; where they are dense, to mark each is sooner than to compare them."""
    last = max(numbers)
    if last > _DENSE * len(numbers):
        return tuple(sorted(numbers))
    marks = bytearray(last + 1)
    for number in numbers:
        marks[number] = 1
    return tuple(compress(range(last + 1), marks))
