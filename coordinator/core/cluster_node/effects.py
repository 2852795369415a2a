"""The effects of a node of a cluster beside those of any node, as frozen values, in the order of a step's."""

from typing import TypeAlias

import msgspec

from coordinator.core import effects
from coordinator.core.cluster.effects import JoinedCluster, RememberSeen
from coordinator.core.cluster.zookeeper import ZkEffect
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.peers.effects import PeersEffect
from coordinator.core.replica.effects import AppendBatches, DropReplica, OpenReplica, Remember, TruncateLog


class LoadLog(msgspec.Struct, frozen=True):
    """Read the log of a shard that is led here below `end`, after a pause; appends above that go on meanwhile.

    ShardRecovered or ShardUnreadable reports completion, under this epoch; nothing does if the log is cut meanwhile.
    """

    shard: int
    leader_epoch: int
    end: int
    after_ms: int = 0


class ReadLog(msgspec.Struct, frozen=True):
    """Read durable records for a follower; LogRead reports completion."""

    shard: int
    follower: int
    leader_epoch: int
    fetch: int
    begin: int
    most_bytes: int


class ReadSnapshot(msgspec.Struct, frozen=True):
    """Read a piece of the snapshot that ends at `end`, or of the newest one; SnapshotRead reports completion."""

    shard: int
    follower: int
    leader_epoch: int
    log_number: int
    end: int | None
    position: int


class InstallPiece(msgspec.Struct, frozen=True):
    """Take a piece of the leader's snapshot; LogInstalled reports completion of the last."""

    shard: int
    log_number: int
    piece: SnapshotPiece


class GiveUpInstall(msgspec.Struct, frozen=True):
    """Forget the pieces so far: no more of them come."""

    shard: int


DiskEffect: TypeAlias = (
    OpenReplica
    | DropReplica
    | AppendBatches
    | TruncateLog
    | Remember
    | JoinedCluster
    | RememberSeen
    | LoadLog
    | ReadLog
    | ReadSnapshot
    | InstallPiece
    | GiveUpInstall
)
Effect: TypeAlias = effects.Effect | DiskEffect | PeersEffect | ZkEffect
