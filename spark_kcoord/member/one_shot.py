"""Single requests of Spark's side to a coordinator, without being a member: for batch reads, listeners and look-ups.

Blocking, on the caller's thread. Each may be asked twice, so it is asked of every node that was given or named until
the time is over. Errors name the option that the addresses come from.
"""

from collections.abc import Sequence

from coordinator.client.refusals import refusal_of, show_refusal
from coordinator.client.request import RequestError, RequestTimeoutError, ask_until_answered
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages import (
    ErrorResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    Request,
    Response,
)
from coordinator.protocol.parts import CommittedOffset
from coordinator.protocol.text.addresses import Address, format_address
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.settings import BOOTSTRAP_OPTION


def request_once(coordinators: Sequence[Address], request: Request, *, timeout_s: float) -> Response:
    """Return the response to one request, which may carry a final refusal.

    Raises KcoordError when no coordinator answers in time or the request itself is refused.
    """
    try:
        response = ask_until_answered(coordinators, request, timeout_s)
    except RequestTimeoutError as error:
        addresses = ",".join(format_address(address) for address in coordinators)
        raise KcoordError(
            f"No kcoord coordinator answered within {timeout_s:g} s: {error.troubles}. Check that one runs at "
            f"{addresses} and can be reached from this machine, or name another with option '{BOOTSTRAP_OPTION}'."
        ) from error
    except RequestError as error:
        raise KcoordError(f"The coordinator was not asked: {error}.") from error
    if isinstance(response, ErrorResponse):
        why = show_refusal((response.error, response.message))
        raise KcoordError(f"The coordinator refused the request: {why}")
    return response


def find_coordinator(coordinators: Sequence[Address], group_id: str, *, timeout_s: float) -> FindCoordinatorResponse:
    """Return which node coordinates a group, and where Kafka is; raises KcoordError."""
    response = request_once(coordinators, FindCoordinator(group_id), timeout_s=timeout_s)
    _must_not_be_refused(response, group_id)
    assert isinstance(response, FindCoordinatorResponse)
    return response


def fetch_offsets(coordinators: Sequence[Address], group_id: str, *, timeout_s: float) -> dict[TopicPartition, int]:
    """Return a group's committed offsets, whichever topic of its name they are of; a partition without is absent.

    Raises as `fetch_committed`.
    """
    committed = fetch_committed(coordinators, group_id, timeout_s=timeout_s)
    return {(part.topic, part.partition): part.offset for part in committed}


def fetch_committed(coordinators: Sequence[Address], group_id: str, *, timeout_s: float) -> tuple[CommittedOffset, ...]:
    """Return what a group has committed, each with the id of its topic, by which one that was made again is seen.

    Raises KcoordError, also for a group the coordinator does not know.
    """
    response = request_once(coordinators, FetchOffsets(group_id), timeout_s=timeout_s)
    _must_not_be_refused(response, group_id)
    assert isinstance(response, FetchOffsetsResponse)
    return response.offsets


def _must_not_be_refused(response: Response, group_id: str) -> None:
    refusal = refusal_of(response)
    if refusal is not None:
        raise KcoordError(f"The coordinator refused a question about group '{group_id}': {show_refusal(refusal)}")
