"""The connections to each broker by which partitions are followed: when there is a second one, and how long each waits.

A broker answers the requests of a connection one after the other, so that a position that is new, of a seek or of a
partition that was just assigned, would wait behind a long poll. It is asked for on another connection then. What two
requests ask for comes together again in one: while both are out neither waits for long. The last connection is for new
positions alone. No input or output.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

__all__ = ["BESIDE_S", "LANES", "lane_of", "wait_s"]

LANES: Final = (0, 1, 2)
"""The connections to a broker; each is made when those before it are in use."""
BESIDE_S: Final = 0.05
"""The longest wait of a request for records beside another."""


def lane_of(ends: Collection[tuple[int, float]], now: float, *, is_new: bool) -> int | None:
    """Return the connection on which to ask for a partition now, None where it waits for a request that is out.

    `ends` are the lanes that are in use, with the times at which their waits for records are over. A partition that
    was asked for already waits for one that is over soon.
    """
    used = {lane for lane, _ in ends}
    free = [lane for lane in LANES if lane not in used]
    may_ask = is_new or len(free) == len(LANES) or (len(free) > 1 and all(end - now >= BESIDE_S for _, end in ends))
    return free[0] if free and may_ask else None


def wait_s(ends: Collection[tuple[int, float]], now: float, longest_s: float) -> float:
    """Return for how long a request may wait for records: beside others not for long, and no longer than they do."""
    return min((longest_s, *(max(0.0, min(BESIDE_S, end - now)) for _, end in ends)))
