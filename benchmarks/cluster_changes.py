"""Leader changes at a controller, and one change told by a request and through a queue in ZooKeeper.

The controller is the real one (`coordinator.core.cluster.office`) on a real ZooKeeper; the nodes are stubs in this
process that read what they are told, from the bytes that would travel, and acknowledge it. All shards are led by a node
that dies; the time is from the moment at which connections to it are refused until the others have acknowledged all.
The queue is that of seed 003: a node of ZooKeeper for each command, which the other side watches, reads and deletes.
"""

import queue
import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import structlog
from kazoo.client import KazooClient

from coordinator.core.cluster.effects import ControllerEffect, ShardState, TellNode
from coordinator.core.cluster.events import ControllerEvent, NodeAnswered, NodeRefused, PeerReached, Registered, Ticked
from coordinator.core.cluster.office.controller import Controller, step
from coordinator.core.cluster.office.settings import ControllerSettings
from coordinator.core.cluster.transactions import BucketChange, form_cluster, register
from coordinator.core.cluster.znodes import Bucket, Cluster, LiveNode, ShardEntry, bucket_count
from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkEvent,
    ZkMulti,
    ZkMultiDone,
    ZkOperation,
    ZkRead,
    ZkSession,
    ZkState,
)
from coordinator.core.peers.control_words import told, told_of
from coordinator.protocol import peer_messages as wire
from coordinator.protocol.peer_messages.session import PeerSession
from coordinator.runtime.zookeeper.port import ZooKeeper
from coordinator.runtime.zookeeper.session import ZooKeeperSettings

SESSION_MS: Final = 10_000
_LIMIT_S: Final = 60.0
_NODES: Final = (1, 2, 3)
_DEAD, _CONTROLLER = 1, 2


class Desk:
    """One connection to ZooKeeper whose events are taken one after another by the thread that waits for them."""

    def __init__(self, hosts: str, path: str) -> None:
        self.events: queue.SimpleQueue[ZkEvent] = queue.SimpleQueue()
        settings = ZooKeeperSettings(hosts, path, SESSION_MS)
        self.port = ZooKeeper(settings, self.events.put, structlog.get_logger())
        self.port.start()
        self.session = self._connected()
        self._asked = 0

    def write(self, operations: tuple[ZkOperation, ...]) -> None:
        """Write, and return when it is done; raises RuntimeError when it was not."""
        self._asked += 1
        self.port.commit(ZkMulti(self.session.session, self._asked, operations))
        while True:
            event = self.events.get(timeout=_LIMIT_S)
            if isinstance(event, ZkMultiDone):
                break
        outcome = event.outcome
        assert isinstance(outcome, ZkApplied), f"ZooKeeper refused what the bench has to write: {outcome}"

    def _connected(self) -> ZkSession:
        while True:
            event = self.events.get(timeout=_LIMIT_S)
            if isinstance(event, ZkSession) and event.state is ZkState.CONNECTED:
                return event


class Stub:
    """A node that reads what it is told from its bytes, and acknowledges it."""

    def __init__(self, node_id: int) -> None:
        self.states = 0
        self._node_id = node_id
        self._out, self._in = _sessions()

    def obey(self, effect: TellNode) -> NodeAnswered:
        """Return the acknowledgement."""
        for message in self._in.receive(self._out.say(told_of(effect))):
            assert isinstance(message, wire.TellNode)
            self.states += len(told(message, self._node_id).states)
        return NodeAnswered(effect.node_id, effect.node_epoch, effect.number)


def _sessions() -> tuple[PeerSession, PeerSession]:
    """Return the two ends of a connection that have greeted each other."""
    ends = PeerSession(), PeerSession()
    hellos = [end.greet(wire.PeerHello("bench", number, 0, "1")) for number, end in enumerate(ends)]
    for end, hello in zip(ends, reversed(hellos), strict=True):
        list(end.receive(hello))
    return ends


class Office:
    """The controller with its connection to ZooKeeper and the stubs of the other nodes."""

    def __init__(self, desk: Desk) -> None:
        # It has been in office for long: only a new one waits for others of a cluster that may just have started.
        self.machine = Controller(_CONTROLLER, ControllerSettings(balance_ms=600_000, elect_wait_ms=0))
        self.stubs = {number: Stub(number) for number in _NODES}
        self.messages = 0
        self._desk = desk

    def take(self, event: ControllerEvent) -> None:
        """Take in an event, and what follows of it at once."""
        self.machine, effects = step(self.machine, event, round(time.monotonic() * 1000))
        for effect in effects:
            self._perform(effect)

    def run_until(self, shards_led_by: int, shards: int) -> None:
        """Take what comes until so many shards are led by others than the dead node, and all who live know it."""
        end_s = time.monotonic() + _LIMIT_S
        while not self._is_told(shards_led_by, shards):
            if time.monotonic() > end_s:
                raise TimeoutError("the controller did not come to rest")
            with suppress(queue.Empty):
                self.take(self._desk.events.get(timeout=0.05))
                continue
            self.take(Ticked())

    def _is_told(self, node: int, shards: int) -> bool:
        office = self.machine.office
        if office is None or office.told is None or len(office.told) < shards:
            return False
        return all((entry.leader == _DEAD) == (node == _DEAD) for entry in office.told.values()) and all(
            self.stubs[number].states >= shards for number in _NODES if number not in (_DEAD,)
        )

    def _perform(self, effect: ControllerEffect) -> None:
        match effect:
            case ZkRead():
                self._desk.port.read(effect)
            case ZkMulti():
                self._desk.port.commit(effect)
            case TellNode():
                self.messages += 1
                answer = self.stubs[effect.node_id].obey(effect)
                self.take(answer)
            case _:
                pass


