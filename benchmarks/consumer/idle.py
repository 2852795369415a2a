"""The cost of a consumer that reads 1,000 partitions in which nothing happens: processor time and requests.

A member of a group, so that its pings are in it. Requests are those that the consumer counts itself, to one broker.
"""

import time
from dataclasses import dataclass

from kcoord import Consumer

START_S = 60.0


@dataclass(frozen=True, slots=True)
class Idle:
    """The share of a core, and requests per second to a broker."""

    cores: float
    requests_per_s: float


def measure(servers: str, coordinator: str, topic: str, partitions: int, seconds: float) -> Idle:
    """Read a topic to its end, wait, and count; to be called in a process of its own."""
    with Consumer(
        topic, coordinators=coordinator, group_id="idle", bootstrap_servers=servers, auto_offset_reset="earliest"
    ) as consumer:
        until = time.monotonic() + START_S
        while len(consumer.assignment()) < partitions or any(
            consumer.lag(one) is None for one in consumer.assignment()
        ):
            if time.monotonic() > until:
                raise RuntimeError(f"{partitions} partitions are not all read after {START_S:g} s")
            consumer.poll(200)
        consumer.poll(1_000)
        began, cpu_s, requests = time.monotonic(), time.process_time(), _requests(consumer)
        while time.monotonic() - began < seconds:
            consumer.poll(1_000)
        passed_s = time.monotonic() - began
        return Idle((time.process_time() - cpu_s) / passed_s, (_requests(consumer) - requests) / passed_s)


def _requests(consumer: Consumer) -> float:
    return consumer.metrics()["consumer-metrics"]["request-total"]


def _is_read(consumer: Consumer, partitions: int) -> bool:
    metrics = consumer.metrics()
    lags = [numbers["records-lag"] for numbers in metrics.values() if "records-lag" in numbers]
    return len(lags) == partitions and not any(lags)
