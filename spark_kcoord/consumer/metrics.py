"""The numbers of a consumer in kafka-python's shape, by group and name: totals and averages since it was made.

That library samples rates over windows; here programs take the difference of two totals. Names are the library's, or
the Java client's where it has no total.
"""

from __future__ import annotations

from typing import Final

from spark_kcoord.consumer.conduct.flows import Flows

__all__ = ["metrics_of"]

_FETCHING: Final = "consumer-fetch-manager-metrics"


def metrics_of(flows: Flows) -> dict[str, dict[str, float]]:
    """Return the numbers of a consumer as they are now; lags are of partitions that were fetched."""
    machine, counts = flows.machine, flows.fetch_counts()
    lags = {
        held.key: max(0, held.end - held.position)
        for held in machine
        if held.end is not None and held.position is not None
    }
    fetching: dict[str, float] = {
        "fetch-total": counts.fetches,
        "fetch-latency-avg": counts.latency_total_ms / counts.fetches if counts.fetches else 0.0,
        "fetch-latency-max": counts.latency_max_ms,
        "bytes-consumed-total": counts.fetched_bytes,
        "records-consumed-total": machine.returned_records,
        "records-lag-max": max(lags.values(), default=0),
    }
    return {
        "consumer-metrics": {"request-total": counts.requests},
        _FETCHING: fetching,
        **{f"{_FETCHING}.{topic}-{number}": {"records-lag": lag} for (topic, number), lag in lags.items()},
        "consumer-coordinator-metrics": {"assigned-partitions": len(machine.keys)},
    }
