"""Everything that is heard of the other nodes, as frozen values; the time is said beside them."""

from typing import TypeAlias

import msgspec

from coordinator.protocol.peer_messages import PeerMessage


class ContactBegan(msgspec.Struct, frozen=True):
    """This node and another one, in this life of it, hear each other from now on; nothing has been said yet."""

    peer: int
    node_epoch: int


class ContactEnded(msgspec.Struct, frozen=True):
    """A contact has ended, and whatever was on its way is lost or will never be answered; once for each ContactBegan.

    The peer may live all the same. It hears the same, sooner or later, before the next contact begins there.
    """

    peer: int
    node_epoch: int
    why: str


class PeerRefused(msgspec.Struct, frozen=True):
    """No process listens at the addresses of a node that is registered in this life: it is dead, or cut off.

    Comes with every attempt, about once a second while it lasts.
    """

    peer: int
    node_epoch: int


class PeerPinged(msgspec.Struct, frozen=True):
    """A node has said that it lives, as it does in a contact when it has had nothing else to say for a while."""

    peer: int
    node_epoch: int


class PeerSaid(msgspec.Struct, frozen=True):
    """A node has said something, in the contact there is; what it says comes in its order."""

    peer: int
    node_epoch: int
    message: PeerMessage


PeersEvent: TypeAlias = ContactBegan | ContactEnded | PeerRefused | PeerPinged | PeerSaid
