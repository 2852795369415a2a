"""The `sticky` assignor: balanced in proportion to streams, and as little moved as balance allows.

Members are split into parts that have no topic in common. Where all members of a part subscribe to the same topics,
shares are exact (`even`); otherwise partitions are placed and moved one by one (`uneven`). Nothing moves when the
current assignment is complete and balanced.
"""

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter

from coordinator.core.groups.assignment.assignors.assignor import (
    AssignorInput,
    AssignorMember,
    Partitions,
    Turns,
)
from coordinator.core.groups.assignment.assignors.even import assign_even
from coordinator.core.groups.assignment.assignors.uneven import assign_uneven


def assign_sticky(given: AssignorInput) -> Turns[Mapping[str, Partitions]]:
    """Assign by streams, moving as little as possible.

    Where all members subscribe to the same topics each gets its proportional share, rounded up or down. Where they do
    not, no partition could go to another of its subscribers and leave the two closer to their proportion.
    """
    members = sorted(given.members, key=attrgetter("member_id"))
    assigned: dict[str, Partitions] = {member.member_id: frozenset() for member in members}
    for part, subscriptions in _independent_parts(members, given.partitions):
        if len(set(subscriptions)) == 1:
            topics = {topic: given.partitions[topic] for topic in sorted(subscriptions[0])}
            assigned.update((yield from assign_even(part, topics, given.current)))
        else:
            assigned.update(assign_uneven(part, subscriptions, given.partitions, given.current))
            yield
    return assigned


def _independent_parts(
    members: Sequence[AssignorMember], partitions: Mapping[str, int]
) -> list[tuple[list[AssignorMember], list[frozenset[str]]]]:
    """Split members into parts that share no topic, each with its members' subscriptions to topics that exist."""
    existing = frozenset(topic for topic, count in partitions.items() if count > 0)
    effective = {subscription: subscription & existing for subscription in {member.topics for member in members}}
    if len(effective) == 1:
        (subscription,) = effective.values()
        return [(list(members), [subscription] * len(members))] if subscription else []
    part_of = _join({subscription for subscription in effective.values() if subscription})
    parts: dict[str, tuple[list[AssignorMember], list[frozenset[str]]]] = {}
    for member in members:
        subscription = effective[member.topics]
        if subscription:
            part, theirs = parts.setdefault(part_of[subscription], ([], []))
            part.append(member)
            theirs.append(subscription)
    return list(parts.values())


def _join(subscriptions: Collection[frozenset[str]]) -> dict[frozenset[str], str]:
    """Name the part each subscription belongs to by one of the part's topics: two that share a topic share a part."""
    above: dict[str, str] = {}

    def top(topic: str) -> str:
        while above.setdefault(topic, topic) != topic:
            above[topic] = topic = above[above[topic]]
        return topic

    for subscription in subscriptions:
        first = min(subscription)
        for topic in subscription:
            above[top(topic)] = top(first)
    return {subscription: top(min(subscription)) for subscription in subscriptions}
