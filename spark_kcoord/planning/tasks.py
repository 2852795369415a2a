"""From ranges of offsets to Spark tasks: what is small is packed, what is large is split.

Pure. A task costs Spark several milliseconds and a range costs its reader some work, so that one task a Kafka
partition, as the JVM connector plans, makes small micro-batches slow; one task for a hundred million records leaves
cores idle. Where ``minPartitions`` or ``maxRecordsPerPartition`` is given the tasks are cut by spark-sql-kafka's
arithmetic instead, a range each. Tasks keep the order of the ranges, and every offset belongs to exactly one task.
Sizes are offsets, an upper bound of the records (compaction, transaction markers); bytes are not known here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.planning.input_partition import KcoordInputPartition

__all__ = ["LARGEST_PACK", "LARGEST_PIECE", "RANGE_COST", "SMALLEST_PACK", "SMALLEST_PIECE", "plan_partitions"]

TASKS_PER_CORE: Final = 4
"""So many tasks a core even out tasks of different length; Spark hands out the next when one ends."""

RANGE_COST: Final = 150
"""The cost of one more range in a request, in records that could be read meanwhile: about a tenth of a millisecond."""

SMALLEST_PACK: Final = 16_000
LARGEST_PACK: Final = 100_000
"""A task of several ranges costs at most between these, in records, by how much there is for each core: from about
the cost of starting a task to a tenth of a second of one core, so that a cluster larger than was known is still used
and work after the read is still spread."""

SMALLEST_PIECE: Final = 200_000
LARGEST_PIECE: Final = 2_000_000
"""A range is cut into pieces of about this many offsets, by how much there is for each core; never below the first
or above 1.5 times the second."""


def plan_partitions(
    ranges: Iterable[TopicRange],
    *,
    servers: tuple[str, ...],
    parallelism: int,
    min_partitions: int | None,
    max_records_per_partition: int | None,
    may_split: bool,
) -> list[KcoordInputPartition]:
    """Return the tasks that read ``ranges``; empty ranges make none.

    ``parallelism`` is how many tasks may run at once, as far as that is known. ``may_split`` lets a range be cut where
    no option asks for it, which gives up that one task reads a Kafka partition in order. Without options a task has
    one range, or several that cost at most ``LARGEST_PACK`` together (``RANGE_COST`` each and 1 a record); there are
    at most ``1 + 2 * max(TASKS_PER_CORE * parallelism, cost / LARGEST_PACK)`` tasks besides those of one range each.
    """
    wanted = [one for one in ranges if one.start < one.end]
    if max_records_per_partition is not None or min_partitions is not None:
        cut = _cut_as_asked(wanted, min_partitions, max_records_per_partition)
        return [KcoordInputPartition(ranges=(one,), servers=servers) for one in cut]
    tasks = _pack(_cut_large(wanted, parallelism) if may_split else wanted, parallelism)
    return [KcoordInputPartition(ranges=task, servers=servers) for task in tasks]


def _cut_as_asked(ranges: Sequence[TopicRange], at_least: int | None, most: int | None) -> list[TopicRange]:
    """Cut ranges above ``most`` offsets, then the large ones until there are about ``at_least``."""
    if most is not None:
        ranges = list(chain.from_iterable(_cut(one, math.ceil(_size(one) / most)) for one in ranges))
    if at_least is None or at_least <= len(ranges):
        return list(ranges)
    total = sum(map(_size, ranges))
    # Small ranges stay whole and are left out of the ratio; otherwise they take tasks away from the large ones.
    kept = [one for one in ranges if _parts(one, total, at_least) == 1]
    total -= sum(map(_size, kept))
    at_least = max(1, at_least - len(kept))
    whole = {(one.topic, one.partition) for one in kept}
    return [
        piece
        for one in ranges
        for piece in _cut(one, 1 if (one.topic, one.partition) in whole else _parts(one, total, at_least))
    ]


def _parts(one: TopicRange, total: int, wanted: int) -> int:
    """Return how many of ``wanted`` tasks a range of ``total`` offsets gets, rounded as Java rounds."""
    return max(1, math.floor(_size(one) / total * wanted + 0.5))


def _cut_large(ranges: Sequence[TopicRange], parallelism: int) -> list[TopicRange]:
    share = sum(map(_size, ranges)) / (TASKS_PER_CORE * parallelism)
    piece = min(max(share, SMALLEST_PIECE), LARGEST_PIECE)
    return [cut for one in ranges for cut in _cut(one, max(1, math.floor(_size(one) / piece + 0.5)))]


def _pack(ranges: Sequence[TopicRange], parallelism: int) -> Iterator[tuple[TopicRange, ...]]:
    """Yield neighbours together as long as they cost little."""
    share = sum(map(_cost, ranges)) / (TASKS_PER_CORE * parallelism)
    most = min(max(share, SMALLEST_PACK), LARGEST_PACK)
    task: list[TopicRange] = []
    cost = 0
    for one in ranges:
        if task and cost + _cost(one) > most:
            yield tuple(task)
            task, cost = [], 0
        task.append(one)
        cost += _cost(one)
    if task:
        yield tuple(task)


def _cut(one: TopicRange, parts: int) -> Iterator[TopicRange]:
    """Yield a range in ``parts`` nearly equal pieces, in order; fewer where it has fewer offsets."""
    start = one.start
    for part in range(min(parts, _size(one))):
        end = start + (one.end - start) // (min(parts, _size(one)) - part)
        yield replace(one, start=start, end=end)
        start = end


def _size(one: TopicRange) -> int:
    return one.end - one.start


def _cost(one: TopicRange) -> int:
    return RANGE_COST + _size(one)
