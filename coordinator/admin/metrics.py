"""The page /metrics: groups and their partitions as they were seen last, in Prometheus' text.

A survey of the node arrives whole and frozen; what is computed of it and how it is written is done here, on the thread
of the pages, in parts of some milliseconds. What is not known has no line. Of groups and partitions so many have lines
as the settings allow, always the same ones, and how many have none is a line too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import chain
from typing import Final

from coordinator.admin.family_text import CONTENT_TYPE, escape, family_parts
from coordinator.admin.http import Answer
from coordinator.admin.lag import SeenEnds
from coordinator.admin.lag_exporter import OfTopics, lag_exporter_page
from coordinator.admin.shard_metrics import shard_families
from coordinator.admin.status import WINDOW, Commits, Status, group_status
from coordinator.core.requests.survey import ClusterSeen, GroupSeen, PartitionsSeen, Seen, ShardSeen
from coordinator.runtime.figures.family import Family

FAMILIES: Final[Mapping[str, str]] = {
    "kcoord_build_info": "1, with the version of this node.",
    "kcoord_connections": "Connections of members and tools.",
    "kcoord_unwritten_bytes": "Bytes of records that wait for the disk.",
    "kcoord_kafka_reachable": "1 while Kafka answers this node, else 0.",
    "kcoord_survey_timestamp_seconds": "When groups were looked at last.",
    "kcoord_series_left_out": "Groups and partitions without lines, for there are more than the settings allow.",
    "kcoord_group_state": "1, with the state that the group is in.",
    "kcoord_group_members": "Members of the group.",
    "kcoord_group_epoch": "The group epoch.",
    "kcoord_group_state_bytes": "Bytes that the group takes in the account of this node.",
    "kcoord_group_sum_lag": "Records that the group is behind, of partitions whose end is known.",
    "kcoord_group_max_lag": "Records that the partition which is furthest behind is.",
    "kcoord_group_max_lag_seconds": "Time that the partition which is furthest behind is.",
    "kcoord_group_status": "1, with the status by the rules of Burrow: OK, WARN or ERR.",
    "kcoord_group_committed_offset": "The committed offset of a partition.",
    "kcoord_group_lag": "Records between the committed offset and the high watermark.",
    "kcoord_group_lag_seconds": "Time since the high watermark was at the committed offset, interpolated.",
}
"""Every family of groups by name, in the order of the page; all are gauges."""
_LINES: Final = 500
"""Lines of one part of the page."""


@dataclass(slots=True)
class _Partition:
    """The ends and the commits of a partition that surveys saw, in one life of its topic."""

    topic_id: str = ""
    ends: SeenEnds = field(default_factory=SeenEnds)
    commits: Commits = field(default_factory=Commits)


@dataclass(slots=True)
class _Group:
    """A group as a survey saw it, with what follows from it."""

    seen: GroupSeen
    lags: list[int] = field(default_factory=list)
    lags_ms: list[int] = field(default_factory=list)
    statuses: list[Status | None] = field(default_factory=list)


class Metrics:
    """Groups as they were seen last; its methods belong to one thread."""

    def __init__(self, version: str, *, max_groups: int, max_partitions: int, cluster: str = "") -> None:
        """Make it; with the name of a cluster `lag_exporter` has a page too."""
        self._version = version
        self._max_groups = max_groups
        self._max_partitions = max_partitions
        self._known: dict[tuple[str, str, int], _Partition] = {}
        self._values: Mapping[str, Sequence[str]] = _lines_with(version)
        self._families: Sequence[Family] = ()
        self._is_taking = False
        self._cluster = cluster
        self._of_topics = OfTopics()

    def page(self) -> Answer:
        """Answer with what was seen last, and before that, as while a node loads, with which one it is."""
        return Answer(HTTPStatus.OK, chain(_parts(self._values), family_parts(self._families)), CONTENT_TYPE)

    def lag_exporter(self) -> Answer:
        """Answer with the same under the names of kafka-lag-exporter."""
        return lag_exporter_page(self._cluster, self._values, self._of_topics)

    def take(
        self, seen: Sequence[Seen], node: Mapping[str, float], wall_ms: int, families: Sequence[Family] = ()
    ) -> Iterator[None]:
        """Take in a survey, with figures of the node by their names and families beside those of groups and shards.

        It pauses now and then, and is shown once it ends.

        One that comes while another is being taken in is passed over.
        """
        if self._is_taking:
            return
        self._is_taking = True
        try:
            yield from self._take(seen, node, wall_ms)
            whole = [each for each in seen if isinstance(each, ShardSeen | ClusterSeen)]
            self._families = (*families, *shard_families(whole))
        finally:
            self._is_taking = False

    def _take(self, seen: Sequence[Seen], node: Mapping[str, float], wall_ms: int) -> Iterator[None]:
        lines = _lines_with(self._version)
        for name, value in node.items():
            lines[name].append(_line(name, "", value))
        lines["kcoord_survey_timestamp_seconds"].append(_line("kcoord_survey_timestamp_seconds", "", wall_ms / 1000))
        groups: dict[str, _Group] = {}
        before, self._known = self._known, {}
        left_out = 0
        more = OfTopics()
        for one in seen:
            if isinstance(one, ShardSeen | ClusterSeen):
                continue
            if isinstance(one, GroupSeen):
                groups[one.group_id] = _Group(one)
                continue
            group = groups[one.group_id]
            left_out += self._take_partitions(one, group, before, lines, more, wall_ms)
            yield
        for number, group in enumerate(groups.values()):
            if number < self._max_groups:
                _write_group(group, lines)
            if number % _LINES == 0:
                yield
        for of, count in (("groups", max(0, len(groups) - self._max_groups)), ("partitions", left_out)):
            lines["kcoord_series_left_out"].append(_line("kcoord_series_left_out", f'of="{of}"', count))
        self._values, self._of_topics = lines, more

    def _take_partitions(
        self,
        seen: PartitionsSeen,
        group: _Group,
        before: Mapping[tuple[str, str, int], _Partition],
        lines: Mapping[str, list[str]],
        more: OfTopics,
        wall_ms: int,
    ) -> int:
        """Take in some partitions; return how many have no lines."""
        labels = f'group="{escape(seen.group_id)}",topic="{escape(seen.topic)}",partition="'
        left_out = 0
        for number, committed, commit_ms, end in zip(
            seen.partitions, seen.committed, seen.commit_ms, seen.ends, strict=True
        ):
            lag = None if end is None else max(0, end - committed)
            if lag is not None:
                group.lags.append(lag)
            if len(self._known) >= self._max_partitions:
                left_out += 1
                continue
            key = (seen.group_id, seen.topic, number)
            known = self._known[key] = _of_this_life(before.get(key), seen.topic_id)
            of = f'{labels}{number}"'
            lines["kcoord_group_committed_offset"].append(_line("kcoord_group_committed_offset", of, committed))
            if lag is None or end is None:
                continue
            if self._cluster:
                more.see(seen.group_id, seen.topic, number, end, lag)
            known.ends.see(end, wall_ms)
            known.commits.see(committed, lag, commit_ms)
            group.statuses.append(known.commits.status(lag, known.ends.last(WINDOW), wall_ms))
            lines["kcoord_group_lag"].append(_line("kcoord_group_lag", of, lag))
            lag_ms = known.ends.lag_ms(committed, wall_ms)
            if lag_ms is not None:
                group.lags_ms.append(lag_ms)
                lines["kcoord_group_lag_seconds"].append(_line("kcoord_group_lag_seconds", of, lag_ms / 1000))
        return left_out


def _of_this_life(known: _Partition | None, topic_id: str) -> _Partition:
    """Return what was seen of a partition, nothing of that where its topic was deleted and made again since."""
    if known is None or (topic_id and known.topic_id and topic_id != known.topic_id):
        return _Partition(topic_id)
    known.topic_id = topic_id or known.topic_id
    return known


def _write_group(group: _Group, lines: Mapping[str, list[str]]) -> None:
    seen = group.seen
    of = f'group="{escape(seen.group_id)}"'
    figures: dict[str, float | None] = {
        "kcoord_group_members": seen.members,
        "kcoord_group_epoch": seen.group_epoch,
        "kcoord_group_state_bytes": seen.bytes,
        "kcoord_group_sum_lag": sum(group.lags) if group.lags else None,
        "kcoord_group_max_lag": max(group.lags, default=None),
        "kcoord_group_max_lag_seconds": max(group.lags_ms) / 1000 if group.lags_ms else None,
    }
    for name, value in figures.items():
        if value is not None:
            lines[name].append(_line(name, of, value))
    lines["kcoord_group_state"].append(_line("kcoord_group_state", f'{of},state="{escape(seen.state)}"', 1))
    status = group_status(group.statuses)
    if status is not None:
        lines["kcoord_group_status"].append(_line("kcoord_group_status", f'{of},status="{status}"', 1))


def _lines_with(version: str) -> dict[str, list[str]]:
    """Return the lines of each family, of which there is that of the node's version so far."""
    lines: dict[str, list[str]] = {name: [] for name in FAMILIES}
    lines["kcoord_build_info"].append(_line("kcoord_build_info", f'version="{escape(version)}"', 1))
    return lines


def _line(name: str, labels: str, value: float) -> str:
    return f"{name}{{{labels}}} {value}\n" if labels else f"{name} {value}\n"


def _parts(values: Mapping[str, Sequence[str]]) -> Iterator[bytes]:
    for name, lines in values.items():
        if lines:
            yield f"# HELP {name} {FAMILIES[name]}\n# TYPE {name} gauge\n".encode()
        for begin in range(0, len(lines), _LINES):
            yield "".join(lines[begin : begin + _LINES]).encode()
