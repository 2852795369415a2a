"""The pace of a group from two looks and more: records committed and arriving a second, and where that leads. Pure.

A partition counts where both looks knew its offset. One that went back, by a reset, or whose topic was made anew has no
pace between these two; what is not known is None, never 0. Times are arguments, in seconds that only grow.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.protocol.messages import DescribeGroupResponse

WINDOW_S: Final = 10.0
"""The time over which a pace is told: a node reads ends once a second, and queries commit a batch at a time."""
EVEN: Final = 0.05
"""The part of what arrives by which commits may differ from it and still keep pace with it."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Records a second that a group commits and that arrive for it; None where two looks do not tell."""

    committed: float | None = None
    arriving: float | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """The way that a group is on, in words; `caught_up_in_s` is known of one that catches up."""

    words: str
    caught_up_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Step:
    """The records from one look to the next; None where no partition tells."""

    until_s: float
    took_s: float
    committed: int | None
    arrived: int | None


class Pace:
    """The last looks at one group, a bounded number of them."""

    __slots__ = ("_at_s", "_seen", "_steps", "_topic_ids")

    def __init__(self) -> None:
        self._at_s = 0.0
        self._seen: dict[tuple[str, int], tuple[int | None, int | None]] | None = None
        self._steps: deque[_Step] = deque()
        self._topic_ids: Mapping[str, str] = {}

    def see(self, description: DescribeGroupResponse, at_s: float) -> None:
        """Take in a look; one that is not later than the last is passed over."""
        if self._seen is not None and at_s <= self._at_s:
            return
        now = {(one.topic, one.partition): (one.committed, one.end_offset) for one in description.partitions}
        ids = dict(description.topic_ids)
        former = {topic for topic, topic_id in self._topic_ids.items() if ids.get(topic, topic_id) != topic_id}
        if self._seen is not None:
            old = [
                (self._seen[name], seen) for name, seen in now.items() if name in self._seen and name[0] not in former
            ]
            committed = _moved((before[0], after[0]) for before, after in old)
            arrived = _moved((before[1], after[1]) for before, after in old)
            self._steps.append(_Step(at_s, at_s - self._at_s, committed, arrived))
            while len(self._steps) > 1 and self._steps[0].until_s <= at_s - WINDOW_S:
                self._steps.popleft()
        self._at_s, self._seen = at_s, now
        there = {topic for topic, _ in now}
        self._topic_ids = {topic: each for topic, each in {**self._topic_ids, **ids}.items() if topic in there}

    def rates(self) -> Rates:
        """Return the rates over the window, or over the last two looks where these lie further apart."""
        return Rates(
            _rate((step.took_s, step.committed) for step in self._steps),
            _rate((step.took_s, step.arrived) for step in self._steps),
        )


def way_of(lag: int | None, *, is_lag_whole: bool, has_commit: bool, rates: Rates) -> Way | None:
    """Say where a group is on its way to; None where that cannot be told.

    `lag` is over the partitions of which it is known, which are all of those with `is_lag_whole`. A group without a
    committed offset is on no way.
    """
    if not has_commit:
        return Way("no commit")
    if lag is None:
        return None
    if lag == 0 and is_lag_whole:
        return Way("caught up", 0.0)
    committed, arriving = rates.committed, rates.arriving
    if committed is None or arriving is None:
        return None
    if committed == 0 == arriving:
        return Way("still")
    gain = committed - arriving
    if abs(gain) <= EVEN * arriving:
        return Way("keeps pace")
    if gain < 0:
        return Way("falls behind")
    left_s = lag / gain
    return Way(f"catches up in about {duration_text(left_s)}", left_s)


def duration_text(seconds: float) -> str:
    """Write a duration in one unit, as it may be typed where one is asked for: `850ms`, `90s`, `15m`, `5h`, `3d`."""
    if round(seconds * 1000) < 1000:
        return f"{round(seconds * 1000)}ms" if seconds else "0s"
    for least, unit, size in ((172_800, "d", 86_400), (7_200, "h", 3_600), (120, "m", 60)):
        if seconds >= least:
            return f"{round(seconds / size)}{unit}"
    return f"{round(seconds)}s"


def _moved(positions: Iterable[tuple[int | None, int | None]]) -> int | None:
    """Return by how much positions have moved on together; None where none of them is known twice and went on."""
    moves = [after - before for before, after in positions if before is not None and after is not None]
    onward = [move for move in moves if move >= 0]
    return sum(onward) if onward else None


def _rate(steps: Iterable[tuple[float, int | None]]) -> float | None:
    known = [(took_s, moved) for took_s, moved in steps if moved is not None]
    took_s = sum(took_s for took_s, _ in known)
    return sum(moved for _, moved in known) / took_s if took_s > 0 else None
