"""The answers to a member's calls, judged: are they whole, what is the result, what is worth a notice.

Holdings take what was answered; nothing here decides what to do next.
"""

from collections.abc import Sequence

from coordinator.client.refusals import show_refusal
from coordinator.protocol.claim_columns import (
    claimed_as_asked,
    claims_of,
    count_of,
    each_status,
    finished_as_asked,
    released_as_asked,
    results_of,
)
from coordinator.protocol.claim_columns import is_whole as accounts_for
from coordinator.protocol.columns import one_by_one
from coordinator.protocol.columns import results_of as results_of_offsets
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    Advance,
    AdvanceResponse,
    CommitOffsets,
    CommitOffsetsResponse,
    ConfirmClaims,
    ConfirmClaimsResponse,
    LeaveGroup,
    Ping,
    PingResponse,
    ReportOutOfRange,
    ReportOutOfRangeResponse,
    Response,
    StartFetcher,
)
from coordinator.protocol.parts import Claim, FinalOffset, LogPosition, OwnedPartition, PartitionResult, StartPartition
from coordinator.protocol.text.addresses import Address
from spark_kcoord.member.core.calls import CallRequest
from spark_kcoord.member.core.effects import AdvanceOutcome, CallResult, Notice, NoticeKind
from spark_kcoord.member.core.held.holdings import Holdings, partition_of
from spark_kcoord.member.core.registration import Registration


def is_whole(request: CallRequest, response: Response) -> bool:
    """Say whether a response accounts for everything its request named."""
    match request, response:
        case Advance(), AdvanceResponse():
            return (
                accounts_for(response.finished, count_of(request.finished))
                and accounts_for(response.claims, count_of(request.claims))
                and accounts_for(response.released, len(request.released))
            )
        case ConfirmClaims(), ConfirmClaimsResponse():
            return accounts_for(response.claims, count_of(request.claims))
        case CommitOffsets(), CommitOffsetsResponse():
            return is_answered(request, response)
        case ReportOutOfRange(), ReportOutOfRangeResponse():
            return len(response.results) == len(request.partitions)
        case LeaveGroup(), _:
            return True
        case _:
            return False


def notices_of_start(push: StartFetcher, registration: Registration | None) -> list[Notice]:
    """Return what is worth a notice of partitions that were granted.

    That one which had been in the group before gets some without an offset is said loudly.
    """
    was_there = registration is not None and registration.request.is_returning
    kind = NoticeKind.BEGUN_ANEW if was_there else NoticeKind.BEGUN
    started = [Notice(NoticeKind.STARTED, show_partitions(push.partitions))] if push.partitions else []
    return started + [Notice(kind, note) for note in push.notes]


def show_partitions(parts: Sequence[OwnedPartition | FinalOffset | StartPartition]) -> str:
    """Return the first of some partitions as people read them, and how many more there are."""
    shown = [f"{part.topic}-{part.partition}" for part in parts[:8]]
    return ", ".join(shown) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")


def take_answer(
    holdings: Holdings,
    request: CallRequest,
    response: Response,
    nodes: tuple[Address, ...],
    log: LogPosition | None,
) -> tuple[CallResult, list[Notice]]:
    """Let holdings take a whole answer; return the call's result and what is worth a notice.

    `nodes` are the coordinators that are known now, `log` how far the group's log has come.
    """
    match request, response:
        case Advance(), AdvanceResponse():
            done, wanted = tuple(claims_of(request.finished)), tuple(claims_of(request.claims))
            finished = results_of(response.finished, map(finished_as_asked, done))
            offered = results_of(response.claims, map(claimed_as_asked, wanted))
            released = results_of(response.released, map(released_as_asked, request.released))
            claimed = holdings.answer_advance(request, done, finished, wanted, offered)
            outcome = AdvanceOutcome(claimed, finished, offered, released, nodes, log)
            return outcome, _refused_parts(done, finished, wanted, offered)
        case ConfirmClaims(), ConfirmClaimsResponse():
            named = tuple(claims_of(request.claims))
            statuses = each_status(response.claims, named)
            closed = holdings.answer_claims(named, statuses)
            return statuses, [
                _skipped(claim, status.why or "the claim is closed", status.committed) for claim, status in closed
            ]
        case CommitOffsets(), CommitOffsetsResponse():
            return take_commit(holdings, request, response), []
        case ReportOutOfRange(), ReportOutOfRangeResponse():
            holdings.answer_report(request.partitions, response.results)
            return response.results, []
        case LeaveGroup(), _:
            return None, []
        case _:
            raise AssertionError(f"{type(response).__name__} is no whole answer to {type(request).__name__}")


def is_answered(request: CommitOffsets | Ping, response: CommitOffsetsResponse | PingResponse) -> bool:
    """Say whether a response accounts for every offset of its request: it is refused by name or counted as accepted."""
    refused = {partition_of(result) for result in response.refused}
    asked = [(topic.topic, number) for topic in request.offsets for number in topic.partitions]
    not_refused = sum(partition not in refused for partition in asked)
    return response.accepted + len(response.refused) == len(asked) and not_refused <= response.accepted


def take_ping(holdings: Holdings, request: Ping, response: PingResponse) -> None:
    """Let holdings take the answer to a ping, and to the offsets that went with it."""
    holdings.set_member_epoch(response.member_epoch)
    holdings.withhold(response.withheld)
    if is_answered(request, response):
        take_commit(holdings, request, response)
        if response.accepted:
            holdings.tell_committed()


def take_commit(
    holdings: Holdings, request: CommitOffsets | Ping, response: CommitOffsetsResponse | PingResponse
) -> tuple[PartitionResult, ...]:
    """Let holdings take a whole answer to a commit; return a result for each offset, in the order of the request."""
    asked = tuple(one_by_one(request.offsets))
    results = results_of_offsets(asked, response.refused)
    holdings.answer_commit(asked, results)
    return results


def _refused_parts(
    done: Sequence[Claim],
    finished: Sequence[PartitionResult],
    wanted: Sequence[Claim],
    offered: Sequence[PartitionResult],
) -> list[Notice]:
    skipped = [
        _skipped(claim, _show(result), result.committed)
        for claim, result in zip(done, finished, strict=True)
        if result.error is not ErrorCode.NONE
    ]
    refused = [
        Notice(NoticeKind.CLAIM_REFUSED, f"{_show_range(claim)}: {_show(result)}")
        for claim, result in zip(wanted, offered, strict=True)
        if result.error is not ErrorCode.NONE
    ]
    return skipped + refused


def _skipped(claim: Claim, why: str, committed: int | None) -> Notice:
    known = "the group has no committed offset" if committed is None else f"the group's offset is {committed}"
    return Notice(NoticeKind.CLAIM_SKIPPED, f"{_show_range(claim)}: {why}; {known}")


def _show(result: PartitionResult) -> str:
    return show_refusal((result.error, result.message))


def _show_range(claim: Claim) -> str:
    return f"{claim.topic}-{claim.partition} offsets [{claim.from_offset}, {claim.until_offset})"
