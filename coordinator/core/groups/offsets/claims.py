"""Decisions about claims: what a finished micro-batch commits, what may be claimed next, what is let go.

A claim is a range of a partition that its owner reads under one owner epoch. It is finished only by the owner that
holds it open, and only once it runs: a range that nobody planned to read was not read. A claim that was closed, taken
over or belongs to an earlier grant is skipped, never committed, and refuses nothing else of the request. Nothing here
changes state: records and answers are returned.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from coordinator.core.groups.hard.records import Advanced, CommittedPart, ReleasedPart, TopicSteps
from coordinator.core.groups.hard.replay.changes import offered_to
from coordinator.core.groups.hard.state import Grant, GroupState
from coordinator.core.groups.hard.tables.claim_table import OpenClaim
from coordinator.core.groups.offsets.claims_together import advance_together, claimed_again
from coordinator.core.groups.offsets.committed_offsets import (
    committed_part,
    refused,
    why_backwards,
    why_bad_offset,
    why_fenced,
)
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation.read_only import why_read_only
from coordinator.protocol.claim_columns import (
    claimed_as_asked,
    claims_of,
    count_of,
    finished_as_asked,
    outcomes_of,
    released_as_asked,
)
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Advance, AdvanceResponse
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatus, FinalOffset, Outcomes, PartitionResult


class Advancement(msgspec.Struct, frozen=True):
    """The decision on one Advance: a record unless nothing changes, the answer, and what was skipped and why."""

    record: Advanced | None
    response: AdvanceResponse
    skipped: tuple[PartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class _Offer:
    topic_id: str
    until_offset: int


@dataclass(slots=True)
class _Draft:
    """The changes that a request has made so far, as its later parts must see them."""

    group: GroupState
    member_id: str
    commit_ms: int
    finished: dict[TopicPartition, CommittedPart] = field(default_factory=dict)
    finals: dict[TopicPartition, CommittedPart] = field(default_factory=dict)
    released: dict[TopicPartition, ReleasedPart] = field(default_factory=dict)
    offered: dict[TopicPartition, _Offer] = field(default_factory=dict)

    def committed(self, partition: TopicPartition, topic_id: str) -> int | None:
        part = self.finals.get(partition) or self.finished.get(partition)
        return part.offset if part is not None else self.group.committed_offset(partition, topic_id)

    def shown_offset(self, partition: TopicPartition) -> int | None:
        part = self.finals.get(partition) or self.finished.get(partition)
        return part.offset if part is not None else self.group.offsets.offset_of(partition)

    def grant_of(self, partition: TopicPartition, owner_epoch: int) -> Grant | None:
        if partition in self.released:
            return None
        return self.group.grant_of(*partition, self.member_id, owner_epoch)

    def claim_of(self, partition: TopicPartition) -> OpenClaim | None:
        return None if partition in self.finished else self.group.claims.get(partition)

    def refused(self, claim: Claim, code: ErrorCode, why: str) -> PartitionResult:
        partition = (claim.topic, claim.partition)
        return refused(partition, code, why, self.committed(partition, claim.topic_id))


def advance(group: GroupState, member_id: str, request: Advance, commit_ms: int) -> Advancement:
    """Decide an Advance; the same one again gives the same answers and commits nothing twice."""
    together = advance_together(group, member_id, request, commit_ms)
    if together is not None:
        finished, offered = Outcomes(count_of(request.finished)), Outcomes(count_of(request.claims))
        return Advancement(together, AdvanceResponse(finished=finished, claims=offered))
    return advance_one_by_one(group, member_id, request, commit_ms)


def advance_one_by_one(group: GroupState, member_id: str, request: Advance, commit_ms: int) -> Advancement:
    """Decide an Advance partition by partition: each is accepted or refused by itself."""
    draft = _Draft(group, member_id, commit_ms)
    done, wanted = tuple(claims_of(request.finished)), tuple(claims_of(request.claims))
    finished = tuple(_finish(draft, claim) for claim in done)
    released = tuple(_release(draft, final) for final in request.released)
    claims = tuple(_offer(draft, claim) for claim in wanted)
    drops_offered = not request.keeps_offered and bool(offered_to(group, member_id))
    record = None
    if draft.finished or draft.released or draft.offered or drops_offered:
        done_steps = _steps_of_finished(draft)
        record = Advanced(
            group.group_id,
            member_id,
            commit_ms,
            finished=done_steps,
            offered=claimed_again(done_steps, _steps_of_offered(draft)),
            released=tuple(draft.released.values()),
            finals=tuple(draft.finals.values()),
            keeps_offered=request.keeps_offered,
        )
    skipped = tuple(result for result in finished if result.error is not ErrorCode.NONE)
    response = AdvanceResponse(
        finished=outcomes_of(finished, map(finished_as_asked, done)),
        claims=outcomes_of(claims, map(claimed_as_asked, wanted)),
        released=outcomes_of(released, map(released_as_asked, request.released)),
    )
    return Advancement(record, response, skipped)


def say_skipped(skipped: Iterable[PartitionResult]) -> Iterator[tuple[str, list[TopicPartition]]]:
    """Yield why claims were skipped, and which: those that are refused alike together, with the reason of the first."""
    alike: dict[ErrorCode, list[PartitionResult]] = {}
    for result in skipped:
        alike.setdefault(result.error, []).append(result)
    for results in alike.values():
        more = f"; and {len(results) - 1} more likewise" if len(results) > 1 else ""
        yield results[0].message + more, [(result.topic, result.partition) for result in results]


def _steps_of_finished(draft: _Draft) -> tuple[TopicSteps, ...]:
    """Return how far finished claims move the committed offsets on."""
    offsets = draft.group.offsets
    return _in_columns(
        (topic, part.topic_id, number, part.offset - offsets[topic, number].offset)
        for (topic, number), part in draft.finished.items()
    )


def _steps_of_offered(draft: _Draft) -> tuple[TopicSteps, ...]:
    """Return how far offered claims reach from the offsets that are committed by then."""
    steps = []
    for (topic, number), offer in draft.offered.items():
        begin = draft.committed((topic, number), offer.topic_id)
        assert begin is not None, f"a claim on {topic}-{number} begins at no committed offset"
        steps.append((topic, offer.topic_id, number, offer.until_offset - begin))
    return _in_columns(steps)


def _in_columns(steps: Iterable[tuple[str, str, int, int]]) -> tuple[TopicSteps, ...]:
    alike: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for topic, topic_id, number, step in steps:
        alike.setdefault((topic, topic_id), []).append((number, step))
    columns = []
    for (topic, topic_id), rows in alike.items():
        rows.sort()
        numbers, counts = tuple([number for number, _ in rows]), tuple([count for _, count in rows])
        columns.append(TopicSteps(topic, topic_id, numbers, counts))
    return tuple(columns)


@dataclass(frozen=True, slots=True)
class Finishing:
    """The decision on one FinishClaims: a record unless nothing changes, a result a claim, and the claims it closes."""

    record: Advanced | None
    results: tuple[PartitionResult, ...]
    closed: tuple[Claim, ...]


def finish(group: GroupState, member_id: str, claims: Sequence[Claim], commit_ms: int) -> Finishing:
    """Decide a FinishClaims; what is offered stays so."""
    draft = _Draft(group, member_id, commit_ms)
    results, closed = [], []
    for claim in claims:
        partition = (claim.topic, claim.partition)
        is_new = partition not in draft.finished
        results.append(_finish(draft, claim))
        if is_new and partition in draft.finished:
            closed.append(claim)
    if not closed:
        return Finishing(None, tuple(results), ())
    record = Advanced(group.group_id, member_id, commit_ms, _steps_of_finished(draft), keeps_offered=True)
    return Finishing(record, tuple(results), tuple(closed))


def _finish(draft: _Draft, claim: Claim) -> PartitionResult:
    partition = (claim.topic, claim.partition)
    if claim.from_offset == claim.until_offset:
        return PartitionResult(claim.topic, claim.partition, committed=draft.shown_offset(partition))
    grant = draft.grant_of(partition, claim.owner_epoch)
    open_claim = draft.claim_of(partition) if grant is not None else None
    if grant is not None and open_claim is not None and _is_same_range(open_claim, claim):
        if not open_claim.is_running:
            why = f"the claim {_range(claim)} does not run: nobody has planned to read it, so that it is not done"
            return draft.refused(claim, ErrorCode.CLAIM_NOT_RUNNING, why)
        draft.finished[partition] = committed_part(grant, partition, claim.until_offset, draft.commit_ms)
        return PartitionResult(claim.topic, claim.partition, committed=claim.until_offset)
    done = draft.finished.get(partition) or draft.group.offsets.get(partition)
    if done is not None and (done.owner_epoch, done.offset) == (claim.owner_epoch, claim.until_offset):
        return PartitionResult(claim.topic, claim.partition, committed=done.offset)
    if grant is None:
        why = why_fenced(draft.group, partition, claim.owner_epoch, draft.member_id)
        return draft.refused(claim, ErrorCode.FENCED_OWNER_EPOCH, f"{why}: {_range(claim)} is not committed")
    return draft.refused(claim, ErrorCode.CLAIM_CLOSED, _why_not_open(open_claim, claim))


def _release(draft: _Draft, final: FinalOffset) -> PartitionResult:
    partition = (final.topic, final.partition)
    grant = draft.grant_of(partition, final.owner_epoch)
    if grant is None:
        return PartitionResult(final.topic, final.partition, committed=draft.shown_offset(partition))
    result = PartitionResult(final.topic, final.partition)
    if final.offset is not None:
        read_only = why_read_only(draft.group, draft.member_id)
        bad = (ErrorCode.INVALID_REQUEST, read_only) if read_only else why_bad_offset(final.offset, final.metadata)
        committed = draft.committed(partition, grant.topic_id)
        if bad is None and committed is not None and final.offset < committed:
            bad = ErrorCode.INVALID_REQUEST, why_backwards(final.offset, committed)
        if bad is not None:
            result = refused(partition, bad[0], f"{bad[1]}; the partition is released without it", committed)
        else:
            draft.finals[partition] = CommittedPart(
                final.topic,
                grant.topic_id,
                final.partition,
                final.offset,
                final.leader_epoch,
                final.metadata,
                draft.commit_ms,
                grant.owner_epoch,
            )
    draft.released[partition] = ReleasedPart(final.topic, final.partition, final.owner_epoch)
    if result.error is ErrorCode.NONE:
        return PartitionResult(final.topic, final.partition, committed=draft.shown_offset(partition))
    return result


def _offer(draft: _Draft, claim: Claim) -> PartitionResult:
    partition = (claim.topic, claim.partition)
    why = _why_not_claimable(draft, claim)
    if why is not None:
        return draft.refused(claim, *why)
    draft.offered[partition] = _Offer(claim.topic_id, claim.until_offset)
    return PartitionResult(claim.topic, claim.partition, committed=draft.committed(partition, claim.topic_id))


def _why_not_claimable(draft: _Draft, claim: Claim) -> tuple[ErrorCode, str] | None:
    partition = (claim.topic, claim.partition)
    grant = draft.grant_of(partition, claim.owner_epoch)
    if grant is None:
        if partition in draft.released:
            return ErrorCode.FENCED_OWNER_EPOCH, "the same request lets go of the partition"
        return ErrorCode.FENCED_OWNER_EPOCH, why_fenced(draft.group, partition, claim.owner_epoch, draft.member_id)
    if grant.stop_why is not None:
        return ErrorCode.REBALANCE_IN_PROGRESS, f"the partition has to be let go: {grant.stop_why}"
    if claim.topic_id != grant.topic_id:
        return ErrorCode.UNKNOWN_TOPIC_ID, f"the partition was granted for topic id {grant.topic_id}"
    if partition in draft.offered:
        return ErrorCode.INVALID_REQUEST, "the same request claims the partition twice"
    running = draft.claim_of(partition)
    if running is not None and running.is_running:
        return (
            ErrorCode.INVALID_REQUEST,
            f"the claim [{running.from_offset}, {running.until_offset}) is still running; finish it first",
        )
    if claim.until_offset <= claim.from_offset:
        return ErrorCode.INVALID_REQUEST, f"{_range(claim)} is empty; claim ranges that hold an offset"
    committed = draft.committed(partition, grant.topic_id)
    if claim.from_offset != committed:
        return (
            ErrorCode.INVALID_REQUEST,
            f"{_range(claim)} does not begin at the committed offset {committed}; claim from there",
        )
    return None


def stop(
    group: GroupState, member_id: str, finals: Iterable[FinalOffset], commit_ms: int
) -> tuple[tuple[ReleasedPart, ...], tuple[CommittedPart, ...], tuple[PartitionResult, ...]]:
    """Decide what letting go of partitions releases and commits, with a result a partition in the order asked.

    A partition that is not the member's under that owner epoch any more is answered alike: it was let go before.
    """
    draft = _Draft(group, member_id, commit_ms)
    results = tuple(_release(draft, final) for final in finals)
    return tuple(draft.released.values()), tuple(draft.finals.values()), results


def statuses(group: GroupState, member_id: str, claims: Sequence[Claim]) -> tuple[ClaimStatus, ...]:
    """Say of each claim whether it is still this member's and open."""
    return tuple(_status(group, member_id, claim) for claim in claims)


