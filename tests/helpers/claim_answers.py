"""Answers about claims with a result for each, as whoever asked knows them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coordinator.protocol.claim_columns import claimed_as_asked, finished_as_asked, released_as_asked, results_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import AdvanceResponse, FinishClaimsResponse
from coordinator.protocol.parts import Claim, ClaimStatus, FinalOffset, PartitionResult


@dataclass(frozen=True, slots=True)
class Advanced:
    """The answer to an Advance."""

    error: ErrorCode
    message: str
    finished: tuple[PartitionResult, ...]
    claims: tuple[PartitionResult, ...]
    released: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The answer to a question how claims stand."""

    error: ErrorCode
    message: str
    claims: tuple[ClaimStatus, ...]


def advanced(
    response: AdvanceResponse, finished: Iterable[Claim], claims: Iterable[Claim], released: Iterable[FinalOffset] = ()
) -> Advanced:
    """Return an answer with a result for each partition; one that refuses the whole request has none."""
    if response.error is not ErrorCode.NONE:
        return Advanced(response.error, response.message, (), (), ())
    return Advanced(
        response.error,
        response.message,
        results_of(response.finished, map(finished_as_asked, finished)),
        results_of(response.claims, map(claimed_as_asked, claims)),
        results_of(response.released, map(released_as_asked, released)),
    )


def finished_results(response: FinishClaimsResponse, claims: Sequence[Claim]) -> tuple[PartitionResult, ...]:
    """Return a result for each claim that was said to be finished."""
    return results_of(response.results, map(finished_as_asked, claims)) if response.error is ErrorCode.NONE else ()
