"""The times of a session: until when a member owns what it has, when it pings, when its coordinator counts as dead.

The coordinator forgets a member that says nothing for a session time-out. Whatever it answered had been sent before, so
counting from the moment an answered request was sent, the member's own count is over first. Times are monotonic
milliseconds that come in as arguments.
"""


class Lease:
    """The session time-out as one member counts it."""

    __slots__ = ("_answered_ms", "_doubts", "_next_ping_ms", "_ping_interval_ms", "session_timeout_ms")

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._ping_interval_ms = session_timeout_ms // 3
        self._next_ping_ms = 0
        self._answered_ms = 0
        self._doubts = 0

    def begin(self, sent_ms: int, session_timeout_ms: int, ping_interval_ms: int) -> None:
        """Start over with a registration that was sent at this time; 0 stands for what the member wished itself."""
        self.session_timeout_ms = session_timeout_ms or self.session_timeout_ms
        third_ms = self.session_timeout_ms // 3
        self._ping_interval_ms = min(ping_interval_ms or third_ms, third_ms)
        self._answered_ms = sent_ms

    def renew(self, sent_ms: int) -> None:
        """Count from a request that has been answered."""
        self._answered_ms = max(self._answered_ms, sent_ms)

    @property
    def ends_ms(self) -> int:
        """The time from which the coordinator may have declared this member dead."""
        return self._answered_ms + self.session_timeout_ms

    def unanswered_ms(self, now_ms: int) -> int:
        """Return for how long nothing has been answered."""
        return now_ms - self._answered_ms

    @property
    def next_ping_ms(self) -> int:
        """The time of the next ping if nothing else is sent before."""
        return self._next_ping_ms

    def note_sent(self, now_ms: int, jitter: float) -> None:
        """Put the next ping off: every request counts as one.

        The interval is up to a tenth shorter at random, since members that came back together would otherwise ping in
        step ever after.
        """
        self._next_ping_ms = now_ms + int(self._ping_interval_ms * (1 - jitter / 10))

    def dead_at_ms(self, heard_ms: int) -> int:
        """The time at which a coordinator last heard then counts as dead: two thirds of the session time-out later."""
        return heard_ms + self.session_timeout_ms * 2 // 3

    # ---- where another node may know better -------------------------------------------------------------------------

    @property
    def patience_ms(self) -> int:
        """The time that an answer may take before another node is asked who the coordinator is.

        It is a fifth of the session time-out and a second at least, doubled for each time that the same coordinator was
        given up for its silence and found again: it is slow, and to register there anew makes it slower.
        """
        return max(1_000, self.session_timeout_ms // 5) << min(self._doubts, 10)

    def doubt(self) -> None:
        """Note that the coordinator was given up for its silence."""
        self._doubts += 1

    def trust(self) -> None:
        """Note that there is another coordinator, or the same in another epoch."""
        self._doubts = 0
