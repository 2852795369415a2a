"""Who is in a group: registration, coming back, two processes with one identity, leaving, expiry and fencing.

A member is bound to one connection. A process that shows the identity of a member whose connection lives is made to
wait while that connection is probed, so that a copied identity is refused and a dead one is replaced. A member that
comes back as the same process keeps what it has, and nobody else notices.
"""

from collections.abc import Mapping

from coordinator.core.events import TopicsRead
from coordinator.core.groups import claims
from coordinator.core.groups.assignors import Assignor
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.expiry import Expiry
from coordinator.core.groups.group import look_at_topic, note_deleted, say_topic_change
from coordinator.core.groups.holds import HOLD, ClaimWatch, outlives_stop
from coordinator.core.groups.member import facts_of, why_malformed, why_unfit
from coordinator.core.groups.ownership import Ownership
from coordinator.core.groups.records import (
    ClaimsClosed,
    ClaimsGivenUp,
    GroupSettings,
    MemberJoined,
    MemberRemoved,
    TopicSeen,
    TopicsMatched,
)
from coordinator.core.groups.replay import changes_target
from coordinator.core.groups.soft import Connection, MemberSession, Registration, Timer, TimerKind
from coordinator.core.groups.state import GroupState, TopicPartition
from coordinator.core.groups.subscriptions import matching_topics, named_topics, why_no_such_partition
from coordinator.core.groups.timeline import EventKind
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Fenced, Probe, RegisterConsumerResponse


