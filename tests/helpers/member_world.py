"""Several member machines and one real node in memory, under a virtual clock and a seeded network.

Everything that happens is an entry of one queue ordered by time; messages of one direction of a connection keep their
order, records become durable in order, and chance comes from one seeded generator, so a seed gives one history. Each
member is used as a streaming query uses it: claim, confirm, read for a while, advance.
"""

import heapq
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator.core import events as node_events
from coordinator.core.effects import (
    Append,
    CloseConnection,
    Halt,
    ResolveOffsets,
    Respond,
    SendPush,
    WakeAt,
    WatchTopics,
    WriteSnapshot,
)
from coordinator.core.events import ResolvedOffset, TopicMetadata
from coordinator.core.limits import Limits
from coordinator.core.node import Node
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FetchOffsets, FetchOffsetsResponse, Request, Response
from coordinator.protocol.operator_messages import ResetOffsets
from coordinator.protocol.parts import Claim, ClaimState, NodeAddress, ResetTarget
from coordinator.protocol.session import HelloReceived, RequestReceived, Role, Session
from spark_kcoord.member import effects as member_effects
from spark_kcoord.member import events as member_events
from spark_kcoord.member.machine import Member
from spark_kcoord.member.states import State
from tests.helpers.member_pair import settings

ADDRESS = NodeAddress(0, "c1", 7600)
TOPIC = "t"
TOPIC_ID = "topic-id"
SHARDS = 1
OPERATOR = 0


@dataclass
class _Connection:
    """One connection as the network knows it; a direction delivers in order."""

    name: str
    member_connection_id: int
    session: Session
    is_open: bool = True
    deaf: set[str] = field(default_factory=set)
    next_arrival: dict[str, int] = field(default_factory=lambda: {"node": 0, "member": 0})


class Query:
    """One streaming query: a member and the micro-batches it makes."""

    def __init__(self, world: "MemberWorld", name: str, member_id: str, claims: Sequence[Claim]) -> None:
        self.world = world
        self.name = name
        self.is_alive = True
        self.member = Member(
            settings(
                coordinators=((ADDRESS.host, ADDRESS.port),),
                session_timeout_ms=6_000,
                rebalance_timeout_ms=3_000,
                coordinator_timeout_ms=600_000,
            ),
            incarnation=f"{name}-{next(world.incarnations)}",
            pid=1,
            jitter=world.random.random,
            member_id=member_id,
            claims=claims,
        )
        self.batch: tuple[Claim, ...] = tuple(claims)
        self.done: dict[tuple[int, int], int] = {}
        self._calls = itertools.count(1)
        self._then: dict[int, Callable[[Any], None]] = {}

    # ---- the life of a query ----------------------------------------------------------------------------------------

    def start(self) -> None:
        self._call(member_events.JoinAsked, lambda _: self._run_batch() if self.batch else self._next_batch())

    def _next_batch(self) -> None:
        """Commit the last micro-batch and claim the next, as the stream reader does."""
        finished = self.batch
        done = {(claim.partition, claim.owner_epoch): claim.until_offset for claim in finished}
        claims = []
        for part in self.member.assignment.partitions:
            start = done.get((part.partition, part.owner_epoch), part.position)
            if not part.is_stopping and start < self.world.end_offset and self.world.random.random() < 0.8:
                until = min(self.world.end_offset, start + self.world.random.randint(1, 20))
                claims.append(Claim(TOPIC, part.topic_id, part.partition, part.owner_epoch, start, until))
        if not finished and not claims:
            self.world.after(self.world.random.randint(10, 60), self._next_batch)
            return
        self._call(
            lambda now_ms, call_id: member_events.AdvanceAsked(now_ms, call_id, finished, tuple(claims)),
            self._on_advanced,
        )

    def _on_advanced(self, outcome: member_effects.AdvanceOutcome) -> None:
        for claim, result in zip(self.batch, outcome.finished, strict=True):
            if result.error is ErrorCode.NONE:
                self.world.note_committed(claim)
        self.batch = outcome.claimed
        if self.batch:
            self._run_batch()
        else:
            self.world.after(self.world.random.randint(10, 60), self._next_batch)

    def _run_batch(self) -> None:
        batch = self.batch
        self._call(
            lambda now_ms, call_id: member_events.ConfirmAsked(now_ms, call_id, batch),
            self._on_confirmed,
        )

    def _on_confirmed(self, statuses: Sequence[Any]) -> None:
        self.batch = tuple(
            claim for claim, status in zip(self.batch, statuses, strict=True) if status.state is ClaimState.RUNNING
        )
        is_slow = self.world.random.random() < 0.03
        self.world.after(self.world.random.randint(10, 6_000 if is_slow else 400), self._next_batch)

    # ---- its machine ------------------------------------------------------------------------------------------------

    def _call(self, build: Callable[[int, int], member_events.Event], then: Callable[[Any], None]) -> None:
        call_id = next(self._calls)
        self._then[call_id] = then
        self.step(build(self.world.now_ms, call_id))

    def step(self, event: member_events.Event) -> None:
        if not self.is_alive:
            return
        for effect in self.member.step(event):
            match effect:
                case member_effects.Connect(connection_id, _, _):
                    self.world.open(self, connection_id)
                case member_effects.Send(connection_id, data):
                    self.world.to_node(self, connection_id, data)
                case member_effects.Disconnect(connection_id, why):
                    self.world.close_from_member(self, connection_id, why)
                case member_effects.WakeAt(now_ms) if now_ms is not None:
                    self.world.at(now_ms, lambda: self.step(member_events.Ticked(self.world.now_ms)))
                case member_effects.Completed(call_id, result):
                    then = self._then.pop(call_id)
                    self.world.after(0, lambda then=then, result=result: self._go_on(then, result))
                case member_effects.Failed(_, error):
                    raise AssertionError(f"{self.name} failed: {error}")
                case _:
                    self.world.trace.append(f"{self.world.now_ms} {self.name} {effect}")

    def _go_on(self, then: Callable[[Any], None], result: Any) -> None:
        if self.is_alive:
            then(result)


