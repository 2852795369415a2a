"""A plain consumer: it polls records one batch after the other and commits what it had returned before.

It stands for whoever writes a member that is no Spark query, and speaks the protocol itself. By ping or by a request of
its own it commits positions that cover only records which were returned before the latest poll began; what the latest
poll returned may still be worked on. When Kafka does not have its offset it says so and is granted the partition anew.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    ErrorResponse,
    Fenced,
    FetcherStopped,
    LeaveGroup,
    Ping,
    Probe,
    Push,
    RegisterConsumer,
    RegisterConsumerResponse,
    ReportOutOfRange,
    ReportOutOfRangeResponse,
    Request,
    Response,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.parts import FinalOffset, OffsetToCommit, OwnedPartition
from coordinator.protocol.session import HelloReceived, PushReceived, ResponseReceived, Role, Session
from tests.sim.process import Process, TopicPartition

if TYPE_CHECKING:
    from tests.sim.world import World

PATIENCE_MS = 10_000
"""How long an answer to a registration may take."""
TRY_AGAIN = frozenset({ErrorCode.MEMBER_ID_IN_USE, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_MEMBER_ID})
EXPECTED_REFUSALS = frozenset(
    {ErrorCode.PARTITION_OWNED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.FENCED_INSTANCE_ID}
)
"""What a registration may be refused with in a world where topics vanish and others have the same name or partition."""


@dataclass(slots=True)
class Held:
    """A partition that is read: `position` is the next offset to return, `done` was returned before the latest poll."""

    topic_id: str
    owner_epoch: int
    done: int
    position: int
    committed: int
    is_stopping: bool = False
    is_lost: bool = False


class Consumer(Process):
    """One process of a consumer."""

    def __init__(
        self, world: "World", host: str, name: str, registration: RegisterConsumer, *, commits_by_itself: bool
    ) -> None:
        super().__init__(world, host, name)
        self._registration = registration
        self._commits_by_itself = commits_by_itself
        self._session: Session | None = None
        self._connection_id = 0
        self._heard_ms = 0
        self._has_joined = False
        self._is_complete = False
        self._member_id = ""
        self._member_epoch = 0
        self._held: dict[TopicPartition, Held] = {}
        self._remembered: dict[TopicPartition, Held] = {}
        self._asked: dict[int, Request] = {}
        self._in_use_since_ms: int | None = None

    @property
    def member_id(self) -> str:
        return self._member_id

    @property
    def has_joined(self) -> bool:
        return self._has_joined

    @property
    def is_settled(self) -> bool:
        return self._is_complete

    @property
    def owned(self) -> list[TopicPartition]:
        return sorted(self._held)

    # ---- polling ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._connect()
        self.later(self._beat_ms, self._beat)
        self.later(self.world.poll_ms(), self._poll)

    def _poll(self) -> None:
        """Return the next records; with that, what was returned before has been worked on."""
        self.later(self.world.poll_ms(), self._poll)
        world = self.world
        if self.now_ms() - self._heard_ms >= self._registration.session_timeout_ms:
            self._held.clear()
        for (topic, number), held in self._held.items():
            if held.done < held.position:
                log = (held.topic_id, number, self._member_id, held.owner_epoch)
                world.schedule.tell(self.name, ("has worked on", topic, number, held.done, held.position))
                world.checker.facts.process(log, held.done, held.position)
                held.done = held.position
        if not self._has_joined:
            return
        self._let_go([key for key, held in self._held.items() if held.is_stopping])
        if self._commits_by_itself and (offsets := self._to_commit()):
            self._ask(CommitOffsets(self._registration.group_id, offsets))
        if not world.kafka.is_away:
            self._fetch()

    def _fetch(self) -> None:
        lost = []
        for (topic, number), held in self._held.items():
            known = self.world.kafka.topics.get(topic)
            if known is None or known.topic_id != held.topic_id or number >= len(known.ends) or held.is_lost:
                continue
            if held.position < known.begins[number]:
                held.is_lost = True
                lost.append(OwnedPartition(topic, number, held.owner_epoch))
            else:
                most = self.world.limit or 1_000
                held.position += min(most, known.ends[number] - held.position)
        if lost:
            self._ask(ReportOutOfRange(tuple(lost)))

    def committable(self, held: Held) -> int:
        """Return up to where a partition may be committed."""
        return held.done

    def _to_commit(self) -> tuple[OffsetToCommit, ...]:
        return tuple(
            OffsetToCommit(topic, number, self.committable(held), held.owner_epoch)
            for (topic, number), held in self._held.items()
            if self.committable(held) > held.committed and not held.is_lost
        )

    def _finals(self, keys: list[TopicPartition]) -> tuple[FinalOffset, ...]:
        return tuple(
            FinalOffset(
                topic,
                number,
                (held := self._held[topic, number]).owner_epoch,
                self.committable(held) if self._registration.auto_commit and not held.is_lost else None,
            )
            for topic, number in keys
        )

    def _let_go(self, keys: list[TopicPartition]) -> None:
        if keys:
            self._ask(FetcherStopped(self._finals(keys)))
            for key in keys:
                del self._held[key]

    # ---- its session ------------------------------------------------------------------------------------------------

    @property
    def _beat_ms(self) -> int:
        return max(100, self._registration.session_timeout_ms // 3)

    def _beat(self) -> None:
        """Ping, and give up a connection on which nothing comes."""
        self.later(self._beat_ms, self._beat)
        silent_ms = self.now_ms() - self._heard_ms
        if self._has_joined and silent_ms >= 2 * self._beat_ms:
            self._lose()
        elif self._has_joined:
            self._ping()
        elif silent_ms >= PATIENCE_MS:
            self._lose()

    def _ping(self) -> None:
        self._ask(Ping(self._member_epoch, self._to_commit() if self._registration.auto_commit else ()))

    def _connect(self) -> None:
        self._connection_id += 1
        self._session = None
        self._heard_ms = self.now_ms()
        self.world.network.connect(self, self._connection_id)

    def _lose(self) -> None:
        """Give up the connection and make another one after a while."""
        self.world.network.disconnect(self, self._connection_id)
        self._connection_id += 1
        self._session = None
        self._has_joined = self._is_complete = False
        self._asked.clear()
        if self.is_running:
            self.later(self.world.dice.choice((50, 200, 1_000)), self._connect_again, self._connection_id)

    def _connect_again(self, lost_id: int) -> None:
        if lost_id == self._connection_id:
            self._connect()

    def _ask(self, request: Request) -> None:
        assert self._session is not None
        if len(self._asked) >= self._session.limits.in_flight:
            return
        correlation_id, data = self._session.send_request(request)
        self._asked[correlation_id] = request
        self.world.network.send(self, self._connection_id, data)

    def on_connected(self, connection_id: int) -> None:
        self.do(self._greet, connection_id)

    def _greet(self, connection_id: int) -> None:
        if connection_id == self._connection_id:
            self._session = Session(Role.MEMBER)
            self.world.network.send(self, connection_id, self._session.send_hello())

    def on_lost(self, connection_id: int, why: str) -> None:
        self.do(self._on_lost, connection_id)

    def _on_lost(self, connection_id: int) -> None:
        if connection_id == self._connection_id:
            self._lose()

    def on_bytes(self, connection_id: int, data: bytes) -> None:
        self.do(self._hear, connection_id, data)

    def _hear(self, connection_id: int, data: bytes) -> None:
        if connection_id != self._connection_id or self._session is None:
            return
        self._heard_ms = self.now_ms()
        for said in self._session.receive_bytes(data):
            if isinstance(said, HelloReceived):
                self._ask(self._register())
            elif isinstance(said, ResponseReceived):
                self._on_response(self._asked.pop(said.correlation_id), said.response)
            elif isinstance(said, PushReceived):
                self._on_push(said.push)
            if connection_id != self._connection_id or not self.is_alive:
                return

    def _register(self) -> RegisterConsumer:
        owned = tuple(OwnedPartition(*key, held.owner_epoch) for key, held in sorted(self._held.items()))
        return replace(self._registration, member_id=self._member_id, incarnation=self.name, owned=owned)

    def _on_response(self, request: Request, response: Response) -> None:
        error = getattr(response, "error", ErrorCode.NONE)
        if isinstance(request, RegisterConsumer):
            assert isinstance(response, RegisterConsumerResponse | ErrorResponse)
            self._on_registered(response, error)
        elif isinstance(request, LeaveGroup):
            self.end()
        elif error is not ErrorCode.NONE:
            self._on_fenced()
        elif isinstance(response, ReportOutOfRangeResponse):
            assert isinstance(request, ReportOutOfRange)
            for owned, result in zip(request.partitions, response.results, strict=True):
                if result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.world.process_failed(self, result.message)
                    return
                self._forget((owned.topic, owned.partition), owned.owner_epoch)
        else:
            for result in getattr(response, "results", ()):
                held = self._held.get((result.topic, result.partition))
                if held is not None and result.error is ErrorCode.NONE and not isinstance(request, FetcherStopped):
                    held.committed = max(held.committed, min(held.done, result.committed or 0))

    def _forget(self, key: TopicPartition, owner_epoch: int) -> None:
        held = self._held.get(key)
        if held is not None and held.owner_epoch == owner_epoch:
            del self._held[key]

    def _on_registered(self, response: RegisterConsumerResponse | ErrorResponse, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            assert isinstance(response, RegisterConsumerResponse)
            self._has_joined = True
            self._in_use_since_ms = None
            self._member_id = response.member_id
            self._member_epoch = response.member_epoch
            self._remembered, self._held = self._held, {}
            return
        if error is ErrorCode.MEMBER_ID_IN_USE and self._in_use_since_ms is None:
            self._in_use_since_ms = self.now_ms()
        since_ms = self._in_use_since_ms
        is_used_for_long = since_ms is not None and self.now_ms() - since_ms >= self._registration.session_timeout_ms
        if error in TRY_AGAIN and not is_used_for_long:
            self._lose()
        else:
            assert error in EXPECTED_REFUSALS | TRY_AGAIN, f"{self.name} is refused: {response}"
            self.world.process_failed(self, response.message)

    def _on_fenced(self) -> None:
        self._held.clear()
        self._lose()

    def _on_push(self, push: Push) -> None:
        match push:
            case StartFetcher():
                for part in push.partitions:
                    self._take(part.topic, part.topic_id, part.partition, part.owner_epoch, part.offset)
                self._is_complete, self._member_epoch = push.is_complete, push.member_epoch
            case StopFetcher():
                self._on_stop(push)
            case Probe():
                self._ping()
            case Fenced():
                self._on_fenced()

    def _take(self, topic: str, topic_id: str, number: int, owner_epoch: int, offset: int) -> None:
        key = (topic, number)
        current = self._held.get(key) or self._remembered.pop(key, None)
        if current is not None and current.owner_epoch == owner_epoch and current.position >= offset:
            current.is_stopping = current.is_lost = False
            self._held[key] = current
        else:
            self._held[key] = Held(topic_id, owner_epoch, offset, offset, offset)

    def _on_stop(self, push: StopFetcher) -> None:
        self._is_complete = False
        unknown = []
        for part in push.partitions:
            held = self._held.get((part.topic, part.partition))
            if held is None or held.owner_epoch != part.owner_epoch:
                unknown.append(FinalOffset(part.topic, part.partition, part.owner_epoch))
            else:
                held.is_stopping = True
        if unknown:
            self._ask(FetcherStopped(tuple(unknown)))
        if self.world.dice.random() < 0.5:
            # What the latest poll returned is somebody else's to read again.
            self._let_go([key for key, held in self._held.items() if held.is_stopping])

    # ---- ends -------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        self.is_paused = False
        self.end()

    def stop(self) -> None:
        self.end()

    def leave(self) -> None:
        self.is_running = False
        if self._has_joined:
            self._ask(LeaveGroup(self._finals(sorted(self._held))))
            self.world.schedule.after(1_500, self.end)
        else:
            self.end()
