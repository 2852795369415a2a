"""The settings of a demo, with their limits. Pure."""

from dataclasses import dataclass
from typing import Final

from coordinator.demo.data.flights import FLIGHTS

GROUP: Final = "flights"
TOPIC: Final = "flights"
PARTITIONS: Final = 8
FIRST: Final = "first"
SECOND: Final = "second"

JOIN_TIMEOUT_S: Final = 120.0
"""From the start of a Spark application to its place in the group."""

STEP_TIMEOUT_S: Final = 90.0
"""For everything else that is waited for."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The number of flights, the seconds in which they are produced, and what to start on which ports (0: any)."""

    flights: int = FLIGHTS
    seconds: float = 60.0
    kafka_port: int = 0
    coordinator_port: int = 0
    nodes: int = 1
    """Coordinator nodes: 1 is standalone; of more, those after the first listen on the ports after its own."""

    @property
    def free(self) -> int:
        """Return how many flights are produced evenly even if the second application has not been killed yet."""
        return self.flights * 3 // 5

    @property
    def shared_s(self) -> float:
        """Return how long both applications read together before one is killed."""
        return min(8.0, self.seconds / 8)
