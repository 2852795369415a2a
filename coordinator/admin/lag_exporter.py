"""The page /metrics/lag-exporter: lag under the names and labels of kafka-lag-exporter, for boards made for that.

It is made of what /metrics shows, when it is asked for and in parts. Labels of members are `unknown`, as that exporter
has them for a group without members: which member has a partition is not surveyed. What is not known has no line.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import chain, islice
from typing import Final

from coordinator.admin.family_text import CONTENT_TYPE, escape
from coordinator.admin.http import Answer

_LINES: Final = 500
"""Lines of one part of a page."""
_NO_MEMBER: Final = ',member_host="unknown",consumer_id="unknown",client_id="unknown"'
FAMILIES: Final[Mapping[str, tuple[str, str, str]]] = {
    "kafka_consumergroup_group_offset": (
        "kcoord_group_committed_offset",
        _NO_MEMBER,
        "Committed offset.",
    ),
    "kafka_consumergroup_group_lag": ("kcoord_group_lag", _NO_MEMBER, "Records that a partition is behind."),
    "kafka_consumergroup_group_lag_seconds": (
        "kcoord_group_lag_seconds",
        _NO_MEMBER,
        "Time that it is behind.",
    ),
    "kafka_consumergroup_group_max_lag": ("kcoord_group_max_lag", "", "Records that the last partition is behind."),
    "kafka_consumergroup_group_max_lag_seconds": (
        "kcoord_group_max_lag_seconds",
        "",
        "Time that the last partition is behind.",
    ),
    "kafka_consumergroup_group_sum_lag": ("kcoord_group_sum_lag", "", "Records that a group is behind."),
}
"""By the name here: the family of /metrics that it is, labels besides its own, and what it says."""
TOPIC_SUM: Final = "kafka_consumergroup_group_topic_sum_lag"
LATEST: Final = "kafka_partition_latest_offset"


@dataclass(slots=True)
class OfTopics:
    """Figures of a survey that /metrics does not show."""

    lag_of_topic: dict[tuple[str, str], int] = field(default_factory=dict)
    """By group and topic."""
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    """By topic and partition."""

    def see(self, group_id: str, topic: str, number: int, end: int, lag: int) -> None:
        """Take in a partition whose end is known."""
        key = group_id, topic
        self.lag_of_topic[key] = self.lag_of_topic.get(key, 0) + lag
        self.ends[topic, number] = end


def lag_exporter_page(cluster: str, values: Mapping[str, Sequence[str]], seen: OfTopics) -> Answer:
    """Return the page, of the lines of /metrics by their family and of what it does not show."""
    return Answer(HTTPStatus.OK, _parts(f'cluster_name="{escape(cluster)}",', values, seen), CONTENT_TYPE)


def _parts(cluster: str, values: Mapping[str, Sequence[str]], seen: OfTopics) -> Iterator[bytes]:
    for name, (family, more, text) in FAMILIES.items():
        lines = values.get(family, ())
        yield from _family(name, text, (_translated(name, family, cluster, more, line) for line in lines))
    sums = (
        f'{TOPIC_SUM}{{{cluster}group="{escape(group_id)}",topic="{escape(topic)}"}} {lag}\n'
        for (group_id, topic), lag in seen.lag_of_topic.items()
    )
    yield from _family(TOPIC_SUM, "Records that a group is behind in a topic.", sums)
    ends = (
        f'{LATEST}{{{cluster}topic="{escape(topic)}",partition="{number}"}} {end}\n'
        for (topic, number), end in seen.ends.items()
    )
    yield from _family(LATEST, "Offset of the record that comes next in a partition.", ends)


def _translated(name: str, family: str, cluster: str, more: str, line: str) -> str:
    labels, _, value = line[len(family) + 1 :].rpartition("}")
    return f"{name}{{{cluster}{labels}{more}}}{value}"


def _family(name: str, text: str, lines: Iterator[str]) -> Iterator[bytes]:
    first = next(lines, None)
    if first is None:
        return
    yield f"# HELP {name} {text}\n# TYPE {name} gauge\n".encode()
    rest = chain((first,), lines)
    while part := "".join(islice(rest, _LINES)):
        yield part.encode()
