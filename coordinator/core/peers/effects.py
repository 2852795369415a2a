"""Everything that is wanted of the other nodes, as frozen values, to be performed in their order."""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from coordinator.protocol.peer_messages import PeerMessage
from coordinator.protocol.text.addresses import Address


class PeerAddress(msgspec.Struct, frozen=True):
    """Another node: the addresses of its listener for peers, tried in this order, and the life it is registered in."""

    addresses: tuple[Address, ...]
    node_epoch: int


class ConnectPeers(msgspec.Struct, frozen=True):
    """Be in contact with all of these nodes from now on and with no other; ContactBegan reports each.

    `node_epoch` is the life of this node: under another one than before all contacts end, and begin anew. So does the
    contact with a peer that has registered under a greater node epoch than it had, for that was a former life of it.
    Before the first of these no other node is spoken with.
    """

    node_epoch: int
    peers: Mapping[int, PeerAddress]


class SayToPeer(msgspec.Struct, frozen=True):
    """Say something to another node; void without a contact, and nothing reports that it has arrived.

    Whatever was said in a contact and did not arrive is followed, at both ends, by ContactEnded.
    """

    peer: int
    message: PeerMessage


class EndContact(msgspec.Struct, frozen=True):
    """End the contact with a peer that has said nonsense; ContactEnded reports it, and another one begins."""

    peer: int
    why: str


PeersEffect: TypeAlias = ConnectPeers | SayToPeer | EndContact
