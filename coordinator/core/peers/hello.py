"""The judgement of a hello: whether the node at the other end is one to be in contact with.

Both ends judge, each for itself. A refusal is a whole sentence that both ends log: it names what was said and what
that contradicts, and where a person has to look. Nothing here knows connections.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from coordinator.core.peers.effects import ConnectPeers, PeerAddress
from coordinator.protocol.peer_messages import PeerHello


class Acquaintance(msgspec.Struct, frozen=True):
    """The nodes that are expected, and the greatest node epoch that is known of each node there ever was.

    `node_epoch` is this node's own; None while it is not registered, so that it speaks with nobody.
    """

    cluster_id: str
    node_id: int
    release: str
    node_epoch: int | None = None
    expected: Mapping[int, PeerAddress] = msgspec.field(default_factory=dict)
    lives: Mapping[int, int] = msgspec.field(default_factory=dict)

    def expecting(self, wanted: ConnectPeers) -> "Acquaintance":
        """Return it with these as those who are expected; an epoch smaller than a known one tells nothing new."""
        lives = dict(self.lives)
        for peer, address in wanted.peers.items():
            lives[peer] = max(lives.get(peer, 0), address.node_epoch)
        expected = {peer: address for peer, address in wanted.peers.items() if peer != self.node_id}
        return replace(self, node_epoch=wanted.node_epoch, expected=expected, lives=lives)

    def having_met(self, hello: PeerHello) -> "Acquaintance":
        """Return it with the life of a node that has said an acceptable hello."""
        return replace(self, lives={**self.lives, hello.node_id: hello.node_epoch})

    def own_hello(self, number: int = 0, answers: int = 0) -> PeerHello | None:
        """Return what this node says first, with the number of a connection it opens; None while it has no life."""
        if self.node_epoch is None:
            return None
        return PeerHello(self.cluster_id, self.node_id, self.node_epoch, self.release, number, answers)

    def refusal(self, hello: PeerHello, asked_for: int | None = None) -> str:
        """Say why the other end is not to be spoken with, empty if it is.

        `asked_for` is the node that this one connected to, None where the other end did.
        """
        its_id, ours = hello.node_id, self.node_id
        if hello.cluster_id != self.cluster_id:
            return (
                f"node {its_id} is of cluster {hello.cluster_id!r} and node {ours} of cluster {self.cluster_id!r}: an "
                "address in one of them is wrong"
            )
        if its_id == ours:
            return (
                f"both ends are node {ours}: two nodes have the same node.id, or the address of another node leads back"
            )
        if asked_for is not None and its_id != asked_for:
            return (
                f"node {ours} looked for node {asked_for} and found node {its_id} at its address: one of them names "
                "an address that is not its own"
            )
        if its_id not in self.expected:
            return (
                f"node {ours} does not expect node {its_id}: as far as it has heard that is not registered in "
                "ZooKeeper, which mends itself if it is"
            )
        known = self.lives.get(its_id, 0)
        if hello.node_epoch < known:
            return (
                f"node {its_id} speaks in node epoch {hello.node_epoch} and has been registered in {known} since: this "
                "is a former life of it, which has to register again"
            )
        return ""
