"""Transactions of simulated producers: where logs end for somebody who reads committed records only.

A partition has one transactional producer at most, beside others whose records count at once. Markers take an offset
each and hold no record. What an aborted transaction wrote is in the log all the same; who reads committed records only
gets past it when it has ended. A last stable offset never goes back.
"""

from collections import Counter
from random import Random
from typing import Final, TypeAlias

Log: TypeAlias = tuple[str, int]
"""Topic id and partition."""

BEGINS: Final = 0.5
"""Chance that a record begins a transaction, in a world that has any."""
ENDS: Final = (0.0, 0.2, 0.6)
ABORTS: Final = 0.3


class Transactions:
    """The transactions of all partitions of one run; `share` is the share of partitions whose producer has any."""

    def __init__(self, dice: Random, share: float) -> None:
        self._dice = dice
        self._share = share
        self._ends = dice.choice(ENDS) if share else 0.0
        self._is_transactional: dict[Log, bool] = {}
        self._open: dict[Log, int] = {}
        self.counts: Counter[str] = Counter()

    def stable(self, log: Log, end: int) -> int:
        """Return the last stable offset of a log that ends at `end`."""
        return min(end, self._open.get(log, end))

    def append(self, log: Log, end: int) -> int:
        """Begin or end a transaction before the next records; return where the log ends then."""
        if not self._share:
            return end
        if log not in self._is_transactional:
            self._is_transactional[log] = self._dice.random() < self._share
        if log in self._open:
            return self.finish(log, end) if self._dice.random() < self._ends else end
        if self._is_transactional[log] and self._dice.random() < BEGINS:
            self._open[log] = end
            self.counts["open"] += 1
        return end

    def finish(self, log: Log, end: int) -> int:
        """End the open transaction of a log, if there is one, by a marker; return where the log ends then."""
        if self._open.pop(log, None) is None:
            return end
        self.counts["aborted" if self._dice.random() < ABORTS else "committed"] += 1
        return end + 1
