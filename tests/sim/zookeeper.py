"""ZooKeeper as a node of the simulation has it: the port, over servers that lag and a connection that fails.

What is asked on one connection is done in its order and answered in its order. When the connection breaks, a part of
what was under way is still done, at once or after the client is back, and all of it is told as unknown. Results,
changes and states come at times of their own and overtake one another. With `loses_watches` and `doubles_watches` the
changes that are told of are fewer or more than there were: ZooKeeper does neither while the connection holds, but who
relies on that has no second line.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random

from coordinator.core.cluster.zookeeper import (
    ZkAspect,
    ZkChanged,
    ZkEvent,
    ZkMulti,
    ZkMultiDone,
    ZkNode,
    ZkRead,
    ZkReadDone,
    ZkSession,
    ZkState,
    ZkUnknown,
    ZkUnread,
    ZkValues,
    check_limits,
)
from tests.sim.schedule import Schedule
from tests.sim.zookeeper_servers import Server, Servers

RETRY_MS = 100


@dataclass(slots=True)
class Manners:
    """How a client's connection behaves; times are drawn from those given."""

    delays_ms: tuple[int, ...] = (0, 1, 2)
    """One way between client and server."""
    thread_delays_ms: tuple[int, ...] = (0, 0, 1)
    """Between what has come and its event, for results, changes and states apart."""
    late_ms: tuple[int, int] = (0, 1_000)
    """When what was under way at a break is done, if it is."""
    loses_watches: float = 0.0
    doubles_watches: float = 0.0


@dataclass(eq=False, slots=True)
class _Connection:
    """One connection; also the server's end of it. `to_server` and `to_client` are the times of the last arrivals."""

    client: "SimulatedZooKeeper"
    server: Server
    session: int
    owner: int
    is_open: bool = True
    to_server_ms: int = 0
    to_client_ms: int = 0
    held_to_server: list[Callable[[], None]] = field(default_factory=list)
    held_to_client: list[Callable[[], None]] = field(default_factory=list)
    under_way: list[ZkMulti | ZkRead] = field(default_factory=list)
    """Asked and not yet with the server, in order."""
    unanswered: list[ZkMulti | ZkRead] = field(default_factory=list)
    watched: set[tuple[str, ZkAspect]] = field(default_factory=set)
    """Whose change the client still tells of."""

    def on_changed(self, path: str, aspect: ZkAspect) -> None:
        """Carry the word of the server."""
        if self.is_open:
            self.client.carry_back(self, partial(self.client.take_change, self, path, aspect))


