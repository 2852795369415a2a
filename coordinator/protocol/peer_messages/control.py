"""The conversation of the controller with every node: what is in ZooKeeper, and what a leader wants changed there."""

from enum import IntEnum

from coordinator.protocol.messages.message import WireMessage
from coordinator.protocol.peer_messages.ranges import Count, LeaderEpoch, Listed, NodeId, Part, Shard, Text, Why

# ---- of the controller -----------------------------------------------------------------------------------------------


class ShardState(Part, frozen=True):
    """A shard of which the node has a replica; `version` is that of its bucket in ZooKeeper.

    `unclean_epoch` is the leader epoch of the last unclean election, 0 if there was none.
    """

    shard: Shard
    leader: NodeId | None
    leader_epoch: LeaderEpoch
    isr: Listed[NodeId]
    replicas: Listed[NodeId]
    version: Count
    leader_node_epoch: Count | None
    unclean_epoch: LeaderEpoch = 0


class ShardLeader(Part, frozen=True):
    """A shard of which the node has no replica: where to send its members to."""

    shard: Shard
    leader: NodeId | None
    leader_epoch: LeaderEpoch


class ShardStop(Part, frozen=True):
    """A shard of which the node has a replica no longer."""

    shard: Shard
    leader_epoch: LeaderEpoch


class NodeAddress(Part, frozen=True):
    """An address of a node, under the name of what listens there."""

    name: Text
    address: Text


class NodeInfo(Part, frozen=True):
    """A node that lives; `live_version` is that of its registration in ZooKeeper."""

    node_id: NodeId
    node_epoch: Count
    addresses: Listed[NodeAddress]
    live_version: Count
    is_draining: bool


class TellNode(WireMessage, frozen=True, tag=330):
    """All of what is in ZooKeeper that the node has not acknowledged; with `is_init` all that there is.

    It is for the life of the node that `node_epoch` names. `unreadable` are shards of which nothing is known.
    """

    controller_id: NodeId
    controller_epoch: Count
    node_epoch: Count
    number: Count
    is_init: bool
    states: Listed[ShardState]
    leaders: Listed[ShardLeader]
    stops: Listed[ShardStop]
    unreadable: Listed[Shard]
    nodes: Listed[NodeInfo]


# ---- of a node -------------------------------------------------------------------------------------------------------


class NodeAnswered(WireMessage, frozen=True, tag=331):
    """The node has taken in what a controller of this epoch told it under this number."""

    controller_epoch: Count
    number: Count


class StepDownReason(IntEnum):
    """The reasons of a leader that does not want to lead."""

    STALLED = 1
    CANNOT_LOAD = 2
    LACKS_RECORDS = 3
    SPOILT_EPOCH = 4

    @classmethod
    def _missing_(cls, value: object) -> "StepDownReason":
        """Read a reason of a newer node as the one from which nothing but another leader follows."""
        del value
        return cls.STALLED


class StepDown(WireMessage, frozen=True, tag=332):
    """A leader asks to be relieved of a shard that it leads in this epoch; `why` is for people.

    `successor` is the member of the in-sync set whose log reaches further, where that is why.
    """

    shard: Shard
    leader_epoch: LeaderEpoch
    reason: StepDownReason
    why: Why = ""
    successor: NodeId | None = None
