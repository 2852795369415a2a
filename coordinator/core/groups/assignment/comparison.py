"""Subscriptions held against those of others, in turns: may their members come to share a partition?

Patterns are held against as many names in one step as it may match, and the names may be made up by whoever registers.
Which members are compared, and for what, is decided by `places`.
"""

from collections.abc import Iterable
from typing import Final

from coordinator.core.groups.assignment.subscriptions import named_topics
from coordinator.core.groups.hard.records import MemberFacts
from coordinator.core.matching import Names
from coordinator.core.meter import Meter
from coordinator.protocol.parts import Subscription

_COMPARED: Final = 100
"""The cost of a name that is compared with others, beside one that is matched."""


class Comparison:
    """The subscription of a registration, held against those of other members: as many in each step as it may."""

    def __init__(self, meter: Meter) -> None:
        self.is_through = True
        """False when the step has compared enough, and there is more."""
        self._meter = meter
        self._overlap: dict[str, tuple[MemberFacts, bool]] = {}
        self._apart: set[tuple[str, tuple[str, ...]]] = set()
        """Patterns with names of which they match none."""
        self._under_way: tuple[MemberFacts, tuple[str, ...], Names] | None = None
        self._names: frozenset[str] | None = None
        self._partitions: frozenset[tuple[str, int]] | None = None
        """All that the registration names, which is the same whoever it is compared with."""

    def overlap(self, subscription: Subscription, member_id: str, facts: MemberFacts) -> bool | None:
        """Return whether both may come to stand for a partition in common, None when that is to be asked once more.

        Two patterns always may: a topic that both match can be made at any time.
        """
        known = self._overlap.get(member_id)
        if known is not None and known[0] is facts:
            return known[1]
        found = self._do_overlap(subscription, facts) if self._meter.may_match else None
        self.is_through = found is not None
        if found is not None:
            self._overlap[member_id] = facts, found
        return found

    def _do_overlap(self, one: Subscription, facts: MemberFacts) -> bool | None:
        another = _subscription_of(facts)
        if one.pattern is not None and another.pattern is not None:
            return True
        if one.pattern is not None:
            return self._matches(facts, one.pattern, one.exclusions, another)
        if another.pattern is not None:
            return self._matches(facts, another.pattern, another.exclusions, one)
        self._note(another)
        if one.partitions and another.partitions:
            if self._partitions is None:
                self._note(one)
                self._partitions = frozenset(one.partitions)
            return not self._partitions.isdisjoint(another.partitions)
        if self._names is None:
            self._note(one)
            self._names = frozenset(named_topics(one))
        return not self._names.isdisjoint(named_topics(another))

    def _note(self, named: Subscription) -> None:
        """Count a look at all that a subscription names."""
        self._meter.match(_COMPARED * (len(named.topics) + len(named.partitions)))

    def _matches(self, facts: MemberFacts, pattern: str, exclusions: Iterable[str], named: Subscription) -> bool | None:
        if self._under_way is None or self._under_way[0] is not facts:
            excluded = frozenset(exclusions)
            names = tuple(name for name in named_topics(named) if name not in excluded)
            self._note(named)
            if (pattern, names) in self._apart:
                return False
            self._under_way = facts, names, Names(pattern, iter(names), self._meter)
        _, names, left = self._under_way
        if next(left.matching(), None) is not None:
            return True
        if not left.are_through:
            return None
        self._apart.add((pattern, names))
        return False


def _subscription_of(facts: MemberFacts) -> Subscription:
    is_by_name = facts.pattern is None and not facts.partitions
    return Subscription(facts.topics if is_by_name else (), facts.pattern, facts.partitions, facts.exclusions)
