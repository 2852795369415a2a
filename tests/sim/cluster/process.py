"""One node of a simulated cluster: the real machine, and whoever performs its effects; all of it mortal.

It performs effects as the product's driver does: the records of a turn go to followers before its disk has them. A
process that is stopped takes in later what came meanwhile, and its clock counts as the product's does.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from coordinator.core import effects as e
from coordinator.core import events
from coordinator.core.cluster.effects import JoinedCluster, RememberSeen
from coordinator.core.cluster.events import Remembered, StateWanted
from coordinator.core.cluster.identity import Identity, ZkSeen
from coordinator.core.cluster.znodes import LogEnd, NodeState
from coordinator.core.cluster.zookeeper import ZkMulti, ZkRead
from coordinator.core.cluster_node import effects as c
from coordinator.core.cluster_node import events as i
from coordinator.core.cluster_node.node import MEMBERS_ADDRESS, ClusterNode
from coordinator.core.log.entry import Batch, StorageError
from coordinator.core.log.storage import LogReplacedError, OpenedLog
from coordinator.core.peers.control_words import PEERS_ADDRESS
from coordinator.core.peers.effects import ConnectPeers, EndContact, SayToPeer
from coordinator.core.replica import effects as r
from coordinator.core.replica.epochs import log_opened
from coordinator.core.security.authorizer import Authorizer
from coordinator.protocol.parts import NodeAddress
from coordinator.protocol.peer_messages import NodeAnswered, TellNode
from tests.helpers.planted_bugs import PlantedBugError
from tests.sim.bounds import OneTimer
from tests.sim.cluster.checker import ClusterChecker, ViolationError
from tests.sim.cluster.disk import Disk, Log
from tests.sim.cluster.mix import ClusterMix
from tests.sim.cluster.peers import PeerNetwork
from tests.sim.schedule import Schedule
from tests.sim.zookeeper import Manners, SimulatedZooKeeper
from tests.sim.zookeeper_servers import Servers

if TYPE_CHECKING:
    from tests.sim.cluster.clients import Clients

TICK_MS = 100
DRAIN_MS = 3_000
LOOK_AGAIN_MS = 5
START_AGAIN_MS = (50, 300, 1_500)
SIGNS_OF_OTHER_NUMBERS = ("made with", "put right which of them is wrong")
LONGEST_GAP_MS = 1_000
"""What the product's clock counts at most between two readings."""
TOPIC_PARTITIONS = 3
WALL_MS = 1_700_000_000_000
"""The time of day at which a world begins."""


