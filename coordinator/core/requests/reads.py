"""Reads of one group: its offsets, its description and its timeline."""

from coordinator.core.groups.describe import describe
from coordinator.core.groups.desk import Desk
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
            desk.meter.note(len(rows))
            return FetchOffsetsResponse(offsets=rows, up_to=up_to)
        case DescribeGroup():
            return describe(desk, group, request.after, page_items)
        case ListGroupEvents():
            events, ends_at = desk.soft_of(request.group_id).timeline.page(request.after_sequence)
            return ListGroupEventsResponse(events=events, up_to=ends_at)
