"""The gates at which effects wait until what they were decided upon may be said: one a shard, moved by its replica.

Everything a shard says was decided on a state that may not be committed yet, by a leader that may have been replaced
without knowing. So each send waits for the end of the log of its moment to be committed, and for a round that began
after it to be confirmed. What waits for one shard leaves in the order in which it came. A gate belongs to one leader
epoch and only opens further within it; when the shard is led no longer it is dropped, and nothing of it is ever said.
On a node that is alone what is on its disk is committed, and no round is needed. Nothing here knows what is in an
effect.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

Sent = TypeVar("Sent")

NO_ROUND: Final = 0
"""The round of what needs no confirmation beside being committed."""


class Wait(NamedTuple):
    """The end of a shard's records that an effect waits for, and the round."""

    shard: int
    end: int
    round: int = NO_ROUND


_Waiting: TypeAlias = tuple[int, int, Sent, tuple[Wait, ...]]
"""The end and the round that are waited for at this gate, the effect, and what else it waits for, at other gates."""


@dataclass(slots=True)
class _Gate(Generic[Sent]):
    """The opening of a shard's gate so far, and the effects that wait at it."""

    leader_epoch: int
    high_watermark: int
    confirmed_round: int = NO_ROUND
    has_others: bool = False
    wanted_round: int = NO_ROUND
    """The greatest round that anything has waited for here."""
    waiting: deque[_Waiting[Sent]] = field(default_factory=deque)
    left: int = 0
    """The number of effects that have left, one way or the other."""
    marks: deque[tuple[int, int]] = field(default_factory=deque)
    """Times at which it was looked how many effects had come by then."""

    def take_out(self, is_void: Callable[[_Waiting[Sent]], bool]) -> list[Sent]:
        """Forget what will never be, and return it."""
        void = [each[2] for each in self.waiting if is_void(each)]
        if void:
            self.left += len(void)
            self.waiting = deque(each for each in self.waiting if not is_void(each))
        return void


