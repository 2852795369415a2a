"""Sticky assignment among members that subscribe to the same topics.

Every member gets its share of all partitions in proportion to its streams, rounded down or up; the roundings up go
first to those who have that much already, so that as many partitions as possible stay where they are. What has to
move is taken from many topics and dealt in turns, so that the partitions of a busy topic land on many members.

What does not change is passed on as it came: after one departure the work is to look once at what each member has.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import compress, repeat
from operator import itemgetter

from coordinator.core.groups.assignment.assignors import assignor
from coordinator.core.groups.assignment.assignors.assignor import (
    AssignorMember,
    Pace,
    Partitions,
    TopicPartition,
    Turns,
    gather,
    portions,
)
from coordinator.core.groups.partitions.partition_set import PartitionSet
from coordinator.core.groups.partitions.partition_table import numbers_by_topic

_by_number = itemgetter(1, 0)
_NOTHING: Partitions = frozenset()


def assign_even(
    members: Sequence[AssignorMember],
    topics: Mapping[str, int],
    current: Mapping[str, Partitions],
) -> Turns[dict[str, Partitions]]:
    """Assign all partitions of `topics` (sorted by name) to members sorted by id, each rounded to its share."""
    held = [current.get(member.member_id, _NOTHING) for member in members]
    pace = Pace()
    waiting, is_in_order = (yield from _unassigned(topics, held, pace)), True
    if waiting is None:
        held, waiting = yield from _what_counts(topics, held, pace)
    counts = [len(mine) for mine in held]
    shares = _shares([member.weight for member in members], counts, sum(topics.values()))
    hands = list(held)
    receivers: dict[int, list[int]] = {}
    for index, (count, share) in enumerate(zip(counts, shares, strict=True)):
        if count < share:
            receivers.setdefault(share - count, []).append(index)
        elif count > share:
            hands[index], others = yield from _split(held[index], share, max(topics.values()), pace)
            waiting += others
            is_in_order = False
    if not is_in_order:
        waiting = yield from _in_order(waiting, topics, pace)
    yield from _deal(waiting, receivers, hands, pace)
    return dict(zip([member.member_id for member in members], hands, strict=True))


def _unassigned(
    topics: Mapping[str, int], held: Sequence[Partitions], pace: Pace
) -> Turns[list[TopicPartition] | None]:
    """Return what nobody has; None when somebody has what does not exist or what another has too."""
    marks = _all_marked(topics)
    numbers = yield from _numbers_by_topic(held, pace)
    has_wrong = not numbers.keys() <= marks.keys()
    for topic in marks:  # in their order, and to the end also when it is known: the same state takes as many turns
        theirs = numbers.get(topic)
        if theirs is None:
            continue
        for some in portions(theirs):
            has_wrong = not _unmark(some, marks[topic]) or has_wrong
            if pace.is_over(assignor.A_SET + len(some)):
                yield
        has_wrong = has_wrong or marks[topic].count(1) != topics[topic] - len(theirs)
    return None if has_wrong else (yield from _marked(marks, pace))


def _all_marked(topics: Mapping[str, int]) -> dict[str, bytearray]:
    """Return a mark for each partition of topics."""
    return {topic: bytearray(b"\1") * count for topic, count in topics.items()}


def _numbers_by_topic(held: Sequence[Partitions], pace: Pace) -> Turns[dict[str, list[int]]]:
    """Return what all members have, the numbers of one behind those of another."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    columns = 0
    for mine in held:
        if isinstance(mine, PartitionSet):  # members by the thousand, and their columns are there already
            for topic, column in mine.columns():
                numbers[topic] += column
                columns += 1
                if columns >= assignor.PARTITIONS_A_TURN:
                    columns = 0
                    yield
            continue
        for some in portions(mine):
            for topic, column in numbers_by_topic(some).items():
                numbers[topic] += column
            if pace.is_over(len(some)):
                yield
    return numbers


