"""A world around one node: a clock, a disk, a Kafka and members that do as they are told.

Everything is virtual and happens at once unless a test says otherwise: the disk is durable immediately (or only when
`sync` is called), Kafka answers immediately (or not while `kafka.is_away`), and members answer only as scripted.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from coordinator.core.auditing.auditor import Auditor
from coordinator.core.effects import (
    Append,
    Audited,
    BugMet,
    CloseConnection,
    Effect,
    Halt,
    LoadShard,
    MirrorEnded,
    MirrorOffsets,
    Notice,
    ResolveOffsets,
    Respond,
    SendPush,
    WakeAt,
    WatchTopics,
    WriteSnapshot,
)
from coordinator.core.events import (
    BecameDurable,
    ConnectionClosed,
    ConnectionOpened,
    DiskFailed,
    Event,
    KafkaFailed,
    OffsetsResolved,
    ShardRecovered,
    SnapshotWritten,
    Ticked,
    TopicsRead,
)
from coordinator.core.groups.hard.state import GroupState, ShardState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.limits import Limits
from coordinator.core.mirror.events import MirrorAnswered
from coordinator.core.mirror.mirrored import Machine, Mirrored
from coordinator.core.mirror.settings import MirrorSettings
from coordinator.core.node import Node
from coordinator.core.security.authorizer import Authorizer
from coordinator.core.security.principal import ANONYMOUS, Principal
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
    RegisterConsumer,
    Request,
)
from coordinator.protocol.parts import (
    Claim,
    GroupEvent,
    LogPosition,
    NodeAddress,
    ResetPolicy,
    StartHint,
    Subscription,
)
from tests.helpers.loading import given
from tests.helpers.node_kafka import FakeKafka
from tests.helpers.node_member import Member

WALL_OFFSET_MS = 1_700_000_000_000
TICK_MS = 100


@dataclass(frozen=True)
class DiskCopy:
    """The content of a disk at a time."""

    written: list[list[bytes]]
    snapshots: dict[int, tuple[int, tuple[bytes, ...]]]


class NodeWorld:
    """A node and all that surrounds it."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        limits: Limits | None = None,
        shards: int = 2,
        is_durable_at_once: bool = True,
        authorizer: Authorizer | None = None,
        has_audit_log: bool = False,
        mirror: MirrorSettings | None = None,
        mirrors: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self.authorizer = authorizer
        self.has_audit_log = has_audit_log
        self.audited: list[Audited] = []
        self._mirror = mirror
        self._mirrors = mirrors
        self.mirrored: list[MirrorOffsets | MirrorEnded] = []
        """All that a node with a mirror wanted written; a test answers with MirrorAnswered."""
        self.limits = limits or Limits()
        self.shards = shards
        self.is_durable_at_once = is_durable_at_once
        self.is_snapshot_written_at_once = True
        self.is_load_late = False
        """True while nothing is read of shards that are to be loaded."""
        self.kafka = FakeKafka(dict(topics if topics is not None else {"t": 4}))
        self.now_ms = 1_000_000
        self.wall_offset_ms = WALL_OFFSET_MS
        self.is_behind = False
        """True while more is said to the node than it has time to hear."""
        self.written: list[list[bytes]] = [[] for _ in range(shards)]
        self.synced = [0] * shards
        self.snapshots: dict[int, tuple[int, tuple[bytes, ...]]] = {}
        self._pieces: dict[int, list[tuple[bytes, ...]]] = {}
        self.effects: list[Effect] = []
        self.watched: frozenset[str] = frozenset()
        self.lists_all = False
        self.halted: Halt | None = None
        self.bugs: list[BugMet] | None = None
        """The bugs that were met, where some are expected."""
        self.epochs = [0] * shards
        """The leader epoch of each log's last record."""
        self.loads: list[tuple[int, LoadShard]] = []
        """The times at which shards are to be read."""
        self.members: dict[int, Member] = {}
        self._events: deque[Event | MirrorAnswered] = deque()
        self._late: list[TopicsRead | OffsetsResolved] = []
        self._is_working = False
        self._wake_at_ms: int | None = None
        self._ids = 0
        self.lives = 0
        self._start_node()

    # ---- the node's life ----

    def _new_node(self) -> Node:
        node = Node(
            self.limits, self.shards, NodeAddress(1, "127.0.0.1", 9191), ("broker:9092",), authorizer=self.authorizer
        )
        self.around = None if self._mirror is None else Mirrored(lambda: node, self._mirror, self._mirrors)
        for shard in range(self.shards):
            end, snapshot = self.snapshots.get(shard, (0, None))
            tail = self.written[shard][end : self.synced[shard]]
            node.load(shard, given(snapshot, end, [(end, tail)] if tail else [], self.epochs[shard]))
        return node

    def _start_node(self) -> None:
        self.node = self._new_node()
        self.machine: Machine = Auditor(self.node) if self.has_audit_log else self.node
        if self.around is not None:
            self.around.machine, self.machine = self.machine, self.around
        self._is_working = True
        self._perform(self.machine.start(self.now_ms, self.now_ms + self.wall_offset_ms, self._next_incarnation()))
        self._is_working = False
        self._work_off()

    def restart(self) -> None:
        """Kill the node, lose what is not durable and every connection, and start it from its disk."""
        for shard in range(self.shards):
            del self.written[shard][self.synced[shard] :]
        self.members.clear()
        self._late.clear()
        self._pieces.clear()
        self.watched = frozenset()
        self.lists_all = False
        self._wake_at_ms = None
        self._start_node()

    def copy_disk(self) -> DiskCopy:
        """Return a copy of what is durable, as a backup has it."""
        return DiskCopy(
            [written[:end] for written, end in zip(self.written, self.synced, strict=True)], dict(self.snapshots)
        )

    def restore(self, copy: DiskCopy | None) -> None:
        """Kill the node and start it from an old copy of its disk, or from an empty one."""
        copy = copy or DiskCopy([[] for _ in range(self.shards)], {})
        self.written = [list(written) for written in copy.written]
        self.synced = [len(written) for written in self.written]
        self.snapshots = dict(copy.snapshots)
        self.restart()

    def _next_incarnation(self) -> str:
        self.lives += 1
        return f"life-{self.lives}"

    def happen(self, event: Event | MirrorAnswered) -> list[Effect]:
        """Feed an event and perform what it leads to; returns the effects, those of what followed included."""
        before = len(self.effects)
        self._events.append(event)
        self._work_off()
        return self.effects[before:]

    def _work_off(self) -> None:
        if self._is_working:
            return
        self._is_working = True
        try:
            while self._events:
                self._perform(self.machine.step(self._events.popleft(), self.now_ms))
        finally:
            self._is_working = False

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.effects.append(effect)
            match effect:
                case Append(shard, base_offset, leader_epoch, records):
                    assert base_offset == len(self.written[shard])
                    assert leader_epoch >= self.epochs[shard]
                    self.epochs[shard] = leader_epoch
                    self.written[shard].extend(records)
                    if self.is_durable_at_once:
                        self.sync(shard)
                case WriteSnapshot(shard, end_offset, _, records, index, is_last):
                    pieces = self._pieces.setdefault(shard, [])
                    assert index == len(pieces), "pieces come in their order, and one at a time"
                    pieces.append(records)
                    if is_last:
                        self.snapshots[shard] = (end_offset, tuple(record for piece in pieces for record in piece))
                        del self._pieces[shard]
                    if self.is_snapshot_written_at_once:
                        self.happen(SnapshotWritten(shard, end_offset, is_last))
                case Respond(connection_id, correlation_id, response):
                    if connection_id in self.members:
                        self.members[connection_id].take_response(correlation_id, response)
                case SendPush(connection_id, push):
                    if connection_id in self.members:
                        self.members[connection_id].take_push(push)
                case CloseConnection(connection_id, why):
                    if connection_id in self.members:
                        self.members[connection_id].closed_why = why
                        self.happen(ConnectionClosed(connection_id, why))
                case WatchTopics(topics, lists_all):
                    self.watched = topics
                    self.lists_all = lists_all
                    self.poll_topics()
                case ResolveOffsets():
                    self._resolve(effect)
                case WakeAt(now_ms):
                    self._wake_at_ms = now_ms
                case Halt():
                    self.halted = effect
                case LoadShard():
                    self.loads.append((self.now_ms + effect.after_ms, effect))
                    self._load_those_due()
                case Audited():
                    self.audited.append(effect)
                case MirrorOffsets() | MirrorEnded():
                    self.mirrored.append(effect)
                case BugMet():
                    assert self.bugs is not None, f"{effect.why}: {effect.error!r}"
                    self.bugs.append(effect)
                case Notice():
                    pass
                case _:
                    assert_never(effect)

    def _load_those_due(self) -> None:
        if self.is_load_late:
            return
        due = [load for at_ms, load in self.loads if at_ms <= self.now_ms]
        self.loads = [(at_ms, load) for at_ms, load in self.loads if at_ms > self.now_ms]
        for load in due:
            self.happen(self.read(load))

    def read(self, load: LoadShard) -> ShardRecovered:
        """Return what a shard's log has, once all of it is durable."""
        shard = load.shard
        self.sync(shard)
        end, snapshot = self.snapshots.get(shard, (0, None))
        pieces = [] if snapshot is None else [(True, end, snapshot)]
        log = (False, end, self.written[shard][end:])
        return ShardRecovered(shard, load.leader_epoch, self.epochs[shard], [*pieces, log])

    def sync(self, shard: int | None = None) -> None:
        """Make what was written durable."""
        for index in range(self.shards) if shard is None else (shard,):
            if self.synced[index] < len(self.written[index]):
                self.synced[index] = len(self.written[index])
                self.happen(BecameDurable(index, self.synced[index]))

    def fail_disk(self) -> None:
        self.happen(DiskFailed("input/output error"))

    def advance(self, ms: int) -> None:
        """Let time pass, with ticks when they are due."""
        end_ms = self.now_ms + ms
        while True:
            next_ms = (self.now_ms // TICK_MS + 1) * TICK_MS
            if self._wake_at_ms is not None:
                next_ms = min(next_ms, max(self._wake_at_ms, self.now_ms))
            if next_ms > end_ms:
                break
            if self._wake_at_ms is not None and self._wake_at_ms <= next_ms:
                self._wake_at_ms = None
            self.now_ms = next_ms
            self._load_those_due()
            self.happen(Ticked(self.now_ms + self.wall_offset_ms, self.is_behind))
        self.now_ms = end_ms

    def settle(self) -> None:
        """Let the rebalance window pass."""
        self.advance(self.limits.rebalance_window_ms)

    # ---- Kafka ----

    def poll_topics(self) -> None:
        if self.kafka.is_away:
            self.happen(KafkaFailed("Kafka at broker:9092 cannot be reached: connection refused"))
        else:
            self.happen(self.kafka.read(self.watched, lists_all=self.lists_all))

    def answer_late(self) -> None:
        """Give the answers of a Kafka that was late."""
        late, self._late = self._late, []
        for answer in late:
            self.happen(answer)

    def _resolve(self, asked: ResolveOffsets) -> None:
        if self.kafka.is_late:
            self._late += self.kafka.answer(asked, self.watched)
            return
        kafka = replace(self.kafka, cannot_resolve=True) if self.kafka.is_away else self.kafka
        for answer in kafka.answer(asked, self.watched):
            self.happen(answer)

    # ---- members ----

    def fresh_id(self, request: Request) -> str:
        if not isinstance(request, RegisterConsumer):
            return ""
        self._ids += 1
        return f"fresh-{self._ids}"

    def connect(self, host: str = "10.0.0.1", principal: Principal = ANONYMOUS) -> Member:
        self._ids += 1
        member = Member(self, self._ids)
        self.members[self._ids] = member
        self.happen(ConnectionOpened(self._ids, host, principal))
        return member

    def joining(
        self,
        member_id: str = "",
        *,
        group_id: str = "g",
        incarnation: str | None = None,
        topics: tuple[str, ...] = ("t",),
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        instance_id: str | None = None,
        streams: int = 1,
        assignors: tuple[str, ...] = (),
        reset_policy: ResetPolicy | None = None,
        claims: Iterable[Claim] = (),
        hints: Iterable[StartHint] = (),
        handover: str | None = "takeover",
        wait_for_topics: bool = False,
        claim_timeout_ms: int | None = None,
        subscription: Subscription | None = None,
        pid: int = 42,
        wants_streams: bool = False,
        application: str | None = None,
        shares_application: bool = False,
        commits: bool = True,
        is_returning: bool = False,
        isolation_level: str = "read_uncommitted",
        log: LogPosition | None = None,
        is_rejoining: bool = False,
        age_ms: int = 0,
        is_leaving: bool = False,
        principal: Principal = ANONYMOUS,
    ) -> Member:
        """Connect a member that has its registration ready and has not sent it."""
        member = self.connect(principal=principal)
        member.registration = RegisterConsumer(
            group_id=group_id,
            member_id=member_id,
            incarnation=incarnation or f"process-of-{member_id or 'nobody'}",
            subscription=subscription if subscription is not None else Subscription(topics=topics),
            client_id=f"client-{member_id}",
            pid=pid,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            instance_id=instance_id,
            streams=streams,
            assignors=assignors,
            reset_policy=reset_policy,
            claims=tuple(claims),
            hints=tuple(hints),
            handover=handover,
            wait_for_topics=wait_for_topics,
            claim_timeout_ms=claim_timeout_ms,
            wants_streams=wants_streams,
            application=application,
            shares_application=shares_application,
            commits=commits,
            is_returning=is_returning,
            isolation_level=isolation_level,
            log=log,
            is_rejoining=is_rejoining,
            age_ms=age_ms,
            is_leaving=is_leaving,
        )
        return member

    def join(self, member_id: str = "", *, is_settled: bool = True, **facts: object) -> Member:
        """Have a member join and, unless told otherwise, let the rebalance window pass."""
        member = self.joining(member_id, **facts)  # type: ignore[arg-type]
        response = member.register()
        assert response.error is ErrorCode.NONE, response.message
        if is_settled:
            self.settle()
        return member

    def reconnect(self, member: Member, **changes: object) -> Member:
        """Register the same process again on a new connection."""
        again = self.connect()
        assert member.registration is not None
        changes.setdefault("member_id", member.member_id)
        again.registration = replace_registration(member.registration, changes)
        response = again.register()
        assert response.error is ErrorCode.NONE, response.message
        return again

    # ---- looking ----

    def group(self, group_id: str = "g") -> GroupState:
        """Return the hard state of a group."""
        return self.state(self.node.shard_of(group_id)).groups[group_id]

    def state(self, shard: int) -> ShardState:
        """Return the hard state of a shard."""
        return self.node.hard_state(shard)

    def owners(self, group_id: str = "g") -> dict[TopicPartition, str]:
        return {partition: grant.member_id for partition, grant in self.group(group_id).grants.items()}

    def committed(self, group_id: str = "g") -> dict[TopicPartition, int]:
        """Return committed offsets as a tool reads them."""
        response = self.connect().ask(FetchOffsets(group_id), FetchOffsetsResponse)
        return {(offset.topic, offset.partition): offset.offset for offset in response.offsets}

    def describe(self, group_id: str = "g") -> DescribeGroupResponse:
        return self.connect().ask(DescribeGroup(group_id), DescribeGroupResponse)

    def events(self, kind: str | None = None, group_id: str = "g") -> list[GroupEvent]:
        """Return a group's timeline, of one kind if one is named."""
        response = self.connect().ask(ListGroupEvents(group_id), ListGroupEventsResponse)
        return [event for event in response.events if kind in {None, event.kind}]


def replace_registration(registration: RegisterConsumer, changes: Mapping[str, object]) -> RegisterConsumer:
    fields = {name: getattr(registration, name) for name in registration.__struct_fields__}
    return RegisterConsumer(**{**fields, **changes})
