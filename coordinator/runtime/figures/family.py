"""Families of metrics as frozen values, and the histogram that such a family is read from.

A family has its name, its kind in Prometheus' words, its meaning and its samples. One without samples has no lines:
what is not known is absent. Knows nothing of how a page is written.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Labels: TypeAlias = tuple[tuple[str, str], ...]
Sample: TypeAlias = tuple[str, Labels, float]
"""The rest of a name behind the family, such as `_bucket`, then the labels and the value."""

DURATIONS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds in seconds for what members wait for."""


@dataclass(frozen=True, slots=True)
class Family:
    """One family of metrics, read at one moment."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    meaning: str
    samples: tuple[Sample, ...] = ()


def gauge(name: str, meaning: str, value: float | None) -> Family:
    """Return a gauge without labels, without a sample where the value is not known."""
    return Family(name, "gauge", meaning, () if value is None else (("", (), value),))


def counter(name: str, meaning: str, label: str, counts: Mapping[str, int]) -> Family:
    """Return a counter by one label."""
    return Family(name, "counter", meaning, tuple(("", ((label, key),), count) for key, count in counts.items()))


class Histogram:
    """Counts of values by upper bounds; values may come from any thread."""

    __slots__ = ("_bounds", "_counts", "_lock", "_sum")

    def __init__(self, bounds: Iterable[float] = DURATIONS) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()

    def observe(self, value: float) -> None:
        """Count a value."""
        with self._lock:
            self._counts[bisect_left(self._bounds, value)] += 1
            self._sum += value

    def samples(self, labels: Labels = ()) -> tuple[Sample, ...]:
        """Return the samples as Prometheus has them: cumulative buckets, the sum and the count."""
        with self._lock:
            counts, total = tuple(self._counts), self._sum
        return histogram_samples(self._bounds, counts, total, labels)


def histogram_samples(
    bounds: Sequence[float], counts: Sequence[int], total: float, labels: Labels = ()
) -> tuple[Sample, ...]:
    """Return counts of values by upper bounds, the last of those above all, and the sum of values as samples."""
    samples: list[Sample] = []
    below = 0
    for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
        below += count
        samples.append(("_bucket", (*labels, ("le", bound)), below))
    return (*samples, ("_sum", labels, total), ("_count", labels, below))
