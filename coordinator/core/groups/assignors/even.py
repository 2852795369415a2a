"""Sticky assignment among members that subscribe to the same topics.

Every member gets its share of all partitions in proportion to its streams, rounded down or up; the roundings up go
first to those who have that much already, so that as many partitions as possible stay where they are. What has to
move is taken from many topics and dealt in turns, so that the partitions of a busy topic land on many members.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter

from coordinator.core.groups.assignors.assignor import AssignorMember, TopicPartition

_by_number = itemgetter(1, 0)


def assign_even(
    members: Sequence[AssignorMember],
    topics: Mapping[str, int],
    current: Mapping[str, frozenset[TopicPartition]],
) -> dict[str, frozenset[TopicPartition]]:
    """Assign all partitions of `topics` (in the order given) to members sorted by id, each rounded to its share."""
    everything = [(topic, partition) for topic, count in topics.items() for partition in range(count)]
    unassigned = set(everything)
    held: list[set[TopicPartition]] = []
    for member in members:
        mine = unassigned.intersection(current.get(member.member_id, ()))
        unassigned -= mine
        held.append(mine)
    shares = _shares([member.weight for member in members], [len(mine) for mine in held], len(everything))
    for mine, share in zip(held, shares, strict=True):
        if len(mine) > share:
            given_up = sorted(mine, key=_by_number)[share:]
            mine.difference_update(given_up)
            unassigned.update(given_up)
    if unassigned:
        turns = _turns([share - len(mine) for mine, share in zip(held, shares, strict=True)])
        waiting = everything if len(unassigned) == len(everything) else [tp for tp in everything if tp in unassigned]
        for index, partition in zip(turns, waiting, strict=True):
            held[index].add(partition)
    return {member.member_id: frozenset(mine) for member, mine in zip(members, held, strict=True)}


def _shares(weights: Sequence[int], held: Sequence[int], total: int) -> list[int]:
    """Divide `total` by weight; of the members that may be rounded up, those who hold more than the rest come first."""
    whole = sum(weights)
    shares = [total * weight // whole for weight in weights]
    remainders = [total * weight % whole for weight in weights]
    left = total - sum(shares)
    if left:
        candidates = [index for index, remainder in enumerate(remainders) if remainder]
        candidates.sort(key=lambda index: (held[index] <= shares[index], -remainders[index]))
        for index in candidates[:left]:
            shares[index] += 1
    return shares


def _turns(missing: Sequence[int]) -> list[int]:
    """List each member's index as often as it misses a partition, evenly spread over the whole list."""
    receivers: dict[int, list[int]] = {}
    for index, count in enumerate(missing):
        receivers.setdefault(count, []).append(index)
    dues = sorted(((turn + 0.5) / count, count) for count in receivers for turn in range(count))
    return [index for _, count in dues for index in receivers[count]]
