"""The way into a group: registration, coming back, and two processes with one identity.

A member is bound to one connection. A process that shows the identity of a member whose connection lives is made to
wait while that connection is probed, so that a copied identity is refused and a dead one is replaced; `places` has the
probes. A member that comes back as the same process keeps what it has, and nobody else notices.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from coordinator.core.events import TopicsRead
from coordinator.core.groups.assignment.assignors import Assignor
from coordinator.core.groups.assignment.comparison import Comparison
from coordinator.core.groups.bounds.allowance import (
    brings_nothing_new,
    growth_of_member,
    is_as_it_was,
    why_no_more_groups,
    why_no_room,
)
from coordinator.core.groups.bounds.claim_watch import ClaimWatch
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.records import (
    ClaimsClosed,
    ClaimsGivenUp,
    GroupSettings,
    MemberJoined,
    Released,
    ReleasedPart,
)
from coordinator.core.groups.hard.replay.replay import changes_target
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.membership.gone_back import GoneBack, end_shown
from coordinator.core.groups.membership.listed_claims import Look
from coordinator.core.groups.membership.looks import Looks
from coordinator.core.groups.membership.pattern_turns import GroupTurn, PatternTurns
from coordinator.core.groups.membership.places.applications import why_second
from coordinator.core.groups.membership.places.identities import (
    why_fenced_instance,
    why_id_in_use,
    why_of_another_principal,
    why_of_later_process,
)
from coordinator.core.groups.membership.places.probing import Probing
from coordinator.core.groups.membership.recovery import Recovery, is_yet_to_begin
from coordinator.core.groups.membership.subscribed_topics import SubscribedTopics
from coordinator.core.groups.membership.validation import Refusal, facts_of, why_malformed, why_unfit
from coordinator.core.groups.reconciliation.reconciler import Reconciler
from coordinator.core.groups.soft.sessions import Connection, MemberSession, Registration
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.core.groups.soft.timers import Timer, TimerKind
from coordinator.core.node_wide import SHORT_STAYS
from coordinator.core.security.principal import Principal
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import RegisterConsumer, RegisterConsumerResponse
from coordinator.protocol.parts import ClaimStatuses
from coordinator.protocol.vocabulary import Handover


class Membership:
    """The members of the groups of one shard."""

    def __init__(
        self,
        desk: Desk,
        reconciler: Reconciler,
        recovery: Recovery,
        claim_watch: ClaimWatch,
        assignors: Mapping[str, Assignor],
    ) -> None:
        self._desk = desk
        self._reconciler = reconciler
        self._recovery = recovery
        self._claim_watch = claim_watch
        self._gone_back = GoneBack(desk, reconciler)
        self._looks = Looks(desk)
        self.probing = Probing(desk)
        self._known_assignors = tuple(assignors)
        self.turns = PatternTurns()
        self.topics = SubscribedTopics(desk, self.turns)

    # ---- registration -----------------------------------------------------------------------------------------------

    def register(self, registration: Registration, read: TopicsRead | None = None) -> None:
        """Answer a registration now, or keep it until Kafka or a probed connection has answered.

        `read` is the answer of Kafka that just came, if one did; only that can say that a topic does not exist.
        """
        desk, request = self._desk, registration.request
        connection = desk.connections.get(registration.connection_id)
        if connection is None or connection.is_closing:
            return
        # A registration that waited for Kafka, or a turn, was looked at before it did, and does not change.
        is_looked_at = read is not None or self.turns.of_registration(registration) is not None
        refusal = (
            None if is_looked_at else why_malformed(request, registration.shown, desk.limits, self._known_assignors)
        )
        if refusal is not None:
            self._refuse(registration, *refusal)
            return
        group = desk.group(request.group_id)
        if request.is_leaving and not _is_there(group, request.member_id):
            why = f"{request.member_id} is no member of group {request.group_id} any more, and wants to leave it"
            self._refuse(registration, ErrorCode.UNKNOWN_MEMBER_ID, why)
            return
        no_more = why_no_more_groups(desk, connection) if group is None else None
        if no_more is not None:
            self._refuse(registration, *no_more)
            return
        member_id = self._identity(registration, group)
        if member_id is None:
            assert group is not None, "only a group knows instance ids"
            self._refuse(registration, ErrorCode.FENCED_INSTANCE_ID, why_fenced_instance(group, request))
            return
        if group is not None:
            refusal = why_unfit(group, request, member_id, desk.limits, self._known_assignors)
            if refusal is not None:
                self._refuse(registration, *refusal)
                return
            why_not_its_own = self._why_not_its_own(registration, group, member_id, connection.principal)
            if why_not_its_own is not None:
                self._refuse(registration, ErrorCode.GROUP_AUTHORIZATION_FAILED, why_not_its_own)
                return
        old = group.members.get(member_id) if group is not None else None
        why_wait = desk.node_wide.why_wait(connection.owner, desk.now_ms) if old is None else None
        if why_wait is not None:
            desk.note_reached(SHORT_STAYS, connection, why_wait)
            self._refuse(registration, ErrorCode.COORDINATOR_NOT_AVAILABLE, why_wait)
            return
        are_known = self.topics.are_known(request, group, old, read, connection.principal)
        turn = self.turns.of_registration(registration)
        comparison = Comparison(desk.meter) if turn is None else turn.comparison
        if isinstance(are_known, Refusal):
            self._refuse(registration, *are_known)
        elif are_known is False:
            self._wait_for_kafka(registration)
        elif are_known is None:
            self._wait_for_turn(registration, read, comparison)
        elif self._has_place_to_itself(registration, member_id, comparison):
            self._look_and_accept(registration, connection, member_id, read)
        elif not comparison.is_through:
            self._wait_for_turn(registration, read, comparison)

    def _identity(self, registration: Registration, group: GroupState | None) -> str | None:
        request = registration.request
        known = awaited = None
        if group is not None and request.instance_id is not None:
            known = group.by_facts.instances.get(request.instance_id)
            awaited = group.awaited.get(request.instance_id)
        if known is not None and request.member_id not in {"", known}:
            return None
        assert request.member_id or registration.fresh_id, "a registration without a member id comes with a fresh one"
        return known or request.member_id or awaited or registration.fresh_id

    def _why_not_its_own(
        self, registration: Registration, group: GroupState, member_id: str, principal: Principal
    ) -> str | None:
        """Say that its identity, or one whose claims are given up for its instance id, is another principal's."""
        why = why_of_another_principal(group, member_id, principal)
        former = group.awaited.get(registration.request.instance_id or "")
        return why or (None if former is None else why_of_another_principal(group, former, principal))

    def _wait_for_kafka(self, registration: Registration) -> None:
        desk = self._desk
        if registration.connection_id in desk.registrations:
            if self.turns.end(registration.connection_id):
                self._time_kafka(registration)
            return
        if len(desk.registrations) >= desk.limits.registrations_max:
            why = f"{desk.limits.registrations_max} members wait for Kafka or for their turn already; try again"
            self._refuse(registration, ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
            return
        desk.registrations[registration.connection_id] = registration
        self._count_awaited(registration, 1)
        desk.connections[registration.connection_id].is_registering = True
        self._time_kafka(registration)

    def _time_kafka(self, registration: Registration) -> None:
        timer = Timer(TimerKind.REGISTRATION, registration.request.group_id, registration.connection_id)
        self._desk.timers.set(timer, self._desk.now_ms + self._desk.limits.registration_timeout_ms)

    def _wait_for_turn(self, registration: Registration, read: TopicsRead | None, comparison: Comparison) -> None:
        """Keep a registration until more names were matched: like one that waits for Kafka, without a time-out."""
        desk, connection_id = self._desk, registration.connection_id
        if self.turns.of_registration(registration) is None:
            self._wait_for_kafka(registration)
            if connection_id not in desk.registrations:
                return  # it was refused
            desk.timers.cancel(Timer(TimerKind.REGISTRATION, registration.request.group_id, connection_id))
        self.turns.registration_waits(registration, read, comparison)
        desk.timers.set(Timer(TimerKind.REST, ""), desk.now_ms)

    def forget_registration(self, connection_id: int) -> Registration | None:
        """Stop waiting for Kafka on behalf of a connection."""
        registration = self._desk.registrations.pop(connection_id, None)
        self.turns.end(connection_id)
        if registration is not None:
            self._count_awaited(registration, -1)
            timer = Timer(TimerKind.REGISTRATION, registration.request.group_id, connection_id)
            self._desk.timers.cancel(timer)
            connection = self._desk.connections.get(connection_id)
            if connection is not None:
                connection.is_registering = False
        return registration

    def take_turns(self) -> None:
        """Match patterns for those who wait for it, as much as the step may."""
        self.turns.take(self._desk, self._match_group, self.register, self.forget_connection)

    def _match_group(self, turn: GroupTurn) -> None:
        if self.topics.match_patterns(turn):
            self._reconciler.window.note_change(turn.group_id, "other topics match its patterns")

    def _count_awaited(self, registration: Registration, amount: int) -> None:
        """Keep count of what registrations wait for, so that nobody has to go through all of them for it."""
        desk, subscription = self._desk, registration.request.subscription
        for topic in registration.topics:
            count = desk.awaited_topics.get(topic, 0) + amount
            if count == 0:
                del desk.awaited_topics[topic]
            else:
                desk.awaited_topics[topic] = count
            desk.awaited_changes += count == max(0, amount)
        if subscription.pattern is not None:
            desk.awaited_patterns += amount
            desk.awaited_changes += desk.awaited_patterns == max(0, amount)

    def forget_connection(self, connection_id: int) -> None:
        """Forget the registration of a connection that is gone."""
        self.forget_registration(connection_id)
        self._looks.forget(connection_id)

    def registration_timed_out(self, connection_id: int) -> None:
        """Refuse a registration because Kafka did not answer in time."""
        registration = self.forget_registration(connection_id)
        if registration is not None:
            why = f"the topics could not be looked up: {self._desk.catalog.why_unreachable()}"
            self._refuse(registration, ErrorCode.COORDINATOR_NOT_AVAILABLE, why)

    def _refuse(self, registration: Registration, error: ErrorCode, why: str) -> None:
        self.forget_registration(registration.connection_id)
        self._looks.forget(registration.connection_id)
        response = RegisterConsumerResponse(error=error, message=why)
        self._desk.respond(registration.connection_id, registration.correlation_id, response)

    # ---- two processes, one place ------------------------------------------------------------------------------------

    def _has_place_to_itself(self, registration: Registration, member_id: str, comparison: Comparison) -> bool:
        """Return False when the connection of the member that is in its place is asked first whether it lives.

        False also when it has not been compared with all members yet.
        """
        desk, request = self._desk, registration.request
        group = desk.group(request.group_id)
        rival = self.probing.rival(group, registration, member_id, comparison) if group is not None else None
        if group is None or rival is None:
            return comparison.is_through
        session = desk.session_of(request.group_id, rival)
        assert session is not None
        is_asked = session.newcomer is not None and session.newcomer.connection_id != registration.connection_id
        if is_asked or session.connection_id is None:
            self._refuse_as_used(registration, group, rival)
            return False
        self.forget_registration(registration.connection_id)
        self.probing.ask(session, registration, rival)
        return False

    def _refuse_as_used(self, registration: Registration, group: GroupState, member_id: str) -> None:
        """Refuse the registration whose place a living member has."""
        if self._identity(registration, group) != member_id:
            why = why_second(group, member_id, shares=registration.request.shares_application)
            self._refuse(registration, ErrorCode.SECOND_MEMBER_OF_APPLICATION, why)
            return
        why = why_id_in_use(group, registration.request, member_id)
        self._refuse(registration, ErrorCode.MEMBER_ID_IN_USE, why)

    def heard(self, connection: Connection) -> None:
        """Note that a member said something: its session is new again, and who probes it is refused."""
        session = connection.session
        assert session is not None
        session.last_heard_ms = self._desk.clock.now_ms
        if session.newcomer is not None:
            group_id, member_id = connection.group_id, connection.member_id
            assert group_id is not None
            assert member_id is not None
            group = self._desk.group(group_id)
            newcomer = self.probing.take_newcomer(group_id, member_id)
            assert group is not None
            assert newcomer is not None
            self._refuse_as_used(newcomer, group, member_id)

    def probe_timed_out(self, group_id: str, member_id: str) -> None:
        """Give the place of a member that did not answer to the process that waits for it."""
        newcomer = self.probing.take_newcomer(group_id, member_id)
        if newcomer is not None:
            self.probing.close_old(group_id, member_id, "it did not answer a probe")
            self.register(newcomer)

    # ---- in ---------------------------------------------------------------------------------------------------------

    def _look_and_accept(
        self, registration: Registration, connection: Connection, member_id: str, read: TopicsRead | None
    ) -> None:
        """Accept a registration once all that it lists has been looked at."""
        request, shown = registration.request, registration.shown
        group = self._desk.group(request.group_id)
        old = group.members.get(member_id) if group is not None else None
        # Who is gone and left something commits: of a reader nothing stays.
        commits_otherwise = request.commits != (old.facts.commits if old is not None else True)
        keeps = not commits_otherwise and not self._gone_back.is_shown(group, request, shown)
        self.forget_registration(registration.connection_id)
        look = self._looks.look_of(registration, read, group, member_id, keeps=keeps)
        if look is not None:
            self._accept(registration, connection, member_id, look)
        elif self._looks.changes_too_often(registration.connection_id):
            why = "its claims change while they are looked at; try again"
            self._refuse(registration, ErrorCode.COORDINATOR_NOT_AVAILABLE, why)

    def look_on(self, connection_id: int) -> None:
        """Look at more of what a registration lists, and begin with it again after that."""
        looked_at = self._looks.go_on(connection_id)
        if looked_at is not None:
            self.register(*looked_at)

    def _accept(self, registration: Registration, connection: Connection, member_id: str, look: Look) -> None:
        desk, request, shown = self._desk, registration.request, registration.shown
        before = desk.group(request.group_id)
        old = before.members.get(member_id) if before is not None else None
        topics = self.topics.standing_for(request.group_id, request.subscription, old, connection.principal)
        facts = facts_of(request, shown, member_id, connection, topics)
        more = growth_of_member(desk, before, old.facts if old is not None else None, facts, request.group_id)
        no_room = why_no_room(
            desk, before, more, may_use_reserve=brings_nothing_new(before, facts), owner=connection.owner
        )
        has_gone_back = self._gone_back.is_shown(before, request, shown)
        if no_room is not None and old is not None and not has_gone_back and is_as_it_was(old.facts, facts):
            # The group has the offsets of all that it was granted, so where it has come to need not be remembered.
            facts = replace(facts, hints=old.facts.hints)
        elif no_room is not None:
            self._refuse(registration, *no_room)
            return
        lets_go = not look.keeps and not has_gone_back
        listed = None
        if before is not None and look.keeps:
            listed = look.listed(before)
            why_later = why_of_later_process(before, registration, member_id, listed, self._claim_watch)
            if why_later is not None:
                self._refuse(registration, ErrorCode.MEMBER_ID_IN_USE, why_later)
                return
        is_new_group = before is None or is_yet_to_begin(before)
        # Of a reader nothing stays, so who left a running claim had committed.
        is_known = old.facts.commits if old is not None else before is not None and bool(before.owned_by(member_id))
        earliest_why = self._recovery.why_earliest(request, shown, before, is_new_group=is_new_group, is_known=is_known)
        waited_before = (before.handover, before.claim_timeout_ms) if before is not None else None
        has_news_of_topics = self._settle_group(registration, connection.owner, topics, earliest_why)
        group = desk.group(request.group_id)
        assert group is not None
        if has_gone_back:
            self._gone_back.begin_anew(group, member_id, end_shown(request, shown))
        soft = desk.soft_of(request.group_id)
        was_empty = not group.members
        old_facts = old.facts if old is not None else None
        if lets_go:
            self._let_go_of_all(group, member_id)
        if old_facts != facts:
            soft.hints = None
            desk.journal.decide(MemberJoined(group.group_id, facts, old.member_epoch if old is not None else 0))
        self._give_up_former(group, facts.instance_id, member_id)
        if listed is None:
            look.go_on(group)
            listed = look.listed(group)
        if listed.dropped:
            desk.journal.decide(ClaimsClosed(group.group_id, listed.dropped))
        if waited_before not in {None, (group.handover, group.claim_timeout_ms)}:
            self._claim_watch.count_anew(group)
        session = soft.sessions.get(member_id)
        if session is not None and session.connection_id not in {None, registration.connection_id}:
            assert session.connection_id is not None
            desk.close(session.connection_id, f"member {member_id} has registered on a new connection")
        newcomer = self.probing.take_newcomer(group.group_id, member_id)
        self._looks.forget(registration.connection_id)
        joined_ms = session.joined_ms if session is not None else desk.now_ms
        session = MemberSession(registration.connection_id, desk.now_ms, facts.session_timeout_ms, joined_ms=joined_ms)
        soft.sessions[member_id] = session
        connection.bind(group.group_id, member_id, session)
        desk.sessions.set((group.group_id, member_id), session.ends_ms)
        if newcomer is not None:
            self._refuse_as_used(newcomer, group, member_id)
        desk.timers.cancel(Timer(TimerKind.GRACE, group.group_id, member_id))
        self._note_accepted(group, member_id, old_facts.incarnation if old_facts is not None else None)
        self._respond_accepted(registration, group, member_id, listed.statuses)
        told = self._reconciler.tellings.begin(group.group_id, member_id)
        self._recovery.note_registered(
            group, member_id, request, shown, is_new_group=is_new_group, has_gone_back=has_gone_back
        )
        self._reconciler.want_back(group.group_id, member_id, told)
        if changes_target(old_facts, facts):
            self._reconciler.window.note_change(group.group_id, f"{member_id} {'changed' if old_facts else 'joined'}")
        elif has_news_of_topics:
            self._reconciler.window.note_change(group.group_id, "its topics changed")
        elif has_gone_back:
            # What was held for somebody who had gone is in no target, and is free now.
            self._reconciler.window.note_change(group.group_id, "its log went back")
        if was_empty:
            self._reconciler.note_first(group.group_id)
        if has_gone_back:
            self._reconciler.grant_what_is_free(group.group_id)

    def _let_go_of_all(self, group: GroupState, member_id: str) -> None:
        """Release what a member has that commits from now on, or no longer: where it starts is decided anew."""
        desk, partitions = self._desk, group.owned_by(member_id).in_order()
        if partitions:
            parts = tuple(ReleasedPart(*partition, group.grants[partition].owner_epoch) for partition in partitions)
            desk.journal.decide(Released(group.group_id, member_id, parts, ()))
            self._reconciler.note_lost(group.group_id, partitions, desk.now_ms, f"{member_id} commits otherwise")

    def _give_up_former(self, group: GroupState, instance_id: str | None, member_id: str) -> None:
        """Close claims that waited for an instance id which is back under another member id, with another checkpoint.

        As with any identity that comes back, claims that its checkpoint does not show are dropped.
        """
        former = None if instance_id is None else group.awaited.get(instance_id)
        if former in {None, member_id} or former in group.members:
            return
        desk = self._desk
        why = f"instance {instance_id} is back as {member_id}, whose checkpoint does not show the claims of {former}"
        partitions = tuple(group.owned_by(former).in_order())
        desk.journal.decide(ClaimsGivenUp(group.group_id, partitions, why))
        desk.note(group.group_id, EventKind.CLAIM_GIVEN_UP, why, member_id=former, partitions=partitions)
        self._reconciler.note_lost(group.group_id, partitions, desk.now_ms, why)
        self._reconciler.window.note_change(group.group_id, why)

    def _settle_group(self, registration: Registration, owner: str, topics: tuple[str, ...], earliest_why: str) -> bool:
        """Record what the registration says of its group, and return whether its topics are news."""
        desk, request = self._desk, registration.request
        group = desk.group(request.group_id)
        policy = request.reset_policy
        if group is None:
            handover = request.handover or Handover.TAKEOVER
            settings = GroupSettings(request.group_id, 0, "", policy, handover, False, request.claim_timeout_ms, owner)
            if not request.commits:
                settings = replace(settings, reset_policy=None, handover=Handover.TAKEOVER, claim_timeout_ms=None)
            desk.journal.decide(settings)
        elif request.commits:
            handover = request.handover or group.handover
            is_other_handover = handover != group.handover
            kept_timeout_ms = None if is_other_handover else group.claim_timeout_ms
            settings = GroupSettings(
                group.group_id,
                group.group_epoch,
                group.assignor,
                policy or group.reset_policy,
                handover,
                group.is_target_stale,
                request.claim_timeout_ms or kept_timeout_ms,
            )
            before = (group.reset_policy, group.handover, group.claim_timeout_ms)
            if (settings.reset_policy, settings.handover, settings.claim_timeout_ms) != before:
                desk.journal.decide(settings)
        news = [topic for topic in topics if self._look_at(request, topic, earliest_why)]
        return bool(news)

    def _look_at(self, request: RegisterConsumer, topic: str, earliest_why: str) -> bool:
        return self.topics.look_at(request.group_id, topic, by_readers=not request.commits, earliest_why=earliest_why)

    def _note_accepted(self, group: GroupState, member_id: str, old_incarnation: str | None) -> None:
        facts = group.members[member_id].facts
        if old_incarnation == facts.incarnation:
            kind, why = EventKind.MEMBER_RETURNED, "the same process registered again"
        elif old_incarnation is not None:
            kind, why = EventKind.MEMBER_REPLACED, f"process {facts.pid} on {facts.host} took its place"
        elif member_id in group.owned:
            kind, why = EventKind.MEMBER_RETURNED, f"process {facts.pid} on {facts.host} resumes its running claims"
        else:
            kind, why = EventKind.MEMBER_JOINED, f"process {facts.pid} on {facts.host} registered"
        self._desk.note(group.group_id, kind, why, member_id=member_id)

    def _respond_accepted(
        self, registration: Registration, group: GroupState, member_id: str, statuses: ClaimStatuses
    ) -> None:
        member = group.members[member_id]
        response = RegisterConsumerResponse(
            member_id=member_id,
            member_epoch=member.member_epoch,
            group_epoch=group.group_epoch,
            session_timeout_ms=member.facts.session_timeout_ms,
            ping_interval_ms=member.facts.ping_interval_ms,
            claims=statuses,
            kafka_cluster_id=self._desk.catalog.cluster_id,
            kafka_bootstrap=self._desk.catalog.bootstrap,
            log=self._desk.journal.position,
            held=len(group.owned_by(member_id)),
        )
        self._desk.respond(registration.connection_id, registration.correlation_id, response)


def _is_there(group: GroupState | None, member_id: str) -> bool:
    """Return whether there is something for a member to leave: its place, or what is held for it."""
    return group is not None and (member_id in group.members or bool(group.owned_by(member_id)))
