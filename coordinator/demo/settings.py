"""What a demo can be told, with its limits. Pure."""

from dataclasses import dataclass
from typing import Final

from coordinator.demo.flights import FLIGHTS

GROUP: Final = "flights"
TOPIC: Final = "flights"
PARTITIONS: Final = 8
FIRST: Final = "first"
SECOND: Final = "second"

JOIN_TIMEOUT_S: Final = 90.0
"""From the start of a Spark application to its place in the group."""

STEP_TIMEOUT_S: Final = 60.0
"""For everything else that is waited for."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """How many flights are produced over how many seconds, and where things listen (0: any free port)."""

    flights: int = FLIGHTS
    seconds: float = 60.0
    kafka_port: int = 0
    coordinator_port: int = 0

    @property
    def held_back(self) -> int:
        """Return how many flights wait until the survivor has taken over."""
        return self.flights // 4

    @property
    def shared_s(self) -> float:
        """Return how long both applications read together before one is killed."""
        return min(8.0, self.seconds / 8)
