"""Produces records at a steady rate, each with its own place as its value, so that a sink can be checked by itself."""

import threading
import time
from types import TracebackType
from typing import Self

from kafka import KafkaProducer

TICK_S = 0.05


class Producer:
    """Writes `PARTITION:OFFSET` into the partitions in turn, from a thread, until it is stopped."""

    def __init__(self, servers: str, topic: str, partitions: int, records_per_s: int) -> None:
        self._producer = KafkaProducer(bootstrap_servers=servers, acks="all", linger_ms=5)
        self._topic = topic
        self._records_per_s = records_per_s
        self.ends = dict.fromkeys(range(partitions), 0)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop and wait until the broker has everything; `ends` are final then."""
        self._is_over.set()
        self._thread.join()
        self._producer.close()

    def _run(self) -> None:
        began, written = time.monotonic(), 0
        while not self._is_over.wait(TICK_S):
            due = round((time.monotonic() - began) * self._records_per_s)
            for number in range(written, due):
                partition = number % len(self.ends)
                value = f"{partition}:{self.ends[partition]}".encode()
                self._producer.send(self._topic, value, partition=partition)
                self.ends[partition] += 1
            written = max(written, due)
        self._producer.flush()
