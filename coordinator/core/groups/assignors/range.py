"""The `range` assignor: each topic is cut into contiguous ranges, one a subscriber, in the order of member ids.

Ranges differ by one partition at most, and the first subscribers get the longer ones, topic by topic, as in Kafka.
Members that subscribe to the same topics with equal partition counts so get equal partition numbers of each, which is
what joining topics by partition needs. Streams and the current assignment play no part.
"""

from collections.abc import Mapping

from coordinator.core.groups.assignors.assignor import AssignorInput, TopicPartition


def assign_range(given: AssignorInput) -> Mapping[str, frozenset[TopicPartition]]:
    """Assign every topic by itself, in contiguous ranges."""
    assigned: dict[str, list[TopicPartition]] = {
        member_id: [] for member_id in sorted(m.member_id for m in given.members)
    }
    subscribers: dict[str, list[str]] = {}
    for member in sorted(given.members, key=lambda m: m.member_id):
        for topic in member.topics:
            subscribers.setdefault(topic, []).append(member.member_id)
    for topic, member_ids in subscribers.items():
        length, longer = divmod(given.partitions.get(topic, 0), len(member_ids))
        start = 0
        for index, member_id in enumerate(member_ids):
            end = start + length + (index < longer)
            assigned[member_id].extend((topic, partition) for partition in range(start, end))
            start = end
    return {member_id: frozenset(mine) for member_id, mine in assigned.items()}
