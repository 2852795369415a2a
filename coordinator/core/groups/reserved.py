"""Partitions that no assignor may give away: assignors see the rest as topics that are so much smaller.

The partitions of a topic that are free to be assigned are numbered without gaps for the assignor, and its answer is
numbered back. So every assignor, also one that is installed, balances exactly what there is to be assigned and needs
to know nothing of reservations.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from coordinator.core.groups.assignors import Assignor, AssignorInput
from coordinator.core.groups.partition_table import TopicPartition


def assign_around(
    assignor: Assignor, given: AssignorInput, reserved: Collection[TopicPartition]
) -> Mapping[str, frozenset[TopicPartition]]:
    """Let an assignor assign everything but the reserved partitions."""
    taken: dict[str, set[int]] = {}
    for topic, partition in reserved:
        if partition < given.partitions.get(topic, 0):
            taken.setdefault(topic, set()).add(partition)
    if not taken:
        return assignor(given)
    free = {
        topic: [partition for partition in range(given.partitions[topic]) if partition not in numbers]
        for topic, numbers in taken.items()
    }
    place = {
        (topic, partition): (topic, index) for topic, numbers in free.items() for index, partition in enumerate(numbers)
    }
    seen = replace(
        given,
        partitions={**given.partitions, **{topic: len(numbers) for topic, numbers in free.items()}},
        current={
            member_id: frozenset(
                place.get(partition, partition)
                for partition in partitions
                if partition[0] not in taken or partition in place
            )
            for member_id, partitions in given.current.items()
        },
    )
    return {
        member_id: frozenset(
            (topic, free[topic][index]) if topic in free else (topic, index) for topic, index in partitions
        )
        for member_id, partitions in assignor(seen).items()
    }