class ClusterProcess:
    """One node through all its lives."""

    def __init__(
        self,
        number: int,
        dice: Random,
        schedule: Schedule,
        mix: ClusterMix,
        servers: Servers,
        peers: PeerNetwork,
        checker: ClusterChecker,
    ) -> None:
        self.number = number
        self.name = f"n{number}"
        self.dice = dice
        self.schedule = schedule
        self.mix = mix
        self._servers = servers
        self._peers = peers
        self._checker = checker
        self.clients: Clients
        self.disk = Disk(number, f"directory-{number}")
        self.lost: Mapping[int, Log] = {}
        """The logs that this node has lost with its disk, or of it."""
        self.is_loss_unnoticed = False
        """Neither this node nor ZooKeeper can tell that it has lost them."""
        self.authorizer: Authorizer | None = None
        self.node: ClusterNode
        self.zookeeper: SimulatedZooKeeper
        self.manners: Manners
        self.life = 0
        self.is_up = False
        self.is_powered = True
        self.is_paused = False
        self.is_stopping = False
        """True from its being told to stop until it has."""
        self.extra_sync_ms = 0
        self.clock_ahead_ms = 0
        """The time by which its machine's clock is ahead of the right time of day."""
        self.halts: list[str] | None = None
        """Why it has halted, in a world in which it is to."""
        self.may_meet_other_numbers = False
        """Somebody has written other numbers of shards or buckets into `/cluster`, by which it may halt."""
        self.refusing: set[int] = set()
        """The shards of which a bug will keep the next append from the log."""
        self.refused: Counter[int] = Counter()
        """The shards whose replicas do not know yet that the log did not take what they count."""
        self._is_writing = False
        self._waiting: list[Callable[[], None]] = []
        self._timer = OneTimer()
        self._base_ms = 0
        self._last_read_ms = 0
        self._not_lived_ms = 0
        self._fresh_ids = 0
        peers.processes[number] = self

    # ---- life and death ---------------------------------------------------------------------------------------------

    @property
    def starts(self) -> int:
        """Return how often its disk has been started, as that says."""
        place = self.disk.disk.meta.membership
        assert place is not None, "it is of a node of a cluster"
        return place.starts

    def start(self) -> None:
        """Begin a life, unless one is under way."""
        if self.is_up or not self.is_powered:
            return
        schedule, disk = self.schedule, self.disk
        try:
            ends, damaged = {shard: _log_end(log) for shard, log in disk.start().items()}, disk.disk.damaged
        except StorageError as error:
            self._cannot_start(error)
            return
        self.life += 1
        self._timer = OneTimer()
        self.is_up, self.is_paused, self._is_writing = True, False, False
        self.is_stopping = False
        self._waiting.clear()
        self.refusing.clear()
        self.refused.clear()
        self._base_ms = self.dice.randint(0, 10**6)
        self._last_read_ms, self._not_lived_ms = schedule.now_ms, 0
        disk.report = self._report
        meta, place = disk.disk.meta, disk.disk.meta.membership
        assert place is not None, "it is of a node of a cluster"
        identity = Identity(
            node_id=self.number,
            directory_id=meta.directory_id,
            starts=self.starts,
            forms=self.mix.cluster,
            addresses={PEERS_ADDRESS: f"{self.name}:7601", MEMBERS_ADDRESS: f"{self.name}:7600"},
            rack=self.name,
            release="0",
            cluster_id=place.cluster_id,
            controller_epoch=disk.disk.memory.controller_epoch,
            seen=ZkSeen(disk.disk.memory.node_epoch, disk.disk.memory.buckets),
            log_ends=ends,
            damaged=damaged,
            lacks=disk.disk.memory.lacks,
            place=self.name,
            intended_epoch=disk.disk.memory.intended_epoch,
            has_memory=not disk.disk.memory.is_blank,
            shards=meta.shards,
        )
        self.node = ClusterNode(
            identity,
            self.mix.settings,
            self.mix.limits,
            NodeAddress(self.number, self.name, 7600),
            ("k1:9092",),
            sorted(ends),
            f"{self.name}-{self.life}",
            authorizer=self.authorizer,
        )
        schedule.tell(self.name, f"starts, with logs {ends}")
        self.node.start(self.now_ms(), self.wall_ms())
        self.manners = Manners(delays_ms=self.mix.zookeeper_delays_ms, loses_watches=self.mix.loses_watches)
        self.zookeeper = SimulatedZooKeeper(
            self._servers,
            schedule,
            self.dice,
            partial(self._post_in_life, self.life),
            session_timeout_ms=self.mix.settings.zookeeper_session_timeout_ms,
            manners=self.manners,
        )
        self.zookeeper.start()
        self.later(0, self._tick)

    def _cannot_start(self, error: StorageError) -> None:
        """Start again soon, if it was the disk that has failed a call, and perhaps without power between."""
        if not self.disk.failed:
            raise error
        self.schedule.tell(self.name, f"cannot start: {error}")
        self._checker.coverage["start refused by a disk"] += 1
        self.disk.end(self.dice, loses_power=self.dice.random() < 0.5)
        self.schedule.after(self.dice.choice(START_AGAIN_MS), self.start)

    def end(self, *, loses_power: bool, why: str) -> None:
        """End the process; `start` begins the next life."""
        if not self.is_up:
            return
        self.schedule.tell(self.name, why)
        self.is_up = self.is_paused = False
        self.is_powered = not loses_power
        self.life += 1
        self._waiting.clear()
        self.zookeeper.die()
        self.disk.end(self.dice, loses_power=loses_power)
        self._checker.process_ended(self)
        self._peers.process_ended(self.number, is_silent=loses_power)
        self.clients.node_ended(self)

    def stop(self) -> None:
        """Have it hand on what it leads, end when it has, cannot or has had its time, and start again soon."""
        self.schedule.tell(self.name, "is told to stop")
        self.is_stopping = True
        self.post(StateWanted(NodeState.DRAINING, is_last=True))
        self._end_when_drained(self.schedule.now_ms + DRAIN_MS)

    def _end_when_drained(self, until_ms: int) -> None:
        hands_over = self.node.hands_over
        if not hands_over.is_over and self.schedule.now_ms < until_ms:
            self.later(20, partial(self._end_when_drained, until_ms))
            return
        self._checker.coverage["stopped while it led"] += bool(hands_over.led)
        self.zookeeper.close()
        self.end(loses_power=False, why=f"ends in order, leading {hands_over.led}")
        self.schedule.after(self.dice.choice((100, 900, 4_000)), self.start)

    def power_on(self) -> None:
        """Begin the next life after the power was off."""
        self.is_powered = True
        self.start()

    def lose_disk(self) -> None:
        """End the process, and have an empty disk under the next one."""
        self.end(loses_power=True, why="loses its disk")
        self.lost, self.disk = self.disk.stable, Disk(self.number, f"directory-{self.number}-anew")

    def put_back(self, copy: Mapping[Path, bytes], *, is_unnoticed: bool = False) -> None:
        """End the process, and have a copy of its disk from before under the next one.

        It `is_unnoticed` where the copy is of the life that ends, so that the count of its starts does not tell.
        """
        self.end(loses_power=True, why="has its disk put back from a copy")
        self.lost, self.is_loss_unnoticed = self.disk.put_back(copy), is_unnoticed

    def fail_starts(self, times: int) -> None:
        """Have it be started in vain, as with a port in use: its disk counts that, and ZooKeeper does not hear."""
        for _ in range(times):
            try:
                self.disk.start()
            except StorageError:
                if not self.disk.failed:
                    raise
            self.disk.end(self.dice, loses_power=False)
            self.schedule.tell(self.name, "starts in vain")

    def damage(self) -> bool:
        """End the process, and damage one of its logs; False where no damage would be told from a torn write."""
        self.end(loses_power=True, why="has a log damaged")
        self.lost = self.disk.damage(self.dice)
        return bool(self.lost)

    def lose_log(self) -> bool:
        """End the process, and have one of its logs be gone; False where there is none."""
        self.end(loses_power=True, why="has a log lost")
        self.lost = self.disk.lose_log(self.dice)
        return bool(self.lost)

    def pause(self) -> None:
        """Stop the process (SIGSTOP)."""
        if self.is_up and not self.is_paused:
            self.schedule.tell(self.name, "is stopped")
            self.is_paused = True
            self.zookeeper.hold()

    def resume(self) -> None:
        """Let it go on, with everything that came meanwhile."""
        if not self.is_paused:
            return
        self.schedule.tell(self.name, "goes on")
        self.is_paused = False
        self.zookeeper.let_go()
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            self.do(work)

    def do(self, work: Callable[[], None]) -> None:
        """Have the process do something as soon as it runs; a dead one does nothing."""
        if self.is_paused:
            self._waiting.append(work)
        elif self.is_up:
            try:
                work()
            except StorageError as error:
                if not self.disk.failed:
                    raise
                self._halt_for(events.DiskFailed(str(error)))

    def _halt_for(self, failed: events.DiskFailed) -> None:
        """Have the node halt before it hears anything more, as the product does: what it decided last is half done."""
        for effect in self.node.step(failed, self.now_ms()):
            if isinstance(effect, e.Halt):
                self._perform([effect])

    def later(self, ms: int, work: Callable[[], None]) -> None:
        """Have it do something in this life after a while."""
        self.schedule.after(ms, self._in_life, self.life, work)

    def _in_life(self, life: int, work: Callable[[], None]) -> None:
        if life == self.life:
            self.do(work)

    def _post_in_life(self, life: int, event: i.Event) -> None:
        if life == self.life:
            self.post(event)

    def post(self, event: i.Event) -> None:
        """Have it take in an event."""
        self.do(partial(self.step, event))

    # ---- time -------------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """The monotonic time of this process."""
        machine_ms = self.schedule.now_ms
        too_long_ms = machine_ms - self._last_read_ms - LONGEST_GAP_MS
        self._last_read_ms = machine_ms
        if too_long_ms > 0:
            self._not_lived_ms += too_long_ms
        return self._base_ms + machine_ms - self._not_lived_ms

    def wall_ms(self) -> int:
        """The time of day as its machine has it."""
        return WALL_MS + self.schedule.now_ms + self.clock_ahead_ms

    def _tick(self) -> None:
        self.later(TICK_MS, self._tick)
        self._wake()

    def _wake_at(self, effect: e.WakeAt) -> None:
        number = self._timer.set(effect.now_ms)
        self.later(max(0, effect.now_ms - self.now_ms()), partial(self._ring, number))

    def _ring(self, number: int) -> None:
        if self._timer.rings(number):
            self._wake()

    def _wake(self) -> None:
        self.step(events.Ticked(self.wall_ms(), self.schedule.is_crowded))

    # ---- events and effects -----------------------------------------------------------------------------------------

    def step(self, event: i.Event) -> None:
        """Take in an event, and end the turn: what was appended is sent before it is written."""
        now_ms = self.now_ms()
        self.schedule.stamp(self.name.encode())
        self._checker.hears(self, event)
        effects = self.node.step(event, now_ms)
        effects += self.node.step(i.TurnEnded(), now_ms)
        self._checker.stepped(self)
        self._perform(effects)
        if self.is_up and not self.disk.failed:
            self._checker.performed(self)
            if self.node.replication is not None:
                self._timer.check(self.node.replication.coordinator._wake_at_ms)

    def _perform(self, effects: Sequence[c.Effect]) -> None:
        for effect in effects:
            if not isinstance(effect, ZkRead | ZkMulti | SayToPeer | e.WakeAt):
                self.schedule.tell(self.name, effect)
            _PERFORM[type(effect)](self, effect)
            if not self.is_up:
                return

    def _say(self, effect: SayToPeer) -> None:
        if isinstance(effect.message, TellNode):
            self._checker.told(self, effect.message)
        if isinstance(effect.message, NodeAnswered) and self._checker.is_command_void:
            raise ViolationError("OldCommandObeyed", f"{self.name} answers {effect.message}")
        self._peers.say(self.number, effect.peer, effect.message)

    def request(self, connection_id: int, correlation_id: int, request: Any) -> None:
        """Take in a request of a member or a tool."""
        self._fresh_ids += 1
        fresh_id = f"{self.name}-{self.life}-{self._fresh_ids}"
        self.step(events.RequestArrived(connection_id, correlation_id, request, fresh_id))

    def _halt(self, effect: e.Halt) -> None:
        if self.disk.failed:
            self._checker.coverage[f"disk failed to {self.disk.failed}"] += 1
            loses_power = self.dice.random() < 0.3
            self.end(loses_power=loses_power, why=f"halts: {effect.why}" + loses_power * ", and loses power")
            self.schedule.after(self.dice.choice(START_AGAIN_MS), self.power_on)
            return
        if self.may_meet_other_numbers and any(sign in effect.why for sign in SIGNS_OF_OTHER_NUMBERS):
            self._checker.coverage["halted by other numbers"] += 1
            self.end(loses_power=False, why=f"halts: {effect.why}")
            self.schedule.after(max(START_AGAIN_MS), self.power_on)
            return
        if self.halts is None:
            raise ViolationError("halted", f"{self.name} halts: {effect.why}")
        self.halts.append(effect.why)
        self.end(loses_power=False, why=f"halts: {effect.why}")

    def _bug_met(self, effect: e.BugMet) -> None:
        if not isinstance(effect.error, PlantedBugError):
            raise effect.error

    def _join(self, effect: JoinedCluster) -> None:
        self.disk.disk.join_cluster(effect.cluster_id, effect.shards)
        self.later(0, partial(self.step, Remembered()))

    def _remember(self, effect: r.Remember) -> None:
        obeyed = self.disk.disk.memory.controller_epoch
        if effect.controller_epoch < obeyed:
            why = f"{self.name} remembers {effect} after {obeyed}"
            raise ViolationError("MonotonicEpochs", why)
        self.disk.disk.remember(effect.controller_epoch)

    def _remember_seen(self, effect: RememberSeen) -> None:
        seen = effect.node_epoch, effect.buckets, effect.lacks, effect.intended_epoch
        self.disk.disk.remember_seen(*seen)

    def _notice(self, effect: e.Notice) -> None:
        if effect.kind == "registered" and self.disk.disk.damaged:
            self.disk.disk.damage_was_told()
        self._checker.noticed(self, effect)

    # ---- disk -------------------------------------------------------------------------------------------------------

    def _report(self, event: i.DiskEvent | events.DiskFailed) -> None:
        if isinstance(event, i.LogInstalled):
            self._checker.coverage["installs"] += 1
        self.later(self.dice.choice(self.mix.report_delays_ms), partial(self.step, event))

    def _use_disk(self) -> None:
        if not self._is_writing:
            self._is_writing = True
            self.later(self.dice.choice(self.mix.sync_delays_ms) + self.extra_sync_ms, self._write)

    def _write(self) -> None:
        self._is_writing = False
        self.disk.work(self.dice.choice((1, 1, 2, 5)))
        self._checker.disk_changed(self)
        if self.disk.has_work:
            self._use_disk()

    def _append(self, effect: e.Append) -> None:
        for record in effect.records:
            self.schedule.stamp(record)
        self._checker.appends(self, effect)
        shard, batch = effect.shard, Batch(effect.base_offset, effect.leader_epoch, effect.records)
        if shard in self.refusing or shard in self.refused:
            # What comes after records that were not taken does not continue the log, and is not taken either.
            self.refusing.discard(shard)
            self.refused[shard] += 1
            bug = PlantedBugError("a bug was planted here")
            self.later(0, partial(self._refused, events.AppendRefused(shard, batch.base_offset, bug)))
            return
        self.disk.append(shard, batch)
        self._use_disk()

    def _refused(self, event: events.AppendRefused) -> None:
        self.refused -= Counter((event.shard,))
        self.step(event)

    def _append_batches(self, effect: r.AppendBatches) -> None:
        self.disk.append_batches(effect.shard, effect.log_number, effect.batches)
        self._use_disk()

    def _truncate(self, effect: r.TruncateLog) -> None:
        self._checker.cuts(self, effect)
        self.disk.truncate(effect.shard, effect.end, effect.log_number)
        self._use_disk()

    def _open(self, effect: r.OpenReplica) -> None:
        opened = self.disk.open_log(effect.shard, effect.log_number)
        self._report(i.LogOpened(effect.shard, log_opened(opened)))

    def _drop(self, effect: r.DropReplica) -> None:
        self.disk.drop(effect.shard, deletes=effect.deletes)
        self._use_disk()

    def _load(self, effect: c.LoadLog) -> None:
        number = self.disk.open[effect.shard].number
        self.later(effect.after_ms + self.dice.choice((0, 1, 40, 300)), partial(self._has_loaded, effect, number))

    def _has_loaded(self, effect: c.LoadLog, number: int) -> None:
        """Hand on a log once all of it that is wanted is on disk."""
        shard = effect.shard
        try:
            found = self.disk.load(shard, number, effect.end)
        except LogReplacedError:
            return
        except (ValueError, StorageError) as error:  # as the product reads it
            # A disk has failed, or the epoch is over and a snapshot was made in one since.
            self.step(events.ShardUnreadable(shard, effect.leader_epoch, str(error)))
            return
        if found is None:
            self.later(LOOK_AGAIN_MS, partial(self._has_loaded, effect, number))
            return
        pieces: list[tuple[bool, int, Sequence[bytes]]] = []
        if found.snapshot is not None:
            pieces.append((True, *found.snapshot))
        pieces += [(False, base_offset, records) for base_offset, records in found.batches]
        last = self.disk.log(shard).at(effect.end - 1)
        self.step(events.ShardRecovered(shard, effect.leader_epoch, last[0] if last is not None else 0, pieces))

    def _read_log(self, effect: c.ReadLog) -> None:
        self.later(self.dice.choice((0, 1, 20)), partial(self._has_read, effect))

    def _has_read(self, effect: c.ReadLog) -> None:
        shard, most_bytes = effect.shard, min(effect.most_bytes, self.dice.choice((1, 500, 5_000)))
        try:
            batches = self.disk.disk.read(shard, effect.begin, most_bytes)
        except LogReplacedError:
            return
        self._checker.coverage["read from disk"] += 1
        self.step(i.LogRead(shard, effect.follower, effect.leader_epoch, effect.fetch, effect.begin, batches))

    def _read_snapshot(self, effect: c.ReadSnapshot) -> None:
        self.later(self.dice.choice((0, 1, 20)), partial(self._has_read_snapshot, effect))

    def _has_read_snapshot(self, effect: c.ReadSnapshot) -> None:
        part = self.disk.disk.read_snapshot(effect.shard, effect.end, effect.position)
        self.step(
            i.SnapshotRead(
                effect.shard,
                effect.follower,
                effect.leader_epoch,
                effect.log_number,
                effect.position,
                None if part is None else part.piece,
                0 if part is None else part.next_position,
            )
        )

    def _write_snapshot(self, effect: e.WriteSnapshot) -> None:
        self._checker.snapshots(self, effect)
        self.disk.disk.write_snapshot(
            effect.shard,
            effect.end_offset,
            effect.leader_epoch,
            effect.records,
            index=effect.index,
            is_last=effect.is_last,
        )
        self._use_disk()

    def _install(self, effect: c.InstallPiece) -> None:
        self.disk.install(effect.shard, effect.log_number, effect.piece)
        self._use_disk()

    def _give_up_install(self, effect: c.GiveUpInstall) -> None:
        self.disk.disk.give_up_install(effect.shard)
        self._use_disk()

    # ---- Kafka ------------------------------------------------------------------------------------------------------

    def _watch(self, effect: e.WatchTopics) -> None:
        topics = {name: events.TopicMetadata(name, f"id-{name}", (1,) * TOPIC_PARTITIONS) for name in effect.topics}
        read = events.TopicsRead(topics, frozenset(), {}, {1: ("broker", 9092)}, "kafka-1")
        self.later(self.dice.choice((1, 5)), partial(self.step, read))

    def _resolve(self, effect: e.ResolveOffsets) -> None:
        answers = tuple(
            events.ResolvedOffset(asked.topic, asked.partition, 0, leader_epoch=7) for asked in effect.offsets
        )
        self.later(self.dice.choice((1, 5)), partial(self.step, events.OffsetsResolved(effect.lookup_id, answers)))


