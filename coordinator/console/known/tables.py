"""The tables of the console: what is searched, sorted and filtered of each kind of rows.

A group of very many partitions is filtered and sorted by the places of its partitions, so that documents are made of
the chosen page alone.
"""

from typing import Final

from coordinator.admin.status import Status
from coordinator.console.documents import Group, Member, Node, Shard, Topic, TopicGroup
from coordinator.console.known.describing import ranges
from coordinator.console.known.group_seen import Measured
from coordinator.console.known.selection import Table
from coordinator.protocol.parts import GroupEvent
from coordinator.protocol.vocabulary import EventKind, GroupStatus, MemberStatus, ShardStatus

GROUP_STATUSES: Final = (Status.OK, Status.WARN, Status.ERR)
PARTITION_STATUSES: Final = frozenset(str(status) for status in Status if status is not Status.ERR)

GROUPS: Final[Table[Group]] = Table(
    searched=lambda row: row.group,
    keys={
        "group": lambda row: row.group,
        "state": lambda row: row.state,
        "status": lambda row: row.status,
        "members": lambda row: row.members,
        "partitions": lambda row: row.partitions,
        "lag": lambda row: row.lag,
        "lag_seconds": lambda row: row.lag_seconds,
        "last_commit_ms": lambda row: row.last_commit_ms,
        "bytes": lambda row: row.bytes,
    },
    fields={"state": lambda row: row.state, "status": lambda row: row.status or ""},
    words={
        "state": frozenset(str(state) for state in GroupStatus),
        "status": frozenset(str(status) for status in GROUP_STATUSES),
    },
)

MEMBERS: Final[Table[Member]] = Table(
    searched=lambda row: f"{row.consumer_id}\n{row.group_instance_id or ''}\n{row.client_id}\n{row.host}",
    keys={
        "consumer_id": lambda row: row.consumer_id,
        "client_id": lambda row: row.client_id,
        "host": lambda row: row.host,
        "state": lambda row: row.state,
        "partitions": lambda row: row.partitions,
        "lag": lambda row: row.lag,
        "member_epoch": lambda row: row.member_epoch,
        "unpolled_ms": lambda row: row.unpolled_ms,
    },
    fields={"state": lambda row: row.state},
    words={"state": frozenset(str(state) for state in MemberStatus)},
)

EVENTS: Final[Table[GroupEvent]] = Table(
    searched=lambda row: f"{row.member_id}\n{row.why}\n{ranges(row.partitions)}",
    keys={"sequence": lambda row: row.sequence, "duration_ms": lambda row: row.duration_ms},
    fields={"kind": lambda row: row.kind},
    words={"kind": frozenset(str(kind) for kind in EventKind)},
)

TOPICS: Final[Table[Topic]] = Table(
    searched=lambda row: row.topic,
    keys={
        "topic": lambda row: row.topic,
        "partitions": lambda row: row.partitions,
        "groups": lambda row: row.groups,
        "lag": lambda row: row.lag,
    },
    fields={},
    words={},
)

TOPIC_GROUPS: Final[Table[TopicGroup]] = Table(
    searched=lambda row: row.group,
    keys={
        "group": lambda row: row.group,
        "members": lambda row: row.members,
        "partitions": lambda row: row.partitions,
        "lag": lambda row: row.lag,
        "lag_seconds": lambda row: row.lag_seconds,
    },
    fields={"state": lambda row: row.state},
    words={"state": frozenset(str(state) for state in GroupStatus)},
)

NODES: Final[Table[Node]] = Table(
    searched=lambda row: f"{row.node_id}\n{row.address or ''}\n{row.rack or ''}",
    keys={"node_id": lambda row: row.node_id, "leads": lambda row: row.leads, "in_sync": lambda row: row.in_sync},
    fields={},
    words={},
)

SHARDS: Final[Table[Shard]] = Table(
    searched=lambda row: str(row.shard),
    keys={
        "shard": lambda row: row.shard,
        "leader": lambda row: row.leader,
        "leader_epoch": lambda row: row.leader_epoch,
        "high_watermark": lambda row: row.high_watermark,
    },
    fields={"state": lambda row: row.state or ""},
    words={"state": frozenset(str(state) for state in ShardStatus)},
)


def partition_places(measured: Measured) -> Table[int]:
    """Return the table of a group's partitions, whose rows are their places in its description."""
    partitions = measured.description.partitions
    return Table(
        searched=lambda place: partitions[place].topic,
        keys={
            "partition": lambda place: (partitions[place].topic, partitions[place].partition),
            "committed": lambda place: partitions[place].committed,
            "end": lambda place: partitions[place].end_offset,
            "lag": lambda place: measured.lags[place],
            "lag_seconds": lambda place: measured.lags_ms[place],
            "consumer_id": lambda place: partitions[place].member_id,
            "owner_epoch": lambda place: partitions[place].owner_epoch,
            "last_commit_ms": lambda place: measured.commits_ms[place],
            "status": lambda place: measured.statuses[place],
        },
        fields={
            "topic": lambda place: partitions[place].topic,
            "consumer_id": lambda place: partitions[place].member_id or "",
            "status": lambda place: measured.statuses[place] or "",
        },
        words={"status": PARTITION_STATUSES},
    )
