"""Where queries write to: a sink that writes each number of a micro-batch once, as Spark's file sink, or that appends.

A sink that knows numbers passes over a micro-batch before Spark plans it, and Spark notes it as done. It outlives the
query and its checkpoint; a person who gives a query a new checkpoint may forget to give it a new sink.
"""

from collections import Counter
from collections.abc import Iterable
from random import Random

from coordinator.protocol.parts import Claim

EXPECTED_ENDS = ("and has not read it",)
"""Words of the errors that a query may end with for its sink."""
KINDS = ("passes over what it has written", "passes over what it has not written")
"""What has to happen, for the promise to be tried: the first after a crash, the second beside a new checkpoint."""


class Sink:
    """The output of one query."""

    def __init__(self, *, knows_numbers: bool, seen: Counter[str]) -> None:
        self._knows_numbers = knows_numbers
        self._seen = seen
        self._written: dict[int, frozenset[Claim]] = {}

    def passes_over(self, number: int, claims: Iterable[Claim]) -> bool:
        """Say whether it leaves out a micro-batch, whatever is in it, because it knows its number."""
        if not self._knows_numbers or number not in self._written:
            return False
        self._seen[f"sink {KINDS[not self._written[number].issuperset(claims)]}"] += 1
        return True

    def write(self, number: int, claims: Iterable[Claim]) -> None:
        """Take the rows of a micro-batch."""
        self._written[number] = frozenset(claims)

    def another(self) -> "Sink":
        """Return a new sink of this kind."""
        return Sink(knows_numbers=self._knows_numbers, seen=self._seen)


def draw_sink(dice: Random, seen: Counter[str]) -> Sink:
    """Draw where a query writes to; `seen` counts what happens."""
    return Sink(knows_numbers=dice.random() < 0.6, seen=seen)
