"""The port to the other nodes over TCP: a listener of its own, and one connection to each of them."""

from coordinator.runtime.peers.limits import PeerLimits
from coordinator.runtime.peers.port import Peers

__all__ = ["PeerLimits", "Peers"]
