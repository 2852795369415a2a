"""The lag of groups in records, to the high watermark; of what is not known it is unknown, never 0. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from coordinator.protocol.parts import PartitionDescription


def lag_of(partition: PartitionDescription) -> int | None:
    """Return the records between commit and end, both as last known: a commit can be newer than the polled end."""
    if partition.committed is None or partition.end_offset is None:
        return None
    return max(0, partition.end_offset - partition.committed)


@dataclass(frozen=True, slots=True)
class TopicLag:
    """The lag of a group on one topic.

    `lag` and `max_lag`, in records, are over the partitions of which it is known; of the `unknown` ones there is no
    committed offset or no known end. Without a known one `max_lag` is None.
    """

    topic: str
    partitions: int
    lag: int
    max_lag: int | None
    unknown: int


def lag_by_topic(partitions: Iterable[PartitionDescription]) -> tuple[TopicLag, ...]:
    """Return the lag a topic, in the order in which topics come."""
    lags: dict[str, list[int | None]] = {}
    for partition in partitions:
        lags.setdefault(partition.topic, []).append(lag_of(partition))
    found = []
    for topic, mine in lags.items():
        known = [lag for lag in mine if lag is not None]
        found.append(TopicLag(topic, len(mine), sum(known), max(known, default=None), len(mine) - len(known)))
    return tuple(found)
