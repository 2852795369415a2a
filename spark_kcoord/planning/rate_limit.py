"""The size of a micro-batch in each partition, and when it is worth one: limits on offsets, bytes and waiting.

A limit is split in proportion to the backlog, with spark-sql-kafka's rounding: a share below one offset is rounded up,
so that a small partition is never starved, any other is rounded down. The sum can therefore exceed the limit by up to
the number of small partitions. Bytes are an estimate, from the size that records have at each position. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["BatchLimits", "fraction_within", "limit_ends", "must_wait"]

PartitionKey = TypeVar("PartitionKey", bound=Hashable)


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of a micro-batch besides the most offsets, which Spark hands over itself.

    Fewer than `min_offsets` wait, but no longer than `max_delay_s` after the last micro-batch. `max_bytes` is about the
    most bytes, as Kafka stores them.
    """

    min_offsets: int | None = None
    max_delay_s: float = 900.0
    max_bytes: int | None = None


def must_wait(limits: BatchLimits, backlog: int, waited_s: float | None) -> bool:
    """Return whether a backlog is too small for a micro-batch yet.

    `waited_s` is the time since the last one; None stands for no last one, and the first always runs.
    """
    is_small = limits.min_offsets is not None and backlog < limits.min_offsets
    return is_small and waited_s is not None and waited_s < limits.max_delay_s


def fraction_within(
    backlog: Mapping[PartitionKey, int], bytes_per_offset: Mapping[PartitionKey, float], max_bytes: int
) -> float | None:
    """Return which part of every backlog makes about `max_bytes`, or None when all of them fit.

    A partition of unknown size counts with the average of the others; without any that is known nothing limits.
    """
    known = {key: size for key, size in bytes_per_offset.items() if key in backlog}
    if not known:
        return None
    average = sum(known.values()) / len(known)
    total = sum(waiting * known.get(key, average) for key, waiting in backlog.items())
    return max_bytes / total if total > max_bytes else None


def limit_ends(
    positions: Mapping[PartitionKey, int],
    ends: Mapping[PartitionKey, int],
    limit: int | None,
    fraction: float | None = None,
) -> dict[PartitionKey, int]:
    """Return for every position the exclusive end to read to; without a limit that is the partition's end.

    `limit` is the most offsets of all together, `fraction` the most of every backlog; the lesser counts. A partition
    whose end is unknown or not past its position keeps its position.
    """
    backlog = {key: max(0, ends.get(key, position) - position) for key, position in positions.items()}
    total = sum(backlog.values())
    if limit is not None and total > limit and (fraction is None or limit < fraction * total):
        return {
            key: position + _share(backlog[key], limit * (backlog[key] / total)) for key, position in positions.items()
        }
    if fraction is not None and fraction < 1:
        return {key: position + _share(backlog[key], fraction * backlog[key]) for key, position in positions.items()}
    return {key: position + backlog[key] for key, position in positions.items()}


def _share(size: int, share: float) -> int:
    return min(size, math.ceil(share) if share < 1 else math.floor(share))
