"""The times that a member waits for its coordinator: for each step on the way to it, and for one that it has lost.

The time for which a coordinator may be away begins when the session with it is lost and ends with the next
registration, whether anybody asks for something meanwhile or not. Times are monotonic milliseconds that come in as
arguments.
"""

from typing import Final

from spark_kcoord.member.core.session.states import State

CONNECT_TIMEOUT_MS: Final = 3_000
"""The time that a connection has to be opened, with TLS and a log-in where there is one."""
HELLO_TIMEOUT_MS: Final = 3_000
"""The time that a hello has, which a node says at once to whoever connects: one that is silent is gone or hangs."""
ANSWER_TIMEOUT_MS: Final = 6_000
"""The time that the answer to FindCoordinator has. The node has said hello on this connection, so it lives, and what it
has to do first may be much; a first join, which has 9 s, can still try another node after it."""
REGISTER_TIMEOUT_MS: Final = 10_000
"""The time that the answer to RegisterConsumer has, unless the node asks for more because many others come: it may
first have to ask about new topics."""
MOST_REGISTER_MS: Final = 120_000
"""The most time for a registration that a node is given because it asks for it.

A node that was silent has twice each of these times, four times and in the end eight times, until it has let the member
in. One that a crowd of members comes to at once is late with all of them, and what a member gives up the node has done
for nothing.
"""

END_AGE_S: Final = 3.0
"""The time that a position has to lie behind the end of its log before its member takes it for gone: an answer can be
old, and that of a broker which has just lost its leadership is."""

_SILENT: Final = {
    State.CONNECTING: "it cannot be connected to within {} ms",
    State.GREETING: "it accepted the connection and did not say hello within {} ms",
    State.FINDING: "it did not answer within {} ms",
    State.REGISTERING: "it did not answer the registration within {} ms",
}


def why_silent(state: State, waited_ms: int) -> str:
    """Return the trouble with a coordinator that was silent for too long, by the state of the member."""
    return _SILENT[state].format(waited_ms)


class Absence:
    """For how long the coordinator of a member that has joined has been away, and how long it may be."""

    __slots__ = ("_since_ms", "_timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._since_ms: int | None = None

    def begin(self, now_ms: int) -> None:
        """Note that the session is lost."""
        self._since_ms = now_ms

    def end(self) -> None:
        """Note that a coordinator has let the member in."""
        self._since_ms = None

    @property
    def ends_ms(self) -> int | None:
        """The time at which the coordinator will have been away for too long; None while there is a session."""
        return None if self._since_ms is None else self._since_ms + self._timeout_ms

    def is_too_long(self, now_ms: int) -> bool:
        """Say whether the coordinator has been away for too long."""
        return self._since_ms is not None and now_ms >= self._since_ms + self._timeout_ms

    def deadline_ms(self, now_ms: int) -> int:
        """Return until when a call that is made now waits; without a session that counts from when it was lost."""
        return max(now_ms, (now_ms if self._since_ms is None else self._since_ms) + self._timeout_ms)


class Idleness:
    """For how long the user of a member has asked for nothing; without a time-out he may for ever."""

    __slots__ = ("_asked_ms", "_since_ms", "_timeout_ms", "is_over")

    def __init__(self, timeout_ms: int | None) -> None:
        self._timeout_ms = timeout_ms
        self._since_ms: int | None = None
        self._asked_ms: int | None = None
        self.is_over = False
        """True once it was too long."""

    def join(self, now_ms: int) -> None:
        """Note that the member is in its group: from now on it counts, unless it does already."""
        self._since_ms = now_ms if self._since_ms is None else self._since_ms

    def end(self, now_ms: int) -> None:
        """Note that the user has asked for something."""
        self._since_ms = self._asked_ms = now_ms

    def lasts_ms(self, now_ms: int) -> int | None:
        """Return how long ago the user has asked for something; None of one who never does, as a query."""
        return None if self._asked_ms is None else now_ms - self._asked_ms

    @property
    def ends_ms(self) -> int | None:
        """The time at which the user will have asked for nothing for too long; None when there is no such time."""
        if self._since_ms is None or self._timeout_ms is None or self.is_over:
            return None
        return self._since_ms + self._timeout_ms

    def ends_now(self, now_ms: int) -> bool:
        """Say once that it was too long."""
        ends_ms = self.ends_ms
        self.is_over = self.is_over or (ends_ms is not None and now_ms >= ends_ms)
        return self.is_over and ends_ms is not None
