"""Sticky assignment among members that subscribe to the same topics.

Every member gets its share of all partitions in proportion to its streams, rounded down or up; the roundings up go
first to those who have that much already, so that as many partitions as possible stay where they are. What has to
move is taken from many topics and dealt in turns, so that the partitions of a busy topic land on many members.

What does not change is passed on as it came: after one departure the work is to look once at what each member has.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, repeat
from operator import itemgetter

from coordinator.core.groups.assignors.assignor import AssignorMember, Pace, TopicPartition, Turns, portions

_by_number = itemgetter(1, 0)
_NOTHING: frozenset[TopicPartition] = frozenset()


def assign_even(
    members: Sequence[AssignorMember],
    topics: Mapping[str, int],
    current: Mapping[str, frozenset[TopicPartition]],
) -> Turns[dict[str, frozenset[TopicPartition]]]:
    """Assign all partitions of `topics` (sorted by name) to members sorted by id, each rounded to its share."""
    held = [current.get(member.member_id, _NOTHING) for member in members]
    pace = Pace()
    waiting, is_in_order = (yield from _unassigned(topics, held, pace)), True
    if waiting is None:
        yield
        held, waiting = _what_counts(topics, held)
        is_in_order = False
    if pace.is_over(len(waiting)):
        yield
    shares = _shares([member.weight for member in members], [len(mine) for mine in held], sum(topics.values()))
    hands = list(held)
    receivers: dict[int, list[int]] = {}
    for index, (mine, share) in enumerate(zip(held, shares, strict=True)):
        if len(mine) < share:
            receivers.setdefault(share - len(mine), []).append(index)
        elif len(mine) > share:
            kept = sorted(mine, key=_by_number)
            hands[index] = frozenset(kept[:share])
            waiting += kept[share:]
            is_in_order = False
            if pace.is_over(len(mine)):
                yield
    if not is_in_order:
        waiting.sort()
    yield from _deal(waiting, receivers, hands, pace)
    return dict(zip([member.member_id for member in members], hands, strict=True))


def _unassigned(
    topics: Mapping[str, int], held: Sequence[frozenset[TopicPartition]], pace: Pace
) -> Turns[list[TopicPartition] | None]:
    """Return what nobody has; None when somebody has what does not exist or what another has too."""
    if not any(held):
        return [(topic, number) for topic, count in topics.items() for number in range(count)]
    marks = {topic: bytearray(count) for topic, count in topics.items()}
    try:
        for some in chain.from_iterable(map(portions, held)):
            for topic, number in some:
                of_topic = marks[topic]
                if number < 0 or of_topic[number]:
                    return None
                of_topic[number] = 1
            if pace.is_over(len(some)):
                yield
    except (KeyError, IndexError):
        return None
    free: list[TopicPartition] = []
    for topic, of_topic in marks.items():
        number = of_topic.find(0)
        while number >= 0:
            free.append((topic, number))
            number = of_topic.find(0, number + 1)
    return free


def _what_counts(
    topics: Mapping[str, int], held: Sequence[frozenset[TopicPartition]]
) -> tuple[list[frozenset[TopicPartition]], list[TopicPartition]]:
    """Return what each member has that exists and that no member before it has, and what is left."""
    free = {(topic, number) for topic, count in topics.items() for number in range(count)}
    counting = []
    for mine in held:
        counts = frozenset(free.intersection(mine))
        free -= counts
        counting.append(counts)
    return counting, list(free)


def _shares(weights: Sequence[int], held: Sequence[int], total: int) -> list[int]:
    """Divide `total` by weight; of the members that may be rounded up, those who hold more than the rest come first."""
    whole = sum(weights)
    shares = [total * weight // whole for weight in weights]
    left = total - sum(shares)
    if left:
        remainders = [total * weight % whole for weight in weights]
        candidates = [index for index, remainder in enumerate(remainders) if remainder]
        if min(weights) < max(weights):
            candidates.sort(key=remainders.__getitem__, reverse=True)
        candidates.sort(key=[count <= share for count, share in zip(held, shares, strict=True)].__getitem__)
        for index in candidates[:left]:
            shares[index] += 1
    return shares


def _deal(
    waiting: Sequence[TopicPartition],
    receivers: Mapping[int, Sequence[int]],
    hands: list[frozenset[TopicPartition]],
    pace: Pace,
) -> Turns[None]:
    """Deal partitions to those who miss so many, by count; the turns of each are evenly spread over the whole list."""
    dues: Iterable[tuple[float, int]] = merge(*[zip(_evenly(count), repeat(count)) for count in receivers])
    dealt: dict[int, list[list[TopicPartition]]] = {count: [[] for _ in takers] for count, takers in receivers.items()}
    begin = 0
    if len(receivers) == 1:
        ((count, takers),) = receivers.items()
        dealt[count] = [list(waiting[place :: len(takers)]) for place in range(len(takers))]
        begin, dues = len(takers) * count, ()
    for _, count in dues:
        end = begin + len(receivers[count])
        for theirs, partition in zip(dealt[count], waiting[begin:end], strict=True):
            theirs.append(partition)
        if pace.is_over(end - begin + 1):
            yield
        begin = end
    assert begin == len(waiting), f"{len(waiting)} partitions are to be dealt and {begin} are missing"
    for count, takers in receivers.items():
        for index, theirs in zip(takers, dealt[count], strict=True):
            if pace.is_over(len(hands[index]) + len(theirs)):
                yield
            hands[index] = hands[index].union(theirs)


def _evenly(count: int) -> Iterator[float]:
    """Yield so many places between 0 and 1, ascending and evenly spread."""
    return ((turn + 0.5) / count for turn in range(count))
