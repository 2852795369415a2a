"""The ZooKeeper port: kazoo's basic operations, under one client a session, without a call that waits.

A client that has lost its session is thrown away, on a thread of its own because its end can take seconds, and the next
session gets a client of its own. kazoo is called on a thread, since it wakes its own through a socket pair that fills
up while no server answers; at most REQUESTS_AT_ONCE requests are with it. Its results, watches and states come on three
threads of its own, and each becomes an event with the number of its session. This file decides nothing about what is
read or written, and gives no outcome as known that is not.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeAlias

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
)
from kazoo.protocol.states import EventType, KazooState, WatchedEvent
from kazoo.retry import KazooRetry
from structlog.typing import FilteringBoundLogger

from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkAspect,
    ZkChanged,
    ZkCheck,
    ZkCreate,
    ZkDelete,
    ZkEvent,
    ZkMulti,
    ZkMultiDone,
    ZkNode,
    ZkOperation,
    ZkOutcome,
    ZkRead,
    ZkReadDone,
    ZkRefusal,
    ZkRefused,
    ZkSession,
    ZkSet,
    ZkState,
    ZkUnknown,
    ZkUnread,
    ZkValues,
    check_limits,
)

REQUESTS_AT_ONCE: Final = 64
"""The socket pair through which kazoo is woken takes about 270 bytes, one a request, before its sender has to wait."""
_LONGEST_RETRY_S: Final = 2.0
_SHORT_LIFE_S: Final = 1.0
_LONG_SUSPENSION: Final = 2
"""Session time-outs after which a client that is suspended forgets what it has seen."""
_SAY_AGAIN_S: Final = 30.0
_CLOSE_TIMEOUT_S: Final = 5.0
_REFUSALS: Final = {
    NodeExistsError: ZkRefusal.NODE_EXISTS,
    NoNodeError: ZkRefusal.NO_NODE,
    BadVersionError: ZkRefusal.BAD_VERSION,
    NotEmptyError: ZkRefusal.NOT_EMPTY,
    NoChildrenForEphemeralsError: ZkRefusal.NO_CHILDREN_FOR_EPHEMERALS,
    NoAuthError: ZkRefusal.NO_AUTH,
}

EventMaker: TypeAlias = Callable[[int], ZkEvent]
"""Makes an event out of the time at which it is delivered."""
Post: TypeAlias = Callable[[EventMaker], None]
Done: TypeAlias = Callable[[Any, BaseException | None], None]
"""Takes the result of one request of kazoo's, or its error."""


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """Where ZooKeeper is: HOST:PORT with commas between, and the node under which everything of the cluster is.

    `auth` are logins (scheme, credential) and `acl` the access list of nodes that are made; None is open to everybody.
    """

    hosts: str
    path: str = "/kcoord"
    session_timeout_ms: int = 6_000
    auth: tuple[tuple[str, str], ...] = ()
    acl: tuple[Any, ...] | None = None


class ZooKeeper:
    """The real ZooKeeperPort; `post` takes an event's maker from any thread. Nothing is told before `start`."""

    def __init__(self, settings: ZooKeeperSettings, post: Post, log: FilteringBoundLogger) -> None:
        self._settings = settings
        self._post = post
        self._log = log
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._session: _Session | None = None
        self._begun = 0

    def start(self) -> None:
        """Begin the first session."""
        self._begin()

    def commit(self, multi: ZkMulti) -> None:
        """Begin a multi; ZkMultiDone comes once, whatever happens."""
        check_limits(multi.operations)
        session = self._current(multi.session)
        if session is None:
            outcome = ZkUnknown(f"ZooKeeper session {multi.session} is over")
            self._emit(partial(ZkMultiDone, session=multi.session, request_id=multi.request_id, outcome=outcome))
        else:
            session.commit(multi)

    def read(self, read: ZkRead) -> None:
        """Begin to read; ZkReadDone comes once, whatever happens."""
        session = self._current(read.session)
        if session is None:
            found = ZkUnread(f"ZooKeeper session {read.session} is over")
            self._emit(partial(ZkReadDone, session=read.session, request_id=read.request_id, found=found))
        else:
            session.read(read)

    def close(self) -> None:
        """End the session, waiting for that at most some seconds: to be called where that may be."""
        self._closing.set()
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            ending = threading.Thread(target=session.end, name="kcoord-zookeeper-end", daemon=True)
            ending.start()
            ending.join(_CLOSE_TIMEOUT_S)

    def _current(self, number: int) -> "_Session | None":
        with self._lock:
            return self._session if self._session is not None and self._session.number == number else None

    def _begin(self) -> None:
        with self._lock:
            if self._closing.is_set():
                return
            self._begun += 1
            self._session = session = _Session(self._begun, self._settings, self._emit, self._lost, self._log)
        session.start()

    def _lost(self, lost: "_Session") -> None:
        """Go on with another session; on a thread, for the end of kazoo's client waits for the thread that tells us."""
        threading.Thread(target=self._replace, args=(lost,), name="kcoord-zookeeper-next", daemon=True).start()

    def _replace(self, lost: "_Session") -> None:
        with self._lock:
            if self._session is not lost:
                return
            self._session = None
        if lost.lived_s() < _SHORT_LIFE_S:
            self._closing.wait(_SHORT_LIFE_S)  # one that ends at once, again and again, must not keep us busy
        self._begin()
        lost.end()

    def _emit(self, make: EventMaker) -> None:
        if not self._closing.is_set():
            self._post(make)


