"""Produces the flights at an even pace on a thread of its own.

The last part is held back until `release_rest` is called, so that on a slow machine there is still something to read
when the second application is killed; where the machine keeps up, that call comes long before. Every flight is
acknowledged by the broker once (an idempotent producer), or the thread ends with `error`.
"""

import threading
import time
from collections.abc import Iterable
from typing import Final

from kafka import KafkaProducer
from kafka.errors import KafkaError

from coordinator.demo.errors import DemoError
from coordinator.demo.flights import Flight

_TICK_S: Final = 0.05
_FLUSH_TIMEOUT_S: Final = 30.0
_END_TIMEOUT_S: Final = 10.0


def due_by(elapsed_s: float, total: int, seconds: float, held_back: int) -> int:
    """Return how many of `total` flights should be out after `elapsed_s`, `held_back` of them not being free to go."""
    paced = total if seconds <= 0 else int(total * min(1.0, elapsed_s / seconds))
    return min(paced, total - held_back)


class FlightProducer:
    """One run over the flights; start it once. Thread safe."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        flights: Iterable[Flight],
        *,
        total: int,
        seconds: float,
        held_back: int,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._flights = iter(flights)
        self._total = total
        self._seconds = seconds
        self._held_back = held_back
        self._sent = 0
        self._is_done = False
        self._error: str | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flight-producer", daemon=True)

    @property
    def sent(self) -> int:
        """Return how many flights have been handed to the broker's client."""
        return self._sent

    @property
    def is_done(self) -> bool:
        """Say whether every flight has been acknowledged; raises DemoError when that can no longer happen."""
        if self._error is not None:
            raise DemoError(f"producing the flights failed: {self._error}")
        return self._is_done

    def start(self) -> None:
        """Start the pace."""
        self._thread.start()

    def release_rest(self) -> None:
        """Let the flights go that were held back."""
        self._held_back = 0

    def stop(self) -> None:
        """End the thread, finished or not."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(_END_TIMEOUT_S)

    def _run(self) -> None:
        try:
            producer = KafkaProducer(bootstrap_servers=self._bootstrap_servers, linger_ms=20, batch_size=64 * 1024)
        except KafkaError as error:
            self._error = str(error)
            return
        try:
            self._produce(producer)
        except (KafkaError, DemoError) as error:
            self._error = str(error)
        finally:
            producer.close(timeout=0 if self._ending.is_set() else _END_TIMEOUT_S)

    def _produce(self, producer: KafkaProducer) -> None:
        started = time.monotonic()
        while not self._ending.is_set():
            due = due_by(time.monotonic() - started, self._total, self._seconds, self._held_back)
            while self._sent < due and not self._ending.is_set():
                flight = next(self._flights, None)
                if flight is None:
                    raise DemoError(f"the data set ended after {self._sent} flights instead of {self._total}")
                producer.send(self._topic, key=flight.key, value=flight.value).add_errback(self._refused)
                self._sent += 1
            if self._error is not None:
                return
            if self._sent == self._total:
                producer.flush(timeout=_FLUSH_TIMEOUT_S)
                self._is_done = True
                return
            self._ending.wait(_TICK_S)

    def _refused(self, error: BaseException) -> None:
        self._error = str(error) or type(error).__name__
