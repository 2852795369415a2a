"""Kafka clients kept in a worker process between tasks, so that a micro-batch does not connect again.

Spark reuses its Python workers; a task takes the client for its settings out of the pool and puts it back
when it ended well. A client whose task failed or was abandoned is closed instead: its state is not known.
Clients nobody used for a while are closed by a timer thread, which holds the pool's lock only to take them
out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from spark_kcoord.fetch.connection import KafkaClient
from spark_kcoord.options.kafka_settings import KafkaSettings

__all__ = ["ClientPool", "POOL"]

_IDLE_S: Final = 60.0


class ClientPool:
    """Idle clients by settings; safe to use from several threads, each client from one at a time."""

    def __init__(self, idle_s: float = _IDLE_S, connect: Callable[[KafkaSettings], KafkaClient] = KafkaClient) -> None:
        self._idle_s = idle_s
        self._connect = connect
        self._lock = threading.Lock()
        self._idle: list[tuple[float, KafkaClient]] = []
        self._timer: threading.Timer | None = None

    @contextmanager
    def lease(self, settings: KafkaSettings) -> Iterator[KafkaClient]:
        """Lend the client for ``settings`` for the length of a with block, making one when none is idle."""
        client = self._take(settings) or self._connect(settings)
        try:
            client.catch_up()
            yield client
        except BaseException:
            client.close()
            raise
        with self._lock:
            self._idle.append((time.monotonic(), client))
            self._schedule()

    def close_idle(self, idle_s: float = 0.0) -> int:
        """Close clients not used for ``idle_s`` seconds; returns how many."""
        limit = time.monotonic() - idle_s
        with self._lock:
            old = [client for since, client in self._idle if since <= limit]
            self._idle = [(since, client) for since, client in self._idle if since > limit]
        for client in old:
            client.close()
        return len(old)

    def __len__(self) -> int:
        with self._lock:
            return len(self._idle)

    def _take(self, settings: KafkaSettings) -> KafkaClient | None:
        with self._lock:
            for index in reversed(range(len(self._idle))):
                if self._idle[index][1].settings == settings:
                    return self._idle.pop(index)[1]
        return None

    def _schedule(self) -> None:
        if self._timer is None and self._idle:
            self._timer = threading.Timer(self._idle_s, self._close_old)
            self._timer.daemon = True
            self._timer.start()

    def _close_old(self) -> None:
        self.close_idle(self._idle_s)
        with self._lock:
            self._timer = None
            self._schedule()


POOL: Final = ClientPool()
