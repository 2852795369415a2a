"""Judges how long the good client waited for its pings: against the bar, and against the echo beside it.

A client that waits asks less often: a wait of a second among answers of a millisecond would be one of many. So each
wait counts as often as the client would have asked meanwhile.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.standing.good_client import INTERVAL_S

BAR_MS = 100.0
Sample = tuple[float, float]
"""When something was asked, and how long the answer took, in seconds."""
Window = tuple[float, float]
"""From and until when, on the same clock."""


@dataclass(frozen=True, slots=True)
class Waits:
    """99th percentiles of pings and of echoes in a case."""

    pings: int
    ping_p99_ms: float
    echo_p99_ms: float

    @property
    def is_slow(self) -> bool:
        """Say whether the node let the client wait: the bar is moved by what the machine alone takes."""
        return self.ping_p99_ms > BAR_MS + self.echo_p99_ms

    def __str__(self) -> str:
        """Return the figures, and whether the echo was needed to judge them."""
        text = f"ping p99 {self.ping_p99_ms:.1f} ms of {self.pings}, echo {self.echo_p99_ms:.1f}"
        if self.ping_p99_ms > BAR_MS and not self.is_slow:
            text += ", judged against the echo: the machine is busy"
        return text


def judge(pings: Sequence[Sample], echoes: Sequence[Sample], apart: Sequence[Window]) -> Waits:
    """Return the waits outside of the windows that are set apart."""
    counted = _outside(pings, apart)
    return Waits(len(counted), p99_ms(counted), p99_ms(_outside(echoes, apart)))


def p99_ms(samples: Iterable[Sample]) -> float:
    """Return the 99th percentile of what would have been waited by somebody who asks all the time; 0 of nothing."""
    waits: list[float] = []
    for _, took_s in samples:
        waits.append(took_s)
        while (took_s := took_s - INTERVAL_S) > 0:
            waits.append(took_s)
    waits.sort()
    return waits[min(len(waits) - 1, int(len(waits) * 0.99))] * 1000 if waits else 0.0


def _outside(samples: Sequence[Sample], apart: Sequence[Window]) -> list[Sample]:
    return [
        (at_s, took_s)
        for at_s, took_s in samples
        if not any(at_s < until_s and at_s + took_s > from_s for from_s, until_s in apart)
    ]