class MemberWorld:
    """The node, the queries and the network between them."""

    def __init__(self, seed: int, partitions: int = 6, end_offset: int = 10_000) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.partitions = partitions
        self.end_offset = end_offset
        self.now_ms = 0
        self.trace: list[str] = []
        self.queries: list[Query] = []
        self.committed: dict[tuple[str, int], int] = {}
        self.committed_by_queries: dict[int, int] = {}
        self.resets: set[int] = set()
        self.incarnations = itertools.count(1)
        self._order = itertools.count()
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._connections: dict[int, _Connection] = {}
        self._connection_ids = itertools.count(1)
        self._ids = itertools.count(1)
        self._operator_asks = itertools.count(1)
        self._log: list[tuple[int, tuple[bytes, ...]]] = []
        self._durable_ms = 0
        self._is_node_up = False
        self._life = 0
        self._start_node()

    # ---- time -------------------------------------------------------------------------------------------------------

    def at(self, at_ms: int, work: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (max(at_ms, self.now_ms), next(self._order), work))

    def after(self, ms: int, work: Callable[[], None]) -> None:
        self.at(self.now_ms + ms, work)

    def run_until(self, end_ms: int) -> None:
        while self._queue and self._queue[0][0] <= end_ms:
            at_ms, _, work = heapq.heappop(self._queue)
            self.now_ms = at_ms
            work()
        self.now_ms = end_ms

    # ---- queries ----------------------------------------------------------------------------------------------------

    def start_query(self, name: str, member_id: str = "", claims: Sequence[Claim] = ()) -> Query:
        query = Query(self, name, member_id, claims)
        self.queries.append(query)
        query.start()
        return query

    def kill(self, query: Query) -> None:
        query.is_alive = False
        self.queries.remove(query)
        for connection_id, connection in list(self._connections.items()):
            if connection.name == query.name:
                self._close(connection_id, "the process died")

    def note_committed(self, claim: Claim) -> None:
        known = self.committed_by_queries.get(claim.partition, 0)
        self.committed_by_queries[claim.partition] = max(known, claim.until_offset)

    # ---- the network ------------------------------------------------------------------------------------------------

    def open(self, query: Query, member_connection_id: int) -> None:
        def arrive() -> None:
            if not self._is_node_up:
                query.step(member_events.ConnectionLost(self.now_ms, member_connection_id, "Connection refused"))
                return
            connection_id = next(self._connection_ids)
            connection = _Connection(query.name, member_connection_id, Session(Role.COORDINATOR))
            self._connections[connection_id] = connection
            query.step(member_events.Connected(self.now_ms, member_connection_id))
            self._to_member(connection_id, connection.session.send_hello())

        self.after(self._delay_ms(), arrive)

    def _delay_ms(self) -> int:
        return self.random.choice((0, 1, 1, 2, 5, 20))

    def _arrival_ms(self, connection: _Connection, side: str) -> int:
        connection.next_arrival[side] = max(connection.next_arrival[side], self.now_ms + self._delay_ms())
        return connection.next_arrival[side]

    def _find(self, query: Query, member_connection_id: int) -> int | None:
        for connection_id, connection in self._connections.items():
            if (connection.name, connection.member_connection_id) == (query.name, member_connection_id):
                return connection_id
        return None

    def to_node(self, query: Query, member_connection_id: int, data: bytes) -> None:
        connection_id = self._find(query, member_connection_id)
        if connection_id is None:
            return
        connection = self._connections[connection_id]

        def arrive() -> None:
            if connection.is_open and "node" not in connection.deaf:
                for said in connection.session.receive_bytes(data):
                    self._on_said(connection_id, connection, said)

        self.at(self._arrival_ms(connection, "node"), arrive)

    def _on_said(self, connection_id: int, connection: _Connection, said: Any) -> None:
        if isinstance(said, HelloReceived):
            self._step_node(node_events.ConnectionOpened(self.now_ms, connection_id, connection.name))
        elif isinstance(said, RequestReceived):
            self._ask_node(connection_id, said.correlation_id, said.request)

    def _ask_node(self, connection_id: int, correlation_id: int, request: Request) -> None:
        fresh_id = f"m{next(self._ids)}"
        self._step_node(node_events.RequestArrived(self.now_ms, connection_id, correlation_id, request, fresh_id))

    def _to_member(self, connection_id: int, data: bytes) -> None:
        connection = self._connections[connection_id]
        query = self._query_of(connection)

        def arrive() -> None:
            if query is not None and connection.is_open and "member" not in connection.deaf:
                query.step(member_events.BytesReceived(self.now_ms, connection.member_connection_id, data))

        self.at(self._arrival_ms(connection, "member"), arrive)

    def _query_of(self, connection: _Connection) -> Query | None:
        return next((query for query in self.queries if query.name == connection.name), None)

    def close_from_member(self, query: Query, member_connection_id: int, why: str) -> None:
        connection_id = self._find(query, member_connection_id)
        if connection_id is not None:
            self._close(connection_id, why)

    def _close(self, connection_id: int, why: str) -> None:
        """Close a connection: what was sent before may be lost, and each side learns of it in its own time."""
        connection = self._connections.pop(connection_id, None)
        if connection is None:
            return
        connection.is_open = False
        query, life = self._query_of(connection), self._life

        def node_learns() -> None:
            if life == self._life:
                self._step_node(node_events.ConnectionClosed(self.now_ms, connection_id, why))

        def member_learns() -> None:
            if query is not None:
                query.step(member_events.ConnectionLost(self.now_ms, connection.member_connection_id, why))

        if connection.session.version is not None:
            self.after(self._delay_ms(), node_learns)
        self.after(self._delay_ms(), member_learns)

    def lose_a_connection(self) -> None:
        if self._connections:
            self._close(self.random.choice(sorted(self._connections)), "the network broke")

    def silence_a_connection(self) -> None:
        """Let nothing arrive any more, in one direction or in both, without anybody being told."""
        if self._connections:
            connection = self._connections[self.random.choice(sorted(self._connections))]
            connection.deaf |= set(self.random.choice((("node",), ("member",), ("node", "member"))))

    # ---- the node ---------------------------------------------------------------------------------------------------

    def _start_node(self) -> None:
        self.node = Node(Limits(), SHARDS, ADDRESS, ("k:9092",))
        self.node.load(0, None, 0, [(base, records) for base, records in self._log])
        self._life += 1
        self._is_node_up = True
        self._perform(self.node.start(self.now_ms, self._wall_ms()))
        self._tick()
        self._open_operator()

    def _open_operator(self) -> None:
        self._step_node(node_events.ConnectionOpened(self.now_ms, OPERATOR, "operator"))
        self._watch_offsets()

    def restart_node(self, down_ms: int) -> None:
        """Kill the node, losing what was not durable, and start it again from its log."""
        self._is_node_up = False
        self._life += 1
        for connection_id in list(self._connections):
            self._close(connection_id, "the coordinator died")
        self.after(down_ms, self._start_node)

    def _wall_ms(self) -> int:
        return 1_000_000 + self.now_ms

    def _tick(self) -> None:
        life = self._life

        def tick() -> None:
            if life == self._life:
                self._step_node(node_events.Ticked(self.now_ms, self._wall_ms()))
                self.after(100, tick)

        tick()

    def _step_node(self, event: node_events.Event) -> None:
        if self._is_node_up:
            self._perform(self.node.step(event))

    def _perform(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            match effect:
                case Append():
                    self._append(effect)
                case Respond(connection_id, correlation_id, response):
                    self._respond(connection_id, correlation_id, response)
                case SendPush(connection_id, push) if connection_id in self._connections:
                    self._to_member(connection_id, self._connections[connection_id].session.send_push(push))
                case CloseConnection(connection_id, why):
                    # What was sent before still arrives: close once it has.
                    connection = self._connections.get(connection_id)
                    if connection is not None:
                        self.at(
                            self._arrival_ms(connection, "member"),
                            lambda connection_id=connection_id, why=why: self._close(connection_id, why),
                        )
                case WatchTopics():
                    self._later(self._read_topics)
                case ResolveOffsets():
                    self._later(lambda effect=effect: self._resolve(effect))
                case WakeAt(now_ms):
                    life = self._life
                    self.at(
                        now_ms,
                        lambda life=life: (
                            self._step_node(node_events.Ticked(self.now_ms, self._wall_ms()))
                            if life == self._life
                            else None
                        ),
                    )
                case WriteSnapshot(shard, end_offset, _, _):
                    self._later(
                        lambda shard=shard, end=end_offset: self._step_node(
                            node_events.SnapshotWritten(self.now_ms, shard, end)
                        )
                    )
                case Halt(why):
                    raise AssertionError(f"the node halted: {why}")
                case _:
                    self.trace.append(f"{self.now_ms} node {effect}")

    def _later(self, work: Callable[[], None]) -> None:
        life = self._life
        self.after(self._delay_ms(), lambda: work() if life == self._life else None)

    def _append(self, effect: Append) -> None:
        life = self._life
        end = effect.base_offset + len(effect.records)
        self._durable_ms = max(self._durable_ms, self.now_ms + self._delay_ms())

        def become_durable() -> None:
            if life == self._life:
                self._log.append((effect.base_offset, effect.records))
                self._step_node(node_events.BecameDurable(self.now_ms, effect.shard, end))

        self.at(self._durable_ms, become_durable)

    def _respond(self, connection_id: int, correlation_id: int, response: Response) -> None:
        if connection_id == OPERATOR:
            self._on_offsets(response)
        elif connection_id in self._connections:
            data = self._connections[connection_id].session.send_response(correlation_id, response)
            self._to_member(connection_id, data)

    def _read_topics(self) -> None:
        topics: Mapping[str, TopicMetadata] = {TOPIC: TopicMetadata(TOPIC, TOPIC_ID, (1,) * self.partitions)}
        self._step_node(node_events.TopicsRead(self.now_ms, topics, frozenset(), {}, {1: ("k", 9092)}, "cluster"))

    def _resolve(self, effect: ResolveOffsets) -> None:
        offsets = tuple(ResolvedOffset(wish.topic, wish.partition, 0) for wish in effect.offsets)
        self._step_node(node_events.OffsetsResolved(self.now_ms, effect.lookup_id, offsets))

    def reset(self, partition: int) -> None:
        """Have an operator set a partition back to its beginning; from then on its offset may be seen to go back."""
        self.resets.add(partition)
        request = ResetOffsets("g", (ResetTarget(TOPIC, partition, "earliest"),), "operator", is_dry_run=False)
        self._ask_node(OPERATOR, next(self._operator_asks), request)

    # ---- what is watched --------------------------------------------------------------------------------------------

    def _watch_offsets(self) -> None:
        life = self._life

        def ask() -> None:
            if life == self._life:
                self._ask_node(OPERATOR, next(self._operator_asks), FetchOffsets("g"))
                self.after(50, ask)

        ask()

    def _on_offsets(self, response: Response) -> None:
        if not isinstance(response, FetchOffsetsResponse) or response.error is not ErrorCode.NONE:
            return
        now = {(part.topic, part.partition): part.offset for part in response.offsets}
        for key, before in self.committed.items():
            assert key[1] in self.resets or now.get(key, -1) >= before, (
                f"seed {self.seed}: {key} went back from {before} to {now.get(key)}"
            )
        self.committed = now

    def owners(self) -> dict[int, list[str]]:
        """Return who believes to own each partition."""
        return {
            partition: [
                query.name
                for query in self.queries
                if any(part.partition == partition for part in query.member.assignment.partitions)
            ]
            for partition in range(self.partitions)
        }

    def is_settled(self) -> bool:
        """True when every query is joined with a complete assignment and every partition has one owner."""
        return all(
            query.member.state is State.JOINED and query.member.assignment.is_complete for query in self.queries
        ) and all(len(names) == 1 for names in self.owners().values())
