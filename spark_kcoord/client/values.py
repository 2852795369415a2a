"""The values that a client returns: frozen, in plain Python types, of one moment. What is not known is None, never 0.

A partition is `(topic, number)`. Offsets and lag count records; ends are exclusive; times are datetimes in UTC, and
durations whole milliseconds, as their names say. States are the words of `kcoord group`: of a group Empty, Assigning,
Recovering, Reconciling, Stable. A newer coordinator may say others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from coordinator.client.operating.lag import TopicLag
from coordinator.protocol.ids import TopicPartition

__all__ = [
    "Claim",
    "CommittedOffset",
    "Control",
    "DeletedGroup",
    "DeletedOffset",
    "DeletedOffsets",
    "Event",
    "Group",
    "GroupDescription",
    "GroupLag",
    "Member",
    "MovedPartitions",
    "Node",
    "Partition",
    "PartitionReset",
    "Reset",
    "Shard",
    "TopicLag",
    "TopicPartition",
]


@dataclass(frozen=True, slots=True)
class Group:
    """One line of the list of groups; `members` counts them, `bytes` is what its state takes of a node."""

    group: str
    state: str
    members: int
    group_epoch: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Member:
    """One member: a query, a batch or a consumer.

    `owned` and `target` count partitions that it has and is to have; `is_drained` says that an operator drained it;
    `unpolled_ms` is for how long a consumer's program had not polled, and None of a query.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    pid: int
    state: str
    member_epoch: int
    streams: int
    is_connected: bool
    is_drained: bool
    owned: int
    target: int
    isolation_level: str
    unpolled_ms: int | None


@dataclass(frozen=True, slots=True)
class Claim:
    """Offsets [from_offset, until_offset) that a query reads under one owner epoch; `state` is OFFERED or RUNNING."""

    from_offset: int
    until_offset: int
    owner_epoch: int
    state: str


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a group.

    `committed` is the next offset that the group reads, `end` the high watermark as last read from Kafka, `lag` the
    records between. `owner` is a member id; `owner_epoch` fences its commits.
    """

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    owner: str | None
    owner_epoch: int | None
    is_stopping: bool
    claim: Claim | None


@dataclass(frozen=True, slots=True)
class Control:
    """Something that an operator decided and that stands.

    `kind` is group-paused, partition-paused, member-drained or reset-pending; the fields that it is not about are None.
    """

    kind: str
    who: str
    reason: str
    at: datetime
    topic: str | None
    partition: int | None
    member_id: str | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members and partitions, and what operators have decided about it.

    `forgotten_in_ms` is when a group without members is forgotten, counted in the coordinator's running time.
    `kafka_failure` says why ends are as they were last read, and is empty when they are not.
    """

    group: str
    state: str
    group_epoch: int
    assignor: str
    handover: str
    members: tuple[Member, ...]
    partitions: tuple[Partition, ...]
    controls: tuple[Control, ...]
    forgotten_in_ms: int | None
    kafka_failure: str
    bytes: int


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of a group in records: of all partitions where it is known, and in `unknown` how many there are else."""

    group: str
    lag: int
    unknown: int
    topics: tuple[TopicLag, ...]


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A committed offset: the next one to read. `topic_id` tells a topic from one that was made again."""

    offset: int
    at: datetime
    metadata: str
    leader_epoch: int | None
    topic_id: str


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a group's timeline; `partitions` are some of the `partition_count` that it is about."""

    sequence: int
    at: datetime
    kind: str
    member_id: str | None
    why: str
    group_epoch: int
    partitions: tuple[TopicPartition, ...]
    partition_count: int
    duration_ms: int | None


@dataclass(frozen=True, slots=True)
class Node:
    """One coordinator node; `why_not_asked` is empty if it answered. `leads`, `replicas`, `in_sync` count shards."""

    node_id: int
    address: str | None
    state: str
    why_not_asked: str
    is_controller: bool
    leads: int
    replicas: int
    in_sync: int
    node_epoch: int | None
    rack: str
    release: str


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard of the group space: the node ids of its leader and replicas; offsets are of its own log.

    `state` is how it is at its leader, None if that was not asked.
    """

    shard: int
    leader: int | None
    leader_epoch: int
    state: str | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    log_end: int | None
    high_watermark: int | None


@dataclass(frozen=True, slots=True)
class MovedPartitions:
    """The outcome of a pause, a resume, a drain or an undrain: the partitions whose owner changes by it.

    Of a large group `partitions` names some of the `count`. With `is_dry_run` it is what would be, and nothing changed.
    """

    group: str
    is_dry_run: bool
    partitions: tuple[TopicPartition, ...]
    count: int


@dataclass(frozen=True, slots=True)
class PartitionReset:
    """One partition of a reset: the committed offset before and after, and `delta`, new less old.

    `state` is set, pending (until its owner has let go), would-set, would-wait, or refused. `error` is the name of the
    coordinator's error code, None where there is none; `remark` says why, or what else is to be known.
    """

    topic: str
    partition: int
    old: int | None
    new: int | None
    delta: int | None
    state: str
    error: str | None
    remark: str


@dataclass(frozen=True, slots=True)
class Reset:
    """The outcome of a reset, a row a partition in the order in which the group has them or they were named."""

    group: str
    is_dry_run: bool
    partitions: tuple[PartitionReset, ...]
    delta: int = field(init=False)
    """The sum of the known deltas: negative when records are read again."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", sum(each.delta or 0 for each in self.partitions))


@dataclass(frozen=True, slots=True)
class DeletedOffset:
    """One partition whose offset is to be deleted: the offset before, and the refusal as in PartitionReset."""

    topic: str
    partition: int
    offset: int | None
    error: str | None
    remark: str


@dataclass(frozen=True, slots=True)
class DeletedOffsets:
    """The outcome of deleting offsets, a row a partition that has one."""

    group: str
    is_dry_run: bool
    partitions: tuple[DeletedOffset, ...]


@dataclass(frozen=True, slots=True)
class DeletedGroup:
    """The outcome of deleting a group; with `is_dry_run` it can be deleted, and is there."""

    group: str
    is_dry_run: bool
