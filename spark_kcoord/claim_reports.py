"""What a query's log says of claims that were not granted, not read or not committed, each with the reason.

Nothing is decided here: somebody else has read such a range or will.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import Claim, ClaimStatus, PartitionResult

__all__ = ["report_not_committed", "report_not_read", "report_refused"]

_log = logging.getLogger(__name__)


def report_not_committed(group_id: str, claim: Claim, result: PartitionResult) -> None:
    """Say that a finished range was not committed."""
    _log.warning(
        "group %s: offsets [%d, %d) of %s-%d were read under owner epoch %d and are not committed: %s "
        "(the group's committed offset is %s)",
        group_id,
        claim.from_offset,
        claim.until_offset,
        claim.topic,
        claim.partition,
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
