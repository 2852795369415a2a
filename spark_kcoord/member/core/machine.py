"""The member without any input or output: events in, effects out, deterministic.

It decides whom to talk to, what to say and what the member owns. Time comes with each event and chance as a callable.
It knows no sockets, threads, clocks or logs, so a simulator can run it unchanged. It keeps these promises: a partition
is owned only as long as the coordinator could not have given it away; nothing that was granted before a registration
is owned after it; a call is sent again after a lost connection until it is answered or its deadline has passed; a
partition asked back is let go as soon as no claim of it is running.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from coordinator.protocol.addresses import Address, format_address
from coordinator.protocol.claim_columns import advance_of, claims_in_columns, claims_of, each_status
from coordinator.protocol.claim_columns import is_whole as accounts_for
from coordinator.protocol.columns import in_columns
from coordinator.protocol.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from coordinator.protocol.messages import (
    Advance,
    ClaimsFinished,
    CommitOffsets,
    ConfirmClaims,
    Fenced,
    FetcherTaken,
    FindCoordinator,
    FindCoordinatorResponse,
    LeaveGroup,
    ListClaims,
    Ping,
    PingResponse,
    Probe,
    Push,
    RegisterConsumer,
    RegisterConsumerResponse,
    ReportOutOfRange,
    Request,
    Response,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.parts import Claim, FinalOffset, LogPosition, OwnedPartition, StartHint
from coordinator.protocol.session import HelloReceived, PushReceived, ResponseReceived
from spark_kcoord.errors import KcoordError
from spark_kcoord.member import refusals
from spark_kcoord.member.core import answers
from spark_kcoord.member.core.calls import Call, CallRequest, Calls
from spark_kcoord.member.core.conversation import Asked, Conversation
from spark_kcoord.member.core.effects import (
    CallResult,
    Completed,
    Connect,
    Disconnect,
    Effect,
    Failed,
    Joined,
    Notice,
    NoticeKind,
    Send,
    WakeAt,
)
from spark_kcoord.member.core.events import (
    AdvanceAsked,
    BytesReceived,
    CloseAsked,
    CommitAsked,
    ConfirmAsked,
    Connected,
    ConnectionLost,
    Event,
    JoinAsked,
    LeaveAsked,
    PositionsNoted,
    ReleaseAsked,
    ReportAsked,
    Ticked,
)
from spark_kcoord.member.core.holdings import Assignment, Holdings, partition_of
from spark_kcoord.member.core.known_log import KnownLog
from spark_kcoord.member.core.lease import Lease
from spark_kcoord.member.core.patience import (
    ANSWER_TIMEOUT_MS,
    CONNECT_TIMEOUT_MS,
    REGISTER_TIMEOUT_MS,
    SILENCE,
    Absence,
)
from spark_kcoord.member.core.portions import bytes_of, portions
from spark_kcoord.member.core.registration import Registration, introduce
from spark_kcoord.member.core.states import TRANSITIONS, State, Step
from spark_kcoord.member.nodes import Nodes
from spark_kcoord.member.refusals import Refusal
from spark_kcoord.member.settings import MemberSettings

MAX_REDIRECTS: Final = 5


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
        self._incarnation = incarnation
        self._pid = pid
        self._jitter = jitter
        self._member_id = member_id
        self._hints = (*checkpoint_hints, *settings.hints)
        self._holdings = Holdings(claims)
        self._log = KnownLog(log)
        self._nodes = Nodes(settings.coordinators, jitter, remembered=nodes)
        self._calls = Calls()
        self._joins: dict[int, int] = {}
        self._joined: Joined | None = None
        self._pinged_up_to = ("", -1)
        self._introduction: Registration | None = None
        self._fatal: KcoordError | None = None
        self._absence = Absence(settings.coordinator_timeout_ms)
        self._away: KcoordError | None = None

        self._state = State.NEW
        self._conversation: Conversation | None = None
        self._connection_id = 0
        self._redirects = 0

        self._now_ms = 0
        self._lease = Lease(settings.session_timeout_ms)
        self._state_deadline_ms = 0
        self._in_use_since_ms: int | None = None
        self._in_use: Refusal = (ErrorCode.MEMBER_ID_IN_USE, "")
        self._wake_ms: int | None = None
        self._effects: list[Effect] = []

    # ---- what can be seen -------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """How far the member is."""
        return self._state

    @property
    def member_id(self) -> str:
        """The id in the group, empty until one is known."""
        return self._member_id

    @property
    def assignment(self) -> Assignment:
        """What the member owns now."""
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
    def unanswered_calls(self) -> int:
        """Number of calls that are neither completed nor failed."""
        return len(self._joins) + sum(1 for _ in self._calls)

    # ---- events -----------------------------------------------------------------------------------------------------

    def step(self, event: Event) -> list[Effect]:
        """Take one event and return what is to be done, in order."""
        self._effects = []
        self._now_ms = event.now_ms
        self._check_ownership()
        match event:
            case JoinAsked():
                self._on_join(event)
            case AdvanceAsked():
                request = advance_of(event.finished, event.claims, keeps_offered=event.keeps_offered)
                self._on_call(event.call_id, request)
            case ConfirmAsked():
                self._on_call(event.call_id, ConfirmClaims(claims_in_columns(event.claims)))
            case CommitAsked():
                self._on_call(event.call_id, CommitOffsets(self.settings.group_id, in_columns(event.offsets)))
            case ReportAsked():
                self._on_call(event.call_id, ReportOutOfRange(event.partitions))
            case PositionsNoted():
                self._holdings.note_positions(event.offsets)
            case ReleaseAsked() if self._state is State.JOINED:
                self._release(self._holdings.release(event.finals))
            case ReleaseAsked():
                pass
            case LeaveAsked():
                self._on_leave(event)
            case CloseAsked():
                self._on_close()
            case Ticked():
                self._on_tick()
            case Connected() | BytesReceived() | ConnectionLost():
                if event.connection_id == self._connection_id and self._wants_connection:
                    self._on_connection(event)
        self._flush()
        self._ask_to_wake()
        return self._effects

    @property
    def _wants_connection(self) -> bool:
        return self._state in _CONNECTED_STATES or self._state is State.CONNECTING

    def _on_join(self, event: JoinAsked) -> None:
        if self._is_over(event.call_id):
            return
        if self._state is State.JOINED and self._joined is not None:
            self._complete(event.call_id, self._joined)
            return
        first_ms = self._now_ms + self.settings.join_timeout_ms
        self._joins[event.call_id] = self._absence.deadline_ms(self._now_ms) if self._joined is not None else first_ms
        if self._state is State.NEW:
            self._move(Step.JOIN)
            self._connect()

    def _on_call(self, call_id: int, request: CallRequest) -> None:
        if self._is_over(call_id):
            return
        if self._state is State.NEW:
            self._fail(call_id, refusals.not_joined(self.settings))
            return
        deadline_ms = self._absence.deadline_ms(self._now_ms)
        if isinstance(request, LeaveGroup):
            deadline_ms = min(deadline_ms, self._now_ms + self._lease.session_timeout_ms)
        self._calls.add(Call(call_id, deadline_ms, request))

    def _on_leave(self, event: LeaveAsked) -> None:
        if self._joined is None and self._fatal is None:
            self._complete(event.call_id, None)
            self._on_close()
            return
        self._on_call(event.call_id, LeaveGroup(event.finals))

    def _on_close(self) -> None:
        self._end(Step.CLOSE, refusals.closed(self.settings), "closed by its owner")

    def _is_over(self, call_id: int) -> bool:
        if self._state in (State.CLOSED, State.FAILED):
            self._fail(call_id, self._fatal or refusals.closed(self.settings))
            return True
        return False

    # ---- connection -------------------------------------------------------------------------------------------------

    def _on_connection(self, event: Connected | BytesReceived | ConnectionLost) -> None:
        match event:
            case Connected() if self._state is State.CONNECTING:
                self._move(Step.CONNECTED)
                self._conversation = Conversation(self._now_ms)
                self._state_deadline_ms = self._now_ms + ANSWER_TIMEOUT_MS
                self._effects.append(Send(self._connection_id, self._conversation.greet()))
            case BytesReceived() if self._conversation is not None:
                self._on_bytes(event.data, self._conversation)
            case ConnectionLost():
                is_elsewhere_better = self._state is not State.JOINED
                self._lose(event.why, is_elsewhere_better=is_elsewhere_better, is_gone=True)
            case _:
                pass

    def _connect(self) -> None:
        self._connection_id += 1
        self._state_deadline_ms = self._now_ms + CONNECT_TIMEOUT_MS
        host, port = self._nodes.current
        self._effects.append(Connect(self._connection_id, host, port))

    def _on_bytes(self, data: bytes, conversation: Conversation) -> None:
        try:
            for said in conversation.hear(data, self._now_ms):
                if isinstance(said, HelloReceived):
                    self._on_hello()
                elif isinstance(said, ResponseReceived):
                    self._on_response(conversation.take_asked(said.correlation_id), said.response)
                elif isinstance(said, PushReceived):
                    self._on_push(said.push)
                if self._conversation is not conversation:
                    return
        except RemoteProtocolError as error:
            self._lose(str(error), is_elsewhere_better=True)

    def _lose(self, why: str, *, is_elsewhere_better: bool, is_gone: bool = False) -> None:
        """Give up the connection and wait out a backoff before the next."""
        was_joined = self._state is State.JOINED
        address = self._nodes.current
        self._drop_connection(why, is_gone=is_gone)
        self._nodes.note_trouble(why, is_elsewhere_better=is_elsewhere_better)
        self._calls.put_back()
        self._redirects = 0
        self._move(Step.LOST)
        self._state_deadline_ms = self._now_ms + self._nodes.next_backoff_ms()
        if was_joined:
            self._absence.begin(self._now_ms)
            self._notice(NoticeKind.DISCONNECTED, f"lost the coordinator at {format_address(address)}: {why}")

    def _drop_connection(self, why: str, *, is_gone: bool) -> None:
        if self._wants_connection and not is_gone:
            self._effects.append(Disconnect(self._connection_id, why))
        self._conversation = None

    def _send(self, request: Request) -> None:
        data = self._open_conversation.ask(request, self._now_ms)
        self._lease.note_sent(self._now_ms, self._jitter())
        self._effects.append(Send(self._connection_id, data))

    @property
    def _open_conversation(self) -> Conversation:
        assert self._conversation is not None
        return self._conversation

    # ---- what the coordinator says ----------------------------------------------------------------------------------

    def _on_hello(self) -> None:
        self._move(Step.GREETED)
        self._state_deadline_ms = self._now_ms + ANSWER_TIMEOUT_MS
        self._send(FindCoordinator(self.settings.group_id))

    def _on_response(self, asked: Asked, response: Response) -> None:
        refusal = refusals.refusal_of(response)
        if self._state is State.JOINED and refusal is None:
            self._lease.renew(asked.sent_ms)
            self._nodes.settle()
        match asked.request, response:
            case FindCoordinator(), _ if refusal is not None:
                self._on_refused_entry(refusal)
            case FindCoordinator(), FindCoordinatorResponse():
                self._on_found(response)
            case RegisterConsumer(), _ if refusal is not None:
                self._on_refused_entry(refusal)
            case RegisterConsumer(), RegisterConsumerResponse():
                self._on_registered(asked, response)
            case ListClaims(), _ if refusal is not None:
                self._on_refused_entry(refusal)
            case ((Advance() | ConfirmClaims() | CommitOffsets() | ReportOutOfRange() | LeaveGroup()), _):
                self._on_call_answered(asked.request, response, refusal)
            case _, _ if refusal is not None:
                self._on_refused_member(refusal)
            case Ping(), PingResponse():
                self._holdings.set_member_epoch(response.member_epoch)
                if answers.is_answered(asked.request, response):
                    answers.take_commit(self._holdings, asked.request, response)
            case _:
                pass

    def _on_found(self, response: FindCoordinatorResponse) -> None:
        self._nodes.learn((node.host, node.port) for node in response.nodes)
        if response.coordinator is None:
            self._lose("it knows no coordinator of this group", is_elsewhere_better=True)
            return
        address = (response.coordinator.host, response.coordinator.port)
        if address == self._nodes.current:
            self._move(Step.FOUND_HERE)
            self._state_deadline_ms = self._now_ms + REGISTER_TIMEOUT_MS
            self._register()
            return
        self._redirects += 1
        if self._redirects > MAX_REDIRECTS:
            self._lose(
                f"nodes send each other's members around; the last named {format_address(address)}",
                is_elsewhere_better=True,
            )
            return
        self._drop_connection("the coordinator is another node", is_gone=False)
        self._move(Step.FOUND_ELSEWHERE)
        self._nodes.choose(address)
        self._connect()

    def _register(self) -> None:
        self._introduction = introduce(
            self.settings,
            self._holdings,
            self._hints,
            member_id=self._member_id,
            incarnation=self._incarnation,
            pid=self._pid,
            log=self._log.position,
        )
        try:
            for listed in self._introduction.before:
                self._send(listed)
            self._send(self._introduction.request)
        except LocalProtocolError as error:
            self._fail_for_good(refusals.call_too_large(self.settings, str(error)))

    def _on_registered(self, asked: Asked, response: RegisterConsumerResponse) -> None:
        assert self._introduction is not None
        listed = self._introduction.claims
        if not accounts_for(response.claims, len(listed)):
            self._lose("it did not answer for every claim", is_elsewhere_better=False)
            return
        self._move(Step.REGISTERED)
        self._absence.end()
        self._away = None
        self._redirects = 0
        self._in_use_since_ms = None
        self._lease.begin(asked.sent_ms, response.session_timeout_ms, response.ping_interval_ms)
        self._member_id = response.member_id or self._member_id
        self._log.begin(response.log)
        self._holdings.forget_grants()
        statuses = each_status(response.claims, listed)
        self._holdings.answer_claims(listed, statuses)
        self._holdings.set_member_epoch(response.member_epoch)
        kind = NoticeKind.JOINED if self._joined is None else NoticeKind.REJOINED
        self._joined = Joined(self._member_id, response.kafka_cluster_id, response.kafka_bootstrap, statuses)
        self._notice(kind, f"member {self._member_id} at {format_address(self._nodes.current)}")
        for call_id in self._joins:
            self._complete(call_id, self._joined)
        self._joins.clear()

    def _on_refused_entry(self, refusal: Refusal) -> None:
        code, message = refusal
        if code in refusals.IN_ITS_PLACE:
            if self._in_use_since_ms is None:
                self._in_use_since_ms = self._now_ms
                self._notice(NoticeKind.ID_IN_USE, f"{message}; trying for {self._lease.session_timeout_ms} ms")
            self._in_use = refusal
            self._lose(refusals.show_refusal(refusal), is_elsewhere_better=False)
            self._check_id_in_use()
        elif code in refusals.PASSING or code in refusals.LOST_MEMBERSHIP:
            self._lose(refusals.show_refusal(refusal), is_elsewhere_better=code in refusals.BETTER_ELSEWHERE)
        else:
            self._fail_for_good(refusals.refused_for_good(self.settings, refusal))

    def _on_refused_member(self, refusal: Refusal) -> None:
        code, _ = refusal
        why = refusals.show_refusal(refusal)
        if code in refusals.LOST_MEMBERSHIP:
            self._on_fenced(why)
        else:
            self._lose(why, is_elsewhere_better=code in refusals.BETTER_ELSEWHERE)

    def _on_fenced(self, why: str) -> None:
        self._holdings.forget_grants()
        self._notice(NoticeKind.FENCED, f"{why}; it owns nothing now and registers again")
        self._lose(why, is_elsewhere_better=False)

    def _on_push(self, push: Push) -> None:
        if self._state is not State.JOINED:
            self._lose(f"{type(push).__name__} came before the member was registered", is_elsewhere_better=True)
            return
        match push:
            case StartFetcher():
                self._holdings.start(push)
                self._log.hear(push)
                self._open_conversation.confirm_started(
                    [OwnedPartition(part.topic, part.partition, part.owner_epoch) for part in push.partitions]
                )
                if push.is_complete:
                    self._hints = ()  # what is not its now is somebody's who knows more than its checkpoint did
                self._effects += answers.notices_of_start(push, self._introduction)
            case StopFetcher():
                self._notice(NoticeKind.STOPPING, f"{answers.show_partitions(push.partitions)}: {push.why}")
                not_held = self._holdings.stop(push)
                self._release([FinalOffset(part.topic, part.partition, part.owner_epoch) for part in not_held])
            case FetcherTaken():
                self._holdings.take(push)
                self._notice(NoticeKind.TAKEN, f"{answers.show_partitions(push.partitions)}: {push.why}")
            case ClaimsFinished():
                self._holdings.finish(push)
            case Probe():
                self._ping()
            case Fenced():
                self._on_fenced(refusals.show_refusal((push.error, push.why)))

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
            self._holdings, request, response, self._nodes.learned, self._log.position
        )
        self._effects += notices
        call = self._calls.in_flight
        if call is not None and call.request is request:
            self._calls.finish()
            self._complete(call.call_id, result)
        if isinstance(request, LeaveGroup):
            self._on_close()

    def _on_call_refused(self, request: CallRequest, refusal: Refusal) -> None:
        code, _ = refusal
        call = self._calls.in_flight
        is_current = call is not None and call.request is request
        if isinstance(request, LeaveGroup) and code in refusals.LOST_MEMBERSHIP:
            if call is not None and is_current:
                self._calls.finish()
                self._complete(call.call_id, None)
            self._on_close()
        elif code in refusals.LOST_MEMBERSHIP or code in refusals.PASSING:
            self._on_refused_member(refusal)
        elif call is not None and is_current:
            self._calls.finish()
            self._fail(call.call_id, refusals.call_refused(self.settings, refusal))

    def _flush(self) -> None:
        """Send what waits to be sent, now that the event is dealt with."""
        if self._state is not State.JOINED:
            return
        self._send_next_call()
        conversation = self._open_conversation
        if self.settings.lets_go_itself:
            self._release(
                self._holdings.release_idle(conversation.busy_partitions(), drops_offered=self.settings.plans_itself)
            )
        while (request := conversation.next_queued()) is not None:
            self._send(request)

    def _send_next_call(self) -> None:
        while (call := self._calls.next_to_send()) is not None:
            if isinstance(call.request, Advance) and not call.was_sent:
                call.request = self._with_releases(call.request)
            call.was_sent = True
            for release in self._open_conversation.releases_before(call.request):
                self._send(release)
            try:
                self._send(call.request)
            except LocalProtocolError as error:
                if error.code is not ErrorCode.FRAME_TOO_LARGE:
                    raise
                self._calls.finish()
                self._fail(call.call_id, refusals.call_too_large(self.settings, str(error)))
            else:
                return

    def _with_releases(self, request: Advance) -> Advance:
        released = self._holdings.release_finished(tuple(claims_of(request.finished)), tuple(claims_of(request.claims)))
        if released:
            self._notice(NoticeKind.RELEASED, answers.show_partitions(released))
        return msgspec.structs.replace(request, released=released)

    def _release(self, parts: Sequence[FinalOffset]) -> None:
        self._open_conversation.release(parts)
        if parts:
            self._notice(NoticeKind.RELEASED, answers.show_partitions(parts))

    def _ping(self) -> None:
        waiting = self._holdings.uncommitted(self._pinged_up_to) if self.settings.auto_commit else ()
        offsets = next(portions(waiting, bytes_of), ())
        if offsets:
            self._pinged_up_to = partition_of(offsets[-1])
        self._send(Ping(self._holdings.member_epoch, in_columns(offsets)))

    # ---- time -------------------------------------------------------------------------------------------------------

    def _check_ownership(self) -> None:
        """Own nothing once the coordinator may have declared this member dead."""
        if not self._holdings.is_empty and self._now_ms >= self._lease.ends_ms:
            self._holdings.forget_grants()
            silent_ms = self._lease.unanswered_ms(self._now_ms)
            why = f"no answer for {silent_ms} ms, a whole session time-out; it owns nothing now"
            self._notice(NoticeKind.SESSION_LOST, why)
            if self._state is State.JOINED:
                self._lose(why, is_elsewhere_better=True)

    def _on_tick(self) -> None:
        self._check_id_in_use()
        self._check_calls()
        now_ms = self._now_ms
        match self._state:
            case State.WAITING if now_ms >= self._state_deadline_ms:
                self._move(Step.RETRY)
                self._connect()
            case State.CONNECTING | State.GREETING | State.FINDING | State.REGISTERING:
                if now_ms >= self._state_deadline_ms:
                    self._lose(SILENCE[self._state], is_elsewhere_better=True)
            case State.JOINED if now_ms >= self._dead_at_ms:
                self._lose(f"no answer for {now_ms - self._open_conversation.heard_ms} ms", is_elsewhere_better=True)
            case State.JOINED if now_ms >= self._lease.next_ping_ms:
                self._ping()
            case _:
                pass

    @property
    def _dead_at_ms(self) -> int:
        return self._lease.dead_at_ms(self._open_conversation.heard_ms)

    def _check_id_in_use(self) -> None:
        since_ms = self._in_use_since_ms
        if since_ms is not None and self._now_ms - since_ms >= self._lease.session_timeout_ms:
            self._in_use_since_ms = None
            self._fail_for_good(refusals.refused_for_good(self.settings, self._in_use))

    def _check_calls(self) -> None:
        troubles = self._nodes.describe_troubles()
        if self._away is None and self._absence.is_too_long(self._now_ms):
            self._away = refusals.call_timed_out(self.settings, troubles)
        overdue = [call_id for call_id, deadline_ms in self._joins.items() if deadline_ms <= self._now_ms]
        if overdue and self._joined is None and self._in_use_since_ms is None:
            self._fail_for_good(refusals.cannot_join(self.settings, troubles))
        elif overdue and self._joined is not None:
            for call_id in overdue:
                del self._joins[call_id]
                self._fail(call_id, refusals.call_timed_out(self.settings, troubles))
        for call in self._calls.remove_overdue(self._now_ms):
            if isinstance(call.request, LeaveGroup):
                # Its session is over at the coordinator by now, which is as good as having left.
                self._complete(call.call_id, None)
                self._on_close()
                return
            self._fail(call.call_id, refusals.call_timed_out(self.settings, troubles))

    def _ask_to_wake(self) -> None:
        wake_ms = self._next_wake_ms()
        if wake_ms != self._wake_ms:
            self._wake_ms = wake_ms
            self._effects.append(WakeAt(wake_ms))

    def _next_wake_ms(self) -> int | None:
        if self._state in (State.NEW, State.CLOSED, State.FAILED):
            return None
        times = [self._calls.deadline_ms, self._absence.ends_ms if self._away is None else None]
        if self._in_use_since_ms is not None:
            times.append(self._in_use_since_ms + self._lease.session_timeout_ms)
        elif self._joins:
            times.append(min(self._joins.values()))
        if not self._holdings.is_empty:
            times.append(self._lease.ends_ms)
        if self._state is State.JOINED:
            times += [self._lease.next_ping_ms, self._dead_at_ms]
        else:
            times.append(self._state_deadline_ms)
        return min(time_ms for time_ms in times if time_ms is not None)

    # ---- ends -------------------------------------------------------------------------------------------------------

    def _fail_for_good(self, error: KcoordError) -> None:
        self._fatal = error
        self._end(Step.REFUSED, error, str(error))

    def _end(self, step: Step, error: KcoordError, why: str) -> None:
        self._drop_connection(why, is_gone=False)
        self._move(step)
        self._holdings.forget_grants()
        self._in_use_since_ms = None
        for call_id in self._joins:
            self._fail(call_id, error)
        self._joins.clear()
        for call in self._calls.remove_all():
            self._fail(call.call_id, error)

    def _move(self, step: Step) -> None:
        following = TRANSITIONS[self._state].get(step)
        assert following is not None, f"{step.value} while {self._state.value}"
        self._state = following

    def _complete(self, call_id: int, result: CallResult) -> None:
        self._effects.append(Completed(call_id, result))

    def _fail(self, call_id: int, error: KcoordError) -> None:
        self._effects.append(Failed(call_id, error))

    def _notice(self, kind: NoticeKind, why: str) -> None:
        self._effects.append(Notice(kind, why))


_CONNECTED_STATES: Final = frozenset({State.GREETING, State.FINDING, State.REGISTERING, State.JOINED})
