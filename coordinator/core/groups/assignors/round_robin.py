"""The `round-robin` assignor: all partitions in order of topic and number, dealt to members in turns, as in Kafka.

A member is passed over for topics it does not subscribe to. Streams and the current assignment play no part.
"""

from bisect import bisect_left
from collections.abc import Mapping

from coordinator.core.groups.assignors.assignor import AssignorInput, TopicPartition


def assign_round_robin(given: AssignorInput) -> Mapping[str, frozenset[TopicPartition]]:
    """Deal every partition to the next member that subscribes to its topic."""
    members = sorted(given.members, key=lambda member: member.member_id)
    assigned: list[list[TopicPartition]] = [[] for _ in members]
    subscribers: dict[str, list[int]] = {}
    for index, member in enumerate(members):
        for topic in member.topics:
            subscribers.setdefault(topic, []).append(index)
    turn = 0
    for topic in sorted(subscribers):
        takers = subscribers[topic]
        for partition in range(given.partitions.get(topic, 0)):
            taker = takers[bisect_left(takers, turn) % len(takers)]
            assigned[taker].append((topic, partition))
            turn = (taker + 1) % len(members)
    return {member.member_id: frozenset(mine) for member, mine in zip(members, assigned, strict=True)}
