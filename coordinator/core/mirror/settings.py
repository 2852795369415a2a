"""The numbers of the mirror: the pace of its writes, how much goes at once, and from when on it is late."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """The numbers that the mirror obeys; see the settings of a node with the same names."""

    interval_ms: int = 1_000
    groups_at_once: int = 16
    refresh_ms: int = 3_600_000
    late_ms: int = 30_000
    settle_ms: int = 12_000
    """After so long nothing that a former leader has sent can reach Kafka any more: all is written once again."""
