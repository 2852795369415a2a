"""The bytes that a group takes: about what its records would take in a snapshot, whatever the form of these is.

The account is a function of hard state alone and is kept by replay as the state changes, so that a load gives the same
number as the life before it. Everything that somebody outside can make grow has a weight. Each group is charged to
the principal that made it, or to the address it was made from where nobody logs in.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from coordinator.core.groups.hard.controls import Controls, Decree
from coordinator.core.groups.hard.records import MemberFacts
from coordinator.core.groups.hard.state import GroupState, ShardState, TopicState
from coordinator.core.groups.partitions.in_topics import TopicHints

ANONYMOUS: Final = "anonymous"
"""To whom groups are charged of which it is not known who made them."""

GROUP_BYTES: Final = 256
MEMBER_BYTES: Final = 64
TOPIC_BYTES: Final = 64
TARGET_BYTES: Final = 24
"""A partition in a member's target, and its grant."""
HINT_BYTES: Final = 24
"""A partition of which a member shows a start, of as many as there may be: these are not encoded to be counted."""
BY_POLICY_BYTES: Final = 8
CONTROL_BYTES: Final = 64
"""A pause, a drained member or a pending reset, besides its texts."""

_encoder = msgspec.msgpack.Encoder()


class Usage:
    """The bytes that the groups of all shards of a node take."""

    __slots__ = ("states",)

    def __init__(self) -> None:
        self.states: list[Callable[[], ShardState]] = []
        """Returns the state of each shard, which a load replaces."""

    def groups_of(self, principal: str) -> int:
        """Return how many groups a principal has."""
        return sum(state().groups_of.get(principal, 0) for state in self.states)

    @property
    def most_groups(self) -> int:
        """The number of groups of the principal that has the most."""
        counts: Counter[str] = Counter()
        for state in self.states:
            counts.update(state().groups_of)
        return max(counts.values(), default=0)

    @property
    def most_bytes(self) -> int:
        """The bytes of the groups of the principal whose groups take the most."""
        counts: Counter[str] = Counter()
        for state in self.states:
            counts.update(state().bytes_of)
        return max(counts.values(), default=0)

    @property
    def bytes(self) -> int:
        """The bytes of all groups."""
        return self.of(ANONYMOUS)[1]

    def of(self, principal: str) -> tuple[int, int]:
        """Return what the groups of a principal take, and what all groups take."""
        of_principal = total = 0
        for state in self.states:
            by_principal = state().bytes_of
            of_principal += by_principal.get(principal, 0)
            total += sum(by_principal.values())
        return of_principal, total


def principal_of(group: GroupState) -> str:
    """Return to whom a group is charged."""
    return group.owner or ANONYMOUS


def bytes_of(group: GroupState) -> int:
    """Return what a group takes, from the parts of the account that replay has kept."""
    return (
        GROUP_BYTES
        + len(group.group_id)
        + group.offsets.bytes
        + group.facts_bytes
        + group.topics_bytes
        + TARGET_BYTES * group.target_count
        + BY_POLICY_BYTES * len(group.by_policy)
        + group.controls.bytes
    )


def charge(state: ShardState, group: GroupState) -> None:
    """Bring a shard's account up to date with one of its groups."""
    counted = bytes_of(group)
    principal = principal_of(group)
    if group.counted_owner != principal:
        if group.counted_owner:
            discharge(state, group)
        state.groups_of[principal] = state.groups_of.get(principal, 0) + 1
        group.counted_owner, group.counted_bytes = principal, 0
    state.bytes_of[principal] = state.bytes_of.get(principal, 0) + counted - group.counted_bytes
    group.counted_bytes, group.counted_offsets = counted, group.offsets.bytes


def discharge(state: ShardState, group: GroupState) -> None:
    """Take a group that is no more, or that is another principal's, out of its shard's account."""
    principal = group.counted_owner
    for account, amount in ((state.bytes_of, group.counted_bytes), (state.groups_of, 1)):
        left = account.get(principal, 0) - amount
        if left:
            account[principal] = left
        else:
            account.pop(principal, None)


def bytes_of_facts(facts: MemberFacts) -> int:
    """Return what a member takes; topics that only a pattern matched are the group's."""
    said = replace(facts, hints=(), topics=() if facts.pattern is not None else facts.topics)
    return MEMBER_BYTES + len(_encoder.encode(said)) + sum(map(_bytes_of_hints, facts.hints))


def _bytes_of_hints(hints: TopicHints) -> int:
    return TOPIC_BYTES + len(hints.topic.encode()) + len(hints.topic_id.encode()) + HINT_BYTES * len(hints.partitions)


def bytes_of_topic(topic: str, seen: TopicState) -> int:
    """Return what a topic takes that a group has seen."""
    return TOPIC_BYTES + len(topic.encode()) + len(seen.earliest_why)


def bytes_of_decree(name: str, decree: Decree) -> int:
    """Return what a control takes: each carries who and why by itself."""
    return CONTROL_BYTES + len(name.encode()) + len(decree.who.encode()) + len(decree.why.encode())


def recount_controls(controls: Controls) -> int:
    """Count what operators have decided."""
    total = bytes_of_decree("", controls.group_pause) if controls.group_pause is not None else 0
    total += sum(bytes_of_decree(topic, decree) for (topic, _), decree in controls.paused.items())
    total += sum(bytes_of_decree(member_id, decree) for member_id, decree in controls.drained.items())
    return total + sum(bytes_of_decree(topic, reset.decree) for (topic, _), reset in controls.resets.items())


def recount(group: GroupState) -> int:
    """Count a group anew, from everything that it has; what replay has kept must be the same."""
    return (
        GROUP_BYTES
        + len(group.group_id)
        + group.offsets.recount()
        + sum(bytes_of_facts(member.facts) for member in group.members.values())
        + sum(bytes_of_topic(topic, seen) for topic, seen in group.topics.items())
        + TARGET_BYTES * len(group.target_owners)
        + BY_POLICY_BYTES * len(group.by_policy)
        + recount_controls(group.controls)
    )
