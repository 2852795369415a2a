"""Controllers over the real port and a real ZooKeeper: one is elected, another follows it, every shard is led."""

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from coordinator.core.cluster.effects import LeftOffice, TellNode, TookOffice
from coordinator.core.cluster.events import ControllerEvent, NodeAnswered, PeerReached, Registered, Ticked
from coordinator.core.cluster.office.controller import Controller, step
from coordinator.core.cluster.transactions import form_cluster, register
from coordinator.core.cluster.znodes import Cluster, KnownNode, LiveNode, Unreadable, Versioned, decode, known_path
from coordinator.core.cluster.zookeeper import (
    ZkEvent,
    ZkMulti,
    ZkMultiDone,
    ZkRead,
    ZkReadDone,
    ZkSession,
    ZkState,
    ZkValues,
)
from coordinator.local.zookeeper import LocalZooKeeper
from coordinator.runtime.process.logs import make_log
from coordinator.runtime.zookeeper.port import ZooKeeper
from coordinator.runtime.zookeeper.session import ZooKeeperSettings
from tests.helpers.loopback_proxy import LoopbackProxy
from tests.helpers.waiting import wait_until

CLUSTER = Cluster(cluster_id="c1", shards=12, buckets=4, replication_factor=3, min_insync_replicas=2)
OWN = 1_000_000
"""Requests of the test's own have ids from here on."""


class Node:
    """A thread that steps one controller, as a node's event loop will."""

    def __init__(self, number: int, server: LocalZooKeeper) -> None:
        self.number = number
        self.proxy = LoopbackProxy(server.port)
        self.proxy.__enter__()
        self.machine = Controller(number)
        self.said: list[TookOffice | LeftOffice] = []
        self.peers: list[Node] = []
        self._events: queue.SimpleQueue[ZkEvent | PeerReached | NodeAnswered | None] = queue.SimpleQueue()
        self._known: Versioned[KnownNode] | None = None
        self.port = ZooKeeper(
            ZooKeeperSettings(self.proxy.address, "/kcoord/controllers", 1_500),
            self._events.put,
            make_log("json", "error"),
        )
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"node {number}")
        self._thread.start()

    def start(self, nodes: list["Node"]) -> None:
        self.peers = [node for node in nodes if node is not self]
        self.port.start()

    def close(self) -> None:
        self.port.close()
        self._events.put(None)
        self._thread.join(30)
        self.proxy.__exit__(None, None, None)

    def reach(self, event: PeerReached | NodeAnswered) -> None:
        self._events.put(event)

    def _run(self) -> None:
        while True:
            try:
                event = self._events.get(timeout=0.1)
            except queue.Empty:
                self._step(Ticked())
                continue
            if event is None:
                return
            self._take(event)

    def _take(self, event: ZkEvent | PeerReached | NodeAnswered) -> None:
        match event:
            case ZkMultiDone(session, request_id) if request_id >= OWN:
                self._go_on_registering(session, request_id)
            case ZkReadDone(session, request_id, found) if request_id >= OWN:
                assert isinstance(found, ZkValues)
                self._register(session, found)
            case _:
                self._step(event)
                if (
                    isinstance(event, ZkSession)
                    and event.state is ZkState.CONNECTED
                    and self.machine.node_epoch is None
                ):
                    self.port.commit(ZkMulti(event.session, OWN, form_cluster(CLUSTER)))

    def _go_on_registering(self, session: int, request_id: int) -> None:
        if request_id == OWN:  # formed, by whomever
            self.port.read(ZkRead(session, OWN, (known_path(self.number),), is_synced=True))
        else:
            node_epoch = 0 if self._known is None else self._known.version + 1
            self._step(Registered(node_epoch))
            for peer in self.peers:  # who are never cut off from one another
                peer.reach(PeerReached(self.number, node_epoch))

    def _register(self, session: int, found: ZkValues) -> None:
        (node,) = found.nodes
        self._known = None
        if node is not None:
            value = decode(KnownNode, known_path(self.number), node.data)
            assert not isinstance(value, Unreadable)
            self._known = Versioned(value, node.version)
        live = LiveNode(node_epoch=0, directory_id="d", addresses={}, rack=f"r{self.number}", release="1")
        (operations,) = register(self.number, self._known, live, starts=1)
        self.port.commit(ZkMulti(session, OWN + 1, operations))

    def _step(self, event: ControllerEvent) -> None:
        self.machine, effects = step(self.machine, event, _now_ms())
        for effect in effects:
            match effect:
                case ZkRead():
                    self.port.read(effect)
                case ZkMulti():
                    self.port.commit(effect)
                case TellNode(node_id, node_epoch=node_epoch, number=number):
                    self.reach(NodeAnswered(node_id, node_epoch, number))
                case TookOffice() | LeftOffice():
                    self.said.append(effect)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


@pytest.fixture
def nodes(zookeeper: LocalZooKeeper) -> Iterator[list[Node]]:
    with ExitStack() as stack:
        nodes = [Node(number, zookeeper) for number in (1, 2, 3)]
        for node in nodes:
            stack.callback(node.close)
            node.start(nodes)
        yield nodes


def leaders(node: Node) -> set[int | None]:
    told = node.machine.office.told if node.machine.office is not None else None
    return {entry.leader for entry in told.values()} if told is not None and len(told) == CLUSTER.shards else set()


def epoch_of(node: Node) -> int:
    """Return the controller epoch in which a node took office last; a slow machine may have cost others theirs."""
    return [said for said in node.said if isinstance(said, TookOffice)][-1].controller_epoch


def test_a_cut_off_controller_is_followed_by_another_that_elects_for_what_it_led(nodes: list[Node]) -> None:
    wait_until(lambda: any(leaders(node) == {1, 2, 3} for node in nodes), what="a controller's shards")
    old = next(node for node in nodes if leaders(node) == {1, 2, 3})
    others = [node for node in nodes if node is not old]
    old.proxy.hold()
    numbers = {node.number for node in others}
    wait_until(lambda: any(leaders(node) == numbers for node in others), what="elections by another")
    new = next(node for node in others if leaders(node) == numbers)
    assert old.machine.office is not None, "it does not know"
    old.proxy.cut()
    old.proxy.let_go()
    wait_until(lambda: old.machine.office is None, what="the old controller to leave")
    assert isinstance(old.said[-1], LeftOffice)
    assert epoch_of(new) > epoch_of(old)
