"""A member machine and a scripted coordinator, joined by a link that cuts the bytes where a test wants it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from coordinator.protocol.claim_columns import claims_of, count_of, statuses_of
from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.messages import (
    Advance,
    AdvanceResponse,
    ConfirmClaims,
    ConfirmClaimsResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    Push,
    RegisterConsumer,
    RegisterConsumerResponse,
    Request,
    Response,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.parts import (
    Claim,
    ClaimState,
    ClaimStatus,
    LostPosition,
    NodeAddress,
    Outcomes,
    OwnedPartition,
    StartPartition,
)
from coordinator.protocol.session import RequestReceived, Role, Session
from spark_kcoord.member.core.effects import (
    Completed,
    Connect,
    Disconnect,
    Effect,
    Failed,
    Notice,
    NoticeKind,
    Send,
    WakeAt,
)
from spark_kcoord.member.core.events import (
    AdvanceCall,
    AnyCall,
    BytesReceived,
    CallMade,
    CloseAsked,
    CommitCall,
    ConfirmCall,
    Connected,
    ConnectionLost,
    Event,
    JoinCall,
    LeaveCall,
    ReportCall,
    Ticked,
)
from spark_kcoord.member.core.machine import Member
from spark_kcoord.member.settings import MemberSettings

AnyRequest = TypeVar("AnyRequest", bound=Request)

ADDRESS = ("c1", 7600)


def settings(**changes: Any) -> MemberSettings:
    """Return settings of which a test names only what matters to it."""
    known: dict[str, Any] = {
        "coordinators": (ADDRESS,),
        "group_id": "g",
        "topics": ("t",),
        "client_id": "test",
        "reset_policy": None,
    }
    return MemberSettings(**(known | changes))


def claim(partition: int = 0, epoch: int = 10, start: int = 0, until: int = 5) -> Claim:
    return Claim("t", "id", partition, epoch, start, until)


def start_fetcher(*partitions: int, epoch: int = 10, offset: int = 0, complete: bool = True) -> StartFetcher:
    return StartFetcher(
        tuple(StartPartition("t", "id", partition, epoch, offset) for partition in partitions),
        is_complete=complete,
        member_epoch=1,
        group_epoch=1,
    )


def stop_fetcher(*partitions: int, epoch: int = 10) -> StopFetcher:
    return StopFetcher(tuple(OwnedPartition("t", partition, epoch) for partition in partitions), 300_000, "m2 joined")


def found(
    address: tuple[str, int] = ADDRESS, *others: tuple[str, int], leader_epoch: int = 0
) -> FindCoordinatorResponse:
    nodes = tuple(NodeAddress(index, host, port) for index, (host, port) in enumerate((address, *others)))
    return FindCoordinatorResponse(
        coordinator=nodes[0], nodes=nodes, leader_epoch=leader_epoch, kafka_bootstrap=("k:9092",)
    )


def registered(
    request: RegisterConsumer, state: ClaimState = ClaimState.RUNNING, held: int | None = None
) -> RegisterConsumerResponse:
    statuses = [ClaimStatus(c.topic, c.partition, c.owner_epoch, state) for c in request.claims]
    return RegisterConsumerResponse(
        member_id=request.member_id or "m1",
        member_epoch=1,
        group_epoch=1,
        session_timeout_ms=10_000,
        ping_interval_ms=3_333,
        claims=statuses_of(statuses, request.claims),
        kafka_cluster_id="cluster",
        kafka_bootstrap=("k:9092",),
        held=held,
    )


def accepted(request: Advance) -> AdvanceResponse:
    """Return the response of a coordinator that agrees to everything."""

    return AdvanceResponse(
        finished=Outcomes(count_of(request.finished)),
        claims=Outcomes(count_of(request.claims)),
        released=Outcomes(len(request.released)),
    )


def confirmed(request: ConfirmClaims, state: ClaimState = ClaimState.RUNNING) -> ConfirmClaimsResponse:
    """Return the response of a coordinator that has all claims asked about in this state."""
    named = tuple(claims_of(request.claims))
    statuses = [ClaimStatus(c.topic, c.partition, c.owner_epoch, state) for c in named]
    return ConfirmClaimsResponse(claims=statuses_of(statuses, named))


def whole(data: bytes) -> Iterable[bytes]:
    return [data]


def every_byte(data: bytes) -> Iterable[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


class MemberPair:
    """The member's machine on one side; on the other a session the test answers with.

    `waiting` holds the requests not answered yet; `results` and `errors` what calls came to.
    """

    def __init__(
        self,
        cut: Callable[[bytes], Iterable[bytes]] = whole,
        member_settings: MemberSettings | None = None,
        **given: Any,
    ) -> None:
        self.member = Member(member_settings or settings(), incarnation="i1", pid=1, jitter=lambda: 0.5, **given)
        self.now_ms = 0
        self.wake_ms: int | None = None
        self.connects: list[Connect] = []
        self.connection_id: int | None = None
        self.session: Session | None = None
        self.waiting: list[RequestReceived] = []
        self.results: dict[int, Any] = {}
        self.errors: dict[int, str] = {}
        self.notices: list[Notice] = []
        self.effects: list[Effect] = []
        self._cut = cut
        self._calls = 0

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _call(self, call: AnyCall) -> int:
        self._calls += 1
        self.step(CallMade(self._calls, call))
        return self._calls

    def join(self) -> int:
        return self._call(JoinCall())

    def advance(self, finished: Sequence[Claim] = (), claims: Sequence[Claim] = ()) -> int:
        return self._call(AdvanceCall(tuple(finished), tuple(claims)))

    def confirm(self, *claims: Claim) -> int:
        return self._call(ConfirmCall(claims))

    def read(self, *claims: Claim) -> None:
        """Claim ranges and begin to read them."""
        self.advance((), claims)
        self.answer(Advance, accepted)
        self.confirm(*claims)
        self.answer(ConfirmClaims, confirmed)

    def leave(self) -> int:
        return self._call(LeaveCall())

    def commit(self, *offsets: OffsetToCommit) -> int:
        return self._call(CommitCall(offsets))

    def report(self, *partitions: LostPosition) -> int:
        return self._call(ReportCall(partitions))

    def close(self) -> None:
        self.step(CloseAsked())

    # ---- the network ------------------------------------------------------------------------------------------------

    def step(self, event: Event) -> list[Effect]:
        effects = self.member.step(event, self.now_ms)
        self.effects.extend(effects)
        for effect in effects:
            match effect:
                case Connect():
                    self.connects.append(effect)
                    self.connection_id = effect.connection_id
                    self.session = None
                case Send(connection_id, data) if connection_id == self.connection_id and self.session is not None:
                    for piece in self._cut(data):
                        self.waiting += [
                            said for said in self.session.receive_bytes(piece) if isinstance(said, RequestReceived)
                        ]
                case Disconnect(connection_id, _) if connection_id == self.connection_id:
                    self._forget_connection()
                case WakeAt(now_ms):
                    self.wake_ms = now_ms
                case Completed(call_id, result):
                    self.results[call_id] = result
                case Failed(call_id, error):
                    self.errors[call_id] = str(error)
                case Notice():
                    self.notices.append(effect)
                case _:
                    pass
        return effects

    def _forget_connection(self) -> None:
        self.connection_id = None
        self.session = None
        self.waiting.clear()

    def accept(self, *, greet: bool = True) -> None:
        """Let the connection asked for be opened; the coordinator says hello unless told otherwise."""
        assert self.connection_id is not None, "no connection is wanted"
        self.session = Session(Role.COORDINATOR)
        self.step(Connected(self.connection_id))
        if greet:
            self.say(self.session.send_hello())

    def lose(self, why: str = "Connection reset by peer") -> None:
        """Cut the connection, or refuse it."""
        assert self.connection_id is not None, "no connection is wanted"
        connection_id = self.connection_id
        self._forget_connection()
        self.step(ConnectionLost(connection_id, why))

    def say(self, data: bytes) -> None:
        for piece in self._cut(data):
            if self.connection_id is not None:
                self.step(BytesReceived(self.connection_id, piece))

    def take(self, kind: type[AnyRequest]) -> AnyRequest:
        """Return the oldest waiting request of a kind; `answer` then answers it."""
        for said in self.waiting:
            if isinstance(said.request, kind):
                return said.request
        raise AssertionError(f"no {kind.__name__} waits: {[type(said.request).__name__ for said in self.waiting]}")

    def count(self, kind: type[Request]) -> int:
        return sum(isinstance(said.request, kind) for said in self.waiting)

    def answer(self, kind: type[AnyRequest], response: Response | Callable[[AnyRequest], Response]) -> AnyRequest:
        """Answer the oldest waiting request of a kind and return it."""
        request = self.take(kind)
        said = next(said for said in self.waiting if said.request is request)
        self.waiting.remove(said)
        assert self.session is not None
        made = response(request) if callable(response) else response
        self.say(self.session.send_response(said.correlation_id, made))
        return request

    def push(self, *pushes: Push) -> None:
        assert self.session is not None
        for push in pushes:
            if self.session is not None:
                self.say(self.session.send_push(push))

    def pass_ms(self, ms: int) -> None:
        """Let time pass, ticking whenever the member asked for it."""
        end_ms = self.now_ms + ms
        while self.wake_ms is not None and self.wake_ms <= end_ms:
            self.now_ms = max(self.now_ms, self.wake_ms)
            before = self.wake_ms
            self.step(Ticked())
            assert self.wake_ms is None or self.wake_ms > before, "the member asks to be woken in the past"
        self.now_ms = end_ms

    # ---- whole stretches --------------------------------------------------------------------------------------------

    def find(self) -> RegisterConsumer:
        """Bring a wanted connection to a waiting registration, and return that."""
        self.accept()
        self.answer(FindCoordinator, found())
        return self.take(RegisterConsumer)

    def register(self, *pushes: Push, state: ClaimState = ClaimState.RUNNING) -> RegisterConsumer:
        """Bring a wanted connection to JOINED, then push."""
        self.find()
        request = self.answer(RegisterConsumer, lambda request: registered(request, state))
        self.push(*pushes)
        return request

    def joined(self, *pushes: Push) -> "MemberPair":
        """Join for the first time, then push."""
        self.join()
        self.register(*pushes)
        return self

    def come_back(self, *pushes: Push, state: ClaimState = ClaimState.RUNNING) -> RegisterConsumer:
        """Lose the connection, wait out the backoff and register again."""
        self.lose()
        self.pass_ms(50)
        return self.register(*pushes, state=state)

    def notice_of(self, kind: NoticeKind) -> str:
        return next(notice.why for notice in self.notices if notice.kind is kind)
