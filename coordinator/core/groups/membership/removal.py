"""The ways in which members go: a closed connection and its grace, silence, and leaving.

A member that is gone leaves the group in one record: what it had is released, but for running claims that may be
waited for. A process that waited for its place registers then. Who comes is `registration`'s business.
"""

from itertools import filterfalse

from coordinator.core.groups.bounds.claim_watch import ClaimWatch
from coordinator.core.groups.bounds.expiry import Expiry
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.records import MemberRemoved
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.membership.registration import Membership
from coordinator.core.groups.partitions.partition_set import PartitionSet
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation.reconciler import Reconciler
from coordinator.core.groups.soft.sessions import Connection, MemberSession, owner_of
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.core.groups.soft.timers import Timer, TimerKind
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Fenced
from coordinator.protocol.vocabulary import Handover


class Departures:
    """The ways out of the groups of one shard."""

    def __init__(
        self, desk: Desk, reconciler: Reconciler, claim_watch: ClaimWatch, expiry: Expiry, membership: Membership
    ) -> None:
        self._desk = desk
        self._reconciler = reconciler
        self._claim_watch = claim_watch
        self._expiry = expiry
        self._membership = membership

    def connection_lost(self, connection: Connection, why: str) -> None:
        """Let a newcomer take the place of a member whose connection closed, or give it its time to come back.

        A static member has what is left of its session time-out; any other the grace of the node's settings.
        """
        desk = self._desk
        self._membership.forget_connection(connection.connection_id)
        waiting_for = desk.newcomers.get(connection.connection_id)
        if waiting_for is not None:
            self._membership.probing.take_newcomer(*waiting_for)
        if connection.group_id is None or connection.member_id is None:
            return
        group_id, member_id = connection.group_id, connection.member_id
        group = desk.group(group_id)
        session = desk.session_of(group_id, member_id)
        assert group is not None
        assert session is not None
        session.connection_id = None
        session.disconnected_ms = desk.now_ms
        session.why_disconnected = why
        newcomer = self._membership.probing.take_newcomer(group_id, member_id)
        if newcomer is not None:
            self._membership.register(newcomer)
            session = desk.session_of(group_id, member_id)
            if session is None or session.connection_id is not None:
                return
        columns = group.owned_by(member_id).columns()
        has_running_claim = any(group.claims.any_running(topic, numbers) for topic, numbers in columns)
        if has_its_session(group, member_id, has_running_claim=has_running_claim):
            return
        grace_ms = (
            desk.limits.closed_connection_grace_ms if has_running_claim else desk.limits.closed_connection_idle_grace_ms
        )
        if grace_ms > 0:
            desk.timers.set(Timer(TimerKind.GRACE, group_id, member_id), desk.now_ms + grace_ms)
        else:
            self.grace_is_over(group_id, member_id)

    def grace_is_over(self, group_id: str, member_id: str) -> None:
        """Remove a member whose connection closed and that did not come back."""
        session = self._desk.session_of(group_id, member_id)
        if session is not None and session.connection_id is None:
            why = f"its connection closed ({session.why_disconnected})"
            self._remove(
                group_id, member_id, EventKind.MEMBER_EXPIRED, why, session.disconnected_ms, keeps_running_claims=True
            )

    def session_timed_out(self, group_id: str, member_id: str) -> None:
        """Remove a member that said nothing for its session time-out."""
        group = self._desk.group(group_id)
        session = self._desk.session_of(group_id, member_id)
        if group is None or session is None or member_id not in group.members:
            return
        silent_ms = self._desk.now_ms - session.last_heard_ms
        why = f"no message for {silent_ms} ms"
        if session.connection_id is None and session.why_disconnected and group.members[member_id].facts.instance_id:
            why += f": its connection closed ({session.why_disconnected}), and nobody came back with its instance id"
        newcomer = self._membership.probing.take_newcomer(group_id, member_id)
        self._say_fenced(session, ErrorCode.UNKNOWN_MEMBER_ID, f"{why}; register again")
        self._remove(
            group_id,
            member_id,
            EventKind.MEMBER_EXPIRED,
            why,
            session.disconnected_ms,
            keeps_running_claims=True,
        )
        if newcomer is not None:
            self._membership.register(newcomer)

    def leave(self, group_id: str, member_id: str, why: str) -> None:
        """Remove a member that wants to go; its claims are closed and everything is released."""
        newcomer = self._membership.probing.take_newcomer(group_id, member_id)
        self._remove(group_id, member_id, EventKind.MEMBER_LEFT, why, None, keeps_running_claims=False)
        if newcomer is not None:
            self._membership.register(newcomer)

    def _say_fenced(self, session: MemberSession, error: ErrorCode, why: str) -> None:
        self._desk.push(session.connection_id, Fenced(error=error, why=why))

    def _remove(
        self,
        group_id: str,
        member_id: str,
        kind: EventKind,
        why: str,
        dead_since_ms: int | None,
        *,
        keeps_running_claims: bool,
    ) -> None:
        desk = self._desk
        group = desk.group(group_id)
        assert group is not None
        had = group.owned_by(member_id).copy()
        facts = group.members[member_id].facts
        desk.journal.decide(MemberRemoved(group_id, member_id, keeps_running_claims))
        soft = desk.soft_of(group_id)
        soft.hints = None
        session = soft.sessions.pop(member_id)
        desk.node_wide.note_gone(owner_of(facts.principal, facts.host), session.joined_ms, desk.now_ms)
        soft.unsettled.discard(member_id)
        if session.connection_id is not None:
            connection = desk.connections.get(session.connection_id)
            if connection is not None:
                connection.unbind()
        desk.sessions.cancel((group_id, member_id))
        for timer_kind in (TimerKind.GRACE, TimerKind.PROBE, TimerKind.STOP, TimerKind.TELL):
            desk.timers.cancel(Timer(timer_kind, group_id, member_id))
        since_ms = desk.now_ms if dead_since_ms is None else dead_since_ms
        self._reconciler.note_lost(group_id, had, since_ms, why)
        released = _released(group, had) if member_id in group.owned else had
        desk.note(group_id, kind, why, member_id=member_id, partitions=released)
        self._claim_watch.note_abandoned(group, member_id)
        self._expiry.note_used(group)
        cause = f"{member_id} left" if kind is EventKind.MEMBER_LEFT else f"{member_id} expired: {why}"
        self._reconciler.window.note_change(group_id, cause, is_urgent=True)
        # Most of it is nobody's until the next target.
        if len(had) > desk.limits.slice_partitions:
            self._reconciler.look_at_wanted(group_id, had)
            return
        wanted: list[TopicPartition] = []
        for topic, numbers in had.columns():
            owners = group.target_owners.rows(topic)
            if owners:
                wanted += [(topic, number) for number in numbers if number in owners]
        resets = group.controls.resets
        wanted += [partition for partition in had if partition in resets] if resets else []
        self._reconciler.reconcile(group_id, wanted, ())


def has_its_session(group: GroupState, member_id: str, *, has_running_claim: bool) -> bool:
    """True for a static member, whose place is kept as in Kafka until its session times out.

    Where the group holds its running claims for it, however long it stays away, the rest need not wait for it too.
    """
    is_held = has_running_claim and group.handover == Handover.HOLD
    return group.members[member_id].facts.instance_id is not None and not is_held


def _released(group: GroupState, had: PartitionSet) -> PartitionSet:
    """Return what is nobody's of that which a member had that has just gone."""
    released = PartitionSet()
    for topic, numbers in had.columns():
        released.add_all(topic, list(filterfalse(group.grants.rows(topic).__contains__, numbers)))
    return released
