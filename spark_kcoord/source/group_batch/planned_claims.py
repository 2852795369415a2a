"""The claims of a batch as somebody sees them who is not its member: are they still open, and has anybody planned them?

Spark plans a batch read in a process of its own, made for that and gone again, while the member lives in the user's
program. Both ask the coordinator: planning marks the claims as running, the block's end asks whether that happened.
Each question has a connection of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coordinator.protocol.claim_columns import claims_in_columns, each_status
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import BeginClaims, BeginClaimsResponse, Request, Response
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatus
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.core.held.portions import bytes_of, portions
from spark_kcoord.member.one_shot import request_once
from spark_kcoord.member.refusals import must_account_for
from spark_kcoord.options.source_options import SourceOptions

__all__ = ["begin_to_read", "not_planned"]

Ask = Callable[[SourceOptions, Request], Response]


def _ask(options: SourceOptions, request: Request) -> Response:
    timeout_s = options.coordinator_timeout_ms / 1000
    return request_once(options.coordinators_at, request, timeout_s=timeout_s)


def begin_to_read(options: SourceOptions, member_id: str, claims: Sequence[Claim], *, ask: Ask = _ask) -> None:
    """Mark the claims of a batch as running, before they are read; raises KcoordError when one is not open any more."""
    statuses = _statuses(options, member_id, claims, ask, is_question=False)
    closed = [pair for pair in zip(claims, statuses, strict=True) if pair[1].state is not ClaimState.RUNNING]
    if closed:
        claim, status = closed[0]
        raise KcoordError(
            f"{len(closed)} of {len(claims)} ranges of this batch of group '{options.group}' are not its own any more "
            f"and cannot be read: {claim.topic}-{claim.partition} [{claim.from_offset}, {claim.until_offset}) "
            f"({status.why}; the group's offset is {status.committed}). The block of spark_kcoord.batch is over, which "
            "commits them: read the rows inside of it. Or it took longer than option 'kcoord.rebalance.timeout' while "
            "another member wanted its partitions: raise that."
        )


def not_planned(
    options: SourceOptions, member_id: str, claims: Sequence[Claim], *, ask: Ask = _ask
) -> tuple[Claim, ...]:
    """Return the claims of a batch that are open and that nobody has planned to read."""
    statuses = _statuses(options, member_id, claims, ask, is_question=True)
    return tuple(claim for claim, status in zip(claims, statuses, strict=True) if status.state is ClaimState.OFFERED)


def _statuses(
    options: SourceOptions, member_id: str, claims: Sequence[Claim], ask: Ask, *, is_question: bool
) -> list[ClaimStatus]:
    statuses: list[ClaimStatus] = []
    for portion in portions(claims, bytes_of):
        response = ask(options, BeginClaims(options.group, member_id, claims_in_columns(portion), is_question))
        assert isinstance(response, BeginClaimsResponse)
        if response.error is not ErrorCode.NONE:
            raise KcoordError(
                f"The coordinator refused a question about the ranges of a batch: {response.error.name} "
                f"({response.message})."
            )
        must_account_for(response.claims, len(portion), options.group)
        statuses += each_status(response.claims, portion)
    return statuses
