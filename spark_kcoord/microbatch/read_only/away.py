"""The partitions that a query that never commits has read and does not have now: its checkpoint keeps their positions.

A partition can be away for a micro-batch or many: paused by an operator, wanted back, with another member, or come too
late for a run that ends by itself. The group knows no position of such a query, so what the newest stream offset does
not show is known nowhere once the process has ended. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from coordinator.protocol.parts import Claim
from spark_kcoord.microbatch.stream_offset import StreamOffset

__all__ = ["with_those_away"]


def with_those_away(latest: StreamOffset, before: StreamOffset, may_come_back: Callable[[Claim], bool]) -> StreamOffset:
    """Return `latest` with the partitions that it lacks of the offset before, with nothing to read, where each ended.

    Those that may not come back are left out, and so are those of a topic that `latest` knows under another id.
    """
    ids = {one.topic: one.topic_id for one in latest.ranges}
    shown = {(one.topic, one.partition) for one in latest.ranges}
    away = tuple(
        msgspec.structs.replace(one, from_offset=one.until_offset)
        for one in before.ranges
        if (one.topic, one.partition) not in shown
        and ids.get(one.topic, one.topic_id) == one.topic_id
        and may_come_back(one)
    )
    if not away:
        return latest
    return replace(latest, ranges=tuple(sorted((*latest.ranges, *away), key=lambda one: (one.topic, one.partition))))
