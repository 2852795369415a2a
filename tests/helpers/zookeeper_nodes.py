"""A node of a cluster as far as ZooKeeper sees it: a port, what it was told, and the connection between.

The real port speaks with a real server through a proxy; the model's with the model's servers, in virtual time.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from random import Random
from typing import Protocol, TypeVar

from coordinator.core.cluster.zookeeper import (
    ZkAspect,
    ZkChanged,
    ZkEvent,
    ZkMulti,
    ZkMultiDone,
    ZkOperation,
    ZkOutcome,
    ZkRead,
    ZkReadDone,
    ZkSession,
    ZkState,
    ZkUnread,
    ZkValues,
    ZooKeeperPort,
)
from coordinator.local.zookeeper import LocalZooKeeper
from coordinator.runtime.process.logs import make_log
from coordinator.runtime.zookeeper.port import ZooKeeper
from coordinator.runtime.zookeeper.session import ZooKeeperSettings
from tests.helpers.loopback_proxy import LoopbackProxy
from tests.helpers.waiting import wait_until
from tests.sim.schedule import Schedule
from tests.sim.zookeeper import Manners, SimulatedZooKeeper
from tests.sim.zookeeper_servers import Servers

Told = TypeVar("Told", bound=ZkEvent)


class Link(Protocol):
    """The connection of one node, to be broken."""

    def cut(self) -> None:
        """Break it; what was held is lost."""

    def refuse(self, *, is_refusing: bool) -> None:
        """Let no new one begin, or again."""

    def hold(self, *, to_server: bool = True, to_client: bool = True) -> None:
        """Keep what is said in these directions."""

    def let_go(self) -> None:
        """Pass on what was held."""

    def has_held(self) -> bool:
        """Say whether something is held now."""


class Node:
    """One port with what it was told; the calls that return something wait for it."""

    def __init__(self, until: Callable[[Callable[[], bool], str], None]) -> None:
        self.port: ZooKeeperPort
        self.link: Link
        self.events: list[ZkEvent] = []
        self.session = 1
        self._until = until
        self._ids = count(1)
        self._asked: set[int] = set()
        self._lock = threading.Lock()

    def take(self, event: ZkEvent) -> None:
        """Take an event, from any thread."""
        with self._lock:
            self.events.append(event)

    def told(self, kind: type[Told]) -> list[Told]:
        """Return what was told of one kind so far, in order."""
        with self._lock:
            return [event for event in self.events if isinstance(event, kind)]

    def states(self) -> list[tuple[int, ZkState]]:
        """Return the sessions' states so far."""
        return [(event.session, event.state) for event in self.told(ZkSession)]

    def until_state(self, session: int, state: ZkState, times: int = 1) -> ZkSession:
        """Wait until a session has come into a state for the so manieth time."""

        def found() -> list[ZkSession]:
            return [event for event in self.told(ZkSession) if (event.session, event.state) == (session, state)]

        self.until(lambda: len(found()) >= times, f"session {session} {state.value}, not {self.states()}")
        self.session = session
        return found()[times - 1]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition."""
        self._until(condition, what)

    def begin_multi(self, *operations: ZkOperation, session: int | None = None) -> int:
        """Begin a multi and return its request's id."""
        request_id = next(self._ids)
        self._asked.add(request_id)
        self.port.commit(ZkMulti(self.session if session is None else session, request_id, operations))
        return request_id

    def outcome(self, request_id: int) -> ZkOutcome:
        """Wait for what a multi came to."""
        done: list[ZkMultiDone] = []

        def is_done() -> bool:
            done[:] = [event for event in self.told(ZkMultiDone) if event.request_id == request_id]
            return bool(done)

        self.until(is_done, f"the outcome of request {request_id}")
        return done[0].outcome

    def multi(self, *operations: ZkOperation) -> ZkOutcome:
        """Do a multi."""
        return self.outcome(self.begin_multi(*operations))

    def begin_read(
        self, *nodes: str, children: tuple[str, ...] = (), watched: bool = False, synced: bool = True
    ) -> int:
        """Begin to read and return the request's id."""
        request_id = next(self._ids)
        self._asked.add(request_id)
        self.port.read(ZkRead(self.session, request_id, nodes, children, watched, synced))
        return request_id

    def found(self, request_id: int) -> ZkValues | ZkUnread:
        """Wait for what was read."""
        done: list[ZkReadDone] = []

        def is_done() -> bool:
            done[:] = [event for event in self.told(ZkReadDone) if event.request_id == request_id]
            return bool(done)

        self.until(is_done, f"the answer to request {request_id}")
        return done[0].found

    def read(self, *nodes: str, children: tuple[str, ...] = (), watched: bool = False, synced: bool = True) -> ZkValues:
        """Read, and fail if that is not possible."""
        found = self.found(self.begin_read(*nodes, children=children, watched=watched, synced=synced))
        assert isinstance(found, ZkValues), found
        return found

    def changes(self) -> list[tuple[str, ZkAspect]]:
        """Return the changes that were told of, in order."""
        return [(event.path, event.aspect) for event in self.told(ZkChanged)]

    def assert_each_answered_once(self) -> None:
        """Everything that was asked has been answered, and once."""
        self.until(lambda: set(self._answered()) >= self._asked, f"answers to {sorted(self._asked)}")
        answered = self._answered()
        assert len(answered) == len(set(answered)), sorted(answered)

    def _answered(self) -> list[int]:
        multis = [event.request_id for event in self.told(ZkMultiDone)]
        return multis + [event.request_id for event in self.told(ZkReadDone)]


