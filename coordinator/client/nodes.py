"""The coordinator nodes that may be tried: the next one, the time to wait before it and at it, and the trouble at each.

A node that is silent may be gone, or busy with a crowd of members who all lost the same node. Whoever gives it up too
soon makes it begin again, and where all do, nobody ever gets in. So a node that was silent is given twice the time when
it is tried again, and is passed over for a while where there are others.

The next node is always the one that was left longest ago, so that every one has its turn whatever is learned on the
way. Of those that were not tried yet the coordinator's successors come first, as it named them when it let the member
in.

Candidates are the addresses the member was given, those it remembers from before, and every one a coordinator has named
since: a cluster may have moved node by node while the member was not looking. It knows no sockets and draws no chance
of its own: jitter comes in as a callable returning a number in [0, 1).
"""

from collections.abc import Callable, Iterable
from typing import Final

from coordinator.protocol.text.addresses import Address, format_address

BACKOFF_MIN_MS: Final = 50
BACKOFF_MAX_MS: Final = 1_000
MOST_SILENCES: Final = 3
"""Silences of a node that count: by then it is given eight times as long, and passed over seven times."""
MAX_LEARNED: Final = 50
"""Addresses that are remembered besides those given."""


class Nodes:
    """The candidates of one member."""

    __slots__ = (
        "_attempts",
        "_candidates",
        "_departures",
        "_given",
        "_jitter",
        "_learned",
        "_left",
        "_rests",
        "_silences",
        "_successors",
        "_troubles",
        "_turns",
        "current",
    )

    def __init__(
        self, given: Iterable[Address], jitter: Callable[[], float], *, remembered: Iterable[Address] = ()
    ) -> None:
        self._given = tuple(dict.fromkeys(given))
        self._learned: tuple[Address, ...] = ()
        self._keep(remembered)
        self._candidates = [*self._given, *self._learned]
        self.current = self._candidates[0]
        """The address to connect to now."""
        self._successors: tuple[Address, ...] = ()
        self._turns = 0
        self._left: dict[Address, int] = {}
        """The number of the turn in which each node was left or passed over last."""
        self._jitter = jitter
        self._attempts = 0
        self._departures = 0
        """Nodes that were left since the last one served."""
        self._troubles: dict[Address, str] = {}
        self._silences: dict[Address, int] = {}
        self._rests: dict[Address, int] = {}
        """The times that each silent node is passed over from now on."""

    @property
    def candidates(self) -> tuple[Address, ...]:
        """Every address worth trying, those given first."""
        return tuple(self._candidates)

    @property
    def in_order(self) -> tuple[Address, ...]:
        """Every address worth trying, the current one first, for who asks something else of the same nodes."""
        return tuple(dict.fromkeys((self.current, *self._candidates)))

    @property
    def is_alone(self) -> bool:
        """True while there is no other address than the current one."""
        return len(self._candidates) == 1

    @property
    def learned(self) -> tuple[Address, ...]:
        """The addresses that coordinators have named besides those given, those named last first."""
        return self._learned

    def learn(self, named: Iterable[Address]) -> None:
        """Add the nodes a coordinator has named; of those named before the oldest are forgotten when there are many."""
        self._keep((*named, *self._learned))
        self._candidates = list(dict.fromkeys((*self._given, *self._learned, self.current)))
        self._left = {address: turn for address, turn in self._left.items() if address in self._candidates}

    def expect(self, successors: Iterable[Address]) -> None:
        """Try these next, in this order, once the current node is lost; the others come after them as they would."""
        self._successors = tuple(successors)
        for address in self._successors:
            self._left.pop(address, None)

    def follow_on(self, successors: Iterable[Address]) -> None:
        """Expect these to follow the coordinator that serves now; some of them may not have been named before."""
        named = tuple(successors)
        self.learn(named)
        self.expect(named)

    def _keep(self, named: Iterable[Address]) -> None:
        self._learned = tuple(address for address in dict.fromkeys(named) if address not in self._given)[:MAX_LEARNED]

    def choose(self, address: Address) -> None:
        """Make this address the current one."""
        if address not in self._candidates:
            self._candidates.append(address)
        self._leave(self.current)
        self.current = address

    def _leave(self, address: Address) -> None:
        self._turns += 1
        self._left[address] = self._turns

    def note_trouble(self, why: str, *, is_elsewhere_better: bool, was_silent: bool = False) -> None:
        """Remember what went wrong at the current address, and turn to the next one if that may help."""
        current = self.current
        self._troubles.pop(current, None)
        self._troubles[current] = why
        if was_silent:
            self._silences[current] = min(self._silences.get(current, 0) + 1, MOST_SILENCES)
            self._rests[current] = (1 << self._silences[current]) - 1
        if is_elsewhere_better:
            self._leave(current)
            self.current = self._following()

    def _following(self) -> Address:
        """Return the next node that does not rest, or the next one where all do."""
        expected = [address for address in self._successors if address in self._candidates]
        line = sorted(dict.fromkeys((*expected, *self._candidates)), key=lambda address: self._left.get(address, 0))
        for address in line:
            rest = self._rests.get(address, 0)
            if not rest:
                return address
            self._rests[address] = rest - 1
            self._leave(address)
        return line[0]

    def patience_ms(self, least_ms: int) -> int:
        """Return how long the current node may be silent: `least_ms`, and twice that for each time that it was."""
        return least_ms << self._silences.get(self.current, 0)

    def next_backoff_ms(self) -> int:
        """Return how long to wait before the next attempt: 50 ms doubling to 1 s, the upper half of it jittered."""
        attempts = self._attempts
        self._attempts += 1
        return self._backoff_ms(attempts)

    def _backoff_ms(self, attempts: int) -> int:
        whole = min(BACKOFF_MAX_MS, BACKOFF_MIN_MS << min(attempts, 10))
        return int(whole * (0.5 + self._jitter() / 2))

    def departure_ms(self) -> int:
        """Return how long to wait before another node than the one that served is tried: no more than 50 ms.

        Members that have lost the same node are spread over that time; nobody has failed to connect yet. A node that
        let the member in and then answered nothing did not serve it: who leaves one such node after the other waits
        longer each time, as after any failure.
        """
        before = self._departures
        self._departures += 1
        return self._backoff_ms(before - 1) if before else int(BACKOFF_MIN_MS * self._jitter())

    def settle(self) -> None:
        """Forget troubles and start the backoff from its smallest: a coordinator serves this member."""
        self._attempts = 0
        self._departures = 0
        self._troubles.clear()
        self._silences.clear()
        self._rests.clear()

    def describe_troubles(self) -> str:
        """Say what went wrong at each address, the latest last."""
        if not self._troubles:
            return f"{format_address(self.current)}: no answer yet"
        return "; ".join(f"{format_address(address)}: {why}" for address, why in self._troubles.items())
