"""How far a micro-batch reads each partition: all there is, or a share of a limit in proportion to the backlog.

The rounding is spark-sql-kafka's: a share below one offset is rounded up, so that a small partition is never starved,
any other is rounded down. The sum can therefore exceed the limit by up to the number of small partitions. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

__all__ = ["limit_ends"]

PartitionKey = TypeVar("PartitionKey", bound=Hashable)


def limit_ends(
    positions: Mapping[PartitionKey, int], ends: Mapping[PartitionKey, int], limit: int | None
) -> dict[PartitionKey, int]:
    """Return for every position the exclusive end to read to; without a limit that is the partition's end.

    A partition whose end is unknown or not past its position keeps its position.
    """
    backlog = {key: max(0, ends.get(key, position) - position) for key, position in positions.items()}
    total = sum(backlog.values())
    if limit is None or total <= limit:
        return {key: position + backlog[key] for key, position in positions.items()}
    return {key: position + _share(backlog[key], total, limit) for key, position in positions.items()}


def _share(size: int, total: int, limit: int) -> int:
    if size == 0:
        return 0
    share = limit * size / total
    return min(size, math.ceil(share) if share < 1 else math.floor(share))
