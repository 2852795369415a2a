"""The `round-robin` assignor: all partitions in order of topic and number, dealt to members in turns, as in Kafka.

A member is passed over for topics it does not subscribe to. Streams and the current assignment play no part.
"""

from bisect import bisect_left
from collections.abc import Mapping
from itertools import repeat

from coordinator.core.groups.assignment.assignors.assignor import AssignorInput, Pace, Partitions, TopicPartition, Turns
from coordinator.core.groups.assignment.assignors.range import in_sets, subscribers


def assign_round_robin(given: AssignorInput) -> Turns[Mapping[str, Partitions]]:
    """Deal every partition to the next member that subscribes to its topic."""
    member_ids = sorted(member.member_id for member in given.members)
    place = {member_id: index for index, member_id in enumerate(member_ids)}
    assigned: list[list[TopicPartition]] = [[] for _ in member_ids]
    everybody = len(member_ids)
    turn, pace = 0, Pace()
    for topic, names in subscribers(given).items():
        count = given.partitions.get(topic, 0)
        if len(names) == everybody:
            for first in range(min(count, everybody)):
                mine = zip(repeat(topic), range(first, count, everybody))
                assigned[(turn + first) % everybody].extend(mine)
            if pace.is_over(count):
                yield
            turn = (turn + count) % everybody
            continue
        takers = [place[name] for name in names]
        for partition in range(count):
            taker = takers[bisect_left(takers, turn) % len(takers)]
            assigned[taker].append((topic, partition))
            turn = (taker + 1) % everybody
            if pace.is_over(1):
                yield
    return (yield from in_sets(dict(zip(member_ids, assigned, strict=True)), pace))
