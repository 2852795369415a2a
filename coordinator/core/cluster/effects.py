"""Everything that the rooms of the cluster want done besides asking ZooKeeper, as frozen values.

The order of one step's effects is the order in which they are performed. What is asked of ZooKeeper is in `zookeeper`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from coordinator.core.cluster.znodes import ShardEntry
from coordinator.core.cluster.zookeeper import ZkMulti, ZkRead


@dataclass(frozen=True, slots=True)
class JoinedCluster:
    """The cluster that this node is of, to be written into its directory before it registers there (`Remembered`)."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class LifeBegan:
    """The node is registered: whatever is asked of another node epoch is not for it."""

    node_epoch: int


@dataclass(frozen=True, slots=True)
class MayNotJoin:
    """The node has to stop, and a person has to look: `why` names what contradicts what."""

    why: str


@dataclass(frozen=True, slots=True)
class Stuck:
    """Something in ZooKeeper keeps this room from a part of its work, and only a person can put it right.

    `whys` name each; they are said when they change, and none of them when all is well again. What can be done without
    them is done, and the rest is tried again.
    """

    whys: tuple[str, ...]


RegistrationEffect: TypeAlias = ZkRead | ZkMulti | JoinedCluster | LifeBegan | MayNotJoin | Stuck


@dataclass(frozen=True, slots=True)
class TookOffice:
    """This node is the controller, in this epoch, and knows everything: all nodes are to be told everything (INIT)."""

    controller_epoch: int


@dataclass(frozen=True, slots=True)
class LeftOffice:
    """This node is not the controller any more: nothing is told in its epoch from now on."""

    why: str


@dataclass(frozen=True, slots=True)
class Published:
    """These entries are in ZooKeeper: to be told to their replicas, and with the next metadata to everybody."""

    shards: Mapping[int, ShardEntry]


@dataclass(frozen=True, slots=True)
class ReassignmentRefused:
    """A shard cannot be given the replicas that were asked for; one that can is Published with them."""

    shard: int
    why: str


ControllerEffect: TypeAlias = ZkRead | ZkMulti | TookOffice | LeftOffice | Published | Stuck | ReassignmentRefused
