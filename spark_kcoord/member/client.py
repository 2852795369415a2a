"""A member for blocking callers: the machine and its network on one background thread, calls from any other.

It lives in the process that made it, is never pickled and never survives a fork; the thread is a daemon and dies with
its process, which closes the connection. Only the background thread touches the machine: callers hand it events and
wait for futures or for a newer assignment. Ctrl-C may end a call at any line, and the garbage collector may make one in
the middle of another: so what is asked is appended in one step, and the lock is taken by the interpreter itself.
"""

import logging
import os
import random
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from copy import copy
from itertools import count
from typing import Final, TypeVar, assert_never, overload

from coordinator.client.security import Coordinators, security_of
from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import (
    Claim,
    ClaimStatus,
    FinalOffset,
    LogPosition,
    LostPosition,
    PartitionResult,
    StartHint,
)
from coordinator.protocol.text.addresses import Address
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.core.calls import LEAVES_BY_ITSELF
from spark_kcoord.member.core.effects import (
    AdvanceOutcome,
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
    AdvanceCall,
    AnyCall,
    CallMade,
    CloseAsked,
    CommitCall,
    ConfirmCall,
    Event,
    JoinCall,
    LeaveCall,
    Polled,
    PositionsNoted,
    ReleaseAsked,
    ReportCall,
    Resubscribed,
    Ticked,
)
from spark_kcoord.member.core.held.holdings import AssignedPartition, Assignment, partition_of
from spark_kcoord.member.core.held.portions import advance_portions, bytes_of, join_outcomes, portions
from spark_kcoord.member.core.machine import Member
from spark_kcoord.member.core.session.states import State
from spark_kcoord.member.holders import Holder, ask_holders
from spark_kcoord.member.one_shot import fetch_committed, fetch_offsets, find_coordinator, request_once
from spark_kcoord.member.refusals import closed
from spark_kcoord.member.settings import MemberSettings
from spark_kcoord.member.transport import Transport
from spark_kcoord.threads import Reply, start_once

__all__ = [
    "AdvanceOutcome",
    "AssignedPartition",
    "Assignment",
    "Joined",
    "MemberClient",
    "MemberSettings",
    "fetch_committed",
    "fetch_offsets",
    "find_coordinator",
    "request_once",
]

CLOSE_TIMEOUT_S: Final = 1.0
MARGIN_S: Final = 5.0
"""The time that a caller waits for the background thread beyond the machine's own deadline."""

_LOUD: Final = frozenset(
    {
        NoticeKind.DISCONNECTED,
        NoticeKind.REJOINED,
        NoticeKind.FENCED,
        NoticeKind.TAKEN,
        NoticeKind.SESSION_LOST,
        NoticeKind.ID_IN_USE,
        NoticeKind.BEGUN_ANEW,
    }
)
"""Notices that are warnings; the others are information: what becomes of claims, the reader says loudly itself."""

_log = logging.getLogger("spark_kcoord")
_Piece = TypeVar("_Piece", LostPosition, OffsetToCommit, FinalOffset)


