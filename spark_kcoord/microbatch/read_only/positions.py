"""The positions of a query that never commits, and what it is told instead of the coordinator's answers.

Claims and commits of the planner end here: nothing is kept for them, and the group's offsets stay where they are. Where
the query is stands in its checkpoint alone: a partition goes on where it has been read to, whatever the group has
committed, and one that moved here starts at the group's offset. Nobody is asked for anything here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatus, PartitionResult
from spark_kcoord.member.core.effects import AdvanceOutcome
from spark_kcoord.member.core.held.holdings import Assignment
from spark_kcoord.microbatch.stream_offset import StreamOffset

__all__ = ["ReadOnlyPositions"]

_UNPLANNED: Final = ErrorCode.CLAIM_NOT_RUNNING


class ReadOnlyPositions:
    """The positions of one query; `first` is the stream offset that it begins with."""

    def __init__(self, first: StreamOffset) -> None:
        self._read_to = {(one.topic, one.topic_id, one.partition): one.until_offset for one in first.ranges}
        self._seen: Assignment | None = None
        self._shown = Assignment()
        self._offered: frozenset[Claim] = frozenset()

    def show(self, found: Assignment) -> Assignment:
        """Return an assignment with each partition where the query is; the same object as long as nothing changes."""
        if found is not self._seen:
            self._seen = found
            self._shown = replace(
                found,
                partitions=tuple(
                    replace(one, start=self._read_to.get((one.topic, one.topic_id, one.partition), one.start))
                    for one in found.partitions
                ),
            )
        return self._shown

    def behind(self, shown: Assignment) -> Assignment | None:
        """Return the assignment that was shown as this one, or None if it is not what was shown last."""
        return self._seen if shown is self._shown else None

    def confirm_claims(self, claims: Sequence[Claim]) -> tuple[ClaimStatus, ...]:
        """Say of every range that it may be read."""
        self._offered = self._offered.difference(claims)
        return tuple(ClaimStatus(one.topic, one.partition, one.owner_epoch, ClaimState.RUNNING) for one in claims)

    def advance(self, finished: Sequence[Claim], claims: Sequence[Claim]) -> AdvanceOutcome:
        """Remember what is finished and let every range be read.

        As with the coordinator, a range is not finished that was not planned after it was offered here. The stream
        offset of claims shows all that is not wanted back, so a partition that nothing was read of keeps its place too.
        """
        done = tuple(
            PartitionResult(one.topic, one.partition, _UNPLANNED if one in self._offered else ErrorCode.NONE)
            for one in finished
        )
        self._read_to.update(
            {
                (one.topic, one.topic_id, one.partition): one.until_offset
                for one, result in zip(finished, done, strict=True)
                if result.error is ErrorCode.NONE
            }
        )
        if finished:
            self._seen = None
        if claims:
            for one in self._shown.partitions:
                if not one.is_stopping:
                    self._read_to.setdefault((one.topic, one.topic_id, one.partition), one.start)
        self._offered = frozenset(claims)
        return AdvanceOutcome(
            claimed=tuple(claims),
            finished=done,
            claims=tuple(PartitionResult(one.topic, one.partition) for one in claims),
            released=(),
        )

    def take_report(self, results: Sequence[PartitionResult]) -> None:
        """Take the coordinator's answer to a report: what it says is gone starts where it is granted anew, or goes on
        where the answer says."""
        gone = {(one.topic, one.partition): one.committed for one in results if one.error is ErrorCode.NONE}
        self._read_to = {key: end for key, end in self._read_to.items() if (key[0], key[2]) not in gone}
        for one in self._shown.partitions:
            goes_on_at = gone.get((one.topic, one.partition))
            if goes_on_at is not None:
                self._read_to[one.topic, one.topic_id, one.partition] = goes_on_at
        self._seen = None
