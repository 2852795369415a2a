"""Sticky assignment among members whose subscriptions differ.

Works on counts, since the partitions of one topic weigh alike: everyone keeps what it has, partitions without a reader
go to the subscriber that is least loaded for its streams (topics with the fewest subscribers first), then single
partitions move while a move brings two members closer to their proportion. Only then it is decided which partitions
those are. Chains of moves that help only together are not searched for.

A member with n partitions and weight w is due its next at (2n + 1) / w: dealing to the smallest is Sainte-Laguë's
method. Each move lowers the sum of n²/w over all members, so moving comes to an end.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace

from coordinator.core.groups.assignment.assignors.assignor import AssignorMember, Partitions, TopicPartition


def assign_uneven(
    members: Sequence[AssignorMember],
    subscriptions: Sequence[frozenset[str]],
    partitions: Mapping[str, int],
    current: Mapping[str, Partitions],
) -> dict[str, Partitions]:
    """Assign all partitions of the topics in `subscriptions` to members sorted by id."""
    subscribers: dict[str, list[int]] = {}
    for index, topics in enumerate(subscriptions):
        for topic in topics:
            subscribers.setdefault(topic, []).append(index)
    in_order = sorted(subscribers, key=lambda topic: (len(subscribers[topic]), topic))
    kept = _still_valid(members, subscriptions, partitions, current)
    table = _Table([member.weight for member in members])
    for topic in in_order:
        for index, mine in kept[topic].items():
            table.add(topic, index, len(mine))
    for topic in in_order:
        table.place(topic, subscribers[topic], partitions[topic] - sum(len(mine) for mine in kept[topic].values()))
    while sum(table.level(topic, subscribers[topic]) for topic in in_order):
        pass
    assigned: list[list[TopicPartition]] = [[] for _ in members]
    for topic in in_order:
        _choose(topic, partitions[topic], table.counts[topic], kept[topic], assigned)
    return {member.member_id: frozenset(mine) for member, mine in zip(members, assigned, strict=True)}


class _Table:
    """The partitions of each topic that each member has, counted, and how loaded that makes it."""

    def __init__(self, weights: Sequence[int]) -> None:
        self.counts: dict[str, dict[int, int]] = {}
        self._weights = weights
        self._loads = [0] * len(weights)
        self._next_due = [1 / weight for weight in weights]
        self._last_due = [-1 / weight for weight in weights]

    def add(self, topic: str, index: int, count: int) -> None:
        """Give a member `count` more partitions of a topic, or take them away."""
        counts = self.counts.setdefault(topic, {})
        counts[index] = counts.get(index, 0) + count
        self._loads[index] += count
        self._next_due[index] = (2 * self._loads[index] + 1) / self._weights[index]
        self._last_due[index] = (2 * self._loads[index] - 1) / self._weights[index]

    def place(self, topic: str, subscribers: Sequence[int], count: int) -> None:
        """Give `count` more partitions of a topic to its least loaded subscribers."""
        if not count:
            return
        waiting = [(self._next_due[index], index) for index in subscribers]
        heapify(waiting)
        for _ in range(count):
            index = waiting[0][1]
            self.add(topic, index, 1)
            heapreplace(waiting, (self._next_due[index], index))

    def level(self, topic: str, subscribers: Sequence[int]) -> int:
        """Move partitions of a topic while a move brings two members closer; return how many moved."""
        counts = self.counts[topic]
        moves = 0
        while True:
            giver = max(counts, key=self._last_due.__getitem__)
            taker = min(subscribers, key=self._next_due.__getitem__)
            if self._next_due[taker] >= self._last_due[giver]:
                return moves
            self.add(topic, taker, 1)
            self.add(topic, giver, -1)
            if not counts[giver]:
                del counts[giver]
            moves += 1


def _still_valid(
    members: Sequence[AssignorMember],
    subscriptions: Sequence[frozenset[str]],
    partitions: Mapping[str, int],
    current: Mapping[str, Partitions],
) -> dict[str, dict[int, list[int]]]:
    """Return by topic which partition numbers each member has now and may keep, in ascending order."""
    kept: dict[str, dict[int, list[int]]] = {topic: {} for topics in subscriptions for topic in topics}
    taken: set[TopicPartition] = set()
    for index, member in enumerate(members):
        for topic, partition in sorted(current.get(member.member_id, ())):
            if topic in subscriptions[index] and 0 <= partition < partitions[topic] and (topic, partition) not in taken:
                taken.add((topic, partition))
                kept[topic].setdefault(index, []).append(partition)
    return kept


def _choose(
    topic: str,
    partition_count: int,
    counts: Mapping[int, int],
    kept: Mapping[int, list[int]],
    assigned: list[list[TopicPartition]],
) -> None:
    """Turn the counts of one topic into partitions: who may keep keeps the lowest, the rest fills what is missing."""
    free = set(range(partition_count))
    missing: list[int] = []
    for index in sorted(counts):
        mine = kept.get(index, [])[: counts[index]]
        free.difference_update(mine)
        assigned[index].extend((topic, partition) for partition in mine)
        missing.extend([index] * (counts[index] - len(mine)))
    for index, partition in zip(missing, sorted(free), strict=True):
        assigned[index].append((topic, partition))
