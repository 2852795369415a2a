"""An assignor: a pure function from members and partitions to who reads what.

An assignor sees names and numbers only. It knows nothing of epochs, of connections or of what is being stopped: it
says where partitions belong, and reconciliation brings them there.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, TypeAlias, TypeVar

import msgspec

TopicPartition: TypeAlias = tuple[str, int]

Partitions: TypeAlias = AbstractSet[TopicPartition]
"""Partitions that a member has or is to have; nobody but who made the set changes it."""

T = TypeVar("T")


class AssignorMember(msgspec.Struct, frozen=True, gc=False):
    """One member: what it subscribes to, and its capacity in streams (less than one counts as one)."""

    member_id: str
    topics: frozenset[str]
    streams: int

    @property
    def weight(self) -> int:
        """The share of the work this member takes, relative to the others."""
        return self.streams if self.streams > 1 else 1


@dataclass(frozen=True, slots=True)
class AssignorInput:
    """All that an assignment is made from.

    `partitions` maps a topic to its number of partitions; a topic that is missing has none. `current` is who has what
    now; it may name members that are gone and partitions that do not exist, which are passed over.
    """

    members: tuple[AssignorMember, ...]
    partitions: Mapping[str, int]
    current: Mapping[str, Partitions]


Assignor: TypeAlias = Callable[[AssignorInput], Mapping[str, Partitions]]
"""Answers with an entry for every member, which may be empty.

Every assignor gives each partition of a subscribed topic to exactly one member that subscribes to it, and answers equal
inputs alike, whatever the order of members and mappings and whatever the hash seed.
"""

Turns: TypeAlias = Generator[None, None, T]
"""Work that stops now and then, so that others have their turn, and returns what it has made at its end."""

PARTITIONS_A_TURN: Final = 10_000
"""So many partitions are looked at between two stops."""

A_SET: Final = 10
"""So many partitions are looked at in the time in which a set, a topic or a column of few is: they may be very many."""


@dataclass(frozen=True, slots=True)
class TurnsAssignor:
    """An assignor that can be run in turns, and is one like any other."""

    in_turns: Callable[[AssignorInput], Turns[Mapping[str, Partitions]]]

    def __call__(self, given: AssignorInput) -> Mapping[str, Partitions]:
        """Assign in one go."""
        return run_whole(self.in_turns(given))


def run_whole(turns: Turns[T]) -> T:
    """Run to the end and return what was made."""
    while True:
        try:
            next(turns)
        except StopIteration as done:
            made: T = done.value
            return made


class Pace:
    """Counts what was looked at since the last stop."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen = 0

    def is_over(self, partitions: int) -> bool:
        """True when a stop is due after having looked at so many partitions more."""
        self._seen += partitions
        if self._seen < PARTITIONS_A_TURN:
            return False
        self._seen = 0
        return True


def portions(partitions: Collection[T]) -> Iterator[Collection[T]]:
    """Yield partitions, or numbers of them, in portions, of which each is looked at in one turn."""
    if len(partitions) <= PARTITIONS_A_TURN:
        yield partitions
        return
    left = iter(partitions)
    while some := tuple(islice(left, PARTITIONS_A_TURN)):
        yield some


def gather(partitions: Collection[TopicPartition], pace: Pace, before: Partitions = frozenset()) -> Turns[Partitions]:
    """Return partitions, with those that were there before, as a set that is made in turns."""
    if len(before) + len(partitions) <= PARTITIONS_A_TURN:
        if pace.is_over(A_SET + len(before) + len(partitions)):
            yield
        return frozenset(before).union(partitions)
    made: set[TopicPartition] = set()
    for some in chain(portions(before), portions(partitions)):
        made.update(some)
        if pace.is_over(len(some)):
            yield
    return made


def let_go(partitions: Partitions, pace: Pace) -> Turns[None]:
    """Empty a set that was made in turns and is needed no longer: to let go of it at once would be a long turn."""
    while isinstance(partitions, set) and partitions:
        some = min(len(partitions), PARTITIONS_A_TURN)
        for _ in range(some):
            partitions.pop()
        if pace.is_over(some):
            yield