def _status(group: GroupState, member_id: str, claim: Claim) -> ClaimStatus:
    partition = (claim.topic, claim.partition)
    offset = group.committed_offset(partition, claim.topic_id)
    grant = group.grant_of(*partition, member_id, claim.owner_epoch)
    if grant is None:
        why = why_fenced(group, partition, claim.owner_epoch, member_id)
        return ClaimStatus(claim.topic, claim.partition, claim.owner_epoch, ClaimState.CLOSED, why, offset)
    found = group.claims.get(partition)
    if found is None or not _is_same_range(found, claim):
        why = _why_not_open(found, claim)
        return ClaimStatus(claim.topic, claim.partition, claim.owner_epoch, ClaimState.CLOSED, why, offset)
    state = ClaimState.RUNNING if found.is_running else ClaimState.OFFERED
    return ClaimStatus(claim.topic, claim.partition, claim.owner_epoch, state, committed=offset)


def _is_same_range(open_claim: OpenClaim | None, claim: Claim) -> bool:
    return open_claim is not None and (open_claim.from_offset, open_claim.until_offset) == (
        claim.from_offset,
        claim.until_offset,
    )


def _why_not_open(open_claim: OpenClaim | None, claim: Claim) -> str:
    if open_claim is None:
        return f"the claim {_range(claim)} is closed: it was committed, dropped or never made"
    return f"the open claim is [{open_claim.from_offset}, {open_claim.until_offset}), not {_range(claim)}"


def _range(claim: Claim) -> str:
    return f"[{claim.from_offset}, {claim.until_offset})"
