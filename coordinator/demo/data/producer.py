"""Produces the flights at an even pace on a thread of its own.

On a slow machine the flights must not all be out before the second application has been killed while it reads, so the
pace slows down at some point until `release` is called, without ever running dry; where the machine keeps up, that
call comes before. Every flight is acknowledged by the broker once (an idempotent producer), or the run has failed.
"""

import threading
import time
from collections.abc import Iterable
from typing import Final

from kafka import KafkaProducer
from kafka.errors import KafkaError

from coordinator.demo.data.flights import Flight
from coordinator.demo.errors import DemoError

_TICK_S: Final = 0.05
_SLOW_PART: Final = 0.015
_FLUSH_TIMEOUT_S: Final = 30.0
_END_TIMEOUT_S: Final = 10.0


class Pace:
    """The number of flights due: evenly over `seconds`, but slowly past the first `free` ones until it is released.

    Slowly means a fixed part of what is left a second, which never ends. Pure but for what it remembers.
    """

    def __init__(self, total: int, seconds: float, free: int) -> None:
        self._total = total
        self._even_rate = total / seconds
        self._free = free
        self._due = 0.0
        self._elapsed_s = 0.0
        self._is_released = False

    def release(self) -> None:
        """Go on evenly to the end."""
        self._is_released = True

    def due_at(self, elapsed_s: float) -> int:
        """Return how many flights are due in all; time may not go back."""
        is_even = self._is_released or self._due < self._free
        rate = self._even_rate if is_even else (self._total - self._due) * _SLOW_PART
        self._due = min(self._total, self._due + rate * (elapsed_s - self._elapsed_s))
        self._elapsed_s = elapsed_s
        return int(self._due)


class FlightProducer:
    """One run over the flights; start it once. Thread safe."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        flights: Iterable[Flight],
        *,
        total: int,
        pace: Pace,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._flights = iter(flights)
        self._total = total
        self._pace = pace
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

    def release(self) -> None:
        """Produce the rest at the even pace."""
        self._pace.release()

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
            due = self._pace.due_at(time.monotonic() - started)
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
