"""The `range` assignor: each topic is cut into contiguous ranges, one a subscriber, in the order of member ids.

Ranges differ by one partition at most, and the first subscribers get the longer ones, topic by topic, as in Kafka.
Members that subscribe to the same topics with equal partition counts so get equal partition numbers of each, which is
what joining topics by partition needs. Streams and the current assignment play no part.
"""

from collections.abc import Collection, Mapping
from itertools import repeat

from coordinator.core.groups.assignment.assignors.assignor import AssignorInput, Pace, Partitions, TopicPartition, Turns


def assign_range(given: AssignorInput) -> Turns[Mapping[str, Partitions]]:
    """Assign every topic by itself, in contiguous ranges."""
    assigned: dict[str, list[TopicPartition]] = {
        member_id: [] for member_id in sorted(m.member_id for m in given.members)
    }
    pace = Pace()
    for topic, member_ids in subscribers(given).items():
        length, longer = divmod(given.partitions.get(topic, 0), len(member_ids))
        start = 0
        for index, member_id in enumerate(member_ids if length else member_ids[:longer]):
            end = start + length + (index < longer)
            assigned[member_id].extend(zip(repeat(topic), range(start, end)))
            if pace.is_over(end - start):
                yield
            start = end
    return (yield from in_sets(assigned, pace))


def in_sets(assigned: Mapping[str, Collection[TopicPartition]], pace: Pace) -> Turns[dict[str, Partitions]]:
    """Return what each member has as a set."""
    sets: dict[str, Partitions] = {}
    for member_id, mine in assigned.items():
        sets[member_id] = frozenset(mine)
        if pace.is_over(len(mine)):
            yield
    return sets


def subscribers(given: AssignorInput) -> dict[str, list[str]]:
    """Return the members that subscribe to each topic, both sorted; topics of the same members may share a list."""
    members_of: dict[frozenset[str], list[str]] = {}
    for member in given.members:
        members_of.setdefault(member.topics, []).append(member.member_id)
    for member_ids in members_of.values():
        member_ids.sort()
    found: dict[str, list[str]] = {}
    for topics, member_ids in members_of.items():
        for topic in topics:
            others = found.get(topic)
            found[topic] = member_ids if others is None else sorted([*others, *member_ids])
    return dict(sorted(found.items()))
