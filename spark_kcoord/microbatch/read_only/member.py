"""A member that never commits: what `kcoord.commit=false` makes of the member client.

It is assigned partitions as any member; `positions` answers for the coordinator wherever something would be
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import Claim, ClaimStatus, LostPosition, PartitionResult
from spark_kcoord.member.client import AdvanceOutcome, Assignment, Joined
from spark_kcoord.member.holders import Holder
from spark_kcoord.microbatch.query_member import Member
from spark_kcoord.microbatch.read_only.positions import ReadOnlyPositions
from spark_kcoord.microbatch.stream_offset import StreamOffset

__all__ = ["ReadOnlyMember"]


class ReadOnlyMember:
    """Stands before a member; `first` is the stream offset that the query begins with."""

    def __init__(self, member: Member, first: StreamOffset) -> None:
        self._member = member
        self._positions = ReadOnlyPositions(first)

    def join(self) -> Joined:
        """Wait until the member is registered."""
        return self._member.join()

    def assignment(self) -> Assignment:
        """Return what the member owns now, without waiting; the same object as long as nothing changes."""
        return self._positions.show(self._member.assignment())

    def wait_for_assignment(self, *, complete: bool, timeout_s: float) -> Assignment:
        """Wait for any assignment, or for a complete one, and return what there is when time is over."""
        return self._positions.show(self._member.wait_for_assignment(complete=complete, timeout_s=timeout_s))

    def wait_for_change(self, known: Assignment, *, timeout_s: float) -> Assignment:
        """Wait until the assignment is another than the one known, and return what there is when time is over."""
        behind = self._positions.behind(known)
        if behind is None:
            return self.assignment()
        return self._positions.show(self._member.wait_for_change(behind, timeout_s=timeout_s))

    def confirm_claims(self, claims: Sequence[Claim]) -> tuple[ClaimStatus, ...]:
        """Say of every range that it may be read."""
        return self._positions.confirm_claims(claims)

    def advance(self, finished: Sequence[Claim], claims: Sequence[Claim]) -> AdvanceOutcome:
        """Remember what is finished and let every range be read; the coordinator is not asked."""
        return self._positions.advance(finished, claims)

    def report_out_of_range(self, partitions: Sequence[LostPosition]) -> tuple[PartitionResult, ...]:
        """Have partitions start anew by the group's policy, because the brokers do not have their positions."""
        results = self._member.report_out_of_range(partitions)
        self._positions.take_report(results)
        return results

    def holders(self) -> Mapping[TopicPartition, Holder]:
        """Ask the coordinator who has each of the group's partitions."""
        return self._member.holders()

    def close(self) -> None:
        """Close the connection; no leave, no commit."""
        self._member.close()
