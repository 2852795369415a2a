"""The driver of a node of a cluster: the driver of any node, with ZooKeeper, the other nodes and logs that come and go.

It adds the end of a turn: when all that has come together is taken in, the node is told so (TurnEnded), which sends
followers what was appended, and only then the records are handed to the disk. A log is opened, cut, replaced or closed
after what was gathered for it is handed over. `JoinedCluster`, `Remember` and `RememberSeen` are on disk before the
next effect is performed: each writes one small file, rarely, and holds the loop meanwhile.

While it drains, members, Kafka, ZooKeeper and time are not heard any more, but the disk and the other nodes are, so
that what was decided is committed and said.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, cast

from coordinator.core.cluster.effects import JoinedCluster, RememberSeen
from coordinator.core.cluster.events import Remembered
from coordinator.core.cluster.zookeeper import ZkMulti, ZkRead
from coordinator.core.cluster_node import effects as wanted
from coordinator.core.cluster_node.events import LogCut, LogInstalled, LogSynced, PieceWritten, TurnEnded
from coordinator.core.effects import Effect
from coordinator.core.log.meta import ClusterDirectory
from coordinator.core.peers.effects import ConnectPeers, EndContact, SayToPeer
from coordinator.core.peers.events import PeersEvent
from coordinator.core.peers.port import PeersPort
from coordinator.core.replica import effects as of_replica
from coordinator.runtime.clock import Clock
from coordinator.runtime.cluster.log_work import LogWork
from coordinator.runtime.driver import Driver

DELETE_EVERY_MS = 60_000


class ZooKeeperAsked(Protocol):
    """The part of the ZooKeeper port that the driver uses."""

    def read(self, read: ZkRead) -> None:
        """Begin to read."""

    def commit(self, multi: ZkMulti) -> None:
        """Begin a multi."""


class PeersJoined(PeersPort, Protocol):
    """The port to the other nodes, of a node that may not know its cluster at first."""

    def join(self, cluster_id: str) -> None:
        """Be of this cluster from now on."""


class ClusterDriver(Driver):
    """The loop around one node of a cluster; `connect_cluster` comes after `connect` and before `start`.

    `on_joined` is called when the node is in the cluster and speaks with the others for the first time.
    """

    def connect_cluster(
        self,
        *,
        directory: ClusterDirectory,
        peers: PeersJoined,
        peers_clock: Clock,
        zookeeper: ZooKeeperAsked,
        on_joined: Callable[[], None],
        deleted_keep_ms: int,
    ) -> None:
        """Say through what else to drive; `peers_clock` is not held while the disk is slow."""
        self._directory = directory
        self._peers = peers
        self._peers_clock = peers_clock
        self._zookeeper = zookeeper
        self._on_joined = on_joined
        self._has_joined = False
        self._is_turn_awaited = False
        self._deleted_keep_ms = deleted_keep_ms
        self._delete_due_ms = 0
        self._began_ms = self.clock.wall_ms()
        self._monotonic_began_ms = self.clock.monotonic_ms()
        self._logs = LogWork(self._loop, self._disk, self._report, self.disk_failed, self._lived_to_ms, self._log)
        self._perform_own: dict[type, Callable[[Any], None]] = {
            JoinedCluster: self._join,
            RememberSeen: lambda effect: directory.remember_seen(
                effect.node_epoch, effect.buckets, effect.lacks, effect.intended_epoch
            ),
            of_replica.Remember: lambda effect: directory.remember(effect.controller_epoch),
            of_replica.OpenReplica: self._after_writing(self._logs.open),
            of_replica.DropReplica: self._after_writing(self._logs.drop),
            of_replica.AppendBatches: self._after_writing(self._append_batches),
            of_replica.TruncateLog: self._after_writing(self._truncate),
            wanted.LoadLog: self._after_writing(self._logs.load),
            wanted.ReadLog: self._logs.read,
            wanted.ReadSnapshot: self._logs.read_snapshot,
            wanted.InstallPiece: self._after_writing(self._install),
            wanted.GiveUpInstall: lambda effect: self._disk.give_up_install(effect.shard),
            ConnectPeers: self._connect_peers,
            SayToPeer: self._say,
            EndContact: lambda effect: peers.end_contact(effect.peer, effect.why),
            ZkRead: zookeeper.read,
            ZkMulti: zookeeper.commit,
        }

    # ---- from the other nodes ---------------------------------------------------------------------------------------

    def peer_event(self, event: PeersEvent) -> None:
        """Tell the node what is heard of another one; on the loop's thread, also while nothing else is taken."""
        self._deliver(event)

    # ---- from the disk, any thread ----------------------------------------------------------------------------------

    def log_cut(self, shard: int, log_number: int) -> None:
        """Report that a cut is on disk."""
        self._report(LogCut(shard, log_number))

    def log_installed(self, shard: int, end_offset: int, last_epoch: int, log_number: int) -> None:
        """Report that a snapshot has replaced a log."""
        self._report(LogInstalled(shard, end_offset, last_epoch, log_number))

    # ---- the parts of the driver that are other here ----------------------------------------------------------------

    _durable_event: ClassVar[type[Any]] = LogSynced
    _snapshot_event: ClassVar[type[Any]] = PieceWritten

    def start(self) -> None:
        """Begin to live, and start the ticks; the node waits for ZooKeeper's first session."""
        self._is_running = not self._stopped.done()
        now_ms = self.clock.monotonic_ms()
        self.clock.take_stall_ms()  # what came before was the start, and nobody's time
        self._node.start(now_ms, self.clock.wall_ms())
        self._schedule_tick()

    def drain(self) -> None:
        """Take nothing more from members, Kafka, ZooKeeper and the clock, and hand all that was decided on."""
        self._end_turn()
        self._logs.stop()
        super().drain()

    def _on_tick(self) -> None:
        super()._on_tick()
        self._peers.check_deadlines(self._peers_clock.monotonic_ms())
        now_ms = self.clock.monotonic_ms()
        if now_ms >= self._delete_due_ms:
            self._delete_due_ms = now_ms + DELETE_EVERY_MS
            before_ms = self._lived_to_ms() - self._deleted_keep_ms
            # The clock may have been wrong when this life began: what is from before it is kept for as long in it.
            if before_ms >= self._began_ms:
                self._logs.delete_aside(before_ms)

    def _lived_to_ms(self) -> int:
        """Return the start's wall time and the time lived since: a clock that is set deletes nothing any sooner."""
        return self._began_ms + self.clock.monotonic_ms() - self._monotonic_began_ms

    def _run(self, decide: Callable[..., list[Any]], *arguments: object) -> None:
        super()._run(decide, *arguments)
        if not self._is_turn_awaited:
            self._is_turn_awaited = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        """End the turn: the others are told before the disk is, and are written to when this loop comes round."""
        self._is_turn_awaited = False
        super()._run(self._node.step, TurnEnded(), self.clock.monotonic_ms())
        super()._run(self._write)
        self._sender.flush()

    def _await_write(self) -> None:
        """Do nothing: the end of the turn, which is to come, writes."""

    def _perform(self, effect: wanted.Effect) -> None:
        perform = self._perform_own.get(type(effect))
        if perform is None:
            super()._perform(cast(Effect, effect))
        else:
            perform(effect)

    # ---- effects ----------------------------------------------------------------------------------------------------

    def _after_writing(self, perform: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a performer that hands over what was gathered for the disk first."""

        def performed(effect: Any) -> None:
            if self._unwritten:
                self._write()
            perform(effect)

        return performed

    def _join(self, effect: JoinedCluster) -> None:
        self._directory.join_cluster(effect.cluster_id, effect.shards)
        self._peers.join(effect.cluster_id)
        self._report(Remembered())

    def _connect_peers(self, effect: ConnectPeers) -> None:
        self._peers.connect(effect)
        if not self._has_joined:
            self._has_joined = True
            self._on_joined()

    def _say(self, effect: SayToPeer) -> None:
        try:
            self._peers.say(effect.peer, effect.message)
        except Exception as error:  # noqa: BLE001 - what cannot be said costs its contact
            what = type(effect.message).__name__
            self._log.critical("bug", why=f"a {what} could not be said to node {effect.peer}", exc_info=error)
            self._peers.end_contact(effect.peer, f"a {what} could not be said by a bug of this node's")

    def _append_batches(self, effect: of_replica.AppendBatches) -> None:
        self._disk.append_batches(effect.shard, effect.log_number, effect.batches)

    def _truncate(self, effect: of_replica.TruncateLog) -> None:
        self._disk.truncate(effect.shard, effect.end, effect.log_number)

    def _install(self, effect: wanted.InstallPiece) -> None:
        self._disk.install(effect.shard, effect.log_number, effect.piece)