class Gates(Generic[Sent]):
    """The gates of the shards that a node leads."""

    __slots__ = ("_asking", "_gates", "_to_look_at", "next_round")

    def __init__(self) -> None:
        self.next_round = NO_ROUND
        """The round that begins next, which whatever is decided now waits for where others might have been elected."""
        self._gates: dict[int, _Gate[Sent]] = {}
        self._to_look_at: set[int] = set()
        self._asking: set[int] = set()
        """The shards at whose gates something waits for a round, or did."""

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
        if gate.waiting:
            self._asking.add(shard)
        gate.high_watermark = max(gate.high_watermark, high_watermark)

    def high_watermark(self, shard: int) -> int:
        """Return the end of a shard's committed records, as far as they are known here."""
        return self._gates[shard].high_watermark

    def ask_others(self, shard: int, *, has_others: bool) -> None:
        """Have what is decided from now on wait for a round, or not: others are, or may be, in the in-sync set."""
        self._gates[shard].has_others = has_others

    def needed_round(self, shard: int) -> int:
        """Return the round that a decision of this moment waits for."""
        return self.next_round if self._gates[shard].has_others else NO_ROUND

    def park(self, shard: int, sends: Sequence[Sent], end: int, round_: int | None = None) -> None:
        """Hold effects of one shard, in their order, until it is committed up to `end` and the round is confirmed.

        Without a round it is the one that is needed now.
        """
        gate = self._gates[shard]
        if round_ is None:
            round_ = self.next_round if gate.has_others else NO_ROUND
        if round_:
            self._ask_for(shard, gate, round_)
        for sent in sends:
            gate.waiting.append((end, round_, sent, ()))
        if end <= gate.high_watermark and round_ <= gate.confirmed_round:
            self._to_look_at.add(shard)

    def park_for_all(self, sent: Sent, waits: tuple[Wait, ...]) -> None:
        """Hold an effect until every one of `waits` is over, each of another shard that is led here."""
        (shard, end, round_), *rest = waits
        gate = self._gates[shard]
        gate.waiting.append((end, round_, sent, tuple(rest)))
        if round_:
            self._ask_for(shard, gate, round_)
        if end <= gate.high_watermark and round_ <= gate.confirmed_round:
            self._to_look_at.add(shard)

    def move(self, shard: int, leader_epoch: int, high_watermark: int, confirmed_round: int | None = NO_ROUND) -> None:
        """Open a shard's gate as far as its replica says; what is said of another epoch is void, and no gate closes.

        Without a round the replica is its whole in-sync set: what waits now needs none. What is decided later does
        once there may be others.
        """
        gate = self._gates.get(shard)
        if gate is None or gate.leader_epoch != leader_epoch:
            return
        gate.high_watermark = max(gate.high_watermark, high_watermark)
        if confirmed_round is None:
            self._excuse(shard)
        else:
            gate.confirmed_round = max(gate.confirmed_round, confirmed_round)
        if gate.waiting:
            self._to_look_at.add(shard)

    def _ask_for(self, shard: int, gate: _Gate[Sent], round_: int) -> None:
        gate.wanted_round = max(gate.wanted_round, round_)
        self._asking.add(shard)

    def _excuse(self, shard: int) -> None:
        """Have nothing that waits for a shard wait for a round of it."""
        self._gates[shard].wanted_round = NO_ROUND
        for number, gate in self._gates.items():
            gate.waiting = deque(
                (
                    end,
                    NO_ROUND if number == shard else round_,
                    sent,
                    tuple(wait._replace(round=NO_ROUND) if wait.shard == shard else wait for wait in rest),
                )
                for end, round_, sent, rest in gate.waiting
            )

    def wanted_rounds(self) -> list[tuple[int, int]]:
        """Return the shards at whose gates something waits for a round, each with the greatest one of these."""
        if not self._asking:
            return []
        wanted = []
        for shard in sorted(self._asking):
            gate = self._gates.get(shard)
            if gate is None or not gate.waiting or gate.wanted_round <= gate.confirmed_round:
                self._asking.discard(shard)
            else:
                wanted.append((shard, gate.wanted_round))
        return wanted

    def waiting_since(self, shard: int, now_ms: int) -> int | None:
        """Return about since when the oldest effect that waits at a shard's gate does; None if none does.

        It is as exact as this is asked often: an effect counts from the first time it was seen.
        """
        gate = self._gates[shard]
        come = gate.left + len(gate.waiting)
        if not gate.marks or come > gate.marks[-1][1]:
            gate.marks.append((now_ms, come))
        while gate.marks and gate.marks[0][1] <= gate.left:
            gate.marks.popleft()
        return gate.marks[0][0] if gate.waiting else None

    def release(self) -> list[Sent]:
        """Take out what may be said, in order."""
        released: list[Sent] = []
        while self._to_look_at:
            shard = min(self._to_look_at)
            self._to_look_at.discard(shard)
            gate = self._gates[shard]
            waiting, end, confirmed = gate.waiting, gate.high_watermark, gate.confirmed_round
            while waiting:
                its_end, its_round, sent, rest = waiting[0]
                if its_end > end or its_round > confirmed:
                    break
                waiting.popleft()
                gate.left += 1
                if rest:
                    self.park_for_all(sent, rest)
                else:
                    released.append(sent)
        return released

    def cut(self, shard: int, end: int) -> list[Sent]:
        """Forget what waits, at any gate, for records of a shard from `end` on, which will never be; returns it."""
        gate = self._gates.get(shard)
        dropped = [] if gate is None else gate.take_out(lambda each: each[0] > end)
        for other in self._gates.values():
            dropped += other.take_out(lambda each: any(wait.shard == shard and wait.end > end for wait in each[3]))
        return dropped

    def drop(self, shard: int) -> list[Sent]:
        """Forget a shard's gate, and return what waited for it, also at the gates of others: it is never said."""
        gate = self._gates.pop(shard, None)
        self._to_look_at.discard(shard)
        dropped = [] if gate is None else [sent for _, _, sent, _ in gate.waiting]
        for other in self._gates.values():
            dropped += other.take_out(lambda each: any(wait.shard == shard for wait in each[3]))
        return dropped

    def drop_all(self) -> None:
        """Forget everything that waits: it will never be said."""
        for gate in self._gates.values():
            gate.waiting.clear()