def _unmark(numbers: Collection[int], marks: bytearray) -> bool:
    """Take the marks of numbers away; return False when one does not exist."""
    if min(numbers) < 0:
        return False
    try:
        for number in numbers:
            marks[number] = 0
    except IndexError:
        return False
    return True


def _what_counts(
    topics: Mapping[str, int], held: Sequence[Partitions], pace: Pace
) -> Turns[tuple[list[Partitions], list[TopicPartition]]]:
    """Return what each member has that exists and that no member before it has, and what is left."""
    free = _all_marked(topics)
    counting = []
    for mine in held:
        counts: list[TopicPartition] = []
        for some in portions(mine):
            for partition in some:
                of_topic, number = free.get(partition[0]), partition[1]
                if of_topic is not None and 0 <= number < len(of_topic) and of_topic[number]:
                    of_topic[number] = 0
                    counts.append(partition)
            if pace.is_over(len(some)):
                yield
        counting.append((yield from gather(counts, pace)) if len(counts) < len(mine) else mine)
    return counting, (yield from _marked(free, pace))


def _in_order(
    partitions: Collection[TopicPartition], topics: Mapping[str, int], pace: Pace
) -> Turns[list[TopicPartition]]:
    """Return partitions by topic and number: very many are marked, since to compare them would be one turn."""
    if len(partitions) <= assignor.PARTITIONS_A_TURN:
        if pace.is_over(len(partitions)):
            yield
        return sorted(partitions)
    marks = {topic: bytearray(count) for topic, count in topics.items()}
    for some in portions(partitions):
        for topic, number in some:
            marks[topic][number] = 1
        if pace.is_over(len(some)):
            yield
    return (yield from _marked(marks, pace))


def _marked(marks: Mapping[str, bytearray], pace: Pace) -> Turns[list[TopicPartition]]:
    """Return the partitions that have a mark, topic by topic and in order."""
    found: list[TopicPartition] = []
    for topic, of_topic in marks.items():
        for begin in range(0, len(of_topic), assignor.PARTITIONS_A_TURN):
            some = of_topic[begin : begin + assignor.PARTITIONS_A_TURN]
            if has := some.count(1):  # to pass over the others takes next to no time
                found += zip(repeat(topic), compress(range(begin, begin + len(some)), some))
            if pace.is_over(assignor.A_SET + has):
                yield
    return found


def _split(mine: Partitions, share: int, longest: int, pace: Pace) -> Turns[tuple[Partitions, list[TopicPartition]]]:
    """Return so many of a member's partitions, those of the lowest numbers, and its others.

    Numbers are below `longest`. Of very many it is counted how many have each: to compare them would be one turn.
    """
    if len(mine) <= assignor.PARTITIONS_A_TURN:
        ordered = sorted(mine, key=_by_number)
        if pace.is_over(len(mine)):
            yield
        return frozenset(ordered[:share]), ordered[share:]
    of_number = [0] * longest
    for some in portions(mine):
        for _, number in some:
            of_number[number] += 1
        if pace.is_over(len(some)):
            yield
    left, last = share, 0
    while of_number[last] <= left:
        left -= of_number[last]
        last += 1
    kept: list[TopicPartition] = []
    others: list[TopicPartition] = []
    of_last: list[TopicPartition] = []
    for some in portions(mine):
        kept += [one for one in some if one[1] < last]
        others += [one for one in some if one[1] > last]
        of_last += [one for one in some if one[1] == last]
        if pace.is_over(len(some)):
            yield
    of_last.sort()
    return (yield from gather(kept + of_last[:left], pace)), others + of_last[left:]


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
    hands: list[Partitions],
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
            hands[index] = yield from gather(theirs, pace, hands[index])


def _evenly(count: int) -> Iterator[float]:
    """Yield so many places between 0 and 1, ascending and evenly spread."""
    return ((turn + 0.5) / count for turn in range(count))