def leader_changes_ms(hosts: str, shards: int) -> float:
    """Return the milliseconds in which a controller has changed the leader of so many shards and told the others."""
    path = f"/changes-{time.time_ns():x}"
    desks = {number: Desk(hosts, path) for number in _NODES}
    try:
        buckets = bucket_count(shards)
        cluster = Cluster(
            cluster_id="bench", shards=shards, buckets=buckets, replication_factor=3, min_insync_replicas=2
        )
        desks[_DEAD].write(form_cluster(cluster))
        for number, desk in desks.items():
            live = LiveNode(node_epoch=0, directory_id=f"d{number}", addresses={}, rack=f"r{number}", release="1")
            for operations in register(number, None, live, starts=1):
                desk.write(operations)
        for bucket in range(buckets):
            desks[_DEAD].write((_all_led_by_the_dead(bucket, shards, buckets).operation(),))
        return _measured(desks[_CONTROLLER], shards)
    finally:
        for desk in desks.values():
            desk.port.close()


def _all_led_by_the_dead(bucket: int, shards: int, buckets: int) -> BucketChange:
    entries = {
        shard: ShardEntry(
            leader=_DEAD, leader_node_epoch=0, leader_epoch=1, isr=_NODES, replicas=_NODES, changed_by="bench"
        )
        for shard in range(bucket, shards, buckets)
    }
    return BucketChange(bucket, Bucket(shards=entries), None)


def _measured(desk: Desk, shards: int) -> float:
    office = Office(desk)
    office.take(desk.session)
    office.take(Registered(0))
    for number in _NODES:
        if number != _CONTROLLER:
            office.take(PeerReached(number, 0))
    office.run_until(_DEAD, shards)
    for stub in office.stubs.values():
        stub.states = 0
    office.messages = 0
    started_s = time.perf_counter()
    office.take(NodeRefused(_DEAD, 0))
    office.run_until(_CONTROLLER, shards)
    return (time.perf_counter() - started_s) * 1000


# ---- one change, told in two ways ------------------------------------------------------------------------------------


def _one_change() -> bytes:
    state = ShardState(7, 2, 5, (2, 3), (1, 2, 3), 12, 4)
    effect = TellNode(3, 2, 9, 4, 1, False, (state,), (), (), (), ())
    return _sessions()[0].say(told_of(effect))


def rpc_us(rounds: int) -> float:
    """Return the median microseconds of one change told over a connection and acknowledged."""
    listener = socket.create_server(("127.0.0.1", 0))
    change = _one_change()

    def acknowledge() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while _frame(connection):
                connection.sendall(struct.pack(">I", 1) + b"y")

    thread = threading.Thread(target=acknowledge)
    thread.start()
    took: list[float] = []
    with listener, socket.create_connection(listener.getsockname()) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(rounds):
            started_s = time.perf_counter()
            connection.sendall(change)
            _frame(connection)
            took.append(time.perf_counter() - started_s)
    thread.join()
    return statistics.median(took) * 1e6


def zookeeper_queue_us(hosts: str, rounds: int) -> float:
    """Return the median microseconds of one change through a queue of nodes that the other side watches and deletes."""
    path, change = f"/queue-{time.time_ns():x}", _one_change()
    took: list[float] = []
    with _client(hosts) as controller, _client(hosts) as node:
        controller.create(path)
        woken = threading.Semaphore(0)

        def obey() -> None:
            done = 0
            while done < rounds:
                for name in node.get_children(path, watch=lambda _: woken.release()):
                    node.get(f"{path}/{name}")
                    node.delete(f"{path}/{name}")
                    done += 1
                if done < rounds:
                    woken.acquire()

        thread = threading.Thread(target=obey)
        thread.start()
        for _ in range(rounds):
            is_gone = threading.Event()
            started_s = time.perf_counter()
            command = controller.create(f"{path}/c-", change, sequence=True)
            if controller.exists(command, watch=lambda _, gone=is_gone: gone.set()) is not None:
                is_gone.wait(_LIMIT_S)
            took.append(time.perf_counter() - started_s)
        thread.join()
    return statistics.median(took) * 1e6


def _frame(connection: socket.socket) -> bytes:
    length = b""
    while len(length) < 4:
        data = connection.recv(4 - len(length))
        if not data:
            return b""
        length += data
    body = b""
    while len(body) < struct.unpack(">I", length)[0]:
        body += connection.recv(65_536)
    return body


@contextmanager
def _client(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=hosts, timeout=SESSION_MS / 1000)
    with ExitStack() as ending:
        client.start(timeout=_LIMIT_S)
        ending.callback(client.close)
        ending.callback(client.stop)
        yield client
