"""The small model's scopes and states, which are tuples of small values."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

NODES: Final = (0, 1, 2)

SENT, LOST, DONE, REFUSED = "sent", "lost", "done", "refused"
"""A write under way; one that may arrive though its writer has given its outcome up; ends that are not heard of yet."""


Name = tuple[Any, ...]
"""The parts of a step's name, which are joined when somebody wants to read it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """How much may happen: leader epochs, records besides those that begin epochs, and outcomes that get lost.

    With `in_order` a fetch is asked and answered in one step, pushes of a fetch come in their order, and of what one
    follower reports in an epoch the greatest end is what may still come. A late answer or push is dropped by the number
    of its fetch, and an early one makes the fetch begin again: what is seen is the same, in far fewer states.
    `changes` writes of an ISR arrive at most; all others are lost on their way. So many replicas as are `warm`
    have the record that began epoch 1 at the start; with 2 the third has been told of the epoch and not fetched.
    """

    epochs: int = 2
    records: int = 2
    unknown: int = 1
    reads: int = 1
    in_order: bool = True
    changes: int = 3
    warm: int = 3


class Write(NamedTuple):
    """A write of the ISR by the leader of an epoch; its expected version counts back from the present one."""

    writer: int
    epoch: int
    expected: int | None
    members: tuple[int, ...]
    status: str


class Command(NamedTuple):
    """What the controller has published for one epoch."""

    epoch: int
    leader: int
    isr: tuple[int, ...]
    version: int


class Read(NamedTuple):
    """A reply that was decided when another node had committed more: it must never leave."""

    epoch: int
    end: int
    round: int


class State(NamedTuple):
    """All there is; nodes and messages are numbers in the tables of the model."""

    nodes: tuple[int, ...]
    zookeeper: Command
    commands: tuple[Command, ...]
    messages: frozenset[tuple[int, int]]
    writes: tuple[Write, ...]
    late: tuple[tuple[int, int, int], ...]
    committed: tuple[int, ...]
    reads: tuple[Read | None, ...]
    left: tuple[int, int, int, int]


class Table:
    """Values by small numbers, so that states are small and quickly compared."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        """Return the number of a value."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number
