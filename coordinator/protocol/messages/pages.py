"""Answers that come in pages: the request for the next page, and what all pages say together.

A page holds a bounded number of things, so that no answer keeps a coordinator busy or is too long for a frame. Each
page is true as of its own moment. Whoever asks follows `up_to` until a page has none.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
    ListGroups,
    ListGroupsResponse,
    Request,
    Response,
)
from coordinator.protocol.messages.operators import (
    CancelResets,
    CancelResetsResponse,
    DescribeControls,
    DescribeControlsResponse,
)

_TRIES: Final = 3
"""Descriptions of a group that are tried until no rebalance has begun between two pages of one."""


def ask_for_all(ask: Callable[[Request], Response], request: Request) -> Response:
    """Ask for every page of an answer and return all of them as one; `ask` returns the response to one request.

    A group of which a rebalance has begun meanwhile is described anew, within reason.
    """
    for _ in range(_TRIES):
        pages = []
        left: Request | None = request
        while left is not None:
            pages.append(ask(left))
            left = next_page(left, pages[-1])
        if len({page.group_epoch for page in pages if isinstance(page, DescribeGroupResponse)}) <= 1:
            break
    return join_pages(pages)


def next_page(request: Request, response: Response) -> Request | None:
    """Return what to ask for the page after this one; None after the last, and of an answer without pages."""
    match request, response:
        case (FetchOffsets(), FetchOffsetsResponse(up_to=up_to)) if up_to is not None:
            return replace(request, after=up_to)
        case (DescribeGroup(), DescribeGroupResponse(up_to=described)) if described is not None:
            return replace(request, after=described)
        case (ListGroups(), ListGroupsResponse(up_to=listed)) if listed is not None:
            return replace(request, after=listed)
        case (DescribeControls(), DescribeControlsResponse(up_to=told)) if told is not None:
            return replace(request, after=told)
        case (CancelResets(), CancelResetsResponse(up_to=dropped)) if dropped is not None:
            return replace(request, after=dropped)
        case (ListGroupEvents(), ListGroupEventsResponse(up_to=sequence)) if sequence is not None:
            return replace(request, after_sequence=sequence)
    return None


def join_pages(pages: Sequence[Response]) -> Response:
    """Return one answer that says what all pages say; a refusal, which can only be the last page, stands for all.

    The fields of the group as a whole are as of the last page.
    """
    last = pages[-1]
    if len(pages) == 1:
        return last
    if isinstance(last, FetchOffsetsResponse) and not last.error:
        offsets = tuple(row for page in pages if isinstance(page, FetchOffsetsResponse) for row in page.offsets)
        return replace(last, offsets=offsets)
    if isinstance(last, DescribeGroupResponse) and not last.error:
        told = [page for page in pages if isinstance(page, DescribeGroupResponse)]
        return replace(
            last,
            members=tuple(row for page in told for row in page.members),
            partitions=tuple(row for page in told for row in page.partitions),
            topic_ids=tuple(dict(row for page in told for row in page.topic_ids).items()),
        )
    if isinstance(last, ListGroupsResponse):
        listed = [page for page in pages if isinstance(page, ListGroupsResponse)]
        groups = sorted((row for page in listed for row in page.groups), key=lambda row: row.group_id)
        # A shard that was led for some of the pages alone may have more groups than these.
        shards = frozenset(last.shards).intersection(*(page.shards for page in listed))
        return replace(last, groups=tuple(groups), shards=tuple(sorted(shards)))
    if isinstance(last, DescribeControlsResponse) and not last.error:
        controls = tuple(row for page in pages if isinstance(page, DescribeControlsResponse) for row in page.controls)
        return replace(last, controls=controls)
    if isinstance(last, CancelResetsResponse) and not last.error:
        results = tuple(row for page in pages if isinstance(page, CancelResetsResponse) for row in page.results)
        return replace(last, results=results)
    if isinstance(last, ListGroupEventsResponse) and not last.error:
        events = tuple(row for page in pages if isinstance(page, ListGroupEventsResponse) for row in page.events)
        return replace(last, events=events)
    return last
