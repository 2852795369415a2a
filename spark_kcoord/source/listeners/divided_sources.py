"""Two sources of one query that read a topic in one group: each sees a part of it, which is seldom meant.

A group gives a partition to one of its members, and each source is a member. Knows stream offsets alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from spark_kcoord.microbatch.stream_offset import StreamOffset

__all__ = ["say_divided"]


def say_divided(offsets: Iterable[StreamOffset]) -> str | None:
    """Return what to tell the user of a query with these end offsets, or None when no two divide a topic."""
    for one, another in combinations(offsets, 2):
        topics = {claim.topic for claim in one.ranges} & {claim.topic for claim in another.ranges}
        if one.group == another.group and one.member != another.member and topics:
            return (
                f"two of its sources read {', '.join(sorted(topics))} in group {one.group}, as members {one.member} "
                f"and {another.member}, and each gets a part of the partitions: a join of them misses rows and each by "
                "itself is not the topic. Load the topic once and use that DataFrame wherever it is needed, or give "
                "each source a group of its own (option 'kcoord.group.id')."
            )
    return None
