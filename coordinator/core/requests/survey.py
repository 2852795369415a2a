"""Everything that a node leads, told a little at a time, for metrics.

Other steps come between two pieces: a group that has gone meanwhile is passed over, each piece is of its own time.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import msgspec

from coordinator.core.groups.describe import end_for
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.account import bytes_of
from coordinator.core.groups.hard.tables.committed_table import positions
from coordinator.core.groups.status import group_status

PIECE: Final = 250
"""Partitions of one piece: less than half a millisecond of work."""


class GroupSeen(msgspec.Struct, frozen=True, gc=False):
    """A group; its partitions with committed offsets follow it."""

    group_id: str
    state: str
    group_epoch: int
    members: int
    bytes: int


class PartitionsSeen(msgspec.Struct, frozen=True, gc=False):
    """Partitions of a topic with their committed offsets, when these were committed, and their ends where known."""

    group_id: str
    topic: str
    partitions: tuple[int, ...]
    committed: tuple[int, ...]
    commit_ms: tuple[int, ...]
    ends: tuple[int | None, ...]
    topic_id: str = ""
    """Kafka's id that the topic has now, where it is known; the ends are of its logs."""


class ShardSeen(msgspec.Struct, frozen=True, gc=False):
    """A shard that is led here: how far its log is, and how many replicas it has, are in sync and have to be."""

    shard: int
    leader_epoch: int
    high_watermark: int
    log_end: int
    in_sync: int
    replicas: int
    min_in_sync: int
    is_stalled: bool = False


class ClusterSeen(msgspec.Struct, frozen=True, gc=False):
    """The cluster of a node; None is what it does not know, as all but the controller do of shards without a leader."""

    is_controller: bool
    hears_zookeeper: bool
    is_registered: bool
    nodes: int | None
    offline_shards: int | None


Seen: TypeAlias = GroupSeen | PartitionsSeen | ShardSeen | ClusterSeen


def survey(desk_of: Callable[[], Desk]) -> Iterator[Seen]:
    """Yield the groups of a shard, each with its partitions; `desk_of` returns the desk as it is at the time."""
    for group_id in list(desk_of().journal.state.groups):
        desk = desk_of()
        group = desk.journal.state.groups.get(group_id)
        if group is None:
            continue
        status = group_status(group, desk.soft.get(group_id))
        yield GroupSeen(group_id, str(status), group.group_epoch, len(group.members), bytes_of(group))
        for topic in list(group.offsets.topics()):
            numbers = sorted(group.offsets.rows(topic))
            for begin in range(0, len(numbers), PIECE):
                yield _piece(desk_of(), group_id, topic, numbers[begin : begin + PIECE])


def _piece(desk: Desk, group_id: str, topic: str, numbers: list[int]) -> PartitionsSeen:
    group = desk.journal.state.groups.get(group_id)
    rows = {} if group is None else group.offsets.rows(topic)
    there = [number for number in numbers if number in rows]
    return PartitionsSeen(
        group_id,
        topic,
        tuple(there),
        tuple([position[0] for position in positions(rows, there) if position is not None]),
        tuple([rows[number].commit_ms for number in there]),
        tuple([end_for(desk, topic, number, rows[number]) for number in there]),
        "" if group is None else desk.topic_id_now(group, topic),
    )
