"""Turns of the event loop: members first, and of what others say only so much between two looks at the sockets.

A member waits for its answers within milliseconds, whoever else talks to the node. So what connections say that are no
members' is handled as long as a turn has time for it, and the rest waits, unread, for the next turns, one connection
after the other. So does what a member says beyond its own share of a turn. Knows nothing of what is said.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

TURN_NS: Final = 1_000_000
"""The time of a turn, and the share of one connection in it."""


class Talker(Protocol):
    """A connection that says more than is handled at once."""

    def take_turn(self) -> None:
        """Handle more of what it has said; it asks for another turn by itself."""


TalkerT = TypeVar("TalkerT", bound=Talker)


class Turns(Generic[TalkerT]):
    """Decides who is handled now and who waits; belongs to the event loop's thread."""

    def __init__(self, are_off: Callable[[], bool], now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._are_off = are_off
        self.now_ns = now_ns
        self._spent_ns = 0
        self._waiting: dict[TalkerT, None] = {}
        self._is_due = False

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    @property
    def is_over(self) -> bool:
        """True when this turn has no more time for those who are no members."""
        return bool(self._waiting) or self._spent_ns >= TURN_NS

    def spend(self, begun_ns: int) -> None:
        """Take note of the time that something has taken until now."""
        self._spent_ns += self.now_ns() - begun_ns
        self._have_next()

    def wait(self, talker: TalkerT) -> None:
        """Have a connection wait for its turn."""
        self._waiting[talker] = None
        self._have_next()

    def forget(self, talker: TalkerT) -> None:
        """Drop a connection that is gone."""
        self._waiting.pop(talker, None)

    def go_on(self) -> None:
        """Give turns again after they were off."""
        if self._waiting:
            self._have_next()

    def _have_next(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_due = False
        self._spent_ns = 0
        if self._are_off():
            return
        began_ns = self.now_ns()
        while self._waiting and self.now_ns() - began_ns < TURN_NS:
            talker = next(iter(self._waiting))
            del self._waiting[talker]
            talker.take_turn()
        if self._waiting:
            self._spent_ns = TURN_NS
            self._have_next()
