"""One group as it was seen: what the coordinator said, the lag in records and in time, and health by Burrow's rules.

`Trail` remembers what was seen before, bounded, and is the one thing here that changes. Pure: times are arguments.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from coordinator.admin.lag import SeenEnds
from coordinator.admin.status import Commits, Status, group_status
from coordinator.client.operating.lag import lag_of
from coordinator.console.documents import Group, LagCurve
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import CommittedOffset, GroupSummary, PartitionDescription

CURVE_MS: Final = 3_600_000
"""The time over which the lag of a group is remembered."""
CURVE_STEP_MS: Final = 10_000
"""The least time between two points of it."""
RECENT_ENDS: Final = 2
"""Ends by which it is told that a group has stopped, and was not just at the end."""


class Curve:
    """The lag of one group over the last hour, a point every ten seconds at most."""

    __slots__ = ("_lags", "_times")

    def __init__(self) -> None:
        self._times = array("q")
        self._lags = array("q")

    def see(self, lag: int, at_ms: int) -> None:
        """Take in the lag at a time, which stands for the step that it is in.

        Points of later times are of a clock that was set back since, and no part of the last hour.
        """
        times, lags = self._times, self._lags
        while times and times[-1] > at_ms:
            del times[-1], lags[-1]
        if times and at_ms - times[-1] < CURVE_STEP_MS:
            if len(times) > 1:
                lags[-1] = lag
            return
        times.append(at_ms)
        lags.append(lag)
        while at_ms - times[0] > CURVE_MS:
            del times[0], lags[0]

    def document(self) -> LagCurve:
        """Return the points, oldest first."""
        return LagCurve(at_ms=self._times.tolist(), lag=self._lags.tolist())


@dataclass(slots=True)
class Trail:
    """The past of one group, by partition. A group that is too large to be followed has none (`is_followed`)."""

    is_followed: bool = True
    ends: dict[TopicPartition, SeenEnds] = field(default_factory=dict)
    commits: dict[TopicPartition, Commits] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    """The ids of the topics, where they are known, whose logs these ends and commits are of."""
    curve: Curve = field(default_factory=Curve)


@dataclass(frozen=True, slots=True)
class Measured:
    """The description of a group with what is measured of each partition, in its order."""

    description: DescribeGroupResponse
    lags: Sequence[int | None]
    lags_ms: Sequence[int | None]
    statuses: Sequence[Status | None]
    commits_ms: Sequence[int | None]
    as_of_ms: int


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A group of the picture; `measured` is None until it has been described. `version` is that of its last change."""

    summary: GroupSummary
    node: int | None
    row: Group
    measured: Measured | None
    version: int


def measure(
    description: DescribeGroupResponse, offsets: Sequence[CommittedOffset], trail: Trail, now_ms: int
) -> Measured:
    """Measure a group and remember it in its trail.

    Partitions that it has no more are forgotten, as is what was seen of a topic before it was deleted and made again.
    """
    if trail.is_followed:
        _forget_former_topics(trail, description)
    committed_ms = {(offset.topic, offset.partition): offset.commit_ms for offset in offsets}
    lags: list[int | None] = []
    lags_ms: list[int | None] = []
    statuses: list[Status | None] = []
    commits_ms: list[int | None] = []
    for partition in description.partitions:
        name = (partition.topic, partition.partition)
        lag, commit_ms = lag_of(partition), committed_ms.get(name)
        lag_ms, status = _follow(partition, name, lag, commit_ms, trail, now_ms)
        lags.append(lag)
        commits_ms.append(commit_ms)
        lags_ms.append(lag_ms)
        statuses.append(status)
    if trail.is_followed:
        _forget_others(trail, description)
    known = [lag for lag in lags if lag is not None]
    if known:
        trail.curve.see(sum(known), now_ms)
    return Measured(description, lags, lags_ms, statuses, commits_ms, now_ms)


def lag_seconds(partitions: Iterable[tuple[int | None, int | None]]) -> float | None:
    """Return the longest lag in time of partitions, each given with its lag in records and in milliseconds.

    Partitions that are behind count. Where nothing is known of those, nothing is known of all, and not zero.
    """
    is_some_behind, longest = False, None
    for lag, lag_ms in partitions:
        if lag:
            is_some_behind = True
            if lag_ms:
                longest = max(longest or 0, lag_ms)
        elif lag_ms is not None and longest is None and not is_some_behind:
            longest = 0
    if is_some_behind and not longest:
        return None
    return None if longest is None else longest / 1000


def row_of(summary: GroupSummary, node: int | None, measured: Measured | None) -> Group:
    """Return a group's row in the list."""
    if measured is None:
        return Group(
            group=summary.group_id,
            state=summary.state,
            members=summary.members,
            group_epoch=summary.group_epoch,
            bytes=summary.bytes,
            node=node,
        )
    description = measured.description
    known = [lag for lag in measured.lags if lag is not None]
    return Group(
        group=summary.group_id,
        state=summary.state,
        members=summary.members,
        group_epoch=summary.group_epoch,
        bytes=summary.bytes,
        node=node,
        partitions=len(description.partitions),
        topics=len({partition.topic for partition in description.partitions}),
        lag=sum(known) if known else None,
        max_lag=max(known, default=None),
        lag_seconds=lag_seconds(zip(measured.lags, measured.lags_ms, strict=True)),
        unknown=len(measured.lags) - len(known),
        status=group_status(measured.statuses),
        last_commit_ms=max((at_ms for at_ms in measured.commits_ms if at_ms is not None), default=None),
        as_of_ms=measured.as_of_ms,
    )


def _follow(
    partition: PartitionDescription,
    name: TopicPartition,
    lag: int | None,
    commit_ms: int | None,
    trail: Trail,
    now_ms: int,
) -> tuple[int | None, Status | None]:
    """Return lag in time and health of one partition, from what was seen of it before and now."""
    if not trail.is_followed or partition.end_offset is None:
        return None, None
    ends = trail.ends.get(name)
    if ends is None:
        ends = trail.ends[name] = SeenEnds()
    ends.see(partition.end_offset, now_ms)
    if partition.committed is None or lag is None:
        return None, None
    commits = trail.commits.get(name)
    if commits is None:
        commits = trail.commits[name] = Commits()
    if commit_ms is not None:
        commits.see(partition.committed, lag, commit_ms)
    return ends.lag_ms(partition.committed, now_ms), commits.status(lag, ends.last(RECENT_ENDS), now_ms)


def _forget_former_topics(trail: Trail, description: DescribeGroupResponse) -> None:
    topic_ids = dict(description.topic_ids)
    former = {topic for topic, topic_id in topic_ids.items() if trail.topic_ids.get(topic, topic_id) != topic_id}
    if former:
        trail.ends = {name: ends for name, ends in trail.ends.items() if name[0] not in former}
        trail.commits = {name: commits for name, commits in trail.commits.items() if name[0] not in former}
    there = {partition.topic for partition in description.partitions}
    trail.topic_ids = {topic: each for topic, each in {**trail.topic_ids, **topic_ids}.items() if topic in there}


def _forget_others(trail: Trail, description: DescribeGroupResponse) -> None:
    if max(len(trail.ends), len(trail.commits)) > len(description.partitions):
        there = {(partition.topic, partition.partition) for partition in description.partitions}
        trail.ends = {name: ends for name, ends in trail.ends.items() if name in there}
        trail.commits = {name: commits for name, commits in trail.commits.items() if name in there}
