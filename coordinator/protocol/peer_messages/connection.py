"""The words of a connection between two nodes that are about the connection itself. No room of the core hears them."""

from coordinator.protocol.messages.message import WireMessage
from coordinator.protocol.peer_messages.ranges import Count, NodeId, Text, Why


class PeerHello(WireMessage, frozen=True, tag=300):
    """The first word of either end, within its hello: which node of which cluster it is, and in which life.

    Whoever opens a connection says its `number`, which grows with each that it opens, and with `answers` the number of
    the other end's connection that it answers; 0 if it answers none. Whoever accepts one says 0 for both.
    """

    cluster_id: Text
    node_id: NodeId
    node_epoch: Count
    release: Text
    number: Count = 0
    answers: Count = 0


class PeerPing(WireMessage, frozen=True, tag=301):
    """Says that the sender lives, when it has had nothing else to say for a while."""


class PeerClosing(WireMessage, frozen=True, tag=302):
    """The last word before the sender closes the connection by its own will, and why."""

    why: Why