@dataclass(frozen=True, slots=True)
class _Watch:
    """What kazoo calls when something has changed; it keeps equal ones once, however often a path is read."""

    session: "_Session"
    path: str
    aspect: ZkAspect

    def __call__(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:  # kazoo's word for a lost connection, of which the state tells
            changed = partial(ZkChanged, session=self.session.number, path=self.path, aspect=self.aspect)
            self.session.emit(changed)


class _Session:
    """One client of kazoo's, from before its session begins to after it has ended."""

    def __init__(
        self,
        number: int,
        settings: ZooKeeperSettings,
        emit: Post,
        on_lost: Callable[["_Session"], None],
        log: FilteringBoundLogger,
    ) -> None:
        self.number = number
        self.emit = emit
        self._settings = settings
        self._root = settings.path.rstrip("/")
        self._on_lost = on_lost
        self._log = log
        self._begun_s = time.monotonic()
        logger = logging.Logger("kazoo")  # of no hierarchy: what it says goes to our own log
        logger.setLevel(logging.WARNING)
        logger.addHandler(_Troubles(log, number))
        self._client = KazooClient(
            hosts=settings.hosts,
            timeout=settings.session_timeout_ms / 1000,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=_LONGEST_RETRY_S),
            auth_data=list(settings.auth),
            default_acl=None if settings.acl is None else list(settings.acl),
            logger=logger,
        )
        self._client.add_listener(self._take_state)
        self._lock = threading.Lock()
        self._connections = 0
        """Counts connections and their ends, so that one that is over is not told of as new."""
        self._forgetting: threading.Timer | None = None
        self._has_root = not self._root
        self._is_over = False
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._room = threading.Semaphore(REQUESTS_AT_ONCE)
        self._open: dict[int, Done] = {}
        """What waits for a result, by ticket: whoever takes it out tells of it, so that each is told of once."""
        self._tickets = 0
        self._worker = threading.Thread(target=self._run, name=f"kcoord-zookeeper-{number}", daemon=True)

    def start(self) -> None:
        """Connect, and go on trying, unless it was ended before that."""
        with self._lock:
            if self._is_over:
                return
            self._client.start_async()
            self._worker.start()

    def lived_s(self) -> float:
        """Return for how long this has been here."""
        return time.monotonic() - self._begun_s

    def end(self) -> None:
        """End the session and whatever waits for it; may take seconds."""
        with self._lock:
            self._is_over = True
            if self._forgetting is not None:
                self._forgetting.cancel()
        self._client.remove_listener(self._take_state)
        self._work.put(None)
        self._room.release()  # for a worker that waits for room
        try:
            self._client.stop()
            self._client.close()
        except Exception:  # noqa: BLE001 - a client that cannot be closed is left alone
            self._log.critical("bug", why="a client of ZooKeeper could not be closed", exc_info=True)
        error = KazooException("the session is over")
        for ticket in list(self._open):
            self._finish(ticket, None, error)

    def commit(self, multi: ZkMulti) -> None:
        """Begin a multi."""

        def done(results: Any, error: BaseException | None) -> None:
            outcome = ZkUnknown(_say(error)) if error is not None else _outcome(multi.operations, results)
            self.emit(partial(ZkMultiDone, session=self.number, request_id=multi.request_id, outcome=outcome))

        self._ask(partial(self._begin_multi, multi.operations), done)

    def read(self, read: ZkRead) -> None:
        """Begin to read: requests of one session are answered in their order, so none waits for another."""
        reading = _Reading(self, read)
        if read.is_synced:
            self._ask(partial(self._client.sync_async, self._root or "/"), reading.take_sync)
        for index, path in enumerate(read.nodes):
            if read.is_watched:  # left on a node that does not exist, too
                watch = _Watch(self, path, ZkAspect.NODE)
                self._ask(partial(self._client.exists_async, self._root + path, watch), reading.take_watch)
            self._ask(partial(self._client.get_async, self._root + path), partial(reading.take_node, index))
        for index, path in enumerate(read.children):
            children_watch = _Watch(self, path, ZkAspect.CHILDREN) if read.is_watched else None
            ask = partial(self._client.get_children_async, self._root + path or "/", children_watch)
            self._ask(ask, partial(reading.take_children, index))
        reading.all_asked()

    # ---- asking -----------------------------------------------------------------------------------------------------

    def _ask(self, begin: Callable[[], Any], done: Done) -> None:
        with self._lock:
            self._tickets += 1
            ticket = self._tickets
            self._open[ticket] = done
            is_over = self._is_over
        if is_over:
            self._finish(ticket, None, KazooException("the session is over"))
        else:
            self._work.put(partial(self._begin, ticket, begin))

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _begin(self, ticket: int, begin: Callable[[], Any]) -> None:
        self._room.acquire()
        if self._is_over:  # whoever ended it answers for all that was asked
            self._room.release()
            return
        try:
            begin().rawlink(partial(self._take_result, ticket))
        except Exception as error:  # noqa: BLE001 - a question that cannot be put is answered as one that failed
            self._take_result_of(ticket, None, error)

    def _take_result(self, ticket: int, result: Any) -> None:
        """Take what a request of kazoo's came to; it may say so twice."""
        error = result.exception
        self._take_result_of(ticket, None if error is not None else result.value, error)

    def _take_result_of(self, ticket: int, value: Any, error: BaseException | None) -> None:
        if self._finish(ticket, value, error):
            self._room.release()

    def _finish(self, ticket: int, value: Any, error: BaseException | None) -> bool:
        done = self._open.pop(ticket, None)
        if done is not None:
            done(value, error)
        return done is not None

    def _begin_multi(self, operations: tuple[ZkOperation, ...]) -> Any:
        transaction: TransactionRequest = self._client.transaction()
        for operation in operations:
            path = self._root + operation.path
            match operation:
                case ZkCreate():
                    transaction.create(path, operation.data, ephemeral=operation.is_ephemeral)
                case ZkSet():
                    transaction.set_data(path, operation.data, operation.version)
                case ZkDelete():
                    transaction.delete(path, operation.version)
                case ZkCheck():
                    transaction.check(path, operation.version)
        return transaction.commit_async()

    # ---- states, on the thread of the connection --------------------------------------------------------------------

    def _take_state(self, state: str) -> None:
        with self._lock:
            self._connections += 1
            connection, is_over = self._connections, self._is_over
            if self._forgetting is not None:
                self._forgetting.cancel()
        if is_over:
            return
        if state == KazooState.CONNECTED:
            owner = self._client.client_id[0]
            if self._has_root:
                self._tell_connected(connection, owner)
            else:
                made = self._client.ensure_path_async(self._root, self._client.default_acl)
                made.rawlink(partial(self._take_root, connection, owner))
        elif state == KazooState.SUSPENDED:
            self._log.warning("zookeeper-suspended", why="no ZooKeeper server answers", session=self.number)
            self.emit(partial(ZkSession, session=self.number, state=ZkState.SUSPENDED))
            self._forget_later(connection)
        else:
            why = f"ZooKeeper says {self._client.client_state}; another session begins"
            self._log.warning("zookeeper-session-lost", why=why, session=self.number)
            self.emit(partial(ZkSession, session=self.number, state=ZkState.LOST))
            self._on_lost(self)

    def _forget_later(self, connection: int) -> None:
        """Have the client come back to servers that have less than it has seen, after a while.

        Such a server refuses it without a word, as one that is late. If ZooKeeper was wiped or put back from a copy all
        servers do, and the client would never learn that its session is over.
        """

        def forget() -> None:
            with self._lock:
                if connection == self._connections:
                    self._client.last_zxid = 0

        wait_s = _LONG_SUSPENSION * self._settings.session_timeout_ms / 1000
        self._forgetting = threading.Timer(wait_s, forget)
        self._forgetting.daemon = True
        self._forgetting.start()

    def _take_root(self, connection: int, owner: int, result: Any) -> None:
        error = result.exception
        if error is None:
            self._has_root = True
        elif isinstance(error, NoAuthError):
            why = f"{self._root} cannot be made in ZooKeeper: give this login the right to, or make it ({_say(error)})"
            self._log.error("zookeeper-root", why=why, path=self._root)
        else:
            return  # the connection is over again; the next one tries again
        self._tell_connected(connection, owner)

    def _tell_connected(self, connection: int, owner: int) -> None:
        with self._lock:
            if connection != self._connections or self._is_over:
                return
            self._log.info("zookeeper-connected", session=self.number, owner=f"{owner:#x}")
            self.emit(partial(ZkSession, session=self.number, state=ZkState.CONNECTED, owner=owner))


