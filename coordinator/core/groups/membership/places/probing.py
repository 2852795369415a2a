"""Probes: the connection of a member is asked whether it lives before another process, or member, may have its place.

A probe waits like all that is said until the records before it are durable, and its time begins when it leaves. Whether
the newcomer is refused or let in is decided by registration; whose place it would be by what is known of the group.
"""

from coordinator.core.groups.assignment.comparison import Comparison
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.membership.places.applications import rivals
from coordinator.core.groups.soft.sessions import MemberSession, Registration
from coordinator.core.groups.soft.timers import Timer, TimerKind
from coordinator.protocol.messages import Probe


class Probing:
    """The probes of the groups of one shard."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def ask(self, session: MemberSession, newcomer: Registration, rival: str) -> None:
        """Ask the connection of a member whether it lives, and have a newcomer wait for the answer."""
        desk, group_id = self._desk, newcomer.request.group_id
        session.newcomer = newcomer
        desk.newcomers[newcomer.connection_id] = (group_id, rival)
        desk.connections[newcomer.connection_id].is_registering = True
        desk.push(session.connection_id, Probe())
        desk.unsent_probes[group_id, rival] = desk.journal.log_end_offset
        self.time()

    def time(self) -> None:
        """Begin the time of the probes that have left: a slow disk holds them back and shortens no member's time."""
        desk = self._desk
        sent = [key for key, end_offset in desk.unsent_probes.items() if end_offset <= desk.durable_end]
        for key in sent:
            del desk.unsent_probes[key]
            desk.timers.set(Timer(TimerKind.PROBE, *key), desk.now_ms + desk.limits.probe_timeout_ms)

    def rival(
        self, group: GroupState, registration: Registration, member_id: str, comparison: Comparison
    ) -> str | None:
        """Return the member in whose place a registration would come, if there is one that lives.

        That is the same member as another process, or another member of the same program for the same topics. After a
        restart of the coordinator one that has not come back yet keeps its place from those who had none. None also
        when the comparison is not through.
        """
        request, comparison.is_through = registration.request, True
        known = group.members.get(member_id)
        is_other = known is not None and known.facts.incarnation != request.incarnation
        if is_other and self._is_connected(group, member_id):
            return member_id
        others = rivals(group, request, member_id, comparison)
        return next((other for other in others if self._keeps_place(group, other, is_new=known is None)), None)

    def _keeps_place(self, group: GroupState, member_id: str, *, is_new: bool) -> bool:
        session = self._desk.session_of(group.group_id, member_id)
        is_awaited = session is not None and session.is_awaited
        return self._is_connected(group, member_id) or (is_new and is_awaited)

    def _is_connected(self, group: GroupState, member_id: str) -> bool:
        session = self._desk.session_of(group.group_id, member_id)
        return session is not None and session.connection_id is not None

    def close_old(self, group_id: str, member_id: str, why: str) -> None:
        """Close the connection of a member whose place another process takes."""
        session = self._desk.session_of(group_id, member_id)
        if session is not None and session.connection_id is not None:
            self._desk.close(session.connection_id, f"another process took the place of member {member_id}: {why}")
            session.connection_id, session.disconnected_ms = None, self._desk.now_ms

    def take_newcomer(self, group_id: str, member_id: str) -> Registration | None:
        """Return the registration that waits for a member's connection to answer, and wait no longer."""
        session = self._desk.session_of(group_id, member_id)
        if session is None or session.newcomer is None:
            return None
        newcomer, session.newcomer = session.newcomer, None
        del self._desk.newcomers[newcomer.connection_id]
        self._desk.unsent_probes.pop((group_id, member_id), None)
        self._desk.timers.cancel(Timer(TimerKind.PROBE, group_id, member_id))
        connection = self._desk.connections.get(newcomer.connection_id)
        if connection is not None:
            connection.is_registering = False
        return newcomer
