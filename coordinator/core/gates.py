"""Where effects wait until what they were decided upon may be said: a gate a shard, which its replica moves.

Everything a shard says was decided on a state that may not be committed yet, by a leader that may have been replaced
without knowing. So each send waits for the end of the log of its moment to be committed, and for a round that began
after it to be confirmed. What waits for one shard leaves in the order in which it came. A gate belongs to one leader
epoch and only opens further within it; when the shard is led no longer it is dropped, and nothing of it is ever said.
Nothing here knows what is in an effect.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

Sent = TypeVar("Sent")

NO_ROUND: Final = 0
"""The round of what needs no confirmation beside being committed."""


class Wait(NamedTuple):
    """What an effect waits for in one shard: its log committed up to `end`, and a round confirmed."""

    shard: int
    leader_epoch: int
    end: int
    round: int = NO_ROUND


@dataclass(slots=True)
class _Gate(Generic[Sent]):
    """How far a shard's gate is open, and what waits at it, with what else that waits for."""

    leader_epoch: int
    high_watermark: int
    confirmed_round: int = NO_ROUND
    waiting: deque[tuple[Wait, Sent, tuple[Wait, ...]]] = field(default_factory=deque)

    def lets(self, wait: Wait) -> bool:
        return wait.end <= self.high_watermark and wait.round <= self.confirmed_round


class Gates(Generic[Sent]):
    """The gates of the shards that a node leads."""

    __slots__ = ("_gates", "_to_look_at")

    def __init__(self) -> None:
        self._gates: dict[int, _Gate[Sent]] = {}
        self._to_look_at: set[int] = set()

    def __len__(self) -> int:
        return sum(len(gate.waiting) for gate in self._gates.values())

    def begin(self, shard: int, leader_epoch: int, high_watermark: int) -> None:
        """Make a shard's gate for an epoch that begins; what waits at the one before goes on to wait.

        That is so only for a leader that goes on: whoever was not the leader has dropped its gate or never had one.
        Rounds begin anew, for whoever confirmed in the former epoch has not said that it knows of no later one.
        """
        gate = self._gates.get(shard)
        if gate is None:
            self._gates[shard] = _Gate(leader_epoch, high_watermark)
            return
        assert leader_epoch > gate.leader_epoch, "leader epochs only grow"
        gate.leader_epoch, gate.confirmed_round = leader_epoch, NO_ROUND
        gate.high_watermark = max(gate.high_watermark, high_watermark)
        gate.waiting = deque(
            (wait._replace(leader_epoch=leader_epoch), sent, rest) for wait, sent, rest in gate.waiting
        )

    def high_watermark(self, shard: int) -> int:
        """Return the end of a shard's committed records, as far as they are known here."""
        return self._gates[shard].high_watermark

    def park(self, sent: Sent, waits: tuple[Wait, ...]) -> bool:
        """Hold an effect until every one of `waits` is over; False if one is of an epoch that is, so it is void."""
        assert waits, "an effect that waits for nothing need not be held"
        first = waits[0]
        gate = self._gates.get(first.shard)
        if gate is None or gate.leader_epoch != first.leader_epoch:
            return False
        gate.waiting.append((first, sent, waits[1:]))
        if gate.lets(first):
            self._to_look_at.add(first.shard)
        return True

    def move(self, shard: int, leader_epoch: int, high_watermark: int, confirmed_round: int) -> None:
        """Open a shard's gate as far as its replica says; what is said of another epoch is void, and no gate closes."""
        gate = self._gates.get(shard)
        if gate is None or gate.leader_epoch != leader_epoch:
            return
        gate.high_watermark = max(gate.high_watermark, high_watermark)
        gate.confirmed_round = max(gate.confirmed_round, confirmed_round)
        self._to_look_at.add(shard)

    def release(self) -> tuple[list[Sent], list[Sent]]:
        """Take out what may be said, in order, and what turned out to wait for an epoch that is over elsewhere."""
        released: list[Sent] = []
        void: list[Sent] = []
        while self._to_look_at:
            shard = min(self._to_look_at)
            self._to_look_at.discard(shard)
            gate = self._gates.get(shard)
            while gate is not None and gate.waiting and gate.lets(gate.waiting[0][0]):
                _, sent, rest = gate.waiting.popleft()
                if not rest:
                    released.append(sent)
                elif not self.park(sent, rest):
                    void.append(sent)
        return released, void

    def drop(self, shard: int) -> list[Sent]:
        """Forget a shard's gate, and return what waited for it, also behind the gates of others: it is never said."""
        gate = self._gates.pop(shard, None)
        dropped = [] if gate is None else [sent for _, sent, _ in gate.waiting]
        for other in self._gates.values():
            kept: deque[tuple[Wait, Sent, tuple[Wait, ...]]] = deque()
            for waiting in other.waiting:
                if any(wait.shard == shard for wait in waiting[2]):
                    dropped.append(waiting[1])
                else:
                    kept.append(waiting)
            other.waiting = kept
        return dropped