class _Reading:
    """The answers to one ZkRead as they come; what failed of it makes all of it unread."""

    def __init__(self, session: _Session, read: ZkRead) -> None:
        self._session = session
        self._read = read
        self._lock = threading.Lock()
        self._nodes: list[ZkNode | None] = [None] * len(read.nodes)
        self._children: list[tuple[str, ...] | None] = [None] * len(read.children)
        watches = len(read.nodes) if read.is_watched else 0
        self._missing = 1 + read.is_synced + watches + len(read.nodes) + len(read.children)
        self._why = ""

    def all_asked(self) -> None:
        """Everything has been asked: a read of nothing is done now."""
        self._take(None, "")

    def take_sync(self, _value: Any, error: BaseException | None) -> None:
        """Without it, what was read may be too old."""
        self._take(error, "sync")

    def take_watch(self, _value: Any, error: BaseException | None) -> None:
        """Whether the node exists is seen from its value."""
        self._take(error, "watch")

    def take_node(self, index: int, value: Any, error: BaseException | None) -> None:
        """Take a node's value."""
        if value is not None:
            data, stat = value
            self._nodes[index] = ZkNode(data, stat.version, stat.ephemeralOwner or 0)
        self._take(None if isinstance(error, NoNodeError) else error, self._read.nodes[index])

    def take_children(self, index: int, value: Any, error: BaseException | None) -> None:
        """Take the names of a node's children."""
        if value is not None:
            self._children[index] = tuple(sorted(value))
        self._take(None if isinstance(error, NoNodeError) else error, self._read.children[index])

    def _take(self, error: BaseException | None, what: str) -> None:
        with self._lock:
            if error is not None and not self._why:
                self._why = f"{what}: {_say(error)}"
            self._missing -= 1
            if self._missing:
                return
        found = ZkUnread(self._why) if self._why else ZkValues(tuple(self._nodes), tuple(self._children))
        read = self._read
        self._session.emit(partial(ZkReadDone, session=read.session, request_id=read.request_id, found=found))


