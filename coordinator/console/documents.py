"""The documents of the API, as JSON has them; pages show the same. OpenAPI is made of these types.

What is not known is null, never 0 or -1. Times are milliseconds since 1970, with names that end in `_ms`.
"""

from typing import Generic, TypeVar

import msgspec

_Row = TypeVar("_Row")


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON object of the API."""


class Failure(Document, frozen=True):
    """The answer to a request that is not done: a word for programs, and a sentence for people."""

    error: str
    message: str


class Rows(Document, Generic[_Row], frozen=True):
    """One page of rows; `total` counts all that the filter lets through, `pages` is at least 1.

    A page beyond the last has no rows.
    `trouble` says why what is shown may be old, and is null while all is heard.
    """

    rows: list[_Row]
    total: int
    page: int
    pages: int
    per_page: int
    as_of_ms: int | None
    trouble: str | None


class Group(Document, frozen=True):
    """A group in the list of groups; what comes after `bytes` is null until it has been described.

    `lag` counts the records between commits and ends where both are known, `unknown` the partitions where they are not.
    `status` is Burrow's word. `as_of_ms` is the time of the description.
    """

    group: str
    state: str
    members: int
    group_epoch: int
    bytes: int
    node: int | None
    partitions: int | None = None
    topics: int | None = None
    lag: int | None = None
    max_lag: int | None = None
    lag_seconds: float | None = None
    unknown: int | None = None
    status: str | None = None
    last_commit_ms: int | None = None
    as_of_ms: int | None = None


class TopicLag(Document, frozen=True):
    """A topic of a group."""

    topic: str
    partitions: int
    lag: int | None
    max_lag: int | None
    lag_seconds: float | None
    unknown: int


class GroupDetails(Document, frozen=True):
    """A group by itself."""

    summary: Group
    assignor: str | None
    reset_policy: str | None
    handover: str | None
    forgotten_in_ms: int | None
    kafka_failure: str | None
    lag_by_topic: list[TopicLag]
    as_of_ms: int | None
    trouble: str | None


class Claim(Document, frozen=True):
    """A range of offsets that is handed to a reader and not committed."""

    from_offset: int
    until_offset: int
    owner_epoch: int
    state: str


class Partition(Document, frozen=True):
    """A partition of a group; `consumer_id` is its owner."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    lag_seconds: float | None
    consumer_id: str | None
    client_id: str | None
    host: str | None
    owner_epoch: int | None
    last_commit_ms: int | None
    status: str | None
    is_stopping: bool
    stream: int | None
    claim: Claim | None


class Member(Document, frozen=True):
    """A member of a group; `assignment` is what it owns, in Kafka's words, and may be cut short.

    `unpolled_ms` is for how long its program had not polled it as of its last ping; of a query it is null.
    """

    consumer_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    pid: int
    state: str
    member_epoch: int
    streams: int
    connected: bool
    partitions: int
    target_partitions: int
    lag: int | None
    commits: bool
    isolation_level: str
    unpolled_ms: int | None
    assignment: str


class Event(Document, frozen=True):
    """An entry of a group's timeline; of many partitions only some are named, `partition_count` counts all."""

    sequence: int
    at_ms: int
    kind: str
    consumer_id: str | None
    group_epoch: int
    partitions: str
    partition_count: int
    duration_ms: int | None
    why: str


class Rebalance(Document, frozen=True):
    """A rebalance: its cause, the partitions that moved, and how long it took until all members held their target.

    `duration_ms` is null while that is not so, and of one that the next rebalance overtook.
    """

    at_ms: int
    group_epoch: int
    why: str
    partition_count: int
    duration_ms: int | None


class Control(Document, frozen=True):
    """A decision of an operator that stands."""

    kind: str
    topic: str | None
    partition: int | None
    consumer_id: str | None
    new_offset: int | None
    who: str
    why: str | None
    at_ms: int


class LagCurve(Document, frozen=True):
    """The lag of a group over the last hour: times in milliseconds since 1970, and the lag at each."""

    at_ms: list[int]
    lag: list[int]


class Topic(Document, frozen=True):
    """A topic that groups read; `partitions` is the most that some group knows of it."""

    topic: str
    partitions: int
    groups: int
    lag: int | None


class TopicGroup(Document, frozen=True):
    """A group of a topic, with its lag there."""

    group: str
    state: str
    members: int
    partitions: int
    lag: int | None
    max_lag: int | None
    lag_seconds: float | None
    status: str | None


class Node(Document, frozen=True):
    """A coordinator node; `why_not_asked` is null if it answered."""

    node_id: int
    address: str | None
    state: str
    why_not_asked: str | None
    is_controller: bool
    leads: int
    replicas: int
    in_sync: int
    node_epoch: int | None
    rack: str | None
    release: str | None


class Shard(Document, frozen=True):
    """A shard of the coordinator; `state` is how it is at its leader, null if that was not asked."""

    shard: int
    state: str | None
    leader: int | None
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    adding: list[int]
    removing: list[int]
    log_end_offset: int | None
    high_watermark: int | None


class Overview(Document, frozen=True):
    """All at once; `described` counts the groups of which more than the name is known.

    What is of the cluster is null for who may not describe it. `troubles` are sentences about the cluster, `trouble`
    says why nothing newer is known, or not everything.
    """

    cluster_id: str | None
    controller: int | None
    controller_epoch: int | None
    replication_factor: int | None
    min_insync_replicas: int | None
    nodes: int | None
    shards: int | None
    groups: int | None
    described: int | None
    members: int | None
    lag: int | None
    by_state: dict[str, int]
    by_status: dict[str, int]
    troubles: list[str]
    unlisted_shards: list[int]
    as_of_ms: int | None
    trouble: str | None


class Setting(Document, frozen=True):
    """A setting of the console as it is in force; a secret is shown as `[hidden]`."""

    name: str
    value: str
    meaning: str


class Change(Document, frozen=True):
    """A message of the stream of changes: the groups that changed since the one before, of many only some.

    With `more` other groups are left out. `is_cluster` says that nodes or shards changed.
    """

    version: int
    as_of_ms: int | None
    groups: list[str]
    more: int
    is_cluster: bool
    trouble: str | None


class Act(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of an act. Without `dry_run: false` nothing is changed, and what would be done is answered.

    `topics` are `topic` or `topic:0,1`, and none stands for all, of a pause for the group as a whole. `to` and `value`
    say where a reset leads: earliest, latest, current, or offset, shift, timestamp and duration with a value. To do
    it, `why` has to say the reason, and `confirm` the group's name where a position may be lost. With `shown` from the
    answer to the dry run such an act is refused where positions or owners have changed since.
    """

    dry_run: bool = True
    why: str = ""
    confirm: str = ""
    topics: list[str] = []
    member: str = ""
    to: str = ""
    value: str = ""
    release_claims: bool = False
    shown: str = ""


class ActRow(Document, frozen=True):
    """A partition that an act is about: its committed offset before and after, what is done, and a remark."""

    topic: str
    partition: int
    old_offset: int | None
    new_offset: int | None
    delta: int | None
    state: str
    remark: str | None


class ActResult(Document, frozen=True):
    """The outcome of an act; of a pause of very many partitions some are not named, which `left_out` counts.

    `shown` stands for what the dry run of an act that may lose positions rests on; to do it, it is sent back.
    """

    group: str
    act: str
    is_dry_run: bool
    summary: str
    rows: list[ActRow]
    left_out: int
    refused: int
    shown: str
