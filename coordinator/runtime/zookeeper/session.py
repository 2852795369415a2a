"""One ZooKeeper session: a client of kazoo's from before it begins to after it has ended.

kazoo's results, watches and states come on three threads of its own, and each becomes an event with the number of the
session. A client whose session is lost says so once and is of no use any more.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, assert_never

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    SessionExpiredError,
)
from kazoo.protocol.states import EventType, KazooState, WatchedEvent
from kazoo.retry import KazooRetry
from structlog.typing import FilteringBoundLogger

from coordinator.core.cluster.zookeeper import (
    ZkAspect,
    ZkChanged,
    ZkCheck,
    ZkCreate,
    ZkDelete,
    ZkEvent,
    ZkMulti,
    ZkMultiDone,
    ZkOperation,
    ZkRead,
    ZkSession,
    ZkSet,
    ZkState,
)
from coordinator.runtime.zookeeper.answers import Reading, outcome_of, say
from coordinator.runtime.zookeeper.requests import Requests

_LONGEST_RETRY_S: Final = 2.0
_LONG_SUSPENSION: Final = 2
"""Session time-outs after which a client that is suspended forgets what it has seen."""
_SAY_AGAIN_S: Final = 30.0
_CONNECTION_ENDED: Final = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, AuthFailedError)
"""The errors of a request whose connection has ended, or whose session has, of which a state tells."""

Post: TypeAlias = Callable[[ZkEvent], None]


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """The addresses of ZooKeeper, HOST:PORT with commas between, and the node under which everything of the cluster is.

    `auth` are logins (scheme, credential) and `acl` the access list of nodes that are made; None is open to everybody.
    """

    hosts: str
    path: str = "/kcoord"
    session_timeout_ms: int = 6_000
    auth: tuple[tuple[str, str], ...] = ()
    acl: tuple[Any, ...] | None = None
    took: Callable[[float], None] = lambda _: None
    """Takes the seconds of each question that was answered, on any thread."""


@dataclass(frozen=True, slots=True)
class _Watch:
    """The word for kazoo that something has changed; it keeps equal ones once, however often a path is read."""

    session: "Session"
    path: str
    aspect: ZkAspect

    def __call__(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:  # kazoo's word for a lost connection, of which the state tells
            self.session.emit(ZkChanged(self.session.number, self.path, self.aspect))


class Session:
    """One client of kazoo's, from before its session begins to after it has ended."""

    def __init__(
        self,
        number: int,
        settings: ZooKeeperSettings,
        emit: Post,
        on_lost: Callable[["Session"], None],
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
        self._requests = Requests(number, log, settings.took)

    def start(self) -> None:
        """Connect, and go on trying, unless it was ended before that."""
        with self._lock:
            if self._is_over:
                return
            self._client.start_async()
            self._requests.start()

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
        self._requests.stop()
        try:
            self._client.stop()
            self._client.close()
        except (KazooException, OSError) as error:
            # Its threads have not ended in time. They hold nothing of ours, and its session ends by its time-out.
            self._log.warning("zookeeper-client-left", why=say(error), session=self.number)
        except Exception:  # noqa: BLE001 - a mistake of ours or of kazoo's, on a thread that nobody waits for
            self._log.critical("bug", why="a client of ZooKeeper could not be closed", exc_info=True)
        self._requests.give_up()

    def commit(self, multi: ZkMulti) -> None:
        """Begin a multi."""

        def done(results: Any, error: BaseException | None) -> None:
            outcome = outcome_of(multi.operations, results, error)
            self.emit(ZkMultiDone(self.number, multi.request_id, outcome))

        self._requests.ask(partial(self._begin_multi, multi.operations), done)

    def read(self, read: ZkRead) -> None:
        """Begin to read: requests of one session are answered in their order, so none waits for another."""
        reading = Reading(read, self.emit)
        if read.is_synced:
            self._requests.ask(partial(self._client.sync_async, self._root or "/"), reading.take_sync)
        for index, path in enumerate(read.nodes):
            if read.is_watched:  # left on a node that does not exist, too
                watch = _Watch(self, path, ZkAspect.NODE)
                self._requests.ask(partial(self._client.exists_async, self._root + path, watch), reading.take_watch)
            self._requests.ask(partial(self._client.get_async, self._root + path), partial(reading.take_node, index))
        for index, path in enumerate(read.children):
            children_watch = _Watch(self, path, ZkAspect.CHILDREN) if read.is_watched else None
            ask = partial(self._client.get_children_async, self._root + path or "/", children_watch)
            self._requests.ask(ask, partial(reading.take_children, index))
        reading.all_asked()

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
                case _:
                    assert_never(operation)
        return transaction.commit_async()

    # ---- states, on the thread of the connection --------------------------------------------------------------------

    def _take_state(self, state: str) -> None:
        with self._lock:
            self._connections += 1
            connection, is_over = self._connections, self._is_over
            self._is_over = is_over or state == KazooState.LOST  # kazoo's client begins another one, which is nobody's
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
            self.emit(ZkSession(self.number, ZkState.SUSPENDED))
            self._forget_later(connection)
        else:
            why = f"ZooKeeper says {self._client.client_state}; another session begins"
            self._log.warning("zookeeper-session-lost", why=why, session=self.number)
            self.emit(ZkSession(self.number, ZkState.LOST))
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
        elif isinstance(error, _CONNECTION_ENDED):
            return  # the next one tries again
        else:
            way_out = "give this login the right to, or make it" if isinstance(error, NoAuthError) else "make it"
            why = f"{self._root} cannot be made in ZooKeeper: {way_out} ({say(error)})"
            self._log.error("zookeeper-root", why=why, path=self._root)
        self._tell_connected(connection, owner)

    def _tell_connected(self, connection: int, owner: int) -> None:
        with self._lock:
            if connection != self._connections or self._is_over:
                return
            self._log.info("zookeeper-connected", session=self.number, owner=f"{owner:#x}")
            self.emit(ZkSession(self.number, ZkState.CONNECTED, owner))


class _Troubles(logging.Handler):
    """Passes on what kazoo warns of, which is why it has no connection, now and then; and every exception it caught."""

    def __init__(self, log: FilteringBoundLogger, session: int) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._session = session
        self._say_again_s = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line, on any thread."""
        if record.exc_info:  # an answer that it does not understand, or a mistake: never to be passed over
            why = record.getMessage()
            self._log.error("zookeeper-client-failed", why=why, exc_info=record.exc_info, session=self._session)
            return
        now_s = time.monotonic()
        if now_s >= self._say_again_s:
            self._say_again_s = now_s + _SAY_AGAIN_S
            self._log.warning("zookeeper-trouble", why=record.getMessage(), session=self._session)
