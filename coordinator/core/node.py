"""One coordinator as a pure machine: events in, effects out.

The node joins the shards to the connections, to Kafka's answers and to the disk. It keeps the one rule of order:
records first, and whatever was decided upon them only once they are durable. It knows no sockets, files, clocks or
chance; whoever performs its effects reports back with events.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Final, assert_never

from coordinator.core.effects import BugMet, Effect, Halt, WakeAt
from coordinator.core.events import (
    AppendRefused,
    BecameDurable,
    ConnectionClosed,
    ConnectionOpened,
    DiskFailed,
    EndOffsetsRead,
    Event,
    GateMoved,
    KafkaFailed,
    LeadershipGiven,
    LeadershipGoesOn,
    LeadershipTaken,
    OffsetsResolved,
    RequestArrived,
    RulesChanged,
    ShardRecovered,
    ShardServes,
    ShardStalled,
    ShardUnreadable,
    SnapshotWritten,
    StandbyDropped,
    StandbyFed,
    Ticked,
    TopicsRead,
)
from coordinator.core.groups.assignment.assignors import ASSIGNORS, Assignor
from coordinator.core.groups.desk import Clock, Desk
from coordinator.core.groups.hard.account import Usage
from coordinator.core.groups.hard.journal import Journal, MarkingJournal
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.groups.reconciliation.stopping.renewal import renew
from coordinator.core.groups.shard import Shard
from coordinator.core.groups.soft.sessions import Connection
from coordinator.core.groups.soft.timeline import Timelines
from coordinator.core.kafka_metadata import Catalog
from coordinator.core.limits import Limits
from coordinator.core.log.storage import LogSink, RecoveredShard
from coordinator.core.matching import Matching
from coordinator.core.meter import Meter
from coordinator.core.node_wide import NodeWide
from coordinator.core.request_shape import where_of
from coordinator.core.requests.finding import Neighbours
from coordinator.core.requests.guarding import GuardedRouter
from coordinator.core.requests.routing import Router
from coordinator.core.requests.survey import Seen, ShardSeen, survey
from coordinator.core.security.authorizer import Authorizer
from coordinator.core.shards.gates import Gates
from coordinator.core.shards.place import shard_of
from coordinator.core.shards.shard_rack import NotServedError, ShardRack
from coordinator.core.shards.standbys import Standbys
from coordinator.core.shards.watching import Watching
from coordinator.protocol.parts import NodeAddress

_shard_of = lru_cache(maxsize=4096)(shard_of)
_OFTEN: Final = frozenset({RequestArrived, ConnectionOpened, ConnectionClosed, BecameDurable, GateMoved})
"""The events that come for each member: none of them is news of who leads a shard."""


class Node:
    """One coordinator process: `load` every shard, `start` once, then `step` for each event.

    `load` raises UnreadableRecordError; after it, nothing that comes from outside makes a method raise. The effects
    a call returns are to be performed in their order.

    A node begins as the only replica of every shard, and leads all of them from its start. A bug of ours costs one
    request and one load of a shard (see `shard_rack`).
    """

    def __init__(
        self,
        limits: Limits,
        shards: int,
        self_address: NodeAddress,
        kafka_bootstrap: tuple[str, ...],
        assignors: Mapping[str, Assignor] = ASSIGNORS,
        authorizer: Authorizer | None = None,
    ) -> None:
        assert shards > 0, "a node has at least one shard"
        self._new_journal: type[Journal] = Journal
        self._limits = limits
        self._number_of_shards = shards
        self._catalog = Catalog(kafka_bootstrap)
        self._clock = Clock()
        self._meter = Meter()
        self._matching = Matching(self._meter)
        self._connections: dict[int, Connection] = {}
        self._gates: Gates[Effect] = Gates()
        self._first_shard = self._next_lookup_id = 0
        self._address = self_address
        self._successors: list[tuple[NodeAddress, ...] | None] = [None] * shards
        self.usage = Usage()  # with the limits of all groups together also for whoever shows them
        self.node_wide = NodeWide(limits)
        self._assignors, self._authorizer = assignors, authorizer
        self._rack = ShardRack(
            [partial(self._new_shard, index) for index in range(shards)],
            partial(_shard_of, shards),
            self_address.node_id,
            self._clock,
            self._connections,
            self._gates,
            limits,
        )
        self._router = (Router if authorizer is None else partial(GuardedRouter, authorizer))(
            limits, self_address, self._catalog, self._meter, self._connections, self._gates, self._rack, self._clock
        )
        self._finder = self._router.finder
        self._waiting = self._router.waiting.by_connection
        self._shards = self._rack.shards
        self._snapshots = self._rack.snapshots
        self._due = self._snapshots.due
        self._away = self._rack.loads.waiting
        self._remains = self._rack.remains.parts
        self.usage.states += [partial(self.hard_state, index) for index in range(shards)]
        self._watching = Watching(self._catalog, self._rack)
        self._wake_at_ms: int | None = None
        self._touched = self._rack.touched
        self._direct = self._rack.direct
        self._is_started = self._is_halted = False

    # ---- load and start ---------------------------------------------------------------------------------------------

    def load(self, shard: int, recover: Callable[[LogSink], RecoveredShard]) -> RecoveredShard:
        """Replay a shard while `recover` reads it, which hands on its snapshot and the batches after it.

        Raises UnreadableRecordError when a record is not understood or records are missing, and what `recover` does.
        """
        assert not self._is_started, "shards are loaded before the start"
        journal = self._shards[shard].desk.journal
        recovered = recover(journal)
        journal.leader_epoch = recovered.leader_epoch
        return recovered

    @property
    def written_at_ms(self) -> int | None:
        """The last time at which the log was written by the wall clock, as shards with groups say now and then."""
        states = [shard.desk.journal.state for shard in self._shards]
        return max((each.lived_at_ms for each in states if each.groups and each.lived_at_ms is not None), default=None)

    def start(self, now_ms: int, wall_ms: int, incarnation: str) -> list[Effect]:
        """Begin to live and to lead: members get a full session time-out from now, stops in progress a full deadline.

        `incarnation` is random and names this life of the logs; no other start of a node may have the same.
        """
        assert not self._is_started, "a node is started once"
        self._is_started = True
        self._clock.now_ms = now_ms
        self._clock.wall_offset_ms = wall_ms - now_ms
        self._rack.start(incarnation)
        return self._finish(now_ms, looks_at_all_timers=True)

    def join(self, now_ms: int, wall_ms: int, incarnation: str, find_hold_ms: int = 0) -> None:
        """Begin to live as a node of a cluster, which leads nothing before it is told to.

        A question for a coordinator that is not known is held for at most `find_hold_ms`.
        """
        assert not self._is_started, "a node is started once"
        self._is_started = True
        self._finder.hold_ms = find_hold_ms
        self._clock.now_ms = now_ms
        self._clock.wall_offset_ms = wall_ms - now_ms
        self._rack.incarnation = incarnation

    # ---- step -------------------------------------------------------------------------------------------------------

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take in one event that happens at `now_ms` (monotonic) and return what is to be done, in order."""
        assert self._is_started, "a node is started before its first step"
        if self._is_halted:
            return []
        self._clock.now_ms = max(self._clock.now_ms, now_ms)
        self._meter.things = self._meter.passed_over = self._meter.matched = 0
        self._rack.working = None
        looks_at_all_timers = False
        try:  # no call of its own: there is a step for every request
            match event:
                case RequestArrived():
                    self._router.handle(event)
                case BecameDurable():
                    # A node that is alone is the whole in-sync set: what is on its disk is committed.
                    self._gates.move(event.shard, self._rack.leader_epochs[event.shard], event.end_offset)
                    self._committed(event.shard, event.end_offset)
                case Ticked():
                    looks_at_all_timers = True
                    self._clock.wall_offset_ms = event.wall_ms - now_ms
                    self._clock.is_behind = event.is_behind
                    self._pass_time(event)
                    self._router.take_turn()
                    if self._away:
                        self._rack.load_slice(self._limits.slice_bytes)
                    if self._remains:
                        self._rack.remains.drop()
                    self._grow_snapshot()
                case ConnectionOpened():
                    self._connections[event.connection_id] = Connection(
                        event.connection_id, event.host, event.principal
                    )
                case ConnectionClosed():
                    self._close(event)
                case TopicsRead():
                    changed = self._catalog.read_topics(event)
                    for index, shard in enumerate(self._shards):
                        self._rack.contained(index, event, shard.handle_topics, event, changed)
                    # A late answer tells of topics that nobody watches any more, and nobody would correct it.
                    self._watching.forget_others()
                case OffsetsResolved():
                    for index, shard in enumerate(self._shards):
                        if shard.awaits(event.lookup_id):
                            self._rack.contained(index, event, shard.handle_resolved, event)
                case EndOffsetsRead():
                    self._catalog.read_ends(event, self._clock.now_ms)
                case KafkaFailed():
                    self._catalog.failure = event.why
                case RulesChanged():
                    if self._authorizer is not None:
                        self._authorizer.change(event.acl)
                case SnapshotWritten():
                    self._snapshots.piece_written(event.shard, event.end_offset, is_whole=event.is_whole)
                    self._grow_snapshot()
                case GateMoved():
                    self._gates.move(event.shard, event.leader_epoch, event.high_watermark, event.confirmed_round)
                    if self._rack.leader_epochs[event.shard] == event.leader_epoch:
                        self._committed(event.shard, event.high_watermark)
                case LeadershipGiven():
                    self._rack.lead(event)
                case StandbyFed():
                    self._rack.feed(event)
                    self._grow_snapshot()
                case StandbyDropped():
                    self._rack.drop_standby(event.shard)
                case LeadershipGoesOn():
                    self._rack.go_on(event)
                case ShardStalled():
                    self._rack.stall(event.shard)
                case ShardServes():
                    self._rack.stalled.discard(event.shard)
                    self._rack.contained(event.shard, event, renew, self._shards[event.shard].desk)
                case LeadershipTaken():
                    self._rack.resign(event.shard, event.why)
                case ShardRecovered():
                    self._rack.recovered(event)
                case ShardUnreadable():
                    self._rack.unreadable(event)
                case AppendRefused():
                    self._rack.refused(event)
                case DiskFailed():
                    self._is_halted = True
                    self._gates.drop_all()
                    return [Halt(event.halts_for)]
                case _:
                    assert_never(event)
        except NotServedError as error:
            assert isinstance(event, RequestArrived), "only a request is refused"
            self._router.refuse_for_now(event, error)
        except Exception as error:  # noqa: BLE001 - a bug of ours costs one request, whatever it is
            self._rack.contain(error, event)
        if self._finder.due_ms is not None and type(event) not in _OFTEN:
            self._router.answer_held()
        return self._finish(now_ms, looks_at_all_timers=looks_at_all_timers)

    def shard_of(self, group_id: str) -> int:
        """Return the shard of a group: crc32c of its UTF-8, modulo the number of shards."""
        return _shard_of(len(self._shards), group_id)

    def hard_state(self, shard: int) -> ShardState:
        """Return the hard state of a shard, to look at: whatever checks a node compares it with what it ought to be."""
        return self._shards[shard].desk.journal.state

    def may(self, event: RequestArrived) -> bool:
        """Return whether a request may be made that is answered for the node and not by it."""
        return self._router.may(event)

    @property
    def standbys(self) -> Standbys:
        """The state of shards that are followed here, as far as it was fed."""
        return self._rack.standbys

    @property
    def slice_bytes(self) -> int:
        """The bytes of records that a step replays at most."""
        return self._limits.slice_bytes

    def know(self, neighbours: Neighbours, now_ms: int) -> list[Effect]:
        """Send members from now on to the nodes that are known to lead; returns answers that were held for the news."""
        self._finder.neighbours = neighbours
        neighbours.renew_successors(self._successors, self._address.node_id)
        return self.hear(None, now_ms)

    def hear(self, node: int | None, now_ms: int) -> list[Effect]:
        """Take note that another node lives; returns answers that were held until something is known or heard."""
        if self._finder.due_ms is None:
            return []
        self._clock.now_ms = max(self._clock.now_ms, now_ms)
        self._router.answer_held(node)
        return self._finish(now_ms)

    @property
    def gates(self) -> Gates[Effect]:
        """The gates of the shards that are led here, for whoever counts rounds and looks how long something waits."""
        return self._gates

    def is_loaded(self, shard: int) -> bool:
        """Return whether a shard is led here and all of it is replayed."""
        return shard not in self._away

    def survey(self, shards: Iterable[int]) -> Iterator[Seen]:
        """Yield the groups of shards that are led here, a little at a time; steps may come between two pieces."""
        for index in shards:
            if index not in self._away:
                yield from survey(partial(self._desk_of, index))

    def note_changes(self) -> None:
        """Have journals note which groups are changed, from now on; nothing is loaded yet."""
        self._new_journal = MarkingJournal
        for index, shard in enumerate(self._shards):
            shard.desk.journal = MarkingJournal(index)

    def served_journals(self) -> dict[int, MarkingJournal]:
        """Return the journals of the shards that are led here and loaded, where changes are noted."""
        journals = {index: shard.desk.journal for index, shard in enumerate(self._shards) if index not in self._away}
        return {index: journal for index, journal in journals.items() if isinstance(journal, MarkingJournal)}

    @property
    def catalog(self) -> Catalog:
        """The newest answers of Kafka, to look at."""
        return self._catalog

    def survey_alone(self) -> Iterator[Seen]:
        """Yield the shards of a node that is alone, which is all there is in sync, and then their groups."""
        shards = range(len(self._shards))
        for index in shards:
            end, high_watermark = self._desk_of(index).journal.log_end_offset, self._gates.high_watermark(index)
            yield ShardSeen(index, self._rack.leader_epochs[index], high_watermark, end, 1, 1, 1)
        yield from self.survey(shards)

    def _desk_of(self, shard: int) -> Desk:
        return self._shards[shard].desk

    @property
    def things_done(self) -> int:
        """The work of the last step; see `meter`."""
        return self._meter.things

    def _committed(self, shard: int, end: int) -> None:
        """Take note that records of a shard are committed."""
        self._rack.working = shard
        if self._shards[shard].became_durable(end):
            self._touched.add(shard)
        if self._snapshots.held is not None:
            self._hand_out_snapshot()

    def _new_lookup_id(self) -> int:
        self._next_lookup_id += 1
        return self._next_lookup_id

    def _new_shard(self, index: int) -> Shard:
        desk = Desk(
            self._new_journal(index),
            self._limits,
            self._catalog,
            self._clock,
            self._connections,
            usage=self.usage,
            node_wide=self.node_wide,
            meter=self._meter,
            matching=self._matching,
            timelines=Timelines(self._limits, self._number_of_shards),
            authorizer=self._authorizer,
            successors=self._successors,
        )
        return Shard(desk, self._assignors, self._new_lookup_id)

    def _close(self, event: ConnectionClosed) -> None:
        self._finder.expected.discard(event.connection_id)
        connection = self._connections.pop(event.connection_id, None)
        if connection is None:
            return
        self._waiting.pop(event.connection_id, None)
        if connection.group_id is not None:
            index = self.shard_of(connection.group_id)
            self._rack.contained(index, event, self._shards[index].connection_lost, connection, event.why)
        elif connection.is_registering:
            for index, shard in enumerate(self._shards):
                self._rack.contained(index, event, shard.connection_lost, connection, event.why)

    # ---- the end of a step ------------------------------------------------------------------------------------------

    def _finish(self, now_ms: int, *, looks_at_all_timers: bool = False) -> list[Effect]:
        """Gather what the step decided: appends first, then what needs no record, then what has become durable."""
        effects: list[Effect] = []
        others: list[Effect] = []
        for index in sorted(self._touched):
            desk = self._shards[index].desk
            if desk.timelines.pending:
                self._rack.contained(index, None, desk.write_timelines)
                desk = self._shards[index].desk
            journal = desk.journal
            append = journal.take_append()
            if append is not None:
                effects.append(append)
                self._rack.handed_out[index] = journal.log_end_offset
                if index not in self._rack.stalled and self._snapshots.look_at(index):
                    self._grow_snapshot()
            if desk.effects:
                others += desk.effects
                desk.effects.clear()
            if desk.sends:
                self._gates.park(index, desk.sends, journal.log_end_offset)
                desk.sends.clear()
        effects += others
        if self._direct:
            effects += self._direct
            self._direct.clear()
        effects += self._watching.look()
        effects += self._gates.release()
        effects += self._wake(now_ms, is_tick=looks_at_all_timers)
        self._touched.clear()
        return effects

    def _pass_time(self, event: Ticked) -> None:
        """Let every shard do what is due; they take turns in being first, since a step rebalances only so much."""
        shards = len(self._shards)
        self._first_shard = (self._first_shard + 1) % shards
        allowance = self._limits.slice_partitions
        for turn in range(shards):
            index = (self._first_shard + turn) % shards
            if index in self._rack.stalled:
                continue
            left = self._rack.contained(index, event, self._shards[index].time_passed, allowance)
            allowance = left if isinstance(left, int) else allowance

    def _grow_snapshot(self) -> None:
        """Encode the next slice of a snapshot that is due; the rest is left to steps of their own."""
        now_ms = self._clock.now_ms
        shard = self._snapshots.next_shard(now_ms)
        if shard is None:
            return
        try:
            self._snapshots.grow(now_ms)
        except Exception as error:  # noqa: BLE001 - a snapshot that cannot be made costs a longer load, and no more
            self._snapshots.abandon(shard)
            why = f"the snapshot of shard {shard} met a bug at {where_of(error)}; another is made later"
            self._direct.append(BugMet(why, error))
            return
        self._hand_out_snapshot()

    def _hand_out_snapshot(self) -> None:
        """Have the piece of a snapshot that is held written, once what it stands for is committed."""
        held = self._snapshots.held
        if held is not None:
            is_led = self._rack.is_led(held.shard)
            committed = self._gates.high_watermark(held.shard) if is_led else held.end_offset
            piece = self._snapshots.take_held(committed)
            if piece is not None:
                self._direct.append(piece)

    @property
    def _is_more_to_do(self) -> bool:
        """True when something was left to a step of its own that can be taken at once."""
        is_asked = bool(self._waiting) or bool(self._rack.loads.under_way)
        return is_asked or bool(self._remains)

    def _wake(self, now_ms: int, *, is_tick: bool) -> list[Effect]:
        """Ask to be woken for what was left to a step of its own, or the earliest deadline before the next tick.

        The last wish counts alone; so one whose time is over stands until its tick has come.
        """
        if is_tick and self._wake_at_ms is not None and self._wake_at_ms <= now_ms:
            self._wake_at_ms = None
        earliest: int | None = self._finder.due_ms
        if self._due and (snapshot_ms := self._snapshots.next_at_ms) is not None:
            earliest = snapshot_ms if earliest is None else min(earliest, snapshot_ms)
        if (self._waiting or self._away or self._remains) and self._is_more_to_do:
            earliest = now_ms
        away, stalled = self._away, self._rack.stalled
        for index in range(len(self._shards)) if is_tick else self._touched:
            if (away and index in away) or (stalled and index in stalled):
                continue  # it is not asked what is due before it is served again
            due_ms = self._shards[index].desk.timers.earliest()
            if due_ms is not None and (earliest is None or due_ms < earliest):
                earliest = due_ms
        if earliest is None or earliest >= now_ms + self._limits.tick_ms:
            return []
        at_ms = max(now_ms, earliest)
        if self._wake_at_ms is not None and self._wake_at_ms <= at_ms:
            return []
        self._wake_at_ms = at_ms
        return [WakeAt(at_ms)]
