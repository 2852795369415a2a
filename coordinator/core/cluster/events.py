"""Everything that the rooms of the cluster take in besides ZooKeeper's own events, as frozen values.

When it happened is said to `step` beside it, as a monotonic time. ZooKeeper's events are in `zookeeper`.
"""

import enum
from dataclasses import dataclass
from typing import TypeAlias

from coordinator.core.cluster.znodes import NodeState
from coordinator.core.cluster.zookeeper import ZkChanged, ZkMultiDone, ZkNode, ZkReadDone, ZkSession


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed; comes several times a second, whatever else happens."""


# ---- an observer's ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of ZooKeeper that is observed: nodes by their paths, and folders with the nodes in them."""

    nodes: tuple[str, ...]
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadAnew:
    """All that is known was seen to be old and is to be read again, of another scope if one is given."""

    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """This node has written a node, or deleted it (None), with a known outcome; reads from now on are no older."""

    path: str
    node: ZkNode | None


ObserverEvent: TypeAlias = ZkSession | ZkChanged | ZkReadDone | Ticked | ReadAnew | Written


# ---- a registration's ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Remembered:
    """The directory says which cluster it is of: completes JoinedCluster."""


@dataclass(frozen=True, slots=True)
class Obeyed:
    """This node has obeyed a controller of this epoch, the greatest so far; a ZooKeeper behind it is an old one."""

    controller_epoch: int


@dataclass(frozen=True, slots=True)
class StateWanted:
    """This node is to be emptied (DRAINING) or to be given shards (READY) from now on, in this life and the next ones.

    It is said by who stops this process, or by an operator. Whoever stops it (`is_last`) has the last word.
    """

    state: NodeState
    is_last: bool = False


RegistrationEvent: TypeAlias = (
    ZkSession | ZkChanged | ZkReadDone | ZkMultiDone | Ticked | Remembered | Obeyed | StateWanted
)


# ---- a controller's --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Registered:
    """This node has registered under a node epoch, in the session that is connected."""

    node_epoch: int


@dataclass(frozen=True, slots=True)
class NodeRefused:
    """Connections to a live node are refused: its process is dead, whatever ZooKeeper thinks yet."""

    node_id: int
    node_epoch: int


@dataclass(frozen=True, slots=True)
class PeerReached:
    """This node has a connection to a life of another, so that lives."""

    node_id: int
    node_epoch: int


@dataclass(frozen=True, slots=True)
class PeerLost:
    """This node has no connection to a life of another any more, which may live all the same."""

    node_id: int
    node_epoch: int


@dataclass(frozen=True, slots=True)
class NodeAnswered:
    """A node has taken in what it was told, durably as far as it has to be: completes TellNode."""

    node_id: int
    node_epoch: int
    number: int


@dataclass(frozen=True, slots=True)
class ReassignShard:
    """A person wants a shard to have these replicas, the preferred leader first."""

    shard: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GiveBackShard:
    """A person wants a shard to be led by its preferred replica now, without waiting for the next balance."""

    shard: int


@dataclass(frozen=True, slots=True)
class ElectUnclean:
    """A person wants a shard without a leader to be led by a replica that is not in sync, whatever that one lacks.

    It is for the entry of `leader_epoch` alone: whatever else has become of the shard since makes it void.
    """

    shard: int
    node_id: int
    leader_epoch: int


ShardWish: TypeAlias = ReassignShard | GiveBackShard | ElectUnclean


class StepDownReason(enum.Enum):
    """Why a leader does not want to lead a shard any more."""

    STALLED = "its followers or its disk do not keep up"
    CANNOT_LOAD = "it cannot load the shard"
    LACKS_RECORDS = "it lacks records that it had acknowledged"
    SPOILT_EPOCH = "its log did not take records of this epoch: another one begins, under anybody"


@dataclass(frozen=True, slots=True)
class StepDown:
    """A node, in one of its lives, asks to be relieved of a shard that it leads in this epoch.

    `successor` is the member of the in-sync set whose log reaches further than its own, where that is why.
    """

    shard: int
    leader_epoch: int
    reason: StepDownReason
    node_id: int
    node_epoch: int
    successor: int | None = None


ControllerEvent: TypeAlias = (
    ZkSession
    | ZkChanged
    | ZkReadDone
    | ZkMultiDone
    | Ticked
    | Registered
    | PeerReached
    | PeerLost
    | NodeRefused
    | NodeAnswered
    | StepDown
    | ReassignShard
    | GiveBackShard
    | ElectUnclean
)
