"""The coordinator's process: the real node, its clocks, its disk and whoever performs its effects, all mortal.

It performs effects as the product's driver does. A process that is killed leaves its page cache; a machine that loses
power leaves what was synced and torn pieces of the rest. A stopped process takes in later what came meanwhile, and its
clock counts as the product's does: time it did not live through is not counted. Clocks start anew with every process.
"""

import errno
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Protocol

from coordinator.core import effects as e
from coordinator.core import events
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.limits import Limits
from coordinator.core.log.entry import StorageError
from coordinator.core.node import Node
from coordinator.protocol.messages import (
    Push,
    RegisterConsumer,
    Request,
    Response,
)
from coordinator.protocol.parts import NodeAddress
from coordinator.runtime.disk.files import DiskError
from tests.helpers.memory_disk import MemoryDisk
from tests.helpers.planted_bugs import PlantedBugError, plant
from tests.sim.bounds import OneTimer, WakeWatch, check_account, check_things
from tests.sim.checker import Checker
from tests.sim.kafka import BROKERS, CLUSTER, Kafka
from tests.sim.leading import Leading
from tests.sim.left_between import nothing_is_forgotten
from tests.sim.log.state import ViolationError
from tests.sim.mix import Mix
from tests.sim.probes import ProbeWatch
from tests.sim.room import RoomWatch, check_nobody_is_half
from tests.sim.schedule import Schedule
from tests.sim.turns import under_way

ADDRESS = NodeAddress(0, "c1", 7600)
TICK_MS = 100
LONGEST_GAP_MS = 1_000
"""What the product's clock counts at most between two readings."""
KAFKA_POLL_MS = 700
ROOM_OF_A_MEMBER = 2_000
"""Bytes of state that a member brings here, with its claims, and a little more."""
LEAST_BETWEEN_BUGS_MS = 10_000
"""Bugs come no closer: the pause before a load grows with each, and a run has to end."""


class Sender(Protocol):
    """Who carries what the node says."""

    def send_response(self, connection_id: int, correlation_id: int, response: Response) -> None:
        """Carry a response."""

    def send_push(self, connection_id: int, push: Push) -> None:
        """Carry a push."""

    def close(self, connection_id: int, why: str) -> None:
        """Close a connection after what was sent on it."""

    def coordinator_died(self, *, is_silent: bool) -> None:
        """Take note that every connection ends on the coordinator's side."""


