"""Reads of one group: its offsets, its description and its timeline."""

from typing import Final

from coordinator.core.groups.describe import describe
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.tables.timeline import Timeline, event_of, head_of
from coordinator.core.groups.offsets import committed_offsets
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
)
from coordinator.protocol.parts import GroupEvent

_PAGE_BYTES: Final = 1024 * 1024
"""Bytes of texts and partitions on one page of a timeline."""
_METADATA_FOR_A_NAME: Final = 12
"""Characters of metadata that are told in the time in which a name is passed over."""
_PARTITION_BYTES: Final = 32
"""A named partition counts for so many besides its topic's name: to make one of an entry takes as long."""
_PAGE_ENTRIES: Final = 1_000
"""Entries that are looked at for one page of a timeline: to decode one takes longer than to describe a member."""


def answer_read(
    desk: Desk, request: FetchOffsets | DescribeGroup | ListGroupEvents, page_items: int
) -> FetchOffsetsResponse | DescribeGroupResponse | ListGroupEventsResponse:
    """Return the answer to a read, or the page of it that is asked for, as the group is now."""
    group = desk.group(request.group_id)
    if group is None:
        error, message = ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {request.group_id[:250]!r}"
        match request:
            case FetchOffsets():
                return FetchOffsetsResponse(error=error, message=message)
            case DescribeGroup():
                return DescribeGroupResponse(error=error, message=message)
            case ListGroupEvents():
                return ListGroupEventsResponse(error=error, message=message)
    match request:
        case FetchOffsets():
            rows, up_to = committed_offsets.fetch(group, request.partitions, request.after, page_items)
            named = len(group.offsets.topics()) if request.partitions is None else len(request.partitions)
            looked_for = 0 if request.partitions is None else min(named, page_items)
            desk.meter.note(max(len(rows), looked_for))
            desk.meter.pass_over(named + sum([len(row.metadata) for row in rows]) // _METADATA_FOR_A_NAME)
            return FetchOffsetsResponse(offsets=rows, up_to=up_to)
        case DescribeGroup():
            return describe(desk, group, request.after, page_items)
        case ListGroupEvents():
            timeline = group.timeline
            events, ends_at, looked_at = _page_of_events(timeline, request, page_items)
            desk.meter.note(looked_at)
            return ListGroupEventsResponse(
                events=events,
                up_to=ends_at,
                last_sequence=timeline.last_sequence,
                first_sequence=timeline.first_sequence,
            )


def _page_of_events(
    timeline: Timeline, request: ListGroupEvents, page_items: int
) -> tuple[tuple[GroupEvent, ...], int | None, int]:
    """Return the entries of the next so many that are asked for, and the number at which the page ends before others.

    A page has a bound on its texts and partitions as well. Returned too is how many entries were looked at.
    """
    entries, first = timeline.entries, timeline.first_sequence
    begin = max(0, request.after_sequence + 1 - first)
    end = min(len(entries), begin + min(page_items, _PAGE_ENTRIES))
    kinds, since_ms = frozenset(request.kinds), request.since_ms
    found: list[GroupEvent] = []
    left = _PAGE_BYTES
    for place in range(begin, end):
        if kinds or since_ms is not None:
            head = head_of(entries[place])
            if (kinds and head.kind not in kinds) or (since_ms is not None and head.at_ms < since_ms):
                continue
        event = event_of(first + place, entries[place])
        found.append(event)
        left -= len(event.why) + sum([_PARTITION_BYTES + len(topic) for topic, _ in event.partitions])
        if left <= 0:
            end = place + 1
            break
    return tuple(found), first + end - 1 if end < len(entries) else None, max(0, end - begin)
