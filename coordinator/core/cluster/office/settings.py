"""Settings of a controller. It imports nothing, for every node reads them, also one that is of no cluster."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """How long the controller waits for what; `moves_at_once` bounds moves that nobody needs at once."""

    elect_wait_ms: int = 2_000
    balance_ms: int = 10_000
    balance_delay_ms: int = 60_000
    moves_at_once: int = 5
    stand_wait_ms: int = 10_000
    """How long a controller that has left the office while its session goes on lets others stand first."""
    tell_timeout_ms: int = 2_000
    """How long a leader may not acknowledge that it leads until another is elected."""
    reach_wait_ms: int = 12_000
    """How long a controller that reaches fewer than half of the nodes stays: two session time-outs of ZooKeeper's."""
