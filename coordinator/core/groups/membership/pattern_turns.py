"""The line of those who wait until more names are held against patterns: registrations, and groups matched anew.

A step matches a bounded number of names, whoever wants it. Who needs more waits here in one line, in which the first is
served until it is through, so that each has its turn. A registration is begun with again in its turn, and of a group
some members in each.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from coordinator.core.events import TopicsRead
from coordinator.core.groups.assignment.comparison import Comparison
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.soft.sessions import Registration


@dataclass(slots=True)
class RegistrationTurn:
    """A registration that waits; `read` is the answer of Kafka about its topics, if one came."""

    registration: Registration
    read: TopicsRead | None
    comparison: Comparison


@dataclass(slots=True)
class GroupTurn:
    """A group with members whose patterns are still to be matched, and the topics found for others of this listing.

    These are by pattern, exclusions and, where rights are asked for, principal. Members that are to be matched `again`,
    since there is another listing, wait behind whoever waits now: their group goes before nobody for ever.
    """

    group_id: str
    members: dict[str, None]
    again: dict[str, None] = field(default_factory=dict)
    listing: int | None = None
    matched: dict[tuple[str, tuple[str, ...], str], tuple[str, ...]] = field(default_factory=dict)


class PatternTurns:
    """The line of those who wait in one shard."""

    def __init__(self) -> None:
        self._turns: dict[int | str, RegistrationTurn | GroupTurn] = {}
        """By connection or by group."""

    def __bool__(self) -> bool:
        return bool(self._turns)

    def take(
        self,
        desk: Desk,
        match: Callable[[GroupTurn], None],
        register: Callable[[Registration, TopicsRead | None], None],
        forget: Callable[[int], None],
    ) -> None:
        """Serve those who wait, in their order, until the step has matched enough."""
        while self._turns and desk.meter.may_match:
            turn = next(iter(self._turns.values()))
            if isinstance(turn, GroupTurn):
                match(turn)
                if not turn.members:
                    self.end(turn.group_id)
                    if turn.again:
                        self._turns[turn.group_id] = GroupTurn(turn.group_id, turn.again)
                continue
            connection_id = turn.registration.connection_id
            connection = desk.connections.get(connection_id)
            if connection is None or connection.is_closing:
                forget(connection_id)
                continue
            register(turn.registration, turn.read)
            if self.of_registration(turn.registration) is not None:
                return

    def registration_waits(self, registration: Registration, read: TopicsRead | None, comparison: Comparison) -> None:
        """Have a registration wait, in the place that it has if it has one."""
        turn = self._turns.setdefault(registration.connection_id, RegistrationTurn(registration, read, comparison))
        assert isinstance(turn, RegistrationTurn), "connections have numbers"
        turn.read = read or turn.read

    def of_registration(self, registration: Registration) -> RegistrationTurn | None:
        """Return the turn for which a registration waits, if it does."""
        turn = self._turns.get(registration.connection_id)
        return turn if isinstance(turn, RegistrationTurn) and turn.registration is registration else None

    def others(self, registrations: Iterable[Registration]) -> Iterator[Registration]:
        """Yield those of some registrations that wait for no turn: they may wait for Kafka."""
        return (registration for registration in registrations if self.of_registration(registration) is None)

    def group_waits(self, group_id: str, members: Iterable[str]) -> None:
        """Have members of a group wait, behind all who do; those that wait already keep their place."""
        turn = self._turns.get(group_id)
        if turn is None:
            self._turns[group_id] = GroupTurn(group_id, dict.fromkeys(members))
            return
        assert isinstance(turn, GroupTurn), "groups have names"
        turn.again.update((member_id, None) for member_id in members if member_id not in turn.members)

    def end(self, key: int | str) -> bool:
        """Have a registration, by its connection, or a group wait no longer; return whether it did."""
        return self._turns.pop(key, None) is not None
