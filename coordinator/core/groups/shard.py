"""One shard of the group space: routes what happens to the room that decides about it.

All hard state of its groups lives in its journal; everything it says goes over its desk. It never looks at another
shard, and the node alone looks at this one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

from msgspec.structs import replace

from coordinator.core.events import OffsetsResolved, TopicsRead
from coordinator.core.groups.assignment.assignors import Assignor
from coordinator.core.groups.bounds.allowance import without_metadata_that_has_no_room
from coordinator.core.groups.bounds.claim_watch import ClaimWatch
from coordinator.core.groups.bounds.expiry import Expiry
from coordinator.core.groups.bounds.known_ends import finals_that_can_be, why_claims_beyond_end
from coordinator.core.groups.bounds.lived_time import LivedTime
from coordinator.core.groups.bounds.step_sizes import DEAR, size_of
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.records import ClaimsGivenUp, ClaimsRunning
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.membership.recovery import Recovery
from coordinator.core.groups.membership.registration import Membership
from coordinator.core.groups.membership.removal import Departures
from coordinator.core.groups.offsets import claims, committed_offsets
from coordinator.core.groups.offsets.claims_together import begin_together
from coordinator.core.groups.offsets.commits import Commits
from coordinator.core.groups.offsets.out_of_range import Reports
from coordinator.core.groups.offsets.releases import after_release, release, take_last_offsets
from coordinator.core.groups.offsets.topic_ids import TopicIds
from coordinator.core.groups.operators.verbs import Operators
from coordinator.core.groups.partitions.in_topics import TopicNumbers, by_topic
from coordinator.core.groups.reconciliation.late_stops import LateStops
from coordinator.core.groups.reconciliation.pushes import withheld_from
from coordinator.core.groups.reconciliation.read_only import why_read_only
from coordinator.core.groups.reconciliation.reconciler import Reconciler
from coordinator.core.groups.soft.remains import Remains
from coordinator.core.groups.soft.sessions import Connection, MemberSession, Registration
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.core.groups.soft.timers import Timer, TimerKind
from coordinator.core.groups.status import is_complete
from coordinator.protocol.claim_columns import claims_of, finished_as_asked, outcomes_of, statuses_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    Advance,
    AdvanceResponse,
    BeginClaims,
    BeginClaimsResponse,
    ClaimsFinished,
    CommitOffsets,
    ConfirmClaims,
    ConfirmClaimsResponse,
    FetcherStarted,
    FetcherStartedResponse,
    FetcherStopped,
    FetcherStoppedResponse,
    FinishClaims,
    FinishClaimsResponse,
    LeaveGroup,
    LeaveGroupResponse,
    Ping,
    PingResponse,
    ReportOutOfRange,
    Response,
)
from coordinator.protocol.messages.operators import OperatorRequest
from coordinator.protocol.parts import ClaimState, ClaimStatuses, PartitionResult, TopicClaims

MemberRequest = Ping | FetcherStarted | FetcherStopped | Advance | ConfirmClaims | LeaveGroup | ReportOutOfRange

_PARTITIONS_FOR_A_MEMBER = 50
"""So many partitions are taken from a member that is gone in the time in which a member without any is removed."""
_MEMBERS_BEGUN_AT_ONCE = 50
BEGUN_MEMBER_WEIGHT = 100
"""So many bytes of the log are replayed in the time in which a member is begun with after a load."""
_OFFSETS_LOOKED_AT_ONCE = 2_000
"""Groups and committed offsets that are looked at in one step after a load."""
_PARTITIONS_LET_GO_OF_FOR_ONE_MOVED = 5
"""So many partitions are taken from a member that is gone in the time in which one partition changes hands."""


class Shard:
    """The groups of one shard."""

    def __init__(self, desk: Desk, assignors: Mapping[str, Assignor], new_lookup_id: Callable[[], int]) -> None:
        self.desk = desk
        self._reconciler = Reconciler(desk, assignors, new_lookup_id)
        self._claim_watch = ClaimWatch(desk)
        self._lived = LivedTime(desk)
        self._expiry = Expiry(desk, self._lived)
        self._recovery = Recovery(desk, self._reconciler)
        self._membership = Membership(desk, self._reconciler, self._recovery, self._claim_watch, assignors)
        self.heard: Callable[[Connection], None] = self._membership.heard
        """Notes that a member said something."""
        self._departures = Departures(desk, self._reconciler, self._claim_watch, self._expiry, self._membership)
        self._late_stops = LateStops(desk, self._reconciler)
        self._topic_ids = TopicIds(desk)
        self._commits = Commits(desk, self._reconciler, self._expiry, self._topic_ids)
        self._operators = Operators(desk, self._reconciler, self._expiry, new_lookup_id)
        self._reports = Reports(desk, self._reconciler, new_lookup_id)

    def watched_topics(self) -> set[str]:
        """Return the topics that Kafka is to be asked about for this shard, for members' sake or for their ends."""
        return {*self.desk.journal.state.groups_of_topic, *self.desk.awaited_topics}

    def watches_all_topics(self) -> bool:
        """True while a member subscribes by a pattern, or wants to."""
        return bool(self.desk.journal.state.groups_with_patterns) or self.desk.awaited_patterns > 0

    @property
    def watch_mark(self) -> tuple[int, int, int]:
        """A value that differs whenever the watched topics may have changed."""
        state = self.desk.journal.state
        return len(state.groups_of_topic), self.desk.awaited_changes, len(state.groups_with_patterns)

    def leave(self, remains: Remains) -> None:
        """Leave what it knows to be let go of in turns: it is not in service any more."""
        remains.add(self.desk.journal.state.groups)
        remains.add(self.desk.soft)

    # ---- start and time ---------------------------------------------------------------------------------------------

    def start(self, incarnation: str, unclean_epoch: int = 0) -> Iterator[int]:
        """Begin after the load: every member has a full session time-out once this ends, every stop a full deadline.

        `unclean_epoch` is the leader epoch of the last unclean election of the shard, 0 if there was none.

        Some members at a time, it yields how many bytes would take as long to replay; the shard serves after the end.
        """
        desk = self.desk
        desk.journal.open(incarnation, unclean_epoch)
        self._lived.start()
        looked_at = 0
        for group_id, group in desk.journal.state.groups.items():
            for number, (member_id, member) in enumerate(group.members.items(), 1):
                soft = desk.soft_of(group_id)
                if number % _MEMBERS_BEGUN_AT_ONCE == 0:
                    yield _MEMBERS_BEGUN_AT_ONCE * BEGUN_MEMBER_WEIGHT
                timeout_ms = member.facts.session_timeout_ms
                soft.sessions[member_id] = MemberSession(
                    None, desk.now_ms, timeout_ms, why_disconnected="the coordinator restarted"
                )
                desk.sessions.set((group_id, member_id), soft.sessions[member_id].ends_ms)
                self._reconciler.stops.push(group_id, member_id, sorted(group.stopping.get(member_id, ())))
                if not is_complete(group, member_id):
                    soft.unsettled.add(member_id)
            if len(group.members) >= _MEMBERS_BEGUN_AT_ONCE:
                yield desk.limits.slice_bytes  # its claims are looked at in a step of their own
            self._claim_watch.start(group)
            self._expiry.start(group)
            looked_at += 1 + self._topic_ids.start(group)
            if looked_at >= _OFFSETS_LOOKED_AT_ONCE:
                looked_at = 0
                yield desk.limits.slice_bytes
            self._recovery.start(group)
            if group.is_target_stale:
                self._reconciler.window.note_change(group_id, "the coordinator restarted amid a change")
            elif group.members and desk.soft[group_id].unsettled:
                desk.soft[group_id].changing_since_ms = desk.now_ms
            if group.members or group.controls.resets:
                self._reconciler.begin_again(group_id)
        self._topic_ids.started()
        desk.timelines.room.begin(desk.journal.state.groups, desk.clock.wall_ms)
        for soft in desk.soft.values():
            for session in soft.sessions.values():
                session.last_heard_ms = desk.now_ms

    def time_passed(self, allowance: int) -> int:
        """Do what is due and return what is left of the allowance of this step.

        It counts members of rebalanced groups and partitions that members were to let go of by now. Groups and members
        for which nothing is left have their turn in a step of their own, at once.
        """
        desk = self.desk
        allowance -= self._end_silent_sessions(desk.now_ms) // _PARTITIONS_LET_GO_OF_FOR_ONE_MOVED
        self._look_at_some()
        self._membership.take_turns()
        self._topic_ids.write_some()
        now_due: list[Timer] = []
        for timer in desk.timers.pop_due(desk.now_ms, desk.limits.slice_members):
            if timer.kind in DEAR:
                if allowance <= 0:
                    # Before anything is done, so that a large group's next slice comes after those that wait.
                    desk.timers.set(timer, desk.now_ms)
                    continue
                allowance -= 1 + size_of(desk, timer)
            now_due.append(timer)
        for timer in now_due:
            self._due(timer)
        self._come_back()
        return allowance

    def _end_silent_sessions(self, now_ms: int) -> int:
        """Remove members that have said nothing for their time-out; the deadlines of the others are moved.

        A bounded number in one step: after a restart all are due at once. Returns how many partitions they had.
        """
        desk = self.desk
        left, had = desk.limits.slice_members, 0
        while left > 0 and (due := desk.sessions.pop_due(now_ms, 1)):
            (key,) = due
            left -= 1
            session = desk.session_of(*key)
            if session is None:
                continue  # it went with one before it
            if session.ends_ms <= now_ms:
                group = desk.group(key[0])
                its = len(group.owned_by(key[1])) if group is not None else 0
                left -= its // _PARTITIONS_FOR_A_MEMBER
                had += its
                self._departures.session_timed_out(*key)
            else:
                desk.sessions.set(key, session.ends_ms)
        return had

    def _look_at_some(self) -> None:
        """Look at registrations about which Kafka has answered, a bounded number in one step."""
        desk = self.desk
        for _ in range(min(len(desk.known), desk.limits.slice_members)):
            registration, event = desk.known.popleft()
            if desk.registrations.get(registration.connection_id) is registration:
                self._membership.register(registration, event)

    def _come_back(self) -> None:
        """Have a step made for what one step was not to do."""
        next_ms, has_remains = self.desk.sessions.earliest(), self.desk.remains.drop()
        is_awaited = bool(self.desk.known) or bool(self._membership.turns)
        if has_remains or is_awaited or (next_ms is not None and next_ms <= self.desk.now_ms):
            self.desk.timers.set(Timer(TimerKind.REST, ""), self.desk.now_ms)

    def _due(self, timer: Timer) -> None:
        kind, group_id, subject = timer.kind, timer.group_id, timer.subject
        if kind is TimerKind.REST:
            return
        if kind is TimerKind.LIVED:
            self._lived.is_due()
            return
        if isinstance(subject, int):
            if kind is TimerKind.LOOK:
                self._membership.look_on(subject)
            else:
                self._membership.registration_timed_out(subject)
        elif kind is TimerKind.WINDOW:
            self._reconciler.window_ended(group_id)
        elif kind is TimerKind.SLICE:
            self._reconciler.next_slice(group_id)
        elif kind is TimerKind.LEFT_OUT:
            self.desk.tell_left_out(group_id)
        elif kind is TimerKind.LOOKUP:
            self._reconciler.grant_what_is_free(group_id)
        elif kind in {TimerKind.CLAIM_AGE, TimerKind.CLAIM_TIMEOUT, TimerKind.EXPIRY, TimerKind.RECOVERY}:
            self._group_is_due(kind, group_id)
        elif kind is TimerKind.GRACE:
            self._departures.grace_is_over(group_id, subject)
        elif kind is TimerKind.TELL:
            self._reconciler.tell_more(group_id, subject)
        elif kind is TimerKind.PROBE:
            self._membership.probe_timed_out(group_id, subject)
        else:
            assert kind is TimerKind.STOP, f"nothing is known to do about {timer}"
            self._late_stops.stop_timed_out(group_id, subject)

    def _group_is_due(self, kind: TimerKind, group_id: str) -> None:
        group = self.desk.group(group_id)
        if group is None:
            return
        if kind is TimerKind.EXPIRY:
            self._expiry.is_due(group)
        elif kind is TimerKind.RECOVERY:
            self._recovery.is_due(group)
        elif kind is TimerKind.CLAIM_AGE:
            self._claim_watch.ages_are_due(group)
        elif given_up := self._claim_watch.timeout_is_due(group):
            self._reconciler.note_lost(group_id, given_up, self.desk.now_ms, "its claim was given up")
            self._reconciler.window.note_change(group_id, "running claims were given up")

    # ---- Kafka ------------------------------------------------------------------------------------------------------

    def handle_topics(self, event: TopicsRead, changed: frozenset[str]) -> None:
        """Let registrations go on that waited for Kafka, and have groups rebalanced whose topics changed."""
        state = self.desk.journal.state
        for topic in sorted(changed):
            for group_id in sorted(state.groups_of_topic.get(topic, ())):
                is_read = topic in state.groups[group_id].by_facts.subscribers
                if is_read and self._membership.topics.look_at(group_id, topic):
                    self._reconciler.window.note_change(group_id, f"topic {topic} changed")
        if event.is_whole:
            for group_id in sorted(state.groups_with_patterns):
                self._membership.topics.listed(group_id)
            self._membership.take_turns()
        answered = set(event.topics) | event.absent | set(event.refused)
        for registration in self._membership.turns.others(self.desk.registrations.values()):
            is_matched = event.is_whole and registration.request.subscription.pattern is not None
            if is_matched or not answered.isdisjoint(registration.topics):
                self.desk.known.append((registration, event))
        self._topic_ids.topics_read(changed)
        self._topic_ids.write_some()
        self._look_at_some()
        self._come_back()

    def awaits(self, lookup_id: int) -> bool:
        """True when an answer of Kafka is meant for this shard."""
        rooms = (self._operators, self._reports)
        return lookup_id in self.desk.lookups or any(room.awaits(lookup_id) for room in rooms)

    def handle_resolved(self, event: OffsetsResolved) -> None:
        """Take in where partitions start, or what an operator or a member's report wanted to know."""
        if self._operators.awaits(event.lookup_id):
            self._operators.handle_resolved(event)
        elif self._reports.awaits(event.lookup_id):
            self._reports.handle_resolved(event)
        else:
            self._reconciler.handle_resolved(event)

    # ---- connections and requests -----------------------------------------------------------------------------------

    def connection_lost(self, connection: Connection, why: str) -> None:
        """Note that a connection is gone."""
        self._departures.connection_lost(connection, why)

    def register(self, registration: Registration) -> None:
        """Handle RegisterConsumer."""
        self._membership.register(registration)

    def became_durable(self, end_offset: int) -> bool:
        """Note up to where records are durable, and say whether a timer may have been set by that."""
        self.desk.durable_end = max(self.desk.durable_end, end_offset)
        if not self.desk.unsent_probes:
            return False
        self._membership.probing.time()
        return True

    def handle_member(self, connection: Connection, correlation_id: int, request: MemberRequest) -> None:
        """Answer a request that only a member can make."""
        group_id, member_id = connection.group_id, connection.member_id
        assert group_id is not None
        assert member_id is not None
        group = self.desk.group(group_id)
        assert group is not None
        response: Response
        match request:
            case Ping():
                response = self._ping(group, connection, request)
            case FetcherStarted():
                response = _started(group, member_id, request)
            case FetcherStopped():
                finals = finals_that_can_be(self.desk, connection, request.partitions)
                results, released = release(self.desk, group, member_id, finals)
                self.desk.respond(connection.connection_id, correlation_id, FetcherStoppedResponse(results))
                after_release(self.desk, self._reconciler, group, member_id, released)
                return
            case ReportOutOfRange():
                self._reports.handle(connection.connection_id, correlation_id, group, member_id, request)
                return
            case Advance():
                self._advance(group, member_id, request, connection, correlation_id)
                return
            case ConfirmClaims():
                found = self._begin(group, member_id, request.claims)
                response = ConfirmClaimsResponse(claims=found, log_end=self.desk.journal.next_epoch)
            case LeaveGroup():
                finals = finals_that_can_be(self.desk, connection, request.partitions)
                take_last_offsets(self.desk, group, member_id, finals)
                self.desk.respond(connection.connection_id, correlation_id, LeaveGroupResponse())
                self._departures.leave(group_id, member_id, "it left")
                return
            case _:
                assert_never(request)
        self.desk.respond(connection.connection_id, correlation_id, response)

    def _ping(self, group: GroupState, connection: Connection, request: Ping) -> PingResponse:
        refused: tuple[PartitionResult, ...] = ()
        accepted = 0
        if request.unpolled_ms is not None and connection.session is not None:
            connection.session.unpolled_ms = max(0, request.unpolled_ms)
        if request.offsets:
            refused, accepted = self._commits.by_member(group, connection, request.offsets)
        assert connection.member_id is not None
        epoch = group.members[connection.member_id].member_epoch
        unresolved_why = self.desk.soft[group.group_id].unresolved_why
        withheld = withheld_from(group, connection.member_id, unresolved_why) if unresolved_why else ()
        successors = self.desk.successors[self.desk.journal.shard]
        if successors is connection.told_successors:
            successors = None
        else:
            connection.told_successors = successors
        return PingResponse(ErrorCode.NONE, "", epoch, group.group_epoch, refused, accepted, withheld, successors)

    def _advance(
        self, group: GroupState, member_id: str, request: Advance, connection: Connection, correlation_id: int
    ) -> None:
        connection_id = connection.connection_id
        why_not = why_read_only(group, member_id) or why_claims_beyond_end(self.desk, connection, request.claims)
        if why_not is not None:
            refusal = AdvanceResponse(error=ErrorCode.INVALID_REQUEST, message=why_not)
            self.desk.respond(connection_id, correlation_id, refusal)
            return
        if request.released:
            request = replace(request, released=tuple(finals_that_can_be(self.desk, connection, request.released)))
        decision = claims.advance(group, member_id, request, self.desk.clock.wall_ms)
        record = decision.record
        if record is not None:
            if record.finals:
                finals = without_metadata_that_has_no_room(self.desk, group, record.finals)
                record = replace(record, finals=finals)
            self.desk.journal.decide(record)
        for why, partitions in claims.say_skipped(decision.skipped):
            self.desk.note(group.group_id, EventKind.CLAIM_SKIPPED, why, member_id=member_id, partitions=partitions)
        response = replace(decision.response, log_end=self.desk.journal.next_epoch)
        self.desk.respond(connection_id, correlation_id, response)
        if record is not None:
            released = [(part.topic, part.partition) for part in record.released]
            after_release(self.desk, self._reconciler, group, member_id, released)

    def _begin(self, group: GroupState, member_id: str, asked: Sequence[TopicClaims]) -> ClaimStatuses:
        """Mark claims as running where they are open, and say how each stands."""
        together = begin_together(group, member_id, asked)
        if together is not None:
            self._note_begun(group, together)
            return ClaimStatuses(sum([len(each.partitions) for each in together]))
        named = tuple(claims_of(asked))
        found = claims.statuses(group, member_id, named)
        offered = {(status.topic, status.partition) for status in found if status.state is ClaimState.OFFERED}
        if offered:
            self._note_begun(group, by_topic(offered))
            found = claims.statuses(group, member_id, named)
        return statuses_of(found, named)

    def _note_begun(self, group: GroupState, topics: tuple[TopicNumbers, ...]) -> None:
        self.desk.journal.decide(ClaimsRunning(group.group_id, topics))
        self._claim_watch.note_running(group, topics)

    def handle_begin(self, connection: Connection, correlation_id: int, request: BeginClaims) -> None:
        """Mark claims of a member as running for somebody who has planned to read them, or tell how they stand."""
        group = self.desk.group(request.group_id)
        if group is None:
            why = f"there is no group {request.group_id[:250]!r}"
            response = BeginClaimsResponse(error=ErrorCode.GROUP_ID_NOT_FOUND, message=why)
        elif request.is_question:
            named = tuple(claims_of(request.claims))
            found = claims.statuses(group, request.member_id, named)
            response = BeginClaimsResponse(claims=statuses_of(found, named))
        else:
            response = BeginClaimsResponse(claims=self._begin(group, request.member_id, request.claims))
        self.desk.respond(connection.connection_id, correlation_id, response)

    def handle_finish(self, connection: Connection, correlation_id: int, request: FinishClaims) -> None:
        """Commit micro-batches that a member has finished, as somebody else says who saw it."""
        desk, group_id, member_id = self.desk, request.group_id, request.member_id
        group = desk.group(group_id)
        if group is None:
            why = f"there is no group {group_id[:250]!r}"
            response = FinishClaimsResponse(error=ErrorCode.GROUP_ID_NOT_FOUND, message=why)
            desk.respond(connection.connection_id, correlation_id, response)
            return
        session = desk.session_of(group_id, member_id)
        if session is not None and session.is_awaited:
            why = f"{member_id} has not come back since this node started, and lists what it still has when it does"
            not_yet = FinishClaimsResponse(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=f"{why}; try again")
            desk.respond(connection.connection_id, correlation_id, not_yet)
            return
        named = tuple(claims_of(request.claims))
        decision = claims.finish(group, member_id, named, desk.clock.wall_ms)
        if decision.record is not None:
            desk.journal.decide(decision.record)
        results = outcomes_of(decision.results, map(finished_as_asked, named))
        desk.respond(connection.connection_id, correlation_id, FinishClaimsResponse(results=results))
        if not decision.closed:
            return
        if session is not None:
            desk.push(session.connection_id, ClaimsFinished(decision.closed))
        if member_id not in group.members:
            free = [(claim.topic, claim.partition) for claim in decision.closed]
            why = f"the last micro-batch of {member_id}, which is gone, is finished"
            desk.journal.decide(ClaimsGivenUp(group_id, tuple(free), why))
            desk.note(group_id, EventKind.RELEASED, why, member_id=member_id, partitions=free)
            self._reconciler.note_lost(group_id, free, desk.now_ms, why)
            self._reconciler.window.note_change(group_id, why)
            self._reconciler.reconcile(group_id, free, ())

    def handle_operator(self, connection: Connection, correlation_id: int, request: OperatorRequest) -> None:
        """Answer a request of an operator."""
        self._operators.handle(connection.connection_id, correlation_id, request)

    def handle_commit(self, connection: Connection, correlation_id: int, request: CommitOffsets) -> None:
        """Answer CommitOffsets of a member or of an operator."""
        self.desk.respond(connection.connection_id, correlation_id, self._commits.commit(connection, request))


def _started(group: GroupState, member_id: str, request: FetcherStarted) -> FetcherStartedResponse:
    refused = []
    for owned in request.partitions:
        if group.grant_of(owned.topic, owned.partition, member_id, owned.owner_epoch) is None:
            partition = (owned.topic, owned.partition)
            committed = group.offsets.get(partition)
            why = committed_offsets.why_fenced(group, partition, owned.owner_epoch, member_id)
            offset = committed.offset if committed is not None else None
            refused.append(committed_offsets.refused(partition, ErrorCode.FENCED_OWNER_EPOCH, why, offset))
    return FetcherStartedResponse(tuple(refused))