class _Troubles(logging.Handler):
    """Passes on what kazoo warns of, which is why it has no connection, now and then."""

    def __init__(self, log: FilteringBoundLogger, session: int) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._session = session
        self._say_again_s = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line, on any thread."""
        now_s = time.monotonic()
        if now_s >= self._say_again_s:
            self._say_again_s = now_s + _SAY_AGAIN_S
            self._log.warning("zookeeper-trouble", why=record.getMessage(), session=self._session)


def _outcome(operations: tuple[ZkOperation, ...], results: list[Any]) -> ZkOutcome:
    """Read the results of a multi, which kazoo does not raise: the first that was not merely undone says why."""
    for index, (operation, result) in enumerate(zip(operations, results, strict=True)):
        if isinstance(result, Exception) and not isinstance(result, RolledBackError):
            refusal = _REFUSALS.get(type(result), ZkRefusal.OTHER)
            return ZkRefused(index, refusal, f"{type(operation).__name__} {operation.path}: {_say(result)}")
    versions: list[int | None] = []
    for operation, result in zip(operations, results, strict=True):
        match operation:
            case ZkCreate():
                versions.append(0)
            case ZkSet():
                versions.append(result.version)
            case ZkCheck():
                versions.append(operation.version)
            case ZkDelete():
                versions.append(None)
    return ZkApplied(tuple(versions))


def _say(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
