"""Refusals in responses: which response is one, how it is said, and which may pass.

A refusal is a code and a text. Some codes mean that the same request may be answered later, or by another node; the
rest are final. Nothing here asks again.
"""

from typing import Final, TypeAlias

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeClusterResponse,
    FetcherStartedResponse,
    FetcherStoppedResponse,
    ListGroupsResponse,
    ReportOutOfRangeResponse,
    Response,
)

Refusal: TypeAlias = tuple[ErrorCode, str]

NOT_SERVING: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
"""The node did nothing, because it does not serve the group now: the request may be asked again."""

PASSING: Final = NOT_SERVING | {ErrorCode.REQUEST_TIMED_OUT}
"""The coordinator cannot serve now; of a request that timed out it is not known whether it is done."""

BETTER_ELSEWHERE: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Another node may be able to serve."""


def refusal_of(response: Response) -> Refusal | None:
    """Return code and message of a response that refuses its whole request, or None."""
    if isinstance(
        response,
        FetcherStartedResponse
        | FetcherStoppedResponse
        | ListGroupsResponse
        | ReportOutOfRangeResponse
        | DescribeClusterResponse,
    ):
        return None
    if response.error is ErrorCode.NONE:
        return None
    return response.error, response.message


def show_refusal(refusal: Refusal) -> str:
    """Return a refusal as a piece of a sentence."""
    code, message = refusal
    return f"{message} ({code.name})" if message else code.name
