"""Every message of one node of a cluster to another.

Peers say, nobody asks (docs/decisions/0032): a message is said once, one way, and whatever answers it is a message that
names what it is about. As with members the format only grows: a new field comes last and has a default, a number is
never used again, and a node says nothing that the version in the other's hello does not know.
"""

from typing import Final, TypeAlias

from coordinator.protocol.peer_messages.connection import PeerClosing, PeerHello, PeerPing
from coordinator.protocol.peer_messages.control import (
    NodeAddress,
    NodeAnswered,
    NodeInfo,
    ShardLeader,
    ShardState,
    ShardStop,
    StepDown,
    StepDownReason,
    TellNode,
)
from coordinator.protocol.peer_messages.replication import (
    BelowLogStart,
    Confirm,
    CutRefused,
    Diverged,
    Fenced,
    FetchAnswer,
    FetchSnapshot,
    RecordBatch,
    ReplicaFetch,
    ReplicaFetchAnswer,
    ReplicaProgress,
    ReplicaRecords,
    ReplicaStop,
    ShardProgress,
    ShardRecords,
    SnapshotPiece,
    SnapshotRefused,
    Streaming,
    UnknownEpoch,
)

__all__ = [
    "MAX_FRAME_BYTES",
    "BelowLogStart",
    "Confirm",
    "CutRefused",
    "Diverged",
    "Fenced",
    "FetchAnswer",
    "FetchSnapshot",
    "NodeAddress",
    "NodeAnswered",
    "NodeInfo",
    "PeerClosing",
    "PeerHello",
    "PeerMessage",
    "PeerPing",
    "RecordBatch",
    "ReplicaFetch",
    "ReplicaFetchAnswer",
    "ReplicaProgress",
    "ReplicaRecords",
    "ReplicaStop",
    "ShardLeader",
    "ShardProgress",
    "ShardRecords",
    "ShardState",
    "ShardStop",
    "SnapshotPiece",
    "SnapshotRefused",
    "StepDown",
    "StepDownReason",
    "Streaming",
    "TellNode",
    "UnknownEpoch",
]

MAX_FRAME_BYTES: Final = 17 * 1024 * 1024
"""The largest frame of a peer: the largest piece of a snapshot has 16 MiB."""

PeerMessage: TypeAlias = (
    ReplicaFetch
    | ReplicaProgress
    | ReplicaStop
    | CutRefused
    | FetchSnapshot
    | ReplicaFetchAnswer
    | ReplicaRecords
    | Confirm
    | SnapshotPiece
    | SnapshotRefused
    | TellNode
    | NodeAnswered
    | StepDown
)
"""All that the core of one node says to the core of another."""