class Coordinator:
    """One coordinator through all its lives."""

    def __init__(self, dice: Random, schedule: Schedule, mix: Mix, kafka: Kafka, checker: Checker) -> None:
        self.dice = dice
        self.schedule = schedule
        self.mix = mix
        self._kafka = kafka
        self.checker = checker
        self._probes = ProbeWatch(mix.limits.probe_timeout_ms)
        self._wakes = WakeWatch()
        self._timer = OneTimer()
        self._limits = mix.limits
        self._room = RoomWatch(mix.limits, checker.coverage)
        self.sender: Sender
        self.node: Node
        self.leading: Leading
        self.life = 0
        self.starts = 0
        self.is_up = False
        self.is_powered = True
        self.is_paused = False
        self.extra_sync_ms = 0
        self.wall_offset_ms = 1_700_000_000_000
        self._waiting: list[Callable[[], None]] = []
        self._fresh_ids = 0
        self._watched = e.WatchTopics(frozenset())
        self.is_disk_busy = False
        self._pieces: dict[int, int] = {}
        """The pieces that are written, of each shard's snapshot that is not whole."""
        self.disk = MemoryDisk(
            mix.shards,
            on_durable=self._on_durable,
            on_failure=self._on_disk_failure,
            segment_bytes=mix.segment_bytes,
        )
        self._no_bug_before_ms = 0
        self._base_ms = 0
        self._last_read_ms = 0
        self._not_lived_ms = 0

    # ---- life and death ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Recover the logs and begin a life, unless one is under way."""
        if self.is_up or not self.is_powered:
            return
        schedule = self.schedule
        self._base_ms = self.dice.randint(0, 10**9) - schedule.now_ms
        self._last_read_ms, self._not_lived_ms = schedule.now_ms, 0
        now_ms = self.now_ms()
        node = Node(self._limits, self.mix.shards, ADDRESS, ("k1:9092",))
        try:
            logs = [node.load(shard, partial(self.disk.recover, shard)) for shard in range(self.mix.shards)]
        except DiskError as error:
            schedule.tell("coordinator", f"cannot start: {error}")
            self.disk.restart()
            schedule.after(300, self.start)
            return
        self.leading = Leading(self, [found.leader_epoch + 1 for found in logs])
        for shard, found in enumerate(logs):
            self.checker.coverage["snapshot read"] += found.snapshot_end > 0
            schedule.tell("coordinator", f"recovers shard {shard} up to {found.log_end_offset}")
            self.checker.recovered(shard, found.log_end_offset, node.hard_state(shard), now_ms)
        self.node = node
        self.life += 1
        self._timer = OneTimer()
        self.starts += 1
        self.is_up, self.is_paused = True, False
        self._waiting.clear()
        self._watched = e.WatchTopics(frozenset())
        self.is_disk_busy = False
        self._perform(node.start(now_ms, self._wall_ms(), f"life-{self.starts}"))
        self.later(0, self._tick)
        self.later(0, self._poll_kafka)

    def kill(self, *, loses_power: bool) -> None:
        """End the process; `start` begins the next life."""
        self._end("loses power" if loses_power else "is killed", is_silent=loses_power)
        if loses_power:
            self.is_powered = False
            self.disk.crash(self.dice)
        else:
            self.disk.restart()

    def disk_copy(self) -> dict[Path, bytes]:
        """Return a copy of what is durable."""
        return self.disk.files.durable_copy()

    def exchange_disk(self, copy: dict[Path, bytes] | None) -> None:
        """End the process and put in another disk, an empty one or one with a copy; `power_on` begins the next life."""
        self._end("loses its disk" if copy is None else "gets an old copy for its disk", is_silent=True)
        self.is_powered = False
        self.disk.exchange(copy)

    def power_on(self) -> None:
        self.is_powered = True
        self.start()

    def has_room(self) -> bool:
        """True when one member more finds room; a node that is down says so too."""
        return not self.is_up or self._room.has_room(ROOM_OF_A_MEMBER)

    def raise_room(self) -> None:
        """End the process as an operator who gives it the usual room does, and begin the next life with that."""
        usual = Limits()
        room = {"principal_max_bytes": usual.principal_max_bytes, "node_max_bytes": usual.node_max_bytes}
        self._limits = replace(self._limits, **room)
        self._room.take_limits(self._limits)
        self.checker.coverage["room raised"] += 1
        self.kill(loses_power=False)
        self.start()

    def _end(self, why: str, *, is_silent: bool) -> None:
        self.schedule.tell("coordinator", why)
        self.checker.coverage["snapshot cut off"] += len(self._pieces)
        self._pieces.clear()
        self.is_up = self.is_paused = False
        self._waiting.clear()
        self.life += 1
        self.sender.coordinator_died(is_silent=is_silent)

    def pause(self) -> None:
        if self.is_up:
            self.schedule.tell("coordinator", "is stopped (SIGSTOP)")
            self.is_paused = True

    def resume(self) -> None:
        """Let the process go on, with everything that came meanwhile."""
        if not self.is_paused:
            return
        self.schedule.tell("coordinator", "goes on (SIGCONT)")
        self.is_paused = False
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            self.do(work)

    def do(self, work: Callable[[], None]) -> None:
        """Have the process do something, as soon as it runs; a dead one does nothing."""
        if self.is_paused:
            self._waiting.append(work)
        elif self.is_up:
            work()

    def later(self, ms: int, work: Callable[[], None]) -> None:
        self.schedule.after(ms, self._in_life, self.life, work)

    def _in_life(self, life: int, work: Callable[[], None]) -> None:
        if life == self.life:
            self.do(work)

    # ---- time -------------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """The monotonic time of this process."""
        machine_ms = self.schedule.now_ms
        too_long_ms = machine_ms - self._last_read_ms - LONGEST_GAP_MS
        self._last_read_ms = machine_ms
        if too_long_ms > 0:
            self._not_lived_ms += too_long_ms
        return self._base_ms + machine_ms - self._not_lived_ms

    def _wall_ms(self) -> int:
        return self.schedule.now_ms + self.wall_offset_ms

    def _tick(self) -> None:
        self.later(TICK_MS, self._tick)
        self._wake()

    def _wake(self) -> None:
        self._wakes.woke(self.schedule.now_ms)
        self.step(events.Ticked(self._wall_ms(), self.schedule.is_crowded))

    # ---- events -----------------------------------------------------------------------------------------------------

    def opened(self, connection_id: int, host: str) -> None:
        """Take in a new connection; call it within `do`."""
        self.step(events.ConnectionOpened(connection_id, host))

    def closed(self, connection_id: int, why: str) -> None:
        self.checker.closed(connection_id, self.now_ms())
        self.step(events.ConnectionClosed(connection_id, why))

    def arrived(self, connection_id: int, correlation_id: int, request: Request, known_end: int | None = None) -> None:
        """Take in a request; `known_end` comes with an operator's."""
        now_ms = self.now_ms()
        fresh_id = ""
        if isinstance(request, RegisterConsumer):
            self._fresh_ids += 1
            fresh_id = f"m{self._fresh_ids}"
        shard = self._shard(request)
        if known_end is None:
            self.checker.asked(connection_id, correlation_id, request, shard, now_ms)
        else:
            self.checker.asked_by_operator(connection_id, correlation_id, request, shard, known_end, now_ms)
        state = self._state_of(request)
        self._room.asked(connection_id, correlation_id, request, state, is_operator=known_end is not None)
        self.schedule.tell(f"-> {connection_id}", request)
        self.step(events.RequestArrived(connection_id, correlation_id, request, fresh_id))

    def _shard(self, request: Request) -> int:
        return self.node.shard_of(getattr(request, "group_id", GROUP))

    def _state_of(self, request: Request) -> ShardState:
        return self.node.hard_state(self._shard(request))

    def step(self, event: events.Event) -> None:
        if not isinstance(event, events.Ticked) and (kind := under_way(self.node, GROUP)) is not None:
            self.checker.coverage[f"while {kind}"] += 1
        effects = self.node.step(event, self.now_ms())
        check_things(self.node.things_done, self.mix.limits)
        nothing_is_forgotten(self.node, GROUP)
        self._room.stepped(map(self.node.hard_state, range(self.mix.shards)))
        self._perform(effects)
        if self.is_up:
            self._timer.check(self.node._wake_at_ms)

    # ---- effects ----------------------------------------------------------------------------------------------------

    def _perform(self, effects: Sequence[e.Effect]) -> None:
        for effect in effects:
            try:
                _PERFORM[type(effect)](self, effect)
            except StorageError as error:
                self._fail(str(error))  # as the product does: before it hears anything more
                return
            if not self.is_up:
                return

    def _append(self, effect: e.Append) -> None:
        for record in effect.records:
            self.schedule.stamp(record)
        epoch_before = self.checker.logs[effect.shard].leader_epoch
        self.checker.appended(
            effect.shard,
            effect.base_offset,
            effect.records,
            self.node.hard_state(effect.shard),
            self.schedule.now_ms,
        )
        epoch = self.checker.logs[effect.shard].leader_epoch
        if effect.leader_epoch != epoch:
            raise ViolationError("epoch-without-record", f"shard {effect.shard}: {effect} in epoch {epoch}")
        if epoch > epoch_before:
            self.checker.led(effect.shard, self.now_ms())
        check_account(self.node.hard_state(effect.shard))
        check_nobody_is_half(self.node.hard_state(effect.shard))
        self.schedule.tell(f"log {effect.base_offset}", self.checker.logs[effect.shard].records[effect.base_offset :])
        self.disk.append(effect.shard, effect.base_offset, effect.leader_epoch, effect.records)
        self._use_disk()

    def _write_snapshot(self, effect: e.WriteSnapshot) -> None:
        piece = {"index": effect.index, "is_last": effect.is_last}
        self.disk.write_snapshot(effect.shard, effect.end_offset, effect.leader_epoch, effect.records, **piece)
        self._use_disk()

    def _respond(self, effect: e.Respond) -> None:
        self.checker.responded(effect.connection_id, effect.correlation_id, effect.response)
        self._room.responded(effect.connection_id, effect.correlation_id, effect.response, self._state_of)
        self.schedule.tell(f"<- {effect.connection_id}", effect.response)
        self.sender.send_response(effect.connection_id, effect.correlation_id, effect.response)

    def _push(self, effect: e.SendPush) -> None:
        self.checker.pushed(effect.connection_id, effect.push, self.node.shard_of(GROUP))
        self._probes.pushed(effect.connection_id, effect.push, self.now_ms())
        self.schedule.tell(f"<- {effect.connection_id}", effect.push)
        self.sender.send_push(effect.connection_id, effect.push)

    def _close(self, effect: e.CloseConnection) -> None:
        self.schedule.tell(f"<- {effect.connection_id}", effect)
        self.checker.closes(effect.connection_id)
        self._probes.closes(effect.connection_id, effect.why, self.now_ms())
        self.sender.close(effect.connection_id, effect.why)

    def _notice(self, effect: e.Notice) -> None:
        self.schedule.tell("notice", effect)
        self.checker.noticed(effect, self.node.shard_of(effect.group_id), self.now_ms())

    def _wake_at(self, effect: e.WakeAt) -> None:
        number = self._timer.set(effect.now_ms)
        self.later(max(self.mix.between_turns_ms, effect.now_ms - self.now_ms()), partial(self._ring, number))

    def _ring(self, number: int) -> None:
        if self._timer.rings(number):
            self._wake()

    def _bug_met(self, effect: e.BugMet) -> None:
        if not isinstance(effect.error, PlantedBugError):
            raise effect.error
        self.schedule.tell("coordinator", f"bug: {effect.why}")

    def plant_bug(self) -> bool:
        """Have a handler of some shard fail soon; not more often than shards are forgiven within a run."""
        now_ms = self.schedule.now_ms
        if not self.is_up or now_ms < self._no_bug_before_ms:
            return False
        self._no_bug_before_ms = now_ms + LEAST_BETWEEN_BUGS_MS
        shard = self.dice.randrange(self.mix.shards)
        plant(self.node, shard, self.dice.choice((1, 1, 2, 5)), is_after=self.dice.random() < 0.7)
        return True

    def _halt(self, effect: e.Halt) -> None:
        self._end(f"halts: {effect.why}", is_silent=False)
        self.disk.restart()
        self.schedule.after(self.dice.randint(50, 1_500), self.start)

    # ---- disk -------------------------------------------------------------------------------------------------------

    def fail_next_sync(self) -> None:
        """Have the disk refuse the next sync, and then behave as if nothing had happened."""

        def fail(call: str, path: Path) -> None:
            if call == "sync":
                self.disk.files.fail = lambda _call, _path: None
                raise OSError(errno.EIO, "Input/output error", str(path))

        self.disk.files.fail = fail

    def heal_disk(self) -> None:
        self.disk.files.fail = lambda _call, _path: None
        self.extra_sync_ms = 0

    def _use_disk(self) -> None:
        if not self.is_disk_busy:
            self.is_disk_busy = True
            self.later(0, self._write)

    def _write(self) -> None:
        if self.disk.write_without_sync():
            delay_ms = self.dice.choice(self.mix.sync_delays_ms) + self.extra_sync_ms
            self.later(delay_ms, self._sync)
            return
        self.is_disk_busy = False
        for shard, piece in self.disk.write_snapshots().items():
            if piece.is_last:
                self.checker.coverage["snapshot in pieces" if piece.index else "snapshot whole"] += 1
                self._pieces.pop(shard, None)
            else:
                self._pieces[shard] = piece.index + 1
            self.later(1, partial(self._snapshot_written, shard, piece.end_offset, is_whole=piece.is_last))

    def _sync(self) -> None:
        self.disk.sync_group()
        self.later(0, self._write)

    def _on_durable(self, shard: int, end_offset: int, _log_number: int) -> None:
        self.checker.became_durable(shard, end_offset)
        self.later(self.dice.choice((0, 0, 1)), partial(self._durable, shard, end_offset))

    def _durable(self, shard: int, end_offset: int) -> None:
        self.step(events.BecameDurable(shard, end_offset))

    def _snapshot_written(self, shard: int, end_offset: int, *, is_whole: bool) -> None:
        self.step(events.SnapshotWritten(shard, end_offset, is_whole))

    def _on_disk_failure(self, why: str) -> None:
        self.later(0, partial(self._fail, why))

    def _fail(self, why: str) -> None:
        self.step(events.DiskFailed(why))

    # ---- Kafka ------------------------------------------------------------------------------------------------------

    def _watch(self, effect: e.WatchTopics) -> None:
        self._watched = effect
        self.later(self.dice.choice((1, 5, 60)), self._read_topics)

    def _poll_kafka(self) -> None:
        self.later(KAFKA_POLL_MS, self._poll_kafka)
        self._read_topics()

    def _read_topics(self) -> None:
        watched = self._watched
        if not watched.topics and not watched.lists_all:
            return
        if self._kafka.is_away:
            self.later(5, partial(self._kafka_failed, "connection refused"))
            return
        topics, absent = self._kafka.metadata(watched.topics, lists_all=watched.lists_all)
        read = partial(self._topics_read, topics, absent, is_whole=watched.lists_all)
        self.later(self.dice.choice((1, 5, 60)), read)

    def _kafka_failed(self, why: str) -> None:
        self.step(events.KafkaFailed(why))

    def _topics_read(self, topics: Any, absent: frozenset[str], *, is_whole: bool) -> None:
        self.step(events.TopicsRead(topics, absent, {}, BROKERS, CLUSTER, is_whole))

    def _resolve(self, effect: e.ResolveOffsets) -> None:
        self.later(self.dice.choice((1, 5, 60)), partial(self._ask_kafka, effect))

    def _ask_kafka(self, effect: e.ResolveOffsets) -> None:
        answers = self._kafka.resolve(effect.offsets)
        topics, _ = self._kafka.metadata({asked.topic for asked in effect.offsets}, lists_all=False)
        resolved = events.OffsetsResolved(effect.lookup_id, answers, topics)
        is_read = effect.asks_topics and not self._kafka.is_away
        self.later(self.dice.choice((1, 5, 60)), partial(self._resolved, resolved, is_read=is_read))

    def _resolved(self, resolved: events.OffsetsResolved, *, is_read: bool) -> None:
        if is_read:
            self._topics_read(resolved.topics, frozenset(), is_whole=False)
        self.step(resolved)


GROUP = "g"
"""The group whose members are simulated. Other groups share its logs, and have only offsets."""

_PERFORM: dict[type, Callable[[Coordinator, Any], None]] = {
    e.Append: Coordinator._append,
    e.WriteSnapshot: Coordinator._write_snapshot,
    e.Respond: Coordinator._respond,
    e.SendPush: Coordinator._push,
    e.CloseConnection: Coordinator._close,
    e.Notice: Coordinator._notice,
    e.WakeAt: Coordinator._wake_at,
    e.Halt: Coordinator._halt,
    e.BugMet: Coordinator._bug_met,
    e.LoadShard: lambda coordinator, effect: coordinator.leading.load(effect),
    e.WatchTopics: Coordinator._watch,
    e.ResolveOffsets: Coordinator._resolve,
}
