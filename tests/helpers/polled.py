"""One poll of a consumer as a flat list of records, partition by partition."""

from typing import Any

from kcoord import Consumer


def polled(consumer: Consumer, timeout_ms: float = 500) -> list[Any]:
    """Poll once and return the records."""
    return [record for records in consumer.poll(timeout_ms).values() for record in records]
