"""The index of members by what they said of themselves, and what that takes in the account; a part of `replay`."""

from collections.abc import Iterable

from coordinator.core.groups.hard.account import bytes_of_facts
from coordinator.core.groups.hard.records import MemberFacts
from coordinator.core.groups.hard.replay.changes import discard
from coordinator.core.groups.hard.state import GroupState


def count(group: GroupState, facts: MemberFacts) -> None:
    """Take in what a member says of itself; the index is the group's own."""
    group.facts_bytes += bytes_of_facts(facts)
    index = group.by_facts
    if facts.instance_id is not None:
        index.instances[facts.instance_id] = facts.member_id
    for partition in facts.partitions:
        index.explicit[partition] = facts.member_id
    if facts.application is not None:
        index.applications.setdefault(facts.application, set()).add(facts.member_id)
    if not facts.commits:
        index.readers.add(facts.member_id)
    if facts.pattern is not None:
        _add(index.patterns, (facts.pattern,), 1)
    _add(index.subscribers, facts.topics, 1)
    _add(index.assignor_supporters, facts.assignors, 1)
    _add(index.assignor_favourites, facts.assignors[:1], 1)


def uncount(group: GroupState, facts: MemberFacts) -> None:
    """Take out what a member said of itself."""
    group.facts_bytes -= bytes_of_facts(facts)
    index = group.by_facts
    if facts.instance_id is not None:
        index.instances.pop(facts.instance_id, None)
    for partition in facts.partitions:
        if index.explicit.get(partition) == facts.member_id:
            del index.explicit[partition]
    if facts.application is not None:
        discard(index.applications, facts.application, facts.member_id)
    index.readers.discard(facts.member_id)
    if facts.pattern is not None:
        _add(index.patterns, (facts.pattern,), -1)
    _add(index.subscribers, facts.topics, -1)
    _add(index.assignor_supporters, facts.assignors, -1)
    _add(index.assignor_favourites, facts.assignors[:1], -1)


def _add(counts: dict[str, int], names: Iterable[str], amount: int) -> None:
    for name in names:
        count = counts.get(name, 0) + amount
        if count:
            counts[name] = count
        else:
            del counts[name]
