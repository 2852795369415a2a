"""Everything that the rooms of the cluster want done besides asking ZooKeeper, as frozen values.

The order of one step's effects is the order in which they are performed. What is asked of ZooKeeper is in `zookeeper`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from coordinator.core.cluster.znodes import NodeState, ShardEntry
from coordinator.core.cluster.zookeeper import ZkMulti, ZkRead


@dataclass(frozen=True, slots=True)
class JoinedCluster:
    """The cluster that this node is of, to be written into its directory before it registers there (`Remembered`)."""

    cluster_id: str
    shards: int


@dataclass(frozen=True, slots=True)
class RememberSeen:
    """The versions in ZooKeeper are to be in the directory before the next effect: smaller ones are of before.

    `buckets` are the versions of the buckets by number, `node_epoch` that of the last life, None before the first one.
    `lacks` are the shards that this node is to leave as soon as their entries can be read, and before it is registered
    all that it is about to leave. `intended_epoch` is the node epoch that it was about to take last.
    """

    node_epoch: int | None
    buckets: Mapping[int, int]
    lacks: frozenset[int] = frozenset()
    intended_epoch: int | None = None


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


RegistrationEffect: TypeAlias = ZkRead | ZkMulti | JoinedCluster | RememberSeen | LifeBegan | MayNotJoin | Stuck


@dataclass(frozen=True, slots=True)
class TookOffice:
    """This node is the controller, in this epoch, and knows everything; all nodes are told everything (TellNode)."""

    controller_epoch: int


@dataclass(frozen=True, slots=True)
class LeftOffice:
    """This node is not the controller any more: nothing is told in its epoch from now on."""

    why: str


@dataclass(frozen=True, slots=True)
class Published:
    """These entries are in ZooKeeper, and not as they were before; the nodes are told of them (TellNode)."""

    shards: Mapping[int, ShardEntry]


@dataclass(frozen=True, slots=True)
class WishRefused:
    """A shard is not changed as a person wants; one that is is Published as it has become."""

    shard: int
    why: str


@dataclass(frozen=True, slots=True)
class ShardState:
    """A shard of which the node has a replica. `version` is that of its bucket, which a change of the ISR expects.

    `leader_node_epoch` is the life of the leader's node in which it was elected: another life of it does not lead.
    `unclean_epoch` is the leader epoch of the last unclean election, 0 if there was none.
    """

    shard: int
    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    version: int
    leader_node_epoch: int | None
    unclean_epoch: int = 0


@dataclass(frozen=True, slots=True)
class ShardLeader:
    """A shard of which the node has no replica: whom to send its members to."""

    shard: int
    leader: int | None
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ShardStop:
    """A shard of which the node has a replica no longer: it is deleted there, in this leader epoch."""

    shard: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node that lives: where it is, and what a leader checks before it takes it into an in-sync set."""

    node_id: int
    node_epoch: int
    addresses: tuple[tuple[str, str], ...]
    live_version: int
    state: NodeState


@dataclass(frozen=True, slots=True)
class TellNode:
    """Say to a node what is in ZooKeeper and it has not acknowledged; NodeAnswered reports completion.

    A node obeys the greatest controller epoch that it has seen, and what is said to its present node epoch. With
    `is_init` everything is said: what the node has besides, and is not `unreadable`, it moves aside.
    """

    node_id: int
    controller_id: int
    controller_epoch: int
    node_epoch: int
    number: int
    is_init: bool
    states: tuple[ShardState, ...]
    leaders: tuple[ShardLeader, ...]
    stops: tuple[ShardStop, ...]
    unreadable: tuple[int, ...]
    nodes: tuple[NodeInfo, ...]


ControllerEffect: TypeAlias = ZkRead | ZkMulti | TookOffice | LeftOffice | Published | TellNode | Stuck | WishRefused