class Ensemble(Protocol):
    """ZooKeeper, real or not, and the nodes that use it."""

    def node(self, session_timeout_ms: int = 4_000) -> Node:
        """Return a node whose first session is connected."""

    def wipe(self) -> None:
        """Lose all data, as a new directory does."""

    def rest(self) -> None:
        """Give what could still come the time to."""


class RealEnsemble:
    """A real server; every node has a proxy of its own. `path` is what keeps tests apart."""

    def __init__(self, server: LocalZooKeeper, path: str, stack: ExitStack) -> None:
        self._server = server
        self._path = path
        self._stack = stack

    def node(self, session_timeout_ms: int = 4_000) -> Node:
        proxy = self._stack.enter_context(LoopbackProxy(self._server.port))
        node = Node(lambda condition, what: _wait(condition, what))
        settings = ZooKeeperSettings(proxy.address, self._path, session_timeout_ms)
        port = ZooKeeper(settings, node.take, make_log("json", "error"))
        node.port, node.link = port, proxy
        self._stack.callback(port.close)
        port.start()
        node.until_state(1, ZkState.CONNECTED)
        return node

    def wipe(self) -> None:
        self._server.stop()
        self._server.forget_data()
        self._server.start()

    def rest(self) -> None:
        """A fact comes after what was told before it to another node; a round trip is time enough for most."""


def _wait(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, timeout_s=60, what=what)


class SimulatedEnsemble:
    """The model, in virtual time, under one seed."""

    def __init__(self, seed: int) -> None:
        self.schedule = Schedule()
        self.dice = Random(seed)
        self.servers = Servers(self.schedule, self.dice)

    def node(self, session_timeout_ms: int = 4_000, manners: Manners | None = None) -> Node:
        node = Node(self._until)
        port = SimulatedZooKeeper(
            self.servers, self.schedule, self.dice, node.take, session_timeout_ms=session_timeout_ms, manners=manners
        )
        node.port, node.link = port, port
        port.start()
        node.until_state(1, ZkState.CONNECTED)
        return node

    def wipe(self) -> None:
        self.servers.wipe()

    def rest(self) -> None:
        self.schedule.run_until(self.schedule.now_ms + 2_000)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        end_ms = self.schedule.now_ms + 60_000
        while not condition():
            assert self.schedule.now_ms < end_ms, f"not within a minute: {what}"
            self.schedule.run_until(self.schedule.now_ms + 1)


@contextmanager
def real_ensemble(server: LocalZooKeeper, path: str) -> Iterator[RealEnsemble]:
    """Return an ensemble on a server that is there, and end its nodes behind the block."""
    with ExitStack() as stack:
        yield RealEnsemble(server, path, stack)
