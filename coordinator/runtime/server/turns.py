"""Turns of the event loop: members first, and of what others say only so much between two looks at the sockets.

A member waits for its answers within milliseconds, whoever else talks to the node. So what connections say that are no
members' is handled as long as a turn has time for it, and the rest waits, unheard, for the next turns, one connection
after the other. That time is as long as everything else in the turn takes, and a millisecond at least, so that
thousands that register at once get half of the loop. Of that time those who have not asked anything yet may take three
quarters: what they say first costs little, and its answer shows a member that the node lives. What a connection says
beyond its first frames waits longer: after each turn of that the loop pauses for as long, so that whatever else the
process does comes to it too, such as the threads that write the log. Knows nothing of what is said.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

TURN_NS: Final = 1_000_000
"""The time of a turn, and the share of one connection in it."""
MOST_NS: Final = 10_000_000
"""The most time of a turn, where everything else in it takes that long too."""
FIRST_SHARE: Final = 0.75
"""The part of a turn that those may take who have not asked anything yet, where others wait too."""
PAUSE_S: Final = 0.001
"""The pause after a turn of those who say much at once."""


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
        self._share_ns = TURN_NS
        self._last_ns: int | None = None
        """The beginning of the turn before, if it had more to do than it has done."""
        self._new: dict[TalkerT, None] = {}
        """Those who wait and have not asked anything yet."""
        self._waiting: dict[TalkerT, None] = {}
        self._is_due = False
        self._saying_much: dict[TalkerT, None] = {}
        self._is_pause = False

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._new) + len(self._waiting) + len(self._saying_much)

    @property
    def is_over(self) -> bool:
        """True when this turn has no more time for those who are no members."""
        return self.is_behind or self._spent_ns >= self._share_ns

    @property
    def is_behind(self) -> bool:
        """True while somebody waits who has not said much."""
        return bool(self._new or self._waiting)

    def spend(self, begun_ns: int) -> None:
        """Take note of the time that something has taken until now."""
        self._spent_ns += self.now_ns() - begun_ns
        self._have_next()

    def wait(self, talker: TalkerT, *, says_much: bool, is_new: bool = False) -> None:
        """Have a connection wait for its turn.

        It comes later for one that says much at once, and sooner for one that `is_new`: that has asked nothing yet.
        """
        if says_much:
            self._saying_much[talker] = None
            if self._is_pause:
                return
        elif is_new:
            self._new[talker] = None
        else:
            self._waiting[talker] = None
        self._have_next()

    def forget(self, talker: TalkerT) -> None:
        """Drop a connection that is gone."""
        self._new.pop(talker, None)
        self._waiting.pop(talker, None)
        self._saying_much.pop(talker, None)

    def go_on(self) -> None:
        """Give turns again after they were off."""
        if len(self):
            self._have_next()

    def _have_next(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_due = False
        self._spent_ns = 0
        begun_ns, last_ns = self.now_ns(), self._last_ns
        self._last_ns = None
        if self._are_off():
            return
        whole_ns = 0 if last_ns is None else begun_ns - last_ns
        self._share_ns = max(TURN_NS, min(MOST_NS, whole_ns // 2))
        most_ns = int(self._share_ns * FIRST_SHARE) if self._waiting else self._share_ns
        took_ns = self._give_turns(self._new, most_ns)
        self._give_turns(self._waiting, self._share_ns - min(took_ns, most_ns))
        if self.is_behind:
            self._spent_ns = self._share_ns
            self._last_ns = begun_ns
            self._have_next()
        if self._saying_much and not self._is_pause:
            self._give_turns(self._saying_much, TURN_NS)
            self._is_pause = True
            asyncio.get_running_loop().call_later(PAUSE_S, self._end_pause)

    def _end_pause(self) -> None:
        self._is_pause = False
        if self._saying_much:
            self._have_next()

    def _give_turns(self, talkers: dict[TalkerT, None], time_ns: int) -> int:
        """Give turns for so long, and return how long that was."""
        began_ns = self.now_ns()
        took_ns = 0
        while talkers and took_ns < time_ns:
            talker = next(iter(talkers))
            del talkers[talker]
            talker.take_turn()
            took_ns = self.now_ns() - began_ns
        return took_ns
