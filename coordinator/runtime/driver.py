"""The driver: the one loop that feeds events to the node and performs the effects it returns.

It decides nothing. Everything that happens reaches the node on the event loop's thread, one event at a time, stamped
with the clock as it is delivered, so that time never goes back for the node however late another thread was. What a
step wants is performed before the next event is taken, except that the records of all steps in one turn of the loop
are handed to the disk once the turn is over, one batch a shard, or earlier, before a snapshot. The order that counts is
kept by the node: it says nothing that rests on records before they are reported durable. A node that halts by its own
word is never stepped again and says nothing more. A bug of ours in a step is the node's to contain; one in an effect
costs the connection, or the shard, that the effect is for.
"""

import asyncio
import contextlib
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, assert_never

from structlog.typing import FilteringBoundLogger

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
    AppendRefused,
    BecameDurable,
    ConnectionClosed,
    ConnectionOpened,
    DiskFailed,
    Event,
    RequestArrived,
    SnapshotWritten,
    Ticked,
)
from coordinator.core.log.entry import StorageError
from coordinator.core.log.storage import DiskPort, LogSink
from coordinator.core.security.principal import Principal
from coordinator.protocol.messages import RegisterConsumer, Request
from coordinator.runtime.clock import Clock
from coordinator.runtime.clock_watch import KIND, ClockWatch
from coordinator.runtime.disk.shard_reading import ShardReader
from coordinator.runtime.driven import KafkaReader, NodeMachine, Sender
from coordinator.runtime.figures.lines import LineFigures
from coordinator.runtime.figures.node import NodeFigures
from coordinator.runtime.process.notice_lines import say_notice
from coordinator.runtime.server.input_bound import InputBound

TICK_MS = 100
TURN_MS = 10
"""The time in which reports of the disk are taken in before the loop looks at its sockets again."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Why the node does not run any more; a failure must end the process with an error."""

    why: str
    is_failure: bool


@dataclass(slots=True)
class _Run:
    """Records of one shard that follow one another and are not with the disk yet."""

    base_offset: int
    leader_epoch: int
    records: list[bytes]


