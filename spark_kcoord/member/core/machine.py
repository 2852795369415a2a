"""The member without any input or output: events in, effects out, deterministic.

Each event is given to who knows what to do: `entry` while the member gets into its group, `requests` and `answers` once
it is in, `link` for the connection under both. Decided here is what belongs to all of them: calls, pushes, time and the
ends. Time comes with each step and chance as a callable. It knows no sockets, threads, clocks or logs, so a simulator
can run it unchanged.

It keeps these promises: a partition is owned only as long as the coordinator could not have given it away; what was
granted before a registration is owned after it only if it is told again; a call is sent again after a lost connection
until it is answered or its deadline has passed; a partition asked back is let go as soon as no claim of it is running.
"""

from collections.abc import Callable, Sequence
from typing import assert_never

from coordinator.client.nodes import Nodes
from coordinator.client.refusals import BETTER_ELSEWHERE, PASSING, Refusal, refusal_of, show_refusal
from coordinator.protocol.errors import RemoteProtocolError
from coordinator.protocol.messages import (
    Advance,
    ClaimsFinished,
    CommitOffsets,
    ConfirmClaims,
    Fenced,
    FetcherTaken,
    FindCoordinator,
    LeaveGroup,
    ListClaims,
    Ping,
    PingResponse,
    Probe,
    Push,
    RegisterConsumer,
    ReportOutOfRange,
    Response,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.parts import Claim, FinalOffset, LogPosition, OwnedPartition, StartHint
from coordinator.protocol.session import HelloReceived, PushReceived, ResponseReceived
from coordinator.protocol.text.addresses import Address, format_address
from spark_kcoord.errors import KcoordError
from spark_kcoord.member import refusals
from spark_kcoord.member.core import answers
from spark_kcoord.member.core.calls import LEAVES_BY_ITSELF, Call, CallRequest, Calls, request_of
from spark_kcoord.member.core.effects import Effect, NoticeKind, WakeAt
from spark_kcoord.member.core.entry import Entry, GiveUp, Setback, TryAgain
from spark_kcoord.member.core.events import (
    AnyCall,
    BytesReceived,
    CallMade,
    CloseAsked,
    Connected,
    ConnectionLost,
    Event,
    JoinCall,
    LeaveCall,
    Polled,
    PositionsNoted,
    ReleaseAsked,
    Resubscribed,
    Ticked,
)
from spark_kcoord.member.core.held.holdings import Assignment, Holdings
from spark_kcoord.member.core.known_log import KnownLog
from spark_kcoord.member.core.outbox import Outbox
from spark_kcoord.member.core.requests import Requests
from spark_kcoord.member.core.session.conversation import Asked, Conversation
from spark_kcoord.member.core.session.lease import Lease
from spark_kcoord.member.core.session.link import Link
from spark_kcoord.member.core.session.patience import Absence, Idleness, why_silent
from spark_kcoord.member.core.session.states import State, Step
from spark_kcoord.member.settings import MemberSettings


class Member:
    """One member of one group, through all its connections.

    `incarnation` is random and new for each process; `jitter` returns numbers in [0, 1). `member_id`, `claims`,
    `checkpoint_hints`, `nodes` (coordinators known from before) and `log` come from a checkpoint, if there is one.
    """

    def __init__(
        self,
        settings: MemberSettings,
        *,
        incarnation: str,
        pid: int,
        jitter: Callable[[], float],
        member_id: str = "",
        claims: Sequence[Claim] = (),
        checkpoint_hints: Sequence[StartHint] = (),
        nodes: Sequence[Address] = (),
        log: LogPosition | None = None,
    ) -> None:
        self.settings = settings
        self._outbox, self._calls = Outbox(), Calls()
        self._holdings = Holdings(claims)
        self._log = KnownLog(log)
        self.lease = Lease(settings.session_timeout_ms)
        self.nodes = Nodes(settings.coordinators, jitter, remembered=nodes)
        self._link = Link(self.nodes, self.lease, self._outbox, jitter)
        rooms = (self._link, self.lease, self._holdings, self._log, self._outbox, self._calls)
        hints = (*checkpoint_hints, *settings.hints)
        self._entry = Entry(settings, *rooms, incarnation=incarnation, pid=pid, member_id=member_id, hints=hints)
        self._requests = Requests(settings, self._link, self._holdings, self._calls, self._outbox)
        self._fatal: KcoordError | None = None
        self._absence = Absence(settings.coordinator_timeout_ms)
        self._idleness = Idleness(settings.max_poll_interval_ms)
        self._away: KcoordError | None = None
        self._wake_ms: int | None = None

    # ---- what can be seen -------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state of the member."""
        return self._link.state

    @property
    def member_id(self) -> str:
        """The id in the group, empty until one is known."""
        return self._entry.member_id

    @property
    def assignment(self) -> Assignment:
        """The partitions that the member owns now."""
        return self._holdings.assignment

    @property
    def fatal(self) -> KcoordError | None:
        """Why it cannot be a member any more, if so."""
        return self._fatal

    @property
    def failure(self) -> KcoordError | None:
        """Why nothing is to be expected of it now: for good, or while its coordinator is away for too long."""
        return self._fatal or self._away

    @property
    def is_left_alone(self) -> bool:
        """True once it has left, or is leaving, because its user asks for nothing."""
        return self._idleness.is_over

    @property
    def unanswered_calls(self) -> int:
        """Number of calls that are neither completed nor failed."""
        return self._entry.waiting + sum(1 for _ in self._calls)

    # ---- events -----------------------------------------------------------------------------------------------------

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event and return what is to be done, in order.

        `now_ms` is monotonic: it counts from an arbitrary start and never goes back.
        """
        self._outbox.effects = []
        self._link.now_ms = now_ms
        self._check_ownership()
        match event:
            case CallMade():
                self._on_call(event.call_id, event.call, event.timeout_ms)
            case PositionsNoted():
                self._holdings.note_positions(event.offsets)
            case ReleaseAsked() if self._link.state is State.JOINED:
                self._requests.release(self._holdings.release(event.finals))
            case ReleaseAsked():
                pass
            case Polled():
                self._idleness.end(now_ms)
            case Resubscribed():
                self.settings = event.settings
                self._suffer(self._entry.resubscribe(event.settings))
            case CloseAsked():
                self._on_close()
            case Ticked():
                self._on_tick()
            case Connected() | BytesReceived() | ConnectionLost():
                if event.connection_id == self._link.connection_id and self._link.is_wanted:
                    self._on_connection(event)
            case _:
                assert_never(event)
        if self._link.state is State.JOINED:
            self._requests.flush()
        self._ask_to_wake()
        return self._outbox.effects

    def _on_call(self, call_id: int, call: AnyCall, timeout_ms: int | None) -> None:
        if isinstance(call, JoinCall):
            self._on_join(call_id)
        elif isinstance(call, LeaveCall):
            self._on_leave(call_id, call.finals, timeout_ms)
        else:
            self._ask(call_id, request_of(self.settings.group_id, call), timeout_ms)

    def _on_join(self, call_id: int) -> None:
        if self._is_over(call_id):
            return
        if self._link.state is State.JOINED and self._entry.joined is not None:
            self._outbox.complete(call_id, self._entry.joined)
            return
        deadline_ms = self._link.now_ms + self.settings.join_timeout_ms
        if self._entry.joined is not None:
            deadline_ms = self._absence.deadline_ms(self._link.now_ms)
        self._entry.await_entry(call_id, deadline_ms)
        if self._link.state is State.NEW:
            self._link.connect(Step.JOIN)

    def _ask(self, call_id: int, request: CallRequest, timeout_ms: int | None = None) -> None:
        if self._is_over(call_id):
            return
        if self._link.state is State.NEW:
            self._outbox.fail(call_id, refusals.not_joined(self.settings))
            return
        deadline_ms = self._absence.deadline_ms(self._link.now_ms)
        if isinstance(request, LeaveGroup):
            deadline_ms = min(deadline_ms, self._link.now_ms + self.lease.session_timeout_ms)
        if timeout_ms is not None:
            deadline_ms = min(deadline_ms, self._link.now_ms + timeout_ms)
        self._calls.add(Call(call_id, deadline_ms, request, timeout_ms=timeout_ms))

    def _on_leave(self, call_id: int, finals: tuple[FinalOffset, ...], timeout_ms: int | None) -> None:
        if self._entry.joined is None and self._fatal is None:
            self._outbox.complete(call_id, None)
            self._on_close()
            return
        self._ask(call_id, LeaveGroup(finals), timeout_ms)

    def _be_gone(self) -> None:
        """Complete what waits to leave: it is no member any more."""
        for call in self._calls.remove_leaves():
            self._outbox.complete(call.call_id, None)
        self._on_close()

    def _on_close(self) -> None:
        self._end(Step.CLOSE, refusals.closed(self.settings), "closed by its owner")

    def _is_over(self, call_id: int) -> bool:
        if self._link.state in (State.CLOSED, State.FAILED):
            self._outbox.fail(call_id, self._fatal or refusals.closed(self.settings))
            return True
        return False

    # ---- connection -------------------------------------------------------------------------------------------------

    def _on_connection(self, event: Connected | BytesReceived | ConnectionLost) -> None:
        if isinstance(event, ConnectionLost) and event.is_refused and self._entry.joined is None:
            self._fail_for_good(refusals.log_in_refused(self.settings, event.why))
        elif isinstance(event, ConnectionLost):
            self._lose(event.why, is_elsewhere_better=True, is_gone=True)
        elif isinstance(event, BytesReceived) and self._link.conversation is not None:
            self._on_bytes(event.data, self._link.conversation)
        elif isinstance(event, Connected) and self._link.state is State.CONNECTING:
            self._link.greet()

    def _on_bytes(self, data: bytes, conversation: Conversation) -> None:
        try:
            for said in conversation.hear(data, self._link.now_ms):
                if isinstance(said, HelloReceived):
                    self._entry.find()
                elif isinstance(said, ResponseReceived):
                    self._on_response(conversation.take_asked(said.correlation_id), said.response)
                elif isinstance(said, PushReceived):
                    self._on_push(said.push)
                if self._link.conversation is not conversation:
                    return
        except RemoteProtocolError as error:
            self._lose(str(error), is_elsewhere_better=True)

    def _lose(self, why: str, *, is_elsewhere_better: bool, is_gone: bool = False, was_silent: bool = False) -> None:
        """Give up the connection and wait out a backoff before the next."""
        was_joined = self._link.state is State.JOINED
        address = self._link.nodes.current
        self._link.lose(why, is_elsewhere_better=is_elsewhere_better, is_gone=is_gone, was_silent=was_silent)
        self._calls.put_back()
        self._holdings.end_doubts()
        self._entry.begin_anew()
        if was_joined:
            self._absence.begin(self._link.now_ms)
            self._outbox.notice(NoticeKind.DISCONNECTED, f"lost the coordinator at {format_address(address)}: {why}")

    # ---- what the coordinator says ----------------------------------------------------------------------------------

    def _on_response(self, asked: Asked, response: Response) -> None:
        refusal = refusal_of(response)
        if self._link.state is State.JOINED and refusal is None:
            self.lease.renew(asked.sent_ms)
            self._link.nodes.settle()
        match asked.request, response:
            case ((FindCoordinator() | ListClaims() | RegisterConsumer()), _):
                self._on_entry(asked, response, refusal)
            case ((Advance() | ConfirmClaims() | CommitOffsets() | ReportOutOfRange() | LeaveGroup()), _):
                self._on_call_answered(asked.request, response, refusal)
            case _, _ if refusal is not None:
                self._on_refused_member(refusal)
            case Ping(), PingResponse():
                answers.take_ping(self._holdings, asked.request, response)
                if response.successors is not None:
                    self._link.nodes.follow_on((node.host, node.port) for node in response.successors)
            case _:
                pass

    def _on_entry(self, asked: Asked, response: Response, refusal: Refusal | None) -> None:
        if refusal is not None and refusal[0] in refusals.LOST_MEMBERSHIP and self._calls.wants_to_leave:
            self._be_gone()
            return
        self._suffer(self._entry.hear(asked, response))
        if self._link.state is State.JOINED:
            self._absence.end()
            self._away = None
            self._idleness.join(self._link.now_ms)
        if refusal is not None and refusal[0] in refusals.IN_ITS_PLACE:
            self._suffer(self._entry.check_place())

    def _suffer(self, setback: Setback | None) -> None:
        if isinstance(setback, TryAgain):
            self._lose(setback.why, is_elsewhere_better=setback.is_elsewhere_better)
        elif isinstance(setback, GiveUp):
            self._fail_for_good(setback.error)

    def _on_refused_member(self, refusal: Refusal) -> None:
        if refusal[0] in refusals.LOST_MEMBERSHIP:
            self._on_fenced(show_refusal(refusal))
        else:
            self._lose(show_refusal(refusal), is_elsewhere_better=refusal[0] in BETTER_ELSEWHERE)

    def _on_fenced(self, why: str) -> None:
        if self._calls.is_leaving:
            return  # the leave may have been what it is told of: what becomes of that is said in its own answer
        self._holdings.forget_grants()
        self._outbox.notice(NoticeKind.FENCED, f"{why}; it owns nothing now and registers again")
        self._lose(why, is_elsewhere_better=False)

    def _on_push(self, push: Push) -> None:
        if self._link.state is not State.JOINED:
            self._lose(f"{type(push).__name__} came before the member was registered", is_elsewhere_better=True)
            return
        match push:
            case StartFetcher():
                self._holdings.start(push)
                self._log.hear(push)
                self._link.open_conversation.confirm_started(
                    [OwnedPartition(part.topic, part.partition, part.owner_epoch) for part in push.partitions]
                )
                if push.is_complete:
                    self._entry.hints = ()  # what is not its now is somebody's who knows more than its checkpoint did
                self._outbox.effects += answers.notices_of_start(push, self._entry.introduction)
            case StopFetcher():
                self._outbox.notice(NoticeKind.STOPPING, f"{answers.show_partitions(push.partitions)}: {push.why}")
                not_held = self._holdings.stop(push)
                self._requests.release([FinalOffset(part.topic, part.partition, part.owner_epoch) for part in not_held])
            case FetcherTaken():
                self._holdings.take(push)
                self._outbox.notice(NoticeKind.TAKEN, f"{answers.show_partitions(push.partitions)}: {push.why}")
            case ClaimsFinished():
                self._holdings.finish(push)
            case Probe():
                self._requests.ping(self._idleness.lasts_ms(self._link.now_ms))
            case Fenced():
                self._on_fenced(show_refusal((push.error, push.why)))
            case _:
                assert_never(push)

    # ---- calls and other requests -----------------------------------------------------------------------------------

    def _on_call_answered(self, request: CallRequest, response: Response, refusal: Refusal | None) -> None:
        if refusal is not None:
            self._on_call_refused(request, refusal)
            return
        if not answers.is_whole(request, response):
            self._lose("it did not answer for every partition of a request", is_elsewhere_better=False)
            return
        self._log.hear(response)
        result, notices = answers.take_answer(
            self._holdings, request, response, self._link.nodes.learned, self._log.position
        )
        self._outbox.effects += notices
        call = self._calls.in_flight
        if call is not None and call.request is request:
            self._calls.finish()
            self._outbox.complete(call.call_id, result)
        if isinstance(request, LeaveGroup):
            self._on_close()

    def _on_call_refused(self, request: CallRequest, refusal: Refusal) -> None:
        code, _ = refusal
        call = self._calls.in_flight
        if isinstance(request, LeaveGroup) and code in refusals.LOST_MEMBERSHIP:
            self._be_gone()
        elif code in refusals.LOST_MEMBERSHIP or code in PASSING:
            self._on_refused_member(refusal)
        elif call is not None and call.request is request:
            self._calls.finish()
            self._outbox.fail(call.call_id, refusals.call_refused(self.settings, refusal))

    # ---- time -------------------------------------------------------------------------------------------------------

    def _check_ownership(self) -> None:
        """Own nothing once the coordinator may have declared this member dead."""
        if not self._holdings.is_empty and self._link.now_ms >= self.lease.ends_ms:
            self._holdings.forget_grants()
            silent_ms = self.lease.unanswered_ms(self._link.now_ms)
            why = f"no answer for {silent_ms} ms, a whole session time-out; it owns nothing now"
            self._outbox.notice(NoticeKind.SESSION_LOST, why)
            if self._link.state is State.JOINED:
                self._lose(why, is_elsewhere_better=True)

    def _on_tick(self) -> None:
        self._suffer(self._entry.check_place())
        self._check_calls()
        self._check_idleness()
        now_ms = self._link.now_ms
        match self._link.state:
            case State.WAITING if now_ms >= self._link.deadline_ms:
                self._link.connect(Step.RETRY)
            case State.CONNECTING | State.GREETING | State.FINDING | State.REGISTERING as state:
                if now_ms >= self._link.deadline_ms:
                    self._lose(why_silent(state, self._link.waits_ms), is_elsewhere_better=True, was_silent=True)
            case State.JOINED if now_ms >= self._dead_at_ms:
                silent_ms = now_ms - self._link.open_conversation.heard_ms
                self.lease.doubt()
                self._lose(f"no answer for {silent_ms} ms", is_elsewhere_better=True)
            case State.JOINED if now_ms >= self.lease.next_ping_ms:
                self._requests.ping(self._idleness.lasts_ms(self._link.now_ms))
            case _:
                pass

    @property
    def _dead_at_ms(self) -> int:
        conversation = self._link.open_conversation
        dead_at_ms = self.lease.dead_at_ms(conversation.heard_ms)
        since_ms = None if self._link.nodes.is_alone else conversation.unanswered_since_ms
        return dead_at_ms if since_ms is None else min(dead_at_ms, since_ms + self.lease.patience_ms)

    def _check_calls(self) -> None:
        troubles = self._link.nodes.describe_troubles()
        if self._away is None and self._absence.is_too_long(self._link.now_ms):
            self._away = refusals.call_timed_out(self.settings, troubles)
        overdue = self._entry.overdue()
        if overdue and self._entry.joined is None and not self._entry.is_place_taken:
            error = refusals.cannot_join(self.settings, troubles)
            if self.settings.keeps_trying:
                self._away = error
                self._entry.fail(overdue, error)
            else:
                self._fail_for_good(error)
        elif overdue and self._entry.joined is not None:
            self._entry.fail(overdue, refusals.call_timed_out(self.settings, troubles))
        for call in self._calls.remove_overdue(self._link.now_ms):
            if isinstance(call.request, LeaveGroup):
                # Its session is over at the coordinator by now, which is as good as having left.
                self._outbox.complete(call.call_id, None)
                self._on_close()
                return
            self._outbox.fail(call.call_id, refusals.call_timed_out(self.settings, troubles, call.timeout_ms))

    def _check_idleness(self) -> None:
        """Leave, with what is done, when the member's user has asked for nothing for too long."""
        if not self._idleness.ends_now(self._link.now_ms):
            return
        self._fatal = refusals.left_alone(self.settings)
        if self._link.state is State.JOINED:
            finals = self._holdings.finals(with_offsets=self.settings.auto_commit)
            self._ask(LEAVES_BY_ITSELF, LeaveGroup(finals), self.lease.session_timeout_ms)
        else:
            self._on_close()

    def _ask_to_wake(self) -> None:
        wake_ms = self._next_wake_ms()
        if wake_ms != self._wake_ms:
            self._wake_ms = wake_ms
            self._outbox.effects.append(WakeAt(wake_ms))

    def _next_wake_ms(self) -> int | None:
        if self._link.state in (State.NEW, State.CLOSED, State.FAILED):
            return None
        absence_ms = self._absence.ends_ms if self._away is None else None
        times = [self._calls.deadline_ms, absence_ms, self._entry.deadline_ms, self._idleness.ends_ms]
        if not self._holdings.is_empty:
            times.append(self.lease.ends_ms)
        if self._link.state is State.JOINED:
            times += [self.lease.next_ping_ms, self._dead_at_ms]
        else:
            times.append(self._link.deadline_ms)
        return min(time_ms for time_ms in times if time_ms is not None)

    # ---- ends -------------------------------------------------------------------------------------------------------

    def _fail_for_good(self, error: KcoordError) -> None:
        self._fatal = error
        self._end(Step.REFUSED, error, str(error))

    def _end(self, step: Step, error: KcoordError, why: str) -> None:
        self._link.drop(why)
        self._link.move(step)
        self._holdings.forget_grants()
        self._entry.end(error)
        for call in self._calls.remove_all():
            self._outbox.fail(call.call_id, error)
