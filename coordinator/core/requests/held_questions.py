"""Questions that a node holds, in rows of those that are answered together, and found by shard, by epoch and by time.

A question says which leader epoch it doubts, so there may be as many epochs as questions. Rows can therefore be had
by themselves: those of a shard, of an epoch, or with a question whose time is over. What the answer is, and when it is
known, is decided by `finding`.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from coordinator.core.events import RequestArrived


@dataclass(slots=True)
class Row:
    """The questions about one shard that doubt the same epoch and are held for as long, those that came first first.

    `number` grows from row to row. Each question is with the time at which it is answered in any case.
    """

    number: int
    shard: int
    leader_epoch: int | None
    hold_ms: int
    held: deque[tuple[int, RequestArrived]] = field(default_factory=deque)


class HeldQuestions:
    """The held questions of one node."""

    def __init__(self) -> None:
        self.due_ms: int | None = None
        """The time of the first question whose time is over, None while none is held."""
        self._rows: dict[int, dict[int | None, dict[int, Row]]] = {}
        """By shard, the epoch that is doubted and how long they are held."""
        self._due: list[tuple[int, int, Row]] = []
        """A heap of the rows by the time of their first question, then by number; some may have been taken since."""
        self._last_number = 0

    def hold(self, shard: int, leader_epoch: int | None, hold_ms: int, event: RequestArrived, now_ms: int) -> None:
        """Hold a question for so long, from now on."""
        rows = self._rows.setdefault(shard, {}).setdefault(leader_epoch, {})
        row = rows.get(hold_ms)
        until_ms = now_ms + hold_ms
        if row is None:
            self._last_number += 1
            row = rows[hold_ms] = Row(self._last_number, shard, leader_epoch, hold_ms)
            heappush(self._due, (until_ms, row.number, row))
        row.held.append((until_ms, event))
        self.due_ms = until_ms if self.due_ms is None else min(self.due_ms, until_ms)

    def has(self, shard: int) -> bool:
        """Return whether a question about a shard is held."""
        return shard in self._rows

    def rows_of(self, shard: int) -> list[Row]:
        """Return all rows about a shard."""
        return [row for rows in self._rows.get(shard, {}).values() for row in rows.values()]

    def rows_in(self, shard: int, leader_epoch: int | None) -> list[Row]:
        """Return the rows about a shard that doubt an epoch."""
        return list(self._rows.get(shard, {}).get(leader_epoch, {}).values())

    def due(self, now_ms: int) -> list[Row]:
        """Return the rows with a question whose time is over; they are to be taken now."""
        rows = []
        while self._due and self._due[0][0] <= now_ms:
            row = heappop(self._due)[2]
            if row.held:
                rows.append(row)
        return rows

    def take(self, row: Row, now_ms: int | None) -> Iterator[RequestArrived]:
        """Yield the questions of a row whose time is over, or all for None, and hold them no longer."""
        first_ms = row.held[0][0]
        while row.held and (now_ms is None or row.held[0][0] <= now_ms):
            yield row.held.popleft()[1]
        if not row.held:
            self._forget(row)
        elif row.held[0][0] != first_ms:
            heappush(self._due, (row.held[0][0], row.number, row))
        while self._due and not self._due[0][2].held:
            heappop(self._due)
        self.due_ms = self._due[0][0] if self._due else None

    def _forget(self, row: Row) -> None:
        of_shard = self._rows[row.shard]
        of_epoch = of_shard[row.leader_epoch]
        del of_epoch[row.hold_ms]
        if not of_epoch:
            del of_shard[row.leader_epoch]
        if not of_shard:
            del self._rows[row.shard]