class Driver:
    """The loop around one node. Its methods belong to the event loop's thread unless they say otherwise.

    It is the server's ConnectionListener. Before `start` it must be connected; events that come earlier are lost.
    """

    _durable_event: ClassVar[type[Any]] = BecameDurable
    _snapshot_event: ClassVar[type[Any]] = SnapshotWritten
    """The events as which reports of the disk are delivered."""

    def __init__(
        self,
        clock: Clock,
        log: FilteringBoundLogger,
        loop: asyncio.AbstractEventLoop,
        *,
        each_tick: Callable[[], None] = lambda: None,
        max_pending_bytes: int = 64 * 1024 * 1024,
        figures: NodeFigures | None = None,
    ) -> None:
        self.clock = clock
        self._figures = figures or NodeFigures(LineFigures())
        # Bound once: both come for every request.
        self._asked, self._answered = self._figures.requests.asked, self._figures.requests.answered
        self._clock_watch = ClockWatch(clock)
        self._each_tick = each_tick
        self._node: NodeMachine
        self._disk: DiskPort
        self._kafka: KafkaReader
        self._sender: Sender
        self._reader: ShardReader
        self._log = log
        self._is_running = False
        self._is_draining = False
        self._durable: deque[tuple[int, int, int]] = deque()
        self._is_told_durable = False
        self._has_durable_left = False
        self._unwritten: dict[int, _Run] = {}
        self._unwritten_bytes = 0
        self._input = InputBound(max_pending_bytes)
        self._is_time_held = False
        self._loop = loop
        self._tick: asyncio.TimerHandle | None = None
        self._wake: asyncio.TimerHandle | None = None
        self._stopped: asyncio.Future[Stopped] = loop.create_future()

    def connect(
        self,
        node: NodeMachine,
        *,
        disk: DiskPort,
        kafka: KafkaReader,
        sender: Sender,
        more: Mapping[type[Effect], Callable[[Any], None]] | None = None,
    ) -> None:
        """Say whom to drive and through what; `more` performs the effects that only some nodes want, by their type."""
        self._more = more or {}
        self._node = node
        self._disk = disk
        self._kafka = kafka
        self._sender = sender
        self._reader = ShardReader(self._loop, self.post)

    def start(self) -> None:
        """Start the node and the ticks."""
        self._is_running = not self._stopped.done()
        now_ms = self.clock.monotonic_ms()
        self.clock.take_stall_ms()  # what came before was the start, and nobody's time
        self._run(self._node.start, now_ms, self.clock.wall_ms(), uuid.uuid4().hex)
        self._schedule_tick()

    async def run(self) -> Stopped:
        """Wait until the node is stopped."""
        return await asyncio.shield(self._stopped)

    def drain(self) -> None:
        """Take nothing more from members, Kafka and the clock, and hand all that was decided to the disk.

        Reports of the disk are still taken, so that what they make durable is answered. What a report makes the node
        want to write besides is left out: nobody was told of it.
        """
        self._run(self._write)
        self._is_draining = True
        self._cancel_timers()

    def take_reports(self) -> None:
        """Take everything that the disk has reported so far, for how long that may take."""
        self._run(self._take_all_durable)
        self._sender.flush()

    def stop(self, why: str) -> None:
        """Take no more events and perform no more effects; the first reason counts."""
        self._stop(Stopped(why, is_failure=False))

    # ---- from any thread --------------------------------------------------------------------------------------------

    def post(self, event: Any) -> None:
        """Deliver an event soon; may be called from any thread, also after the loop has ended."""
        self._call_soon(self._deliver_if_taken, event)

    def _report(self, event: Any) -> None:
        """Deliver an event of the disk soon, also while nothing else is taken; any thread."""
        self._call_soon(self._deliver, event)

    def _call_soon(self, work: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(work, *arguments)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def became_durable(self, shard: int, end_offset: int, log_number: int = 0) -> None:
        """Report that records below `end_offset` of a shard's log with this number are on disk; any thread.

        The loop is woken once for all reports that it has not taken in yet.
        """
        self._durable.append((shard, end_offset, log_number))
        if not self._is_told_durable:
            self._is_told_durable = True
            self._call_soon(self._take_durable)

    def snapshot_written(
        self,
        shard: int,
        end_offset: int,
        is_whole: bool,  # noqa: FBT001 - as the disk calls it
        log_number: int = 0,
    ) -> None:
        """Report that a piece of a snapshot is on disk, the last one if it is whole; any thread."""
        self._report(self._snapshot_event(shard, end_offset, is_whole, log_number))

    def disk_failed(self, why: str) -> None:
        """Report that the disk failed; any thread."""
        self._report(DiskFailed(why))

    # ---- from the server --------------------------------------------------------------------------------------------

    def connection_opened(self, connection_id: int, host: str, principal: Principal) -> None:
        """Tell the node about a new peer."""
        self._take(ConnectionOpened(connection_id, host, principal))

    def request_received(self, connection_id: int, correlation_id: int, request: Request) -> None:
        """Tell the node about a request; the server flushes."""
        needs_id = type(request) is RegisterConsumer and not request.member_id
        fresh_id = uuid.uuid4().hex if needs_id else ""
        self._asked(connection_id, correlation_id, request)
        if not self._is_draining:
            event = RequestArrived(connection_id, correlation_id, request, fresh_id)
            self._run(self._node.step, event, self.clock.monotonic_ms())

    def connection_closed(self, connection_id: int, why: str) -> None:
        """Tell the node that a peer is gone."""
        self._figures.requests.closed(connection_id)
        self._take(ConnectionClosed(connection_id, why))

    # ---- time -------------------------------------------------------------------------------------------------------

    def _schedule_tick(self) -> None:
        if not self._stopped.done() and not self._is_draining:
            self._tick = self._loop.call_later(TICK_MS / 1000, self._on_tick)

    def _on_tick(self) -> None:
        self._schedule_tick()
        self._on_wake()
        if self._input.is_holding:
            self._bound_input()
        stall_ms = self.clock.take_stall_ms()
        if stall_ms:
            self._log.warning(
                "stalled",
                why=f"this process stood still for {stall_ms} ms; members' deadlines were moved by as much",
                duration_ms=stall_ms,
            )
        why_far = self._clock_watch.why_far()
        if why_far is not None:
            self._log.warning(KIND, why=why_far)
        self._sender.check_deadlines(self.clock.monotonic_ms())
        self._each_tick()

    def _on_wake(self) -> None:
        if self._is_time_held:
            return  # nobody is heard, so nobody may be late, and nothing more is to be written
        self._take(Ticked(self.clock.wall_ms(), self._sender.is_behind))
        self._sender.flush()

    # ---- stepping ---------------------------------------------------------------------------------------------------

    def _deliver_if_taken(self, event: Any) -> None:
        if not self._is_draining:
            self._deliver(event)

    def _deliver(self, event: Any) -> None:
        self._step(event)
        self._sender.flush()

    def _take_durable(self) -> None:
        # In this order: what is reported after the flag is down wakes the loop again, what came before it is here.
        self._is_told_durable = False
        if not self._has_durable_left:
            self._take_durable_for_a_turn()

    def _take_durable_for_a_turn(self) -> None:
        """Take reports in for a while; only one call of this is ever to come, however often the loop is woken."""
        self._has_durable_left = False
        until_s = self._loop.time() + TURN_MS / 1000
        while self._durable:
            self._step(self._durable_event(*self._durable.popleft()))
            if self._durable and self._loop.time() > until_s:
                self._has_durable_left = True
                self._loop.call_soon(self._take_durable_for_a_turn)
                break
        self._sender.flush()

    def _take_all_durable(self) -> list[Effect]:
        effects: list[Effect] = []
        while self._durable:
            effects += self._node.step(self._durable_event(*self._durable.popleft()), self.clock.monotonic_ms())
        return effects

    def _take(self, event: Event) -> None:
        """Step with what comes from outside, unless nothing more is taken."""
        if not self._is_draining:
            self._run(self._node.step, event, self.clock.monotonic_ms())

    def _step(self, event: Any) -> None:
        self._run(self._node.step, event, self.clock.monotonic_ms())

    def _run(self, decide: Callable[..., list[Effect]], *arguments: object) -> None:
        try:
            for effect in decide(*arguments) if self._is_running else ():
                self._perform(effect)
                if not self._is_running:
                    return
        except StorageError as error:
            self._halt(str(error))
        except Exception as error:  # noqa: BLE001 - the driver's last line: whatever it is, the node must not go on
            self._log.critical("bug", why=f"the node failed and is stopped: {error!r}", exc_info=True)
            self._stop(Stopped(f"a bug: {error!r}", is_failure=True))

    def _halt(self, why: str) -> None:
        """Have the node halt for its disk before it hears anything more: the rest of what it decided is lost."""
        try:
            for effect in self._node.step(DiskFailed(why), self.clock.monotonic_ms()):
                if isinstance(effect, Halt):
                    self._perform(effect)
        except Exception as error:  # noqa: BLE001 - what is half done may not do; the node must not go on
            self._log.critical("bug", why=f"the node failed as it halted: {error!r}", exc_info=True)
        self._stop(Stopped(why, is_failure=True))  # the first reason counts

    def _perform(self, effect: Effect) -> None:
        # Of these two there is one for every request, and they come first.
        if type(effect) is Respond:
            self._answered(effect.connection_id, effect.correlation_id, effect.response)
            try:
                self._sender.send_response(effect.connection_id, effect.correlation_id, effect.response)
            except Exception as error:  # noqa: BLE001 - an answer that cannot be sent costs its connection
                self._give_up(effect.connection_id, type(effect.response).__name__, error)
            return
        if type(effect) is Append:
            if not self._is_draining:
                self._gather(effect)
            return
        match effect:
            case SendPush(connection_id, push):
                try:
                    self._sender.send_push(connection_id, push)
                except Exception as error:  # noqa: BLE001 - a push that cannot be sent costs its connection
                    self._give_up(connection_id, type(push).__name__, error)
            case Notice():
                self._figures.notices.add(effect)
                say_notice(self._log, effect)
            case WakeAt(now_ms):
                self._wake_at(now_ms)
            case CloseConnection(connection_id, why):
                self._sender.close_connection(connection_id, why)
            case WatchTopics(topics, lists_all):
                self._kafka.watch_topics(topics, lists_all=lists_all)
            case ResolveOffsets(lookup_id, offsets, asks_topics):
                self._kafka.resolve_offsets(lookup_id, offsets, asks_topics=asks_topics)
            case WriteSnapshot(shard, end_offset, leader_epoch, records, index, is_last):
                if self._is_draining:
                    return
                self._write()
                self._disk.write_snapshot(shard, end_offset, leader_epoch, records, index=index, is_last=is_last)
            case LoadShard(shard, leader_epoch, after_ms):
                self._write()
                self._reader.read(shard, leader_epoch, after_ms, partial(self._recover, shard))
            case Audited() | MirrorOffsets() | MirrorEnded():
                self._more[type(effect)](effect)
            case BugMet():
                self._log.critical("bug", why=effect.why, exc_info=effect.error)
            case Halt(why):
                self._log.critical("halted", why=why)
                self._stop(Stopped(why, is_failure=True))
            case _:
                assert_never(effect)

    def _recover(self, shard: int, sink: LogSink) -> int:
        return self._disk.recover(shard, sink).leader_epoch

    def _gather(self, append: Append) -> None:
        """Keep records until this turn of the loop is decided: one batch, and one waking of the writer, for all."""
        if not self._unwritten:
            self._await_write()
        run = self._unwritten.get(append.shard)
        if run is not None and run.leader_epoch != append.leader_epoch:
            self._write()
            run = None
        if run is None:
            self._unwritten[append.shard] = _Run(append.base_offset, append.leader_epoch, list(append.records))
        else:
            run.records.extend(append.records)
        self._unwritten_bytes += sum(map(len, append.records))
        if self._unwritten_bytes > self._input.least_bytes:
            self._bound_input()

    def _await_write(self) -> None:
        self._loop.call_soon(self._run, self._write)

    def _write(self) -> list[Effect]:
        """Hand the gathered records to the disk; asks for nothing else."""
        unwritten, self._unwritten = self._unwritten, {}
        for shard, run in unwritten.items():
            try:
                self._disk.append(shard, run.base_offset, run.leader_epoch, run.records)
            except StorageError:
                raise
            except Exception as error:  # noqa: BLE001 - records that are not taken cost their shard a load
                self.post(AppendRefused(shard, run.base_offset, error))
        self._unwritten_bytes = 0
        self._bound_input()
        return []

    def _give_up(self, connection_id: int, what: str, error: Exception) -> None:
        """Close a connection to which something cannot be said."""
        self._log.critical("bug", why=f"a {what} could not be sent; its connection is closed", exc_info=error)
        self._sender.close_connection(connection_id, f"a {what} could not be sent by a bug of the coordinator's")

    def _bound_input(self) -> None:
        """Make connections wait while too much waits for the disk, those that send the most first."""
        waiting_bytes = self._unwritten_bytes + self._disk.pending_bytes
        above_bytes, is_changed = self._input.look(waiting_bytes)
        if not is_changed:
            return
        if self._is_time_held != (above_bytes == 0):
            self._is_time_held = not self._is_time_held
            self.clock.hold() if self._is_time_held else self.clock.go_on()
        if above_bytes is None:
            self._sender.release_input()
            return
        self._sender.hold_input(above_bytes)
        self._log.warning(
            "input-held",
            why=f"{waiting_bytes} bytes wait for the disk: connections that send more than {above_bytes} at once wait "
            "until it has caught up",
        )

    def _wake_at(self, now_ms: int) -> None:
        if self._is_draining:
            return
        if self._wake is not None:
            self._wake.cancel()
        delay_ms = max(0, now_ms - self.clock.monotonic_ms())
        self._wake = self._loop.call_later(delay_ms / 1000, self._on_wake)

    def _stop(self, stopped: Stopped) -> None:
        if self._stopped.done():
            return
        with contextlib.suppress(StorageError):  # nothing that waits for these records was said
            self._write()
        self._stopped.set_result(stopped)
        self._is_running = False
        self._cancel_timers()

    def _cancel_timers(self) -> None:
        for timer in (self._tick, self._wake):
            if timer is not None:
                timer.cancel()
