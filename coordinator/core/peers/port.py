"""The port to the other nodes: a listener, and a connection to each of them.

Its events go to a callable that is given when it is made, on the event loop's thread, one at a time and never from
within one of its calls. It promises:

- a contact begins when two nodes hear each other, on two connections, and ends with either of them, at both ends;
- in a contact all that one node says comes whole, once and in its order, or the contact ends;
- nothing of one contact comes in a later one, and nothing comes without one;
- a node that is not of this cluster, not expected, of a former life or not a node at all is never in contact;
- a peer that does not read, says nothing for too long or says what cannot be read costs its contact and no other.

Not promised: that what was said has arrived, or that a contact begins or ends at both ends at the same time.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from coordinator.core.peers.effects import ConnectPeers
from coordinator.core.peers.events import PeersEvent
from coordinator.protocol.peer_messages import PeerMessage

Post: TypeAlias = Callable[[PeersEvent], None]


class PeersPort(Protocol):
    """Speaks with the other nodes; none of its calls waits."""

    def connect(self, wanted: ConnectPeers) -> None:
        """Be in contact with these from now on, and with no other."""

    def say(self, peer: int, message: PeerMessage) -> None:
        """Say something, which leaves when the loop's turn is over; void without a contact.

        Raises LocalProtocolError for a message that is larger than a frame may be, which is a bug of the caller.
        """

    def end_contact(self, peer: int, why: str) -> None:
        """End the contact there is, if there is one; another one is begun a little later."""

    def check_deadlines(self, now_ms: int) -> None:
        """Do what is due: ping, give up on whoever is silent, try again. Comes with every tick, as monotonic time."""
