"""Start, life and readiness of a node, for programs that start it anew or send it members; the reasons in words.

A node is alive as long as its event loop turns, whatever it waits for: to end it because Kafka, ZooKeeper or another
node is away would help nobody. It is ready while it lets members in. It has started once its log is loaded and its loop
has turned, and that is never taken back.
"""

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from coordinator.admin.http import Answer, say

DEAD_S: Final = 30.0
"""A loop that has not turned for so long never will; the longest piece of work takes less than a tenth of a second."""
UNREADY_S: Final = 5.0
_BEAT_S: Final = 0.1
_LOOK_BEATS: Final = 5


class Condition:
    """The state of a node as probes see it: written on its own thread, read on that of its HTTP."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._beat_s: float | None = None
        self.why_not_ready = "it has only begun"
        self.what_lacks: Callable[[], str] = lambda: ""
        """Says what a node that is ready has to do without for now, empty for nothing; from any thread."""

    def beat(self) -> None:
        """Note that the event loop turns; from the first time on it is to go on doing so."""
        self._beat_s = self._now_s()

    def livez(self) -> Answer:
        """Answer whether the node is alive."""
        still_s = self._still_s()
        if still_s >= DEAD_S:
            return say(HTTPStatus.SERVICE_UNAVAILABLE, f"not alive: the event loop has not turned for {still_s:.0f} s")
        return say(HTTPStatus.OK, "alive")

    def startupz(self) -> Answer:
        """Answer whether the node has loaded its log and begun to turn its loop, once and for all."""
        if self._beat_s is None:
            return say(HTTPStatus.SERVICE_UNAVAILABLE, f"not started: {self.why_not_ready}")
        return say(HTTPStatus.OK, "started")

    def readyz(self) -> Answer:
        """Answer whether the node lets members in, or why it does not."""
        still_s = self._still_s()
        if still_s >= UNREADY_S:
            return say(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: the event loop has not turned for {still_s:.0f} s")
        if self.why_not_ready:
            return say(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {self.why_not_ready}")
        lacks = self.what_lacks()
        return say(HTTPStatus.OK, f"ready, but {lacks}" if lacks else "ready")

    def _still_s(self) -> float:
        return 0.0 if self._beat_s is None else self._now_s() - self._beat_s


class Heart:
    """Beats on a node's event loop, says how late each beat is, and looks now and then why the node is not ready."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        condition: Condition,
        why_not_ready: Callable[[], str],
        was_late: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._loop = loop
        self._condition = condition
        self.why_not_ready = why_not_ready
        """Says why the node is not ready, empty when it is; may be exchanged."""
        self._was_late = was_late
        self._beats = 0
        self._next = loop.call_later(_BEAT_S, self._beat, loop.time() + _BEAT_S)
        condition.beat()
        condition.why_not_ready = why_not_ready()

    def stop(self) -> None:
        """Beat no more."""
        self._next.cancel()

    def _beat(self, due_s: float) -> None:
        now_s = self._loop.time()
        self._next = self._loop.call_later(_BEAT_S, self._beat, now_s + _BEAT_S)
        self._was_late(max(0.0, now_s - due_s))
        self._condition.beat()
        if self._beats % _LOOK_BEATS == 0:
            self._condition.why_not_ready = self.why_not_ready()
        self._beats += 1