def _cut(pieces: Sequence[_Piece]) -> list[tuple[_Piece, ...]]:
    return list(portions(pieces, bytes_of))


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class MemberClient:
    """One member of one group in this process.

    `member_id`, `claims`, `checkpoint_hints`, `nodes` and `log` come from a checkpoint. `on_change` is called on the
    background thread when there is another assignment, failure or answer; it must not wait. Every call raises
    KcoordError: when no coordinator lets the member in (naming `kcoord.bootstrap.servers`), when one stays away for
    longer than `kcoord.coordinator.timeout`, when the coordinator refuses for good, and after `close`.
    """

    def __init__(
        self,
        settings: MemberSettings,
        *,
        member_id: str = "",
        claims: Sequence[Claim] = (),
        checkpoint_hints: Sequence[StartHint] = (),
        nodes: Sequence[Address] = (),
        log: LogPosition | None = None,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        self._settings = settings
        self._on_change = on_change
        self._pid = os.getpid()
        self._member = Member(
            settings,
            incarnation=uuid.uuid4().hex,
            pid=self._pid,
            jitter=random.random,
            member_id=member_id,
            claims=claims,
            checkpoint_hints=checkpoint_hints,
            nodes=nodes,
            log=log,
        )
        self._call_ids = count(1)
        self._asked: deque[Event] = deque()
        # Ctrl-C between two lines of a Condition's own `with` would leave it locked; this lock has no lines.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        # Guarded by _lock:
        self._futures: dict[int, Reply[CallResult]] = {}
        self._assignment = self._member.assignment
        self._over: KcoordError | None = None
        self._failure: KcoordError | None = None
        self._nodes = self._member.nodes.in_order
        self._is_closing = False
        self._transport: Transport | None = None
        self._thread: threading.Thread | None = None
        # The background thread's own:
        self._wake_ms: int | None = None

    def __reduce__(self) -> str:
        """Refuse to be pickled: a connection belongs to its process."""
        raise TypeError("a MemberClient belongs to the process that made it and cannot be pickled")

    # ---- calls ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the background thread; once is enough, and `join` does it too."""
        self._must_be_at_home()
        with self._lock:
            if self._is_closing:
                return
            if self._transport is None:
                self._transport = Transport(security_of(self._settings.coordinators))
            if self._thread is None:
                name = f"kcoord-member-{self._settings.group_id}"
                self._thread = threading.Thread(target=self._run, args=(self._transport,), name=name, daemon=True)
            start_once(self._thread)

    def join(self) -> Joined:
        """Be in the group: wait until a coordinator has let the member in."""
        self.start()
        settings = self._settings
        timeout_ms = max(settings.join_timeout_ms, settings.coordinator_timeout_ms) + settings.session_timeout_ms
        return self._call(JoinCall(), timeout_ms)

    def assignment(self) -> Assignment:
        """Return what the member owns now, without waiting; raises KcoordError once it cannot be a member any more.

        It also raises while the coordinator has been away for longer than `kcoord.coordinator.timeout`. A process that
        stood still for longer than its session owns nothing, also before the background thread has come to see that.
        """
        self._must_be_at_home()
        with self._lock:
            self._must_be_served()
            return self._assignment.at(_monotonic_ms(), self._member.lease.ends_ms)

    def wait_for_assignment(self, *, complete: bool, timeout_s: float) -> Assignment:
        """Wait for a first partition, or with `complete` for the whole target, and return what there is then.

        When the time is over it returns what there is; see `is_complete`. A complete assignment may be empty.
        """
        self._must_be_at_home()
        deadline_s = time.monotonic() + timeout_s
        with self._lock:
            while True:
                self._must_be_served()
                assignment = self._assignment
                remaining_s = deadline_s - time.monotonic()
                if assignment.is_awaited(complete=complete) or remaining_s <= 0:
                    return assignment
                self._changed.wait(remaining_s)

    def wait_for_change(self, known: Assignment, *, timeout_s: float) -> Assignment:
        """Wait until the assignment is another than the one known, and return what there is when time is over."""
        self._must_be_at_home()
        with self._lock:
            self._must_be_served()
            self._changed.wait_for(lambda: self._assignment is not known or self._is_to_raise, timeout_s)
            self._must_be_served()
            return self._assignment

    def confirm_claims(self, claims: Sequence[Claim]) -> tuple[ClaimStatus, ...]:
        """Mark claims as running where they are still open; return a status for each, in order.

        Exactly those answered RUNNING may be read.
        """
        statuses: list[ClaimStatus] = []
        for portion in portions(claims, bytes_of) if claims else ((),):
            statuses += self._call(ConfirmCall(portion))
        return tuple(statuses)

    def advance(self, finished: Sequence[Claim], claims: Sequence[Claim]) -> AdvanceOutcome:
        """Commit finished ranges, let go of what is asked back and claim the next ranges, in one round trip.

        It survives lost connections by being asked again, which the coordinator answers alike. A micro-batch of
        thousands of partitions takes several round trips, each for some of them.
        """
        asked = advance_portions(finished, claims)
        outcomes = []
        for index, portion in enumerate(asked):
            outcomes.append(self._call(AdvanceCall(portion.finished, portion.claims, keeps_offered=index > 0)))
        return join_outcomes(asked, outcomes, finished, claims)

    def report_out_of_range(self, partitions: Sequence[LostPosition]) -> tuple[PartitionResult, ...]:
        """Say that Kafka does not have the positions of partitions; return a result for each, in order.

        The coordinator asks Kafka before it changes anything. Those with NONE are not owned any more and come back with
        a start by the group's policy, but if the result names the group's offset: that one Kafka has, and the partition
        goes on from there under the same grant. OFFSET_NOT_AVAILABLE says that nothing was changed, because Kafka has
        the position or could not say; report it again later if it is still so. The policy none is answered
        OFFSET_OUT_OF_RANGE.
        """
        return self._results(ReportCall(portion) for portion in _cut(partitions))

    @property
    def coordinators(self) -> Coordinators:
        """The nodes that it knows by now, its own first, spoken to as it does: for single requests beside it."""
        with self._lock:
            return Coordinators(self._nodes, security_of(self._settings.coordinators))

    def holders(self) -> Mapping[TopicPartition, Holder]:
        """Ask the group's coordinator, on a connection of its own, who has each of the group's partitions."""
        settings = self._settings
        return ask_holders(self.coordinators, settings.group_id, timeout_s=settings.coordinator_timeout_ms / 1000)

    # ---- calls of members that do not claim -------------------------------------------------------------------------

    def commit(self, offsets: Sequence[OffsetToCommit]) -> tuple[PartitionResult, ...]:
        """Commit offsets under the owner epochs they name, one a partition; return a result for each, in order."""
        results = self._results(CommitCall(portion) for portion in _cut(offsets))
        by_partition = {partition_of(result): result for result in results}
        return tuple(by_partition[partition_of(asked)] for asked in offsets)

    def note_positions(self, offsets: Sequence[OffsetToCommit]) -> None:
        """Say up to where partitions are done; with auto commit that goes with the next ping."""
        self._tell(PositionsNoted(tuple(offsets)))

    def release(self, finals: Sequence[FinalOffset]) -> None:
        """Let go of partitions with their final offsets; what is lost on the way is asked back again."""
        self._tell(ReleaseAsked(tuple(finals)))

    def polled(self) -> None:
        """Say that the member's user has asked for records."""
        self._tell(Polled())

    @property
    def is_left_alone(self) -> bool:
        """True once it has left, or is leaving, because it was not polled."""
        return self._member.is_left_alone

    def resubscribe(self, settings: MemberSettings) -> None:
        """Read what these settings say, which differ from the member's own in the subscription alone."""
        self._tell(Resubscribed(settings))

    def ask(self, call: AnyCall, timeout_ms: int | None = None) -> Future[CallResult]:
        """Make a call without waiting for its answer, which is that of the method of the same name.

        The answer comes on the background thread; the future fails with KcoordError, at the latest when the call's time
        is over. A JoinCall starts the member.
        """
        if isinstance(call, JoinCall):
            self.start()
        return self._ask(call, timeout_ms)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def leave(self, finals: Sequence[FinalOffset] = ()) -> None:
        """Leave the group for good and close; final offsets are committed and partitions handed on at once."""
        self._must_be_at_home()
        with self._lock:
            if self._is_closing:
                return
        self._call(LeaveCall(tuple(finals)))
        self.close()

    def close(self) -> None:
        """Close the connection: no leave, no commit. Quick, harmless when done twice, and nothing in a forked child."""
        if os.getpid() != self._pid:
            return  # the lock may be one that a thread held which the child has not
        with self._lock:
            self._is_closing = True
            thread, transport = self._thread, self._transport
            if self._over is None:
                self._over = closed(self._settings)
            self._changed.notify_all()
            self._asked.append(CloseAsked())
        if transport is None or thread is None or thread.ident is None:
            return
        transport.wake()
        if thread is not threading.current_thread():
            thread.join(CLOSE_TIMEOUT_S)

    def _results(self, calls: Iterable[CommitCall | ReportCall]) -> tuple[PartitionResult, ...]:
        results: list[PartitionResult] = []
        for call in calls:
            results += self._call(call)
        return tuple(results)

    def _tell(self, event: PositionsNoted | ReleaseAsked | Polled | Resubscribed) -> None:
        self._must_be_at_home()
        with self._lock:
            self._must_go_on()
            self._asked.append(event)
            transport = self._transport
        if transport is not None:
            transport.wake()

    @overload
    def _call(self, call: JoinCall, timeout_ms: int) -> Joined: ...
    @overload
    def _call(self, call: AdvanceCall) -> AdvanceOutcome: ...
    @overload
    def _call(self, call: ConfirmCall) -> tuple[ClaimStatus, ...]: ...
    @overload
    def _call(self, call: CommitCall | ReportCall) -> tuple[PartitionResult, ...]: ...
    @overload
    def _call(self, call: LeaveCall) -> None: ...
    def _call(self, call: AnyCall, timeout_ms: int | None = None) -> CallResult:
        future = self._ask(call)
        timeout_s = (timeout_ms or self._settings.coordinator_timeout_ms) / 1000 + MARGIN_S
        try:
            return future.result(timeout_s)
        except TimeoutError:
            raise KcoordError(
                f"The member of group '{self._settings.group_id}' did not answer its own process within "
                f"{timeout_s:g} s: the machine may be overloaded. {self._settings.speech.go_on}."
            ) from None

    def _ask(self, call: AnyCall, timeout_ms: int | None = None) -> Future[CallResult]:
        self._must_be_at_home()
        future: Reply[CallResult] = Reply()
        with self._lock:
            self._must_go_on()
            if self._transport is None:
                raise KcoordError("The member has not been started: call join() first.")
            call_id = next(self._call_ids)
            self._futures[call_id] = future
            self._asked.append(CallMade(call_id, call, timeout_ms))
            transport = self._transport
        transport.wake()
        return future

    def _must_be_at_home(self) -> None:
        if os.getpid() != self._pid:
            raise KcoordError(
                f"This member belongs to process {self._pid} and cannot be used in process {os.getpid()}: make one "
                "there."
            )

    def _must_go_on(self) -> None:
        if self._over is not None:
            raise copy(self._over)

    @property
    def _is_to_raise(self) -> bool:
        return self._over is not None or self._failure is not None

    def _must_be_served(self) -> None:
        self._must_go_on()
        if self._failure is not None:
            raise copy(self._failure)

    # ---- background thread ------------------------------------------------------------------------------------------

    def _run(self, transport: Transport) -> None:
        try:
            while self._member.state is not State.CLOSED:
                events: list[Event] = [*transport.wait(self._wait_s()), *self._take_asked()]
                for event in events:
                    self._step(event, transport)
                if self._wake_ms is not None and _monotonic_ms() >= self._wake_ms:
                    self._step(Ticked(), transport)
            self._end(closed(self._settings))
        except Exception as error:  # noqa: BLE001 - the driver's last line: nobody may wait for a dead thread
            _log.critical("group %s: the member has stopped by a bug", self._settings.group_id, exc_info=True)
            self._end(
                KcoordError(
                    f"The member of group '{self._settings.group_id}' has stopped by a bug in kcoord "
                    f"({type(error).__name__}: {error}). {self._settings.speech.go_on}, and report this with the "
                    "traceback in the log."
                )
            )
        finally:
            transport.close()

    def _wait_s(self) -> float | None:
        if self._asked:
            return 0.0
        return None if self._wake_ms is None else max(0.0, (self._wake_ms - _monotonic_ms()) / 1000)

    def _take_asked(self) -> list[Event]:
        # One by one: a consumer that is collected between two lines asks to leave.
        return [self._asked.popleft() for _ in range(len(self._asked))]

    def _step(self, event: Event, transport: Transport) -> None:
        effects = self._member.step(event, _monotonic_ms())
        # Whoever is answered now sees at least what the answer has changed.
        assignment, fatal, failure = self._member.assignment, self._member.fatal, self._member.failure
        is_news = False
        with self._lock:
            self._nodes = self._member.nodes.in_order
            if assignment is not self._assignment or failure is not self._failure:
                self._assignment, self._failure = assignment, failure
                self._over = self._over or fatal
                self._changed.notify_all()
                is_news = True
        for effect in effects:
            self._perform(effect, transport)
            is_news = is_news or isinstance(effect, Completed | Failed)
        if is_news and self._on_change is not None:
            self._on_change()

    def _perform(self, effect: Effect, transport: Transport) -> None:
        match effect:
            case Send(connection_id, data):
                transport.send(connection_id, data)
            case Connect(connection_id, host, port, timeout_ms):
                transport.connect(connection_id, host, port, timeout_ms / 1000 + MARGIN_S)
            case Disconnect(connection_id, _):
                transport.disconnect(connection_id)
            case WakeAt(now_ms):
                self._wake_ms = now_ms
            case Completed(call_id, result):
                if call_id != LEAVES_BY_ITSELF:
                    self._future_of(call_id).set_result(result)
            case Failed(call_id, error):
                if call_id != LEAVES_BY_ITSELF:
                    self._future_of(call_id).set_exception(error)
            case Notice(kind, why):
                level = logging.WARNING if kind in _LOUD else logging.INFO
                _log.log(level, "group %s: %s: %s", self._settings.group_id, kind.value, why)
            case _:
                assert_never(effect)

    def _future_of(self, call_id: int) -> Reply[CallResult]:
        with self._lock:
            return self._futures.pop(call_id)

    def _end(self, error: KcoordError) -> None:
        with self._lock:
            self._over = self._over or error
            futures = list(self._futures.values())
            self._futures.clear()
            self._changed.notify_all()
        for future in futures:
            future.set_exception(error)
        if self._on_change is not None:
            self._on_change()
