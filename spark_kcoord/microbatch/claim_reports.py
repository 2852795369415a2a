"""Reports of claims that were not granted, not read, not committed or nearly too late: a line in the query's log, and
where it goes on. Somebody else has read such a range or will, or it is read again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import Claim, ClaimStatus, PartitionResult
from spark_kcoord.member.core.held.holdings import AssignedPartition

__all__ = [
    "report_long_batch",
    "report_not_committed",
    "report_not_read",
    "report_refused",
    "report_where_group_wins",
    "told_positions",
]

_log = logging.getLogger(__name__)


def report_long_batch(group_id: str, seconds: float, timeout_s: float) -> None:
    """Say that a micro-batch took so long that its claims may be taken over before it is done."""
    _log.warning(
        "group %s: from the planning of the last micro-batch to the next trigger it took %.0f s, more than "
        "half of the %.0f s (option 'kcoord.rebalance.timeout') after which its partitions are given to "
        "others and read again: raise the option, or make batches and the trigger interval shorter",
        group_id,
        seconds,
        timeout_s,
    )


def report_not_committed(group_id: str, claim: Claim, result: PartitionResult, *, was_read: bool) -> None:
    """Say that a finished range was not committed, and whether this process has had it read."""
    _log.warning(
        "group %s: offsets [%d, %d) of %s-%d were %s under owner epoch %d and are not committed: %s "
        "(the group's committed offset is %s)",
        group_id,
        claim.from_offset,
        claim.until_offset,
        claim.topic,
        claim.partition,
        "read" if was_read else "claimed",
        claim.owner_epoch,
        result.message or result.error.name,
        result.committed,
    )


def report_refused(group_id: str, claims: Sequence[Claim], results: Sequence[PartitionResult]) -> None:
    """Say which ranges could not be claimed."""
    for claim, result in zip(claims, results, strict=True):
        if result.error is ErrorCode.NONE:
            continue
        _log.log(
            logging.INFO if result.error is ErrorCode.REBALANCE_IN_PROGRESS else logging.WARNING,
            "group %s: %s-%d is left out of the next micro-batch: %s",
            group_id,
            claim.topic,
            claim.partition,
            result.message or result.error.name,
        )


def told_positions(
    claims: Sequence[Claim], results: Sequence[PartitionResult]
) -> Iterator[tuple[tuple[str, int, int], int]]:
    """Yield where partitions go on whose claims did not begin at the group's offset, by topic, number and owner epoch.

    The group's offset wins, also where it is behind: a coordinator's disk that was restored from an old copy has the
    same grant and an older offset, and what lies between is read again.
    """
    for claim, result in zip(claims, results, strict=True):
        is_refused = result.error is ErrorCode.INVALID_REQUEST
        if is_refused and result.committed is not None and result.committed != claim.from_offset:
            yield (claim.topic, claim.partition, claim.owner_epoch), result.committed


def report_not_read(group_id: str, claim: Claim, status: ClaimStatus) -> None:
    """Say that a claimed range is left out of its micro-batch."""
    _log.warning(
        "group %s: offsets [%d, %d) of %s-%d are not read in this micro-batch: %s (the group's committed offset is %s)",
        group_id,
        claim.from_offset,
        claim.until_offset,
        claim.topic,
        claim.partition,
        status.why or "the claim is closed",
        status.committed,
    )


def report_where_group_wins(group_id: str, ranges: Iterable[Claim], owned: Iterable[AssignedPartition]) -> None:
    """Say which partitions start somewhere else than a checkpoint's ranges end."""
    known = {(item.topic, item.partition): item for item in ranges}
    for one in owned:
        item = known.get((one.topic, one.partition))
        if item is None or item.owner_epoch == one.owner_epoch or item.until_offset == one.start:
            continue
        _log.warning(
            "group %s: %s-%d starts at the group's committed offset %d and not at the checkpoint's %d, because "
            "the group's offset counts",
            group_id,
            one.topic,
            one.partition,
            one.start,
            item.until_offset,
        )
