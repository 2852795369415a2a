"""Registrations that list very many claims, whose claims are looked at in turns before they are decided.

A registration is decided in one step, and most of what that took was to look at its claims. So these are looked at
before, while others go on, and the registration is begun with again after the last turn, whatever has happened to its
group since. What was found counts unless something has happened to the open claims among it: then all is looked at once
more, and a registration whose claims change all the time is refused.
"""

from dataclasses import dataclass
from typing import Final

from coordinator.core.events import TopicsRead
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.membership.listed_claims import Look
from coordinator.core.groups.soft.sessions import Registration
from coordinator.core.groups.soft.timers import Timer, TimerKind

CLAIMS_A_TURN: Final = 5_000
"""So many listed claims are looked at in one step."""
MOST_LOOKS: Final = 10
"""So often the claims of one registration are looked at, when they change meanwhile."""


@dataclass(slots=True)
class _UnderWay:
    registration: Registration
    read: TopicsRead | None
    """The answer of Kafka about its topics when it was begun with, if there was one."""
    look: Look
    looks: int = 1


class Looks:
    """The looks under way in one shard, by connection."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._under_way: dict[int, _UnderWay] = {}

    def look_of(
        self,
        registration: Registration,
        read: TopicsRead | None,
        group: GroupState | None,
        member_id: str,
        *,
        keeps: bool,
    ) -> Look | None:
        """Return the look at what a registration lists, which is through where there is a group.

        None when it is taken in turns: the registration is to be begun with again when `go_on` returns it.
        """
        claims, under_way = registration.shown.claims, self._under_way.get(registration.connection_id)
        if group is None or registration.shown.claim_count <= CLAIMS_A_TURN:
            look = Look(member_id, claims, keeps=keeps)
            if group is not None:
                look.go_on(group)
            return look
        if under_way is None or under_way.registration is not registration:
            self._begin(_UnderWay(registration, read, Look(member_id, claims, keeps=keeps)))
            return None
        look = under_way.look
        is_same = (look.member_id, look.keeps) == (member_id, keeps)
        if look.is_through and is_same and look.is_current(group):
            return look
        self._begin(_UnderWay(registration, read, Look(member_id, claims, keeps=keeps), under_way.looks + 1))
        return None

    def changes_too_often(self, connection_id: int) -> bool:
        """True when the claims of a registration have been looked at often enough."""
        under_way = self._under_way.get(connection_id)
        return under_way is not None and under_way.looks > MOST_LOOKS

    def _begin(self, under_way: _UnderWay) -> None:
        registration = under_way.registration
        self._under_way[registration.connection_id] = under_way
        self._desk.connections[registration.connection_id].is_registering = True
        self._go_on_soon(registration)

    def _go_on_soon(self, registration: Registration) -> None:
        timer = Timer(TimerKind.LOOK, registration.request.group_id, registration.connection_id)
        self._desk.timers.set(timer, self._desk.now_ms)

    def go_on(self, connection_id: int) -> tuple[Registration, TopicsRead | None] | None:
        """Look at more of what a registration lists; return it when it is to be begun with again."""
        under_way = self._under_way.get(connection_id)
        if under_way is None:
            return None
        registration, look = under_way.registration, under_way.look
        group = self._desk.group(registration.request.group_id)
        if group is None or look.is_through:
            return registration, under_way.read
        look.go_on(group, CLAIMS_A_TURN)
        self._go_on_soon(registration)
        return None

    def forget(self, connection_id: int) -> None:
        """Look no longer on behalf of a connection: its registration is decided, or it is gone."""
        under_way = self._under_way.pop(connection_id, None)
        if under_way is not None:
            registration = under_way.registration
            self._desk.timers.cancel(Timer(TimerKind.LOOK, registration.request.group_id, connection_id))
            connection = self._desk.connections.get(connection_id)
            if connection is not None:
                connection.is_registering = False
