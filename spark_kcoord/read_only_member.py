"""A member that never commits: what `kcoord.commit=false` makes of the member client.

It is assigned partitions as any member, but claims and commits of the planner end here: nothing is kept for it, and
the group's offsets stay where they are. Where the query is stands in its checkpoint alone: a partition goes on where
it has been read to, whatever the group has committed, and one that moved here starts at the group's offset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatus, LostPosition, PartitionResult
from spark_kcoord.driver_session import Member
from spark_kcoord.member.client import AdvanceOutcome, Assignment, Joined
from spark_kcoord.member.holders import Holder
from spark_kcoord.offsets import StreamOffset

__all__ = ["ReadOnlyMember"]

_UNPLANNED: Final = ErrorCode.CLAIM_NOT_RUNNING


class ReadOnlyMember:
    """Stands before a member and answers for the coordinator wherever something would be written.

    `first` is the stream offset that the query begins with.
    """

    def __init__(self, member: Member, first: StreamOffset) -> None:
        self._member = member
        self._read_to = {(one.topic, one.topic_id, one.partition): one.until_offset for one in first.ranges}
        self._seen: Assignment | None = None
        self._shown = Assignment()
        self._offered: frozenset[Claim] = frozenset()

    def join(self) -> Joined:
        """Wait until the member is registered."""
        return self._member.join()

    def assignment(self) -> Assignment:
        """Return what the member owns now, without waiting; the same object as long as nothing changes."""
        return self._show(self._member.assignment())

    def wait_for_assignment(self, *, complete: bool, timeout_s: float) -> Assignment:
        """Wait for any assignment, or for a complete one, and return what there is when time is over."""
        return self._show(self._member.wait_for_assignment(complete=complete, timeout_s=timeout_s))

    def wait_for_change(self, known: Assignment, *, timeout_s: float) -> Assignment:
        """Wait until the assignment is another than the one known, and return what there is when time is over."""
        if self._seen is None or known is not self._shown:
            return self.assignment()
        return self._show(self._member.wait_for_change(self._seen, timeout_s=timeout_s))

    def confirm_claims(self, claims: Sequence[Claim]) -> tuple[ClaimStatus, ...]:
        """Say of every range that it may be read."""
        self._offered = self._offered.difference(claims)
        return tuple(ClaimStatus(one.topic, one.partition, one.owner_epoch, ClaimState.RUNNING) for one in claims)

    def advance(self, finished: Sequence[Claim], claims: Sequence[Claim]) -> AdvanceOutcome:
        """Remember what is finished and let every range be read; the coordinator is not asked.

        As with the coordinator, a range is not finished that was not planned after it was offered here.
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
        self._offered = frozenset(claims)
        return AdvanceOutcome(
            claimed=tuple(claims),
            finished=done,
            claims=tuple(PartitionResult(one.topic, one.partition) for one in claims),
            released=(),
        )

    def report_out_of_range(self, partitions: Sequence[LostPosition]) -> tuple[PartitionResult, ...]:
        """Have partitions start anew by the group's policy, because the brokers do not have their positions."""
        results = self._member.report_out_of_range(partitions)
        gone = {(one.topic, one.partition) for one in results if one.error is ErrorCode.NONE}
        self._read_to = {key: end for key, end in self._read_to.items() if (key[0], key[2]) not in gone}
        self._seen = None
        return results

    def holders(self) -> Mapping[tuple[str, int], Holder]:
        """Ask the coordinator who has each of the group's partitions."""
        return self._member.holders()

    def close(self) -> None:
        """Close the connection; no leave, no commit."""
        self._member.close()

    def _show(self, found: Assignment) -> Assignment:
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
