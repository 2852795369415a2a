"""A member of a node's virtual world: one connection, what came over it, and what a test has it ask."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, assert_never

from coordinator.core.events import ConnectionClosed, RequestArrived
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.claim_columns import advance_of, claims_in_columns, each_status
from coordinator.protocol.columns import OffsetToCommit, in_columns, results_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import (
    AdvanceResponse,
    ClaimsFinished,
    CommitOffsets,
    CommitOffsetsResponse,
    ConfirmClaims,
    ConfirmClaimsResponse,
    Fenced,
    FetcherStopped,
    FetcherStoppedResponse,
    FetcherTaken,
    LeaveGroup,
    LeaveGroupResponse,
    Ping,
    PingResponse,
    Probe,
    Push,
    RegisterConsumer,
    RegisterConsumerResponse,
    Request,
    Response,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.parts import Claim, FinalOffset, PartitionResult, StartPartition
from tests.helpers.claim_answers import Advanced, Confirmed, advanced
from tests.helpers.declared_codes import undeclared_code

if TYPE_CHECKING:
    from tests.helpers.node_world import NodeWorld

R = TypeVar("R", bound=Response)


@dataclass
class Member:
    """One connection to the node and what came over it; as a member it knows what it was granted."""

    world: "NodeWorld"
    connection_id: int
    registration: RegisterConsumer | None = None
    member_id: str = ""
    inbox: list[Response | Push] = field(default_factory=list)
    owned: dict[TopicPartition, StartPartition] = field(default_factory=dict)
    stopping: dict[TopicPartition, str] = field(default_factory=dict)
    is_complete: bool = False
    taken: list[TopicPartition] = field(default_factory=list)
    fenced: Fenced | None = None
    closed_why: str | None = None
    asked: dict[int, Request] = field(default_factory=dict)
    _answers: dict[int, Response] = field(default_factory=dict)
    _next_correlation_id: int = 1
    _awaits_whole: bool = False

    # ---- what comes in ----

    def take_response(self, correlation_id: int, response: Response) -> None:
        why = undeclared_code(self.asked[correlation_id], response)
        assert why is None, why
        self.inbox.append(response)
        self._answers[correlation_id] = response
        if isinstance(response, RegisterConsumerResponse) and response.error is ErrorCode.NONE:
            self.member_id = response.member_id
            self._awaits_whole = True

    def take_push(self, push: Push) -> None:
        self.inbox.append(push)
        match push:
            case StartFetcher():
                if self._awaits_whole:
                    self.owned.clear()
                    self.stopping.clear()
                    self._awaits_whole = False
                for part in push.partitions:
                    self.owned[part.topic, part.partition] = part
                self.is_complete = push.is_complete
            case StopFetcher():
                self.is_complete = False
                for owned in push.partitions:
                    self.stopping[owned.topic, owned.partition] = push.why
            case FetcherTaken():
                for owned in push.partitions:
                    known = self.owned.get((owned.topic, owned.partition))
                    if known is not None and known.owner_epoch == owned.owner_epoch:
                        del self.owned[owned.topic, owned.partition]
                    self.stopping.pop((owned.topic, owned.partition), None)
                    self.taken.append((owned.topic, owned.partition))
            case Fenced():
                self.fenced = push
                self.owned.clear()
                self.stopping.clear()
            case ClaimsFinished() | Probe():
                pass
            case _:
                assert_never(push)

    # ---- what goes out ----

    def send(self, request: Request) -> int:
        """Send a request and return its correlation id."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        self.asked[correlation_id] = request
        self.world.happen(RequestArrived(self.connection_id, correlation_id, request, self.world.fresh_id(request)))
        return correlation_id

    def answer(self, correlation_id: int) -> Response | None:
        return self._answers.get(correlation_id)

    def ask(self, request: Request, kind: type[R]) -> R:
        """Send a request and return its response, which must have come at once."""
        response = self.answer(self.send(request))
        assert isinstance(response, kind), f"{request} was answered with {response}"
        return response

    def register(self) -> RegisterConsumerResponse:
        assert self.registration is not None
        request = self.send(self.registration)
        if self.answer(request) is None:
            self.world.advance(0)  # very many claims are looked at in turns
        response = self.answer(request)
        assert isinstance(response, RegisterConsumerResponse), f"the registration was answered with {response}"
        return response

    def ping(self) -> PingResponse:
        return self.ask(Ping(0), PingResponse)

    def epoch(self, partition: TopicPartition) -> int:
        return self.owned[partition].owner_epoch

    def claim(self, partition: TopicPartition, from_offset: int, until_offset: int) -> Claim:
        grant = self.owned[partition]
        return Claim(*partition[:1], grant.topic_id, partition[1], grant.owner_epoch, from_offset, until_offset)

    def advance(
        self,
        finished: Iterable[Claim] = (),
        claims: Iterable[Claim] = (),
        released: Iterable[FinalOffset] = (),
        *,
        keeps_offered: bool = False,
    ) -> Advanced:
        done, wanted, finals = tuple(finished), tuple(claims), tuple(released)
        response = self.ask(advance_of(done, wanted, finals, keeps_offered=keeps_offered), AdvanceResponse)
        return advanced(response, done, wanted, finals)

    def confirm(self, *claims: Claim) -> Confirmed:
        response = self.ask(ConfirmClaims(claims_in_columns(claims)), ConfirmClaimsResponse)
        return Confirmed(response.error, response.message, each_status(response.claims, claims))

    def run(self, partition: TopicPartition, from_offset: int, until_offset: int) -> Claim:
        """Claim a range and begin to read it."""
        claim = self.claim(partition, from_offset, until_offset)
        assert [result.error for result in self.advance(claims=[claim]).claims] == [ErrorCode.NONE]
        self.confirm(claim)
        return claim

    def stopped(self, *partitions: TopicPartition, offset: int | None = None) -> FetcherStoppedResponse:
        """Let go of partitions it owns."""
        finals = tuple(FinalOffset(*partition, self.epoch(partition), offset) for partition in partitions)
        response = self.ask(FetcherStopped(finals), FetcherStoppedResponse)
        for partition in partitions:
            if partition in self.owned and self.owned[partition].owner_epoch in {part.owner_epoch for part in finals}:
                del self.owned[partition]
            self.stopping.pop(partition, None)
        return response

    def stop_all(self) -> None:
        """Let go of all it was asked for."""
        partitions = sorted(self.stopping)
        for begin in range(0, len(partitions), MAX_NAMED):
            self.stopped(*partitions[begin : begin + MAX_NAMED])

    def commit(self, partition: TopicPartition, offset: int, owner_epoch: int | None = None) -> PartitionResult:
        epoch = self.epoch(partition) if owner_epoch is None else owner_epoch
        assert self.registration is not None
        asked = OffsetToCommit(*partition, offset, epoch)
        response = self.ask(CommitOffsets(self.registration.group_id, in_columns((asked,))), CommitOffsetsResponse)
        assert response.accepted + len(response.refused) == 1
        return results_of((asked,), response.refused)[0]

    def leave(self, *finals: FinalOffset) -> LeaveGroupResponse:
        self.owned.clear()
        return self.ask(LeaveGroup(finals), LeaveGroupResponse)

    def close(self, why: str = "reset by peer") -> None:
        self.world.happen(ConnectionClosed(self.connection_id, why))
