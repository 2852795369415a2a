"""The times at which a node tries to connect to another one: at once, then after twice as long each time, to a bound.

Two attempts are never nearer than the least wait, however soon each of them ends, so that two nodes that cannot speak
with each other do not spend their time on it.
"""

from typing import Final

import msgspec

LEAST_WAIT_MS: Final = 50
MOST_WAIT_MS: Final = 1_000


class Attempts(msgspec.Struct, frozen=True):
    """The attempts since the last contact that lasted; the next one is due at `due_ms`."""

    due_ms: int = 0
    wait_ms: int = 0

    def begun(self, now_ms: int) -> "Attempts":
        """Return it after one more attempt."""
        wait_ms = min(max(2 * self.wait_ms, LEAST_WAIT_MS), MOST_WAIT_MS)
        return Attempts(now_ms + wait_ms, wait_ms)

    def after_contact(self, lasted_ms: int) -> "Attempts":
        """Return it after a contact: one that lasted makes the next attempt due at once."""
        return Attempts() if lasted_ms >= MOST_WAIT_MS else self
