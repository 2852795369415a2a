"""Token buckets by key: so much at once, and so much a second after it.

Time is an argument. A key is known only while its bucket is not full, and of very many keys the ones that were used
longest ago are forgotten first: whoever invents keys makes it forget, never grow. Knows nothing of the keys.
"""

from dataclasses import dataclass
from typing import Final

MOST_KEYS: Final = 10_000
"""Buckets that are known at once."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Tokens that a full bucket has, and those that come back each second."""

    burst: int
    per_s: float


class TokenBuckets:
    """A bucket for each key; one that is overdrawn owes at most as much again as it holds when it is full."""

    __slots__ = ("_known", "_most_keys", "rate")

    def __init__(self, rate: Rate, most_keys: int = MOST_KEYS) -> None:
        self.rate = rate
        self._most_keys = most_keys
        self._known: dict[str, tuple[float, int]] = {}
        """The tokens that a key had, and when; in the order of their use."""

    def __len__(self) -> int:
        """Return how many buckets are not known to be full."""
        return len(self._known)

    def take(self, key: str, now_ms: int) -> None:
        """Take a token out of a bucket, whether it has one or not."""
        left = max(-float(self.rate.burst), self._tokens(key, now_ms) - 1)
        self._known.pop(key, None)
        self._known[key] = (left, now_ms)
        while len(self._known) > self._most_keys:
            del self._known[next(iter(self._known))]

    def wait_ms(self, key: str, now_ms: int) -> int:
        """Return in how many milliseconds a bucket has a token, 0 for now."""
        if key not in self._known:
            return 0
        tokens = self._tokens(key, now_ms)
        if tokens >= self.rate.burst:
            del self._known[key]
        return 0 if tokens >= 1 else max(1, round((1 - tokens) / self.rate.per_s * 1000))

    def _tokens(self, key: str, now_ms: int) -> float:
        known = self._known.get(key)
        if known is None:
            return float(self.rate.burst)
        tokens, at_ms = known
        return min(float(self.rate.burst), tokens + max(0, now_ms - at_ms) * self.rate.per_s / 1000)
