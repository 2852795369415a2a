"""The work that a fetcher has done, as numbers that only grow; any thread may read them, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FetchCounts"]


@dataclass(slots=True)
class FetchCounts:
    """Requests of any kind to brokers, the fetches among them that were answered, and the bytes of their records.

    Latencies are of answered fetches, which wait at the broker for records: in milliseconds.
    """

    requests: int = 0
    fetches: int = 0
    fetched_bytes: int = 0
    latency_total_ms: float = 0.0
    latency_max_ms: float = 0.0

    def note_fetch(self, latency_ms: float) -> None:
        """Count a fetch that was answered."""
        self.fetches += 1
        self.latency_total_ms += latency_ms
        self.latency_max_ms = max(self.latency_max_ms, latency_ms)