class Membership:
    """The members of the groups of one shard."""

    def __init__(
        self,
        desk: Desk,
        ownership: Ownership,
        claim_watch: ClaimWatch,
        expiry: Expiry,
        assignors: Mapping[str, Assignor],
    ) -> None:
        self._desk = desk
        self._ownership = ownership
        self._claim_watch = claim_watch
        self._expiry = expiry
        self._known_assignors = tuple(assignors)

    # ---- registration -----------------------------------------------------------------------------------------------

    def register(self, registration: Registration, read: TopicsRead | None = None) -> None:
        """Answer a registration now, or keep it until Kafka or a probed connection has answered.

        `read` is the answer of Kafka that just came, if one did; only that can say that a topic does not exist.
        """
        desk, request = self._desk, registration.request
        connection = desk.connections.get(registration.connection_id)
        if connection is None or connection.is_closing:
            return
        refusal = why_malformed(request, desk.limits, self._known_assignors)
        if refusal is not None:
            self._refuse(registration, *refusal)
            return
        group = desk.group(request.group_id)
        if group is None and len(desk.journal.state.groups) >= desk.limits.groups_max:
            why = f"this node has {desk.limits.groups_max} groups in one shard and takes no more; use another group"
            self._refuse(registration, ErrorCode.GROUP_MAX_SIZE_REACHED, why)
            return
        member_id = self._identity(registration, group)
        if member_id is None:
            why = f"instance id {request.instance_id} belongs to another member id than {request.member_id}"
            self._refuse(registration, ErrorCode.FENCED_INSTANCE_ID, why)
            return
        if group is not None:
            refusal = why_unfit(group, request, member_id, desk.limits, self._known_assignors)
            if refusal is not None:
                self._refuse(registration, *refusal)
                return
        if self._knows_topics(registration, group, read) and self._has_identity_to_itself(registration, member_id):
            self._accept(registration, connection, member_id)

    def _identity(self, registration: Registration, group: GroupState | None) -> str | None:
        request = registration.request
        known = awaited = None
        if group is not None and request.instance_id is not None:
            known = group.instances.get(request.instance_id)
            awaited = group.awaited.get(request.instance_id)
        if known is not None and request.member_id not in {"", known}:
            return None
        assert request.member_id or registration.fresh_id, "a registration without a member id comes with a fresh one"
        return known or request.member_id or awaited or registration.fresh_id

    def _knows_topics(self, registration: Registration, group: GroupState | None, read: TopicsRead | None) -> bool:
        desk, request = self._desk, registration.request
        if request.subscription.pattern is not None:
            if desk.catalog.all_topics is None and self._matched_before(registration, group) is None:
                self._wait_for_kafka(registration)
                return False
            return True
        unknown, absent = [], []
        for topic in named_topics(request.subscription):
            seen = group.topics.get(topic) if group is not None else None
            if desk.catalog.topic(topic) is not None or (seen is not None and seen.partitions > 0):
                continue
            if read is not None and topic in read.absent:
                absent.append(topic)
            elif read is not None and topic in read.refused:
                why = f"Kafka does not speak about topic {topic}: {read.refused[topic]}"
                self._refuse(registration, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
                return False
            elif seen is None or not request.wait_for_topics:
                unknown.append(topic)
        if absent and not request.wait_for_topics:
            why = (
                f"topic {', '.join(absent)} does not exist; create it, correct the name, or set "
                "kcoord.wait.for.topics to true"
            )
            self._refuse(registration, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
            return False
        if unknown:
            self._wait_for_kafka(registration)
            return False
        if request.subscription.partitions and not request.wait_for_topics:
            return self._has_partitions(registration)
        return True

    def _has_partitions(self, registration: Registration) -> bool:
        subscription = registration.request.subscription
        known = [topic for name in named_topics(subscription) if (topic := self._desk.catalog.topic(name)) is not None]
        why = why_no_such_partition({topic.topic: topic.partitions for topic in known}, subscription.partitions)
        if why is not None:
            self._refuse(registration, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
        return why is None

    def _matched_before(self, registration: Registration, group: GroupState | None) -> tuple[str, ...] | None:
        """Return what a pattern matched as a member that comes back had it, if it had the same."""
        request = registration.request
        old = group.members.get(self._identity(registration, group) or "") if group is not None else None
        if old is None or old.facts.pattern != request.subscription.pattern:
            return None
        same = old.facts.exclusions == tuple(sorted(set(request.subscription.exclusions)))
        return old.facts.topics if same else None

    def _topics_of(self, registration: Registration) -> tuple[str, ...]:
        """Return the topics that a subscription stands for now."""
        subscription = registration.request.subscription
        if subscription.pattern is None:
            return named_topics(subscription)
        names = self._desk.catalog.all_topics
        if names is not None:
            return matching_topics(subscription.pattern, subscription.exclusions, names)
        before = self._matched_before(registration, self._desk.group(registration.request.group_id))
        assert before is not None, "a pattern is matched once Kafka has said what topics there are"
        return before

    def match_patterns(self, group_id: str) -> bool:
        """Match the patterns of a group's members anew, and return whether they stand for other topics now."""
        desk = self._desk
        group = desk.group(group_id)
        names = desk.catalog.all_topics
        assert group is not None
        assert names is not None
        soft = desk.soft_of(group_id)
        if soft.matched_listing == desk.catalog.listings:
            return False
        soft.matched_listing = desk.catalog.listings
        matched: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
        changed: dict[tuple[str, ...], list[str]] = {}
        for member_id, member in group.members.items():
            pattern, exclusions = member.facts.pattern, member.facts.exclusions
            if pattern is None:
                continue
            topics = matched.get((pattern, exclusions))
            if topics is None:
                topics = matched[pattern, exclusions] = matching_topics(pattern, exclusions, names)
            if topics != member.facts.topics:
                changed.setdefault(topics, []).append(member_id)
        for topics, member_ids in changed.items():
            for topic in topics:
                self.look_at_topic(group_id, topic, is_new=True)
            desk.journal.decide(TopicsMatched(group_id, tuple(member_ids), topics))
        return bool(changed)

    def _wait_for_kafka(self, registration: Registration) -> None:
        desk = self._desk
        if registration.connection_id in desk.registrations:
            return
        if len(desk.registrations) >= desk.limits.registrations_max:
            why = f"{desk.limits.registrations_max} members wait for Kafka already; try again"
            self._refuse(registration, ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
            return
        desk.registrations[registration.connection_id] = registration
        desk.registration_changes += 1
        desk.connections[registration.connection_id].is_registering = True
        timer = Timer(TimerKind.REGISTRATION, registration.request.group_id, registration.connection_id)
        desk.timers.set(timer, desk.now_ms + desk.limits.registration_timeout_ms)

    def forget_registration(self, connection_id: int) -> Registration | None:
        """Stop waiting for Kafka on behalf of a connection."""
        registration = self._desk.registrations.pop(connection_id, None)
        if registration is not None:
            self._desk.registration_changes += 1
            timer = Timer(TimerKind.REGISTRATION, registration.request.group_id, connection_id)
            self._desk.timers.cancel(timer)
            connection = self._desk.connections.get(connection_id)
            if connection is not None:
                connection.is_registering = False
        return registration

    def registration_timed_out(self, connection_id: int) -> None:
        """Refuse a registration because Kafka did not answer in time."""
        registration = self.forget_registration(connection_id)
        if registration is not None:
            why = f"the topics could not be looked up: {self._desk.catalog.why_unreachable()}"
            self._refuse(registration, ErrorCode.COORDINATOR_NOT_AVAILABLE, why)

    def _refuse(self, registration: Registration, error: ErrorCode, why: str) -> None:
        self.forget_registration(registration.connection_id)
        response = RegisterConsumerResponse(error=error, message=why)
        self._desk.respond(registration.connection_id, registration.correlation_id, response)

    # ---- two processes, one identity --------------------------------------------------------------------------------

    def _has_identity_to_itself(self, registration: Registration, member_id: str) -> bool:
        """Return False when the connection of the same member is asked first whether it lives."""
        desk, request = self._desk, registration.request
        group = desk.group(request.group_id)
        session = desk.session_of(request.group_id, member_id)
        if group is None or session is None or session.connection_id is None:
            return True
        if group.members[member_id].facts.incarnation == request.incarnation:
            return True
        if session.newcomer is not None and session.newcomer.connection_id != registration.connection_id:
            self._refuse_as_used(registration, group, member_id)
            return False
        self.forget_registration(registration.connection_id)
        session.newcomer = registration
        desk.newcomers[registration.connection_id] = (request.group_id, member_id)
        desk.connections[registration.connection_id].is_registering = True
        desk.push(session.connection_id, Probe())
        timer = Timer(TimerKind.PROBE, request.group_id, member_id)
        desk.timers.set(timer, desk.now_ms + desk.limits.probe_timeout_ms)
        return False

    def _close_old(self, group_id: str, member_id: str, why: str) -> None:
        session = self._desk.session_of(group_id, member_id)
        if session is not None and session.connection_id is not None:
            self._desk.close(session.connection_id, f"another process took the place of member {member_id}: {why}")
            session.connection_id = None

    def _refuse_as_used(self, registration: Registration, group: GroupState, member_id: str) -> None:
        facts = group.members[member_id].facts
        why = (
            f"member id {member_id} is in use by the process {facts.pid} on {facts.host} ({facts.client_id}), which "
            "lives; stop it, or give this one a checkpoint or an instance id of its own"
        )
        self._refuse(registration, ErrorCode.MEMBER_ID_IN_USE, why)

    def _take_newcomer(self, group_id: str, member_id: str) -> Registration | None:
        session = self._desk.session_of(group_id, member_id)
        if session is None or session.newcomer is None:
            return None
        newcomer, session.newcomer = session.newcomer, None
        del self._desk.newcomers[newcomer.connection_id]
        self._desk.timers.cancel(Timer(TimerKind.PROBE, group_id, member_id))
        connection = self._desk.connections.get(newcomer.connection_id)
        if connection is not None:
            connection.is_registering = False
        return newcomer

    def heard(self, connection: Connection) -> None:
        """Note that a member said something: its session is new again, and who probes it is refused."""
        assert connection.group_id is not None
        assert connection.member_id is not None
        session = self._desk.soft[connection.group_id].sessions[connection.member_id]
        session.last_heard_ms = self._desk.now_ms
        group = self._desk.group(connection.group_id)
        assert group is not None
        self._set_session_timer(group, connection.member_id)
        if session.newcomer is not None:
            newcomer = self._take_newcomer(connection.group_id, connection.member_id)
            assert newcomer is not None
            self._refuse_as_used(newcomer, group, connection.member_id)

    def probe_timed_out(self, group_id: str, member_id: str) -> None:
        """Give the place of a member that did not answer to the process that waits for it."""
        newcomer = self._take_newcomer(group_id, member_id)
        if newcomer is not None:
            self._close_old(group_id, member_id, "it did not answer a probe")
            self.register(newcomer)

    # ---- in ---------------------------------------------------------------------------------------------------------

    def _accept(self, registration: Registration, connection: Connection, member_id: str) -> None:
        desk, request = self._desk, registration.request
        self.forget_registration(registration.connection_id)
        topics = self._topics_of(registration)
        has_news_of_topics = self._settle_group(registration, topics)
        group = desk.group(request.group_id)
        assert group is not None
        soft = desk.soft_of(request.group_id)
        was_empty = not group.members
        old = group.members.get(member_id)
        old_facts = old.facts if old is not None else None
        facts = facts_of(request, member_id, connection.host, topics)
        if old_facts != facts:
            desk.journal.decide(MemberJoined(group.group_id, facts, old.member_epoch if old is not None else 0))
        self._give_up_former(group, facts.instance_id, member_id)
        dropped = claims.open_claims_not_listed(group, member_id, request.claims)
        if dropped:
            desk.journal.decide(ClaimsClosed(group.group_id, dropped))
        session = soft.sessions.get(member_id)
        if session is not None and session.connection_id not in {None, registration.connection_id}:
            assert session.connection_id is not None
            desk.close(session.connection_id, f"member {member_id} has registered on a new connection")
        soft.sessions[member_id] = MemberSession(registration.connection_id, desk.now_ms)
        connection.group_id, connection.member_id = group.group_id, member_id
        self._set_session_timer(group, member_id)
        desk.timers.cancel(Timer(TimerKind.GRACE, group.group_id, member_id))
        self._note_accepted(group, member_id, old_facts.incarnation if old_facts is not None else None)
        self._respond_accepted(registration, group, member_id)
        self._ownership.push_whole(group.group_id, member_id)
        stopping = sorted(group.stopping.get(member_id, ()))
        self._ownership.push_stops(group.group_id, member_id, stopping)
        self._ownership.hold_back(group.group_id, member_id)
        if changes_target(old_facts, facts):
            self._ownership.note_change(group.group_id, f"{member_id} {'changed' if old_facts else 'joined'}")
        elif has_news_of_topics:
            self._ownership.note_change(group.group_id, "its topics changed")
        if was_empty:
            self._ownership.rebalance(group.group_id)

    def _give_up_former(self, group: GroupState, instance_id: str | None, member_id: str) -> None:
        """Close claims that waited for an instance id which is back under another member id, with another checkpoint.

        As with any identity that comes back, claims that its checkpoint does not show are dropped.
        """
        former = None if instance_id is None else group.awaited.get(instance_id)
        if former in {None, member_id} or former in group.members:
            return
        desk = self._desk
        why = f"instance {instance_id} is back as {member_id}, whose checkpoint does not show the claims of {former}"
        partitions = tuple(sorted(group.owned_by(former)))
        desk.journal.decide(ClaimsGivenUp(group.group_id, partitions, why))
        desk.note(group.group_id, EventKind.CLAIM_GIVEN_UP, why, member_id=former, partitions=partitions)
        self._ownership.note_lost(group.group_id, partitions, desk.now_ms, why)
        self._ownership.note_change(group.group_id, why)

    def _settle_group(self, registration: Registration, topics: tuple[str, ...]) -> bool:
        """Record what the registration says of its group, and return whether its topics are news."""
        desk, request = self._desk, registration.request
        group = desk.group(request.group_id)
        policy = request.reset_policy
        if group is None:
            settings = GroupSettings(request.group_id, 0, "", policy, request.handover, False, request.claim_timeout_ms)
            desk.journal.decide(settings)
        else:
            is_other_handover = request.handover != group.handover
            kept_timeout_ms = None if is_other_handover else group.claim_timeout_ms
            settings = GroupSettings(
                group.group_id,
                group.group_epoch,
                group.assignor,
                policy or group.reset_policy,
                request.handover,
                group.is_target_stale,
                request.claim_timeout_ms or kept_timeout_ms,
            )
            before = (group.reset_policy, group.handover, group.claim_timeout_ms)
            if (settings.reset_policy, settings.handover, settings.claim_timeout_ms) != before:
                desk.journal.decide(settings)
        news = [topic for topic in topics if self.look_at_topic(request.group_id, topic)]
        return bool(news)

    def look_at_topic(self, group_id: str, topic: str, *, is_new: bool = False) -> bool:
        """Record what Kafka says of a topic that a group reads, and return whether anything is new.

        A topic that `is_new` was not there before the group: all of it is read from its beginning.
        """
        desk = self._desk
        group = desk.group(group_id)
        assert group is not None
        known = desk.catalog.topic(topic)
        before = group.topics.get(topic)
        if known is None and before is not None:
            record = note_deleted(group, topic) if desk.catalog.is_deleted(topic) else None
        else:
            topic_id, partitions = (known.topic_id, known.partitions) if known is not None else ("", 0)
            record = look_at_topic(group, topic, topic_id, partitions)
        if record is not None and before is None and is_new:
            record = TopicSeen(group_id, topic, record.topic_id, 0, record.partitions)
        if record is None:
            return False
        desk.journal.decide(record)
        said = say_topic_change(before, record)
        if said is not None:
            desk.note(group_id, *said)
        return True

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

    def _respond_accepted(self, registration: Registration, group: GroupState, member_id: str) -> None:
        member = group.members[member_id]
        response = RegisterConsumerResponse(
            member_id=member_id,
            member_epoch=member.member_epoch,
            group_epoch=group.group_epoch,
            session_timeout_ms=member.facts.session_timeout_ms,
            ping_interval_ms=member.facts.ping_interval_ms,
            claims=claims.statuses(group, member_id, registration.request.claims),
            kafka_cluster_id=self._desk.catalog.cluster_id,
            kafka_bootstrap=self._desk.catalog.bootstrap,
        )
        self._desk.respond(registration.connection_id, registration.correlation_id, response)

    def _set_session_timer(self, group: GroupState, member_id: str) -> None:
        deadline_ms = self._desk.now_ms + group.members[member_id].facts.session_timeout_ms
        self._desk.sessions.set((group.group_id, member_id), deadline_ms)

    # ---- out --------------------------------------------------------------------------------------------------------

    def connection_lost(self, connection: Connection, why: str) -> None:
        """Let a newcomer take the place of a member whose connection closed, or give it its grace to come back."""
        desk = self._desk
        self.forget_registration(connection.connection_id)
        waiting_for = desk.newcomers.get(connection.connection_id)
        if waiting_for is not None:
            self._take_newcomer(*waiting_for)
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
        newcomer = self._take_newcomer(group_id, member_id)
        if newcomer is not None:
            self.register(newcomer)
            session = desk.session_of(group_id, member_id)
            if session is None or session.connection_id is not None:
                return
        has_running_claim = any(
            group.grants[partition].has_running_claim for partition in group.owned.get(member_id, ())
        )
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
        why = f"no message for {self._desk.now_ms - session.last_heard_ms} ms"
        newcomer = self._take_newcomer(group_id, member_id)
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
            self.register(newcomer)

    def stop_timed_out(self, group_id: str, member_id: str) -> None:
        """Fence a member that has not let go of partitions by its deadline."""
        session = self._desk.session_of(group_id, member_id)
        if session is None:
            return
        late = self._late_stops(group_id, member_id, session)
        if not late:
            return
        names = ", ".join(f"{topic}-{number}" for topic, number in sorted(late)[:5])
        why = f"it has not let go of {names} within its rebalance time-out"
        newcomer = self._take_newcomer(group_id, member_id)
        self._say_fenced(session, ErrorCode.FENCED_MEMBER_EPOCH, f"{why}; forget what you own and register again")
        group = self._desk.group(group_id)
        assert group is not None
        keeps = group.handover == HOLD
        self._remove(group_id, member_id, EventKind.MEMBER_FENCED, why, None, keeps_running_claims=keeps)
        if newcomer is not None:
            self.register(newcomer)

    def _late_stops(self, group_id: str, member_id: str, session: MemberSession) -> list[TopicPartition]:
        """Return what should have been let go by now; a running claim under `hold` has its claim time-out instead."""
        desk = self._desk
        group = desk.group(group_id)
        assert group is not None
        timeout_ms = group.members[member_id].facts.rebalance_timeout_ms
        late, given_up, kept = [], [], []
        for partition, deadline_ms in sorted(session.stop_deadlines.items()):
            if deadline_ms > desk.now_ms:
                continue
            if not outlives_stop(group, partition):
                late.append(partition)
                continue
            since_ms = session.overstaying_since_ms.get(partition)
            if since_ms is None:
                since_ms = session.overstaying_since_ms[partition] = desk.now_ms - timeout_ms
                kept.append(partition)
            end_ms = None if group.claim_timeout_ms is None else since_ms + group.claim_timeout_ms
            if end_ms is not None and end_ms <= desk.now_ms:
                given_up.append(partition)
            else:
                again_ms = desk.now_ms + timeout_ms
                session.stop_deadlines[partition] = again_ms if end_ms is None else min(end_ms, again_ms)
        if given_up:
            why = f"they ran on for the whole claim time-out of {group.claim_timeout_ms} ms after they were wanted back"
            desk.journal.decide(ClaimsClosed(group_id, tuple(given_up)))
            desk.note(group_id, EventKind.CLAIM_GIVEN_UP, why, member_id=member_id, partitions=given_up)
        elif kept:
            why = f"the rebalance time-out of {timeout_ms} ms is over, and running claims under hold outlive it"
            desk.note(group_id, EventKind.CLAIM_HELD, why, member_id=member_id, partitions=kept)
        if not late and not given_up:
            self._ownership.set_stop_timer(group_id, member_id)
        return late + given_up

    def leave(self, group_id: str, member_id: str, why: str) -> None:
        """Remove a member that wants to go; its claims are closed and everything is released."""
        newcomer = self._take_newcomer(group_id, member_id)
        self._remove(group_id, member_id, EventKind.MEMBER_LEFT, why, None, keeps_running_claims=False)
        if newcomer is not None:
            self.register(newcomer)

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
        had = group.owned_by(member_id)
        desk.journal.decide(MemberRemoved(group_id, member_id, keeps_running_claims))
        soft = desk.soft_of(group_id)
        session = soft.sessions.pop(member_id)
        soft.unsettled.discard(member_id)
        if session.connection_id is not None:
            connection = desk.connections.get(session.connection_id)
            if connection is not None:
                connection.unbind()
        desk.sessions.cancel((group_id, member_id))
        for timer_kind in (TimerKind.GRACE, TimerKind.PROBE, TimerKind.STOP):
            desk.timers.cancel(Timer(timer_kind, group_id, member_id))
        since_ms = desk.now_ms if dead_since_ms is None else dead_since_ms
        self._ownership.note_lost(group_id, had, since_ms, why)
        released = had - group.owned_by(member_id)
        desk.note(group_id, kind, why, member_id=member_id, partitions=released)
        self._claim_watch.note_abandoned(group, member_id)
        self._expiry.note_used(group)
        cause = f"{member_id} left" if kind is EventKind.MEMBER_LEFT else f"{member_id} {_SAID_OF[kind]}: {why}"
        self._ownership.note_change(group_id, cause)
        self._ownership.reconcile(group_id, had, ())


_SAID_OF = {EventKind.MEMBER_EXPIRED: "expired", EventKind.MEMBER_FENCED: "was fenced"}
