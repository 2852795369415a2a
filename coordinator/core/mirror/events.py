"""Kafka's answer to what the mirror has written, as a frozen value."""

from dataclasses import dataclass
from enum import Enum, auto


class Outcome(Enum):
    """The end of one write."""

    DONE = auto()
    """Kafka has it, but for partitions that are named as refused."""
    HAS_MEMBERS = auto()
    """Kafka's group has members, and Kafka took nothing."""
    REFUSED = auto()
    """Kafka does not take it from this node, or not for this group; asking soon again does not mend it."""
    LATER = auto()
    """The group's coordinator in Kafka has moved or is loading; whether it took something is not known."""
    AWAY = auto()
    """Kafka does not answer, whatever is asked; whether it took something is not known."""


@dataclass(frozen=True, slots=True)
class MirrorAnswered:
    """Completes MirrorOffsets, of the same attempt.

    `refused` has each partition that Kafka did not take though it took the others, with the reason; empty where there
    is nothing to say. `unknown` are partitions that Kafka does not have: any more, or as far as the broker that was
    asked has heard. `why` is fit for people.
    """

    shard: int
    group_id: str
    attempt: int
    outcome: Outcome
    why: str = ""
    refused: tuple[tuple[str, int, str], ...] = ()
    unknown: tuple[tuple[str, int], ...] = ()
