"""The events of a node of a cluster beside those of any node, as frozen values; when it happened is said beside them.

Every report about a log has the number that the log had when the report became true.
"""

from typing import Final, TypeAlias, TypeGuard

import msgspec

from coordinator.core import events
from coordinator.core.cluster.events import Remembered, StateWanted
from coordinator.core.cluster.zookeeper import ZkEvent
from coordinator.core.log.entry import Batch
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.peers.events import PeersEvent
from coordinator.core.replica.epochs import ReplicaLog
from coordinator.protocol.messages import DescribeCluster, DrainNode, ElectLeaders, ReassignShards


class TurnEnded(msgspec.Struct, frozen=True):
    """All that came together has been taken in: followers are sent what it has appended, before the disk has it.

    It comes before the appends of the turn are handed to the disk, and after everything that was taken in besides.
    """


class LogOpened(msgspec.Struct, frozen=True):
    """A shard's log is open, under the number in it: completes OpenReplica."""

    shard: int
    log: ReplicaLog


class LogSynced(msgspec.Struct, frozen=True):
    """Records below `end` are on disk: completes Append and AppendBatches."""

    shard: int
    end: int
    log_number: int


class LogCut(msgspec.Struct, frozen=True):
    """Completes TruncateLog."""

    shard: int
    log_number: int


class LogInstalled(msgspec.Struct, frozen=True):
    """The leader's snapshot has taken the place of the log: completes the last InstallPiece."""

    shard: int
    end: int
    last_epoch: int
    log_number: int


class PieceWritten(msgspec.Struct, frozen=True):
    """Completes WriteSnapshot; `log_number` is that of the log when the first piece was handed over."""

    shard: int
    end_offset: int
    is_whole: bool
    log_number: int


class LogRead(msgspec.Struct, frozen=True):
    """Completes ReadLog: records from `begin` on, none at the durable end; None below the log's start."""

    shard: int
    follower: int
    leader_epoch: int
    fetch: int
    begin: int
    batches: tuple[Batch, ...] | None


class SnapshotRead(msgspec.Struct, frozen=True):
    """Completes ReadSnapshot: a piece and where the next begins, or None if there is no such snapshot any more."""

    shard: int
    follower: int
    leader_epoch: int
    log_number: int
    position: int
    piece: SnapshotPiece | None
    next_position: int = 0


DiskEvent: TypeAlias = LogOpened | LogSynced | LogCut | LogInstalled | PieceWritten | LogRead | SnapshotRead
Event: TypeAlias = events.Event | TurnEnded | DiskEvent | PeersEvent | ZkEvent | Remembered | StateWanted

_CONNECTIONS: Final = frozenset({events.ConnectionOpened, events.ConnectionClosed})
_ABOUT_THE_CLUSTER: Final = frozenset({DescribeCluster, ReassignShards, ElectLeaders, DrainNode})


def is_of_members(event: Event) -> TypeGuard[events.Event]:
    """Say whether an event is of a connection of members or tools, and no request about the cluster."""
    if type(event) is events.RequestArrived:
        return type(event.request) not in _ABOUT_THE_CLUSTER
    return type(event) in _CONNECTIONS
