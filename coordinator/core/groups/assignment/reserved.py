"""Partitions that no assignor may give away: assignors see the rest as topics that are so much smaller.

The last of the free partitions of a topic stand in for the reserved ones before them, so that what the assignor sees is
numbered without gaps, and its answer is read back. Every assignor, also one that is installed, balances exactly what
there is to be assigned and needs to know nothing of reservations. Work is in proportion to what is reserved: what it
does not touch is passed on as it came, both ways.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import repeat

from coordinator.core.groups.assignment.assignors import (
    Assignor,
    AssignorInput,
    Pace,
    Partitions,
    Turns,
    TurnsAssignor,
    gather,
    portions,
)
from coordinator.core.groups.partitions.partition_table import TopicPartition


def assign_around(
    assignor: Assignor, given: AssignorInput, reserved: Collection[TopicPartition]
) -> Turns[Mapping[str, Partitions]]:
    """Let an assignor assign everything but the reserved partitions."""
    pace = Pace()
    taken: dict[str, set[int]] = {}
    for some in portions(reserved):
        for topic, partition in some:
            if partition < given.partitions.get(topic, 0):
                taken.setdefault(topic, set()).add(partition)
        if pace.is_over(len(some)):
            yield
    if not taken:
        return (yield from _run(assignor, given))
    taken = dict(sorted(taken.items()))  # in no set's order: how many turns it takes is the same for the same state
    sizes = {topic: given.partitions[topic] - len(numbers) for topic, numbers in taken.items()}
    stands_for: dict[TopicPartition, TopicPartition] = {}
    seen_as: dict[TopicPartition, TopicPartition | None] = {}
    for topic, numbers in taken.items():
        for gone in portions(numbers):
            seen_as.update(dict.fromkeys(zip(repeat(topic), gone)))
            if pace.is_over(len(gone)):
                yield
        last = (number for number in range(sizes[topic], given.partitions[topic]) if number not in numbers)
        gaps = sorted(number for number in numbers if number < sizes[topic])
        for filled in portions(gaps):
            for gap, number in zip(filled, last, strict=False):
                stands_for[topic, gap] = (topic, number)
                seen_as[topic, number] = (topic, gap)
            if pace.is_over(len(filled)):
                yield
    yield
    current = yield from _renamed(given.current, seen_as)
    seen = replace(given, partitions={**given.partitions, **sizes}, current=current)
    assigned = yield from _run(assignor, seen)
    yield
    return (yield from _renamed(assigned, stands_for))


def _run(assignor: Assignor, given: AssignorInput) -> Turns[Mapping[str, Partitions]]:
    """Run an assignor in turns if it can be; one that is installed cannot."""
    if isinstance(assignor, TurnsAssignor):
        return (yield from assignor.in_turns(given))
    return assignor(replace(given, current={member_id: frozenset(its) for member_id, its in given.current.items()}))


def _renamed(
    owners: Mapping[str, Partitions], names: Mapping[TopicPartition, TopicPartition | None]
) -> Turns[dict[str, Partitions]]:
    """Return what each member has under other names, without what has None; as it is where nothing has another."""
    pace = Pace()
    renamed = {}
    for member_id, theirs in owners.items():
        others: list[TopicPartition] = []
        is_same = True
        for some in portions(theirs):
            for partition in some:
                name = names.get(partition, partition)
                is_same = is_same and name is partition
                if name is not None:
                    others.append(name)
            if pace.is_over(len(some)):
                yield
        renamed[member_id] = theirs if is_same else (yield from gather(others, pace))
    return renamed
