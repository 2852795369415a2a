"""The picture that the demo shows at one moment, made from what the coordinator answers. Pure.

`Dashboard` remembers only what a single answer cannot tell: the members' names (a dead member is described no more,
but its events still are) and a few seconds of samples, from which the rates come.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from coordinator.client.operating.lag import lag_of
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import ClaimState, PartitionDescription

_RATE_WINDOW_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition: who reads it and how far."""

    partition: int
    owner: str
    committed: int | None
    end: int | None
    lag: int | None
    activity: str
    """`reading [from, until)`, `offered …`, `stopping`, or empty."""


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member of the group."""

    name: str
    state: str
    owned: int
    target: int
    is_connected: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is shown at one moment; rates are a second, over the last few seconds."""

    elapsed_s: float
    act: str
    group_state: str
    group_epoch: int
    members: tuple[MemberRow, ...]
    partitions: tuple[PartitionRow, ...]
    produced: int
    committed: int
    total: int
    produced_rate: float
    committed_rate: float

    @property
    def lag(self) -> int | None:
        """The sum over the partitions, or None when one of them is not known."""
        lags = [row.lag for row in self.partitions]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if lags and len(known) == len(lags) else None


class Dashboard:
    """Turns answers into pictures."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._names: dict[str, str] = {}
        self._samples: deque[tuple[float, int, int]] = deque()

    @property
    def names(self) -> dict[str, str]:
        """Member id -> readable name, of everyone seen so far."""
        return dict(self._names)

    def picture(self, elapsed_s: float, act: str, produced: int, group: DescribeGroupResponse | None) -> Picture:
        """Return the picture of this moment; `group` is None while the coordinator does not know the group."""
        if group is not None:
            self._names.update({member.member_id: member.client_id for member in group.members})
        partitions = tuple(self._row(partition) for partition in group.partitions) if group is not None else ()
        committed = sum(row.committed or 0 for row in partitions)
        self._samples.append((elapsed_s, produced, committed))
        while self._samples[0][0] < elapsed_s - _RATE_WINDOW_S:
            self._samples.popleft()
        return Picture(
            elapsed_s=elapsed_s,
            act=act,
            group_state=group.state if group is not None else "not there yet",
            group_epoch=group.group_epoch if group is not None else 0,
            members=tuple(
                MemberRow(
                    name=member.client_id,
                    state=member.state,
                    owned=member.owned,
                    target=member.target,
                    is_connected=member.connected,
                )
                for member in sorted(group.members if group is not None else (), key=lambda member: member.client_id)
            ),
            partitions=partitions,
            produced=produced,
            committed=committed,
            total=self._total,
            produced_rate=self._rate(1),
            committed_rate=self._rate(2),
        )

    def _row(self, partition: PartitionDescription) -> PartitionRow:
        owner = partition.member_id
        return PartitionRow(
            partition=partition.partition,
            owner="" if owner is None else self._names.get(owner, owner),
            committed=partition.committed,
            end=partition.end_offset,
            lag=lag_of(partition),
            activity=_activity(partition),
        )

    def _rate(self, column: int) -> float:
        first, last = self._samples[0], self._samples[-1]
        seconds = last[0] - first[0]
        return (last[column] - first[column]) / seconds if seconds > 0 else 0.0


def _activity(partition: PartitionDescription) -> str:
    claim = partition.claim
    if claim is not None and partition.claim_state is not None:
        verb = "reading" if partition.claim_state is ClaimState.RUNNING else "offered"
        text = f"{verb} [{claim.from_offset}, {claim.until_offset})"
        return f"{text}, then stops" if partition.is_stopping else text
    return "stopping" if partition.is_stopping else ""
