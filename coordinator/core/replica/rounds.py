"""The rounds of a node: one count for all its shards, by which peers say that they still follow.

A decision made while the count stands at N may leave once a round above N is confirmed. A round begins when it is sent,
with records or in a confirmation of its own: one that was answered began after everything decided before it was sent.
One confirmation at a time is on its way to a peer. Nothing here knows a shard; whose fetch an answer counts for, the
leader of that shard decides.
"""

import msgspec
from msgspec.structs import replace


class PeerRounds(msgspec.Struct, frozen=True):
    """The last question to a peer and its last answer, over the connection there is."""

    peer: int
    sent: int = 0
    answered: int = 0
    asked_ms: int = 0

    @property
    def is_asked(self) -> bool:
        """Return whether a confirmation is on its way."""
        return self.sent > self.answered


class Rounds(msgspec.Struct, frozen=True):
    """The count of a node; `begun` is the last round that was sent to anybody."""

    linger_ms: int
    begun: int = 0
    peers: tuple[PeerRounds, ...] = ()

    @property
    def needed(self) -> int:
        """Return the round that a decision of this moment has to wait for: the next one to begin."""
        return self.begun + 1

    def of(self, peer: int) -> PeerRounds:
        """Return what is known of a peer."""
        for known in self.peers:
            if known.peer == peer:
                return known
        return PeerRounds(peer)

    def asking(self, peer: int, now_ms: int) -> tuple["Rounds", int | None]:
        """Return it with a confirmation asked of a peer, and its round; None while the peer is not to be asked.

        It is not while an answer is awaited, and not again within `linger_ms`.
        """
        known = self.of(peer)
        if known.is_asked or (known.sent and now_ms - known.asked_ms < self.linger_ms):
            return self, None
        return self.asking_with_records(peer, now_ms)

    def asking_with_records(self, peer: int, now_ms: int) -> tuple["Rounds", int]:
        """Return it with a round begun by records that are sent to a peer, which answers them once they are synced."""
        begun = self.begun + 1
        asked = PeerRounds(peer, begun, self.of(peer).answered, now_ms)
        return Rounds(self.linger_ms, begun, self._with(asked)), begun

    def answered(self, peer: int, round_: int) -> "Rounds":
        """Return it after a peer has answered a round; an answer to what it was not asked counts for nothing."""
        known = self.of(peer)
        if round_ <= known.answered or round_ > known.sent:
            return self
        answered = PeerRounds(peer, known.sent, round_, known.asked_ms)
        return Rounds(self.linger_ms, self.begun, self._with(answered))

    def disconnected(self, peer: int) -> "Rounds":
        """Return it without a peer, which will answer nothing; the count goes on, so that no round is used twice."""
        return replace(self, peers=tuple(known for known in self.peers if known.peer != peer))

    def _with(self, changed: PeerRounds) -> tuple[PeerRounds, ...]:
        others = [known for known in self.peers if known.peer != changed.peer]
        return tuple(sorted((*others, changed), key=lambda known: known.peer))
