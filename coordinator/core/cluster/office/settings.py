"""Settings of a controller. It imports nothing, for every node reads them, also one that is of no cluster."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The times that the controller waits; `moves_at_once` bounds moves that nobody needs at once."""

    elect_wait_ms: int = 2_000
    balance_ms: int = 10_000
    balance_delay_ms: int = 60_000
    moves_at_once: int = 5
    stand_wait_ms: int = 10_000
    """The time for which a controller that has left the office while its session goes on lets others stand first."""
    tell_timeout_ms: int = 2_000
    """The time in which a leader has to acknowledge that it leads, before another is elected."""
    reach_wait_ms: int = 12_000
    """The time that a controller stays which reaches fewer than half of the nodes: two ZooKeeper session time-outs."""