def _log_end(log: OpenedLog) -> LogEnd:
    return LogEnd(leader_epoch=log.epochs[-1][0] if log.epochs else 0, end=log.end)


_PERFORM: dict[type, Callable[[ClusterProcess, Any], None]] = {
    e.Append: ClusterProcess._append,
    e.WriteSnapshot: ClusterProcess._write_snapshot,
    e.Respond: lambda process, effect: process.clients.respond(process, effect),
    e.SendPush: lambda process, effect: process.clients.push(process, effect),
    e.CloseConnection: lambda process, effect: process.clients.close(process, effect),
    e.Notice: ClusterProcess._notice,
    e.WakeAt: ClusterProcess._wake_at,
    e.Halt: ClusterProcess._halt,
    e.BugMet: ClusterProcess._bug_met,
    e.WatchTopics: ClusterProcess._watch,
    e.ResolveOffsets: ClusterProcess._resolve,
    JoinedCluster: ClusterProcess._join,
    r.Remember: ClusterProcess._remember,
    RememberSeen: ClusterProcess._remember_seen,
    r.OpenReplica: ClusterProcess._open,
    r.DropReplica: ClusterProcess._drop,
    r.AppendBatches: ClusterProcess._append_batches,
    r.TruncateLog: ClusterProcess._truncate,
    c.LoadLog: ClusterProcess._load,
    c.ReadLog: ClusterProcess._read_log,
    c.ReadSnapshot: ClusterProcess._read_snapshot,
    c.InstallPiece: ClusterProcess._install,
    c.GiveUpInstall: ClusterProcess._give_up_install,
    ConnectPeers: lambda process, effect: process._peers.connect(process.number, effect),
    SayToPeer: ClusterProcess._say,
    EndContact: lambda process, effect: process._peers.end_contact(process.number, effect.peer, effect.why),
    ZkRead: lambda process, effect: process.zookeeper.read(effect),
    ZkMulti: lambda process, effect: process.zookeeper.commit(effect),
}