class SimulatedZooKeeper:
    """A ZooKeeperPort over `servers`; `post` takes an event when it is due."""

    def __init__(
        self,
        servers: Servers,
        schedule: Schedule,
        dice: Random,
        post: Callable[[ZkEvent], None],
        *,
        session_timeout_ms: int = 6_000,
        manners: Manners | None = None,
    ) -> None:
        self._servers = servers
        self._schedule = schedule
        self._dice = dice
        self._post = post
        self._timeout_ms = session_timeout_ms
        self._manners = manners or Manners()
        self._numbers = count(1)
        self._session = 0
        self._owner = 0
        self._seen = 0
        self._connection: _Connection | None = None
        self._queue: list[ZkMulti | ZkRead] = []
        self._threads_ms = {"results": 0, "changes": 0, "states": 0}
        self._holds = (False, False)
        self._silence = 0
        self._is_refused = False
        self._is_closed = False

    def start(self) -> None:
        """Begin the first session."""
        self._begin_session()

    def commit(self, multi: ZkMulti) -> None:
        """Begin a multi."""
        check_limits(multi.operations)
        self._ask(multi)

    def read(self, read: ZkRead) -> None:
        """Begin to read."""
        self._ask(read)

    def close(self) -> None:
        """End the session, or as much of that as the connection allows."""
        if self._is_closed:
            return
        self._is_closed = True
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.is_open = False
        if self._holds[0]:
            self._servers.not_heard(connection.owner)
        else:
            self._servers.expire(connection.owner)

    def die(self) -> None:
        """End as a killed process does: the servers see the connection end, and wait for the session's time-out."""
        self._break()
        self._is_closed = True

    @property
    def owner(self) -> int:
        """Return the id of the session at the servers."""
        return self._owner

    # ---- the connection's faults ------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Break the connection: what was under way may be done yet, what was held is lost."""
        self._break()
        self._reconnect_soon()

    def refuse(self, *, is_refusing: bool) -> None:
        """Let no connection begin, or again."""
        self._is_refused = is_refusing

    def hold(self, *, to_server: bool = True, to_client: bool = True) -> None:
        """Keep what is said in these directions; the servers do not hear of the session, or the client of them."""
        connection = self._connection
        self._holds = (to_server, to_client)
        self._silence += 1
        if connection is None:
            return
        if to_server:
            self._servers.not_heard(connection.owner)
        else:
            self._servers.heard(connection.owner)
            self._let_go(connection.held_to_server)
        if not to_client:
            self._let_go(connection.held_to_client)
        if to_server or to_client:  # no answer to a ping comes
            self._schedule.after(self._timeout_ms * 2 // 3, self._give_up_if_silent, connection, self._silence)

    def let_go(self) -> None:
        """Pass on what was held, and all that comes."""
        self.hold(to_server=False, to_client=False)

    def has_held(self) -> bool:
        """Say whether something is held now."""
        connection = self._connection
        return connection is not None and bool(connection.held_to_server or connection.held_to_client)

    def _let_go(self, held: list[Callable[[], None]]) -> None:
        waiting = list(held)
        held.clear()
        for work in waiting:
            work()

    def _give_up_if_silent(self, connection: _Connection, silence: int) -> None:
        if self._connection is connection and self._silence == silence:
            self.cut()

    # ---- connecting -------------------------------------------------------------------------------------------------

    def _begin_session(self) -> None:
        self._session = next(self._numbers)
        self._owner = 0
        self._seen = 0
        self._reconnect_soon()

    def _reconnect_soon(self) -> None:
        self._schedule.after(self._delay_ms(), self._connect)

    def _connect(self) -> None:
        if self._is_closed or self._connection is not None:
            return
        if self._is_refused or any(self._holds) or self._servers.is_away:
            self._schedule.after(RETRY_MS, self._connect)
            return
        # A server that has not seen what this client has seen sends it away.
        servers = [server for server in self._servers.servers if server.applied >= self._seen] or self._servers.servers
        server = self._dice.choice(servers)
        if self._owner == 0:
            self._owner = self._servers.begin_session(self._timeout_ms, self._end_at_server)
        elif self._servers.is_over(self._owner):
            self._lose()
            return
        else:
            self._servers.heard(self._owner)
        if server.applied < self._seen:
            self._servers.catch_up(server)
        self._connection = _Connection(self, server, self._session, self._owner)
        self._tell("states", ZkSession(self._session, ZkState.CONNECTED, self._owner))
        waiting, self._queue = self._queue, []
        for asked in waiting:
            self._send(self._connection, asked)

    def _end_at_server(self) -> None:
        """A server ends the connection of a session that is over."""
        connection = self._connection
        if connection is not None and not self._is_closed:
            self.carry_back(connection, partial(self._ended, connection))

    def _ended(self, connection: _Connection) -> None:
        if self._connection is connection:
            self.cut()

    def _lose(self) -> None:
        self._tell("states", ZkSession(self._session, ZkState.LOST))
        waiting, self._queue = self._queue, []
        for asked in waiting:
            self._fail(asked, "the session is over")
        self._begin_session()

    def _break(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.is_open = False
        self._servers.not_heard(connection.owner)
        # A connection loses the end of what was under way, never its middle.
        arriving = connection.under_way[: self._dice.randint(0, len(connection.under_way))]
        if not connection.held_to_server:
            late_ms = self._dice.randint(*self._manners.late_ms)
            for asked in arriving:
                self._schedule.after(late_ms, self._do_late, connection, asked)
        for asked in connection.unanswered:
            self._fail(asked, "the connection broke")
        self._tell("states", ZkSession(connection.session, ZkState.SUSPENDED))

    def _do_late(self, connection: _Connection, asked: ZkMulti | ZkRead) -> None:
        if self._servers.is_away:  # what has reached a server is done when enough are there, or lost with it
            self._schedule.after(RETRY_MS, self._do_late, connection, asked)
        elif isinstance(asked, ZkMulti) and not self._servers.is_over(connection.owner):
            self._servers.multi(connection.server, connection.owner, asked.operations)

    # ---- asking -----------------------------------------------------------------------------------------------------

    def _ask(self, asked: ZkMulti | ZkRead) -> None:
        if self._is_closed:
            return
        if asked.session != self._session:
            self._fail(asked, f"ZooKeeper session {asked.session} is over")
        elif self._connection is None:
            self._queue.append(asked)
        else:
            self._send(self._connection, asked)

    def _send(self, connection: _Connection, asked: ZkMulti | ZkRead) -> None:
        connection.under_way.append(asked)
        connection.unanswered.append(asked)
        connection.to_server_ms = max(connection.to_server_ms, self._schedule.now_ms + self._delay_ms())
        self._schedule.at(connection.to_server_ms, self._arrive, connection, asked)

    def _arrive(self, connection: _Connection, asked: ZkMulti | ZkRead) -> None:
        if not connection.is_open:
            return
        if self._holds[0] or connection.held_to_server:
            connection.held_to_server.append(partial(self._do, connection, asked))
        else:
            self._do(connection, asked)

    def _do(self, connection: _Connection, asked: ZkMulti | ZkRead) -> None:
        if not connection.is_open:
            return
        if self._servers.is_away or self._servers.is_over(connection.owner):  # a server ends its connection
            self.cut()
            return
        connection.under_way.remove(asked)
        done: ZkMultiDone | ZkReadDone
        if isinstance(asked, ZkMulti):
            outcome = self._servers.multi(connection.server, connection.owner, asked.operations)
            done = ZkMultiDone(asked.session, asked.request_id, outcome)
        else:
            found = self._read(connection, asked)
            done = ZkReadDone(asked.session, asked.request_id, found)
        applied = connection.server.applied
        self.carry_back(connection, partial(self._take_result, connection, asked, applied, done))

    def _read(self, connection: _Connection, read: ZkRead) -> ZkValues:
        server = connection.server
        if read.is_synced:
            self._servers.catch_up(server)
        nodes: list[ZkNode | None] = [server.tree.get(path) for path in read.nodes]
        children = [self._servers.children(server, path) for path in read.children]
        if read.is_watched:
            watched = [(path, ZkAspect.NODE) for path in read.nodes]
            watched += [
                (path, ZkAspect.CHILDREN)
                for path, names in zip(read.children, children, strict=True)
                if names is not None
            ]
            for path, aspect in watched:
                self._servers.watch(server, connection, path, aspect)
                connection.watched.add((path, aspect))
        return ZkValues(tuple(nodes), tuple(children))

    def carry_back(self, connection: _Connection, take: Callable[[], None]) -> None:
        """Carry something from a server to the client, in order."""
        connection.to_client_ms = max(connection.to_client_ms, self._schedule.now_ms + self._delay_ms())
        self._schedule.at(connection.to_client_ms, self._come, connection, take)

    def _come(self, connection: _Connection, take: Callable[[], None]) -> None:
        if not connection.is_open:
            return
        if self._holds[1] or connection.held_to_client:
            connection.held_to_client.append(take)
        else:
            take()

    def _take_result(
        self, connection: _Connection, asked: ZkMulti | ZkRead, applied: int, done: ZkMultiDone | ZkReadDone
    ) -> None:
        if connection.is_open:
            connection.unanswered.remove(asked)
            self._seen = max(self._seen, applied)
            self._tell("results", done)

    def take_change(self, connection: _Connection, path: str, aspect: ZkAspect) -> None:
        """Tell of a change that was watched for, if nothing has gone wrong with the watch."""
        if not connection.is_open or (path, aspect) not in connection.watched:
            return
        connection.watched.discard((path, aspect))
        times = 1
        if self._dice.random() < self._manners.loses_watches:
            times = 0
        elif self._dice.random() < self._manners.doubles_watches:
            times = 2
        for _ in range(times):
            self._tell("changes", ZkChanged(connection.session, path, aspect))

    def _fail(self, asked: ZkMulti | ZkRead, why: str) -> None:
        if isinstance(asked, ZkMulti):
            self._tell("results", ZkMultiDone(asked.session, asked.request_id, ZkUnknown(why)))
        else:
            self._tell("results", ZkReadDone(asked.session, asked.request_id, ZkUnread(why)))

    def _tell(self, thread: str, event: ZkEvent) -> None:
        """Post an event soon, after those of the same thread."""
        due_ms = self._schedule.now_ms + self._dice.choice(self._manners.thread_delays_ms)
        self._threads_ms[thread] = due_ms = max(self._threads_ms[thread], due_ms)
        self._schedule.at(due_ms, self._post_if_open, event)

    def _post_if_open(self, event: ZkEvent) -> None:
        if not self._is_closed:
            self._post(event)

    def _delay_ms(self) -> int:
        return self._dice.choice(self._manners.delays_ms)
