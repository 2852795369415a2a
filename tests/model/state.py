"""The small model's scopes and states, which are tuples of small values."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

NODES: Final = (0, 1, 2)

SENT, LOST, DONE, REFUSED, NOT_READY = "sent", "lost", "done", "refused", "not ready"
"""A write under way; one that may arrive though its writer has given its outcome up; ends that are not heard of yet."""


Name = tuple[Any, ...]
"""The parts of a step's name, which are joined when somebody wants to read it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """How much may happen: leader epochs, records besides those that begin epochs, and outcomes that get lost.

    With `in_order` a fetch is asked and answered in one step, pushes of a fetch come in their order, and of what is
    reported of one fetch the greatest end is what may still come. A late answer or push is dropped by the number
    of its fetch, and an early one makes the fetch begin again: what is seen is the same, in far fewer states.
    `changes` writes of an ISR arrive at most; all others are lost on their way. So many replicas as are `warm`
    have the record that began epoch 1 at the start; with 2 the third has been told of the epoch and not fetched.
    With `min_insync` 1 a leader may be its whole ISR. A node that `restarts` has what was synced, one that is among the
    `wiped` has nothing, and has left the ISR in the transaction that registers it. One that is `put_back` has the begin
    of what it had, and nobody knows.
    """

    epochs: int = 2
    records: int = 2
    unknown: int = 1
    reads: int = 1
    in_order: bool = True
    changes: int = 3
    warm: int = 3
    min_insync: int = 2
    restarts: int = 0
    wiped: int = 0
    put_back: int = 0


class Write(NamedTuple):
    """A write of the ISR by the leader of an epoch; its expected version counts back from the present one.

    It takes in those who are `joining`, each in the life of its fetch. One that is not current was settled by what was
    read before its end was heard of.
    """

    writer: int
    epoch: int
    expected: int | None
    members: tuple[int, ...]
    joining: tuple[tuple[int, int], ...]
    status: str
    is_current: bool = True


def write_key(write: Write) -> tuple[object, ...]:
    """Return what writes are ordered by; one that expects no version comes first."""
    return write if write.expected is not None else write._replace(expected=-9)


def in_order(writes: list[Write]) -> tuple[Write, ...]:
    """Return writes as a set, of which the same always looks the same."""
    return tuple(sorted(set(writes), key=write_key)) if len(writes) > 1 else tuple(writes)


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


class Left(NamedTuple):
    """How much of a scope may happen yet."""

    records: int
    unknown: int
    reads: int
    changes: int
    restarts: int
    wiped: int
    put_back: int


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
    left: Left


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
