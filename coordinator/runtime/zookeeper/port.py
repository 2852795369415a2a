"""The ZooKeeper port: one session after another, each with a client of kazoo's of its own, and no call that waits.

A client that has lost its session is thrown away, on a thread of its own because its end can take seconds, and the next
session gets another. Every event has the number of its session. Nothing is decided here about what is read or written.
"""

import threading
from typing import Final

from structlog.typing import FilteringBoundLogger

from coordinator.core.cluster.zookeeper import (
    ZkEvent,
    ZkMulti,
    ZkMultiDone,
    ZkRead,
    ZkReadDone,
    ZkUnknown,
    ZkUnread,
    check_limits,
)
from coordinator.runtime.zookeeper.session import Post, Session, ZooKeeperSettings

_SHORT_LIFE_S: Final = 1.0
_CLOSE_TIMEOUT_S: Final = 5.0


class ZooKeeper:
    """The real ZooKeeperPort; `post` takes events from any thread. Nothing is told before `start`."""

    def __init__(self, settings: ZooKeeperSettings, post: Post, log: FilteringBoundLogger) -> None:
        self._settings = settings
        self._post = post
        self._log = log
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._session: Session | None = None
        self._begun = 0

    def start(self) -> None:
        """Begin the first session."""
        self._begin()

    def commit(self, multi: ZkMulti) -> None:
        """Begin a multi; ZkMultiDone comes once, whatever happens."""
        check_limits(multi.operations)
        session = self._current(multi.session)
        if session is None:
            unknown = ZkUnknown(f"ZooKeeper session {multi.session} is over")
            self._emit(ZkMultiDone(multi.session, multi.request_id, unknown))
        else:
            session.commit(multi)

    def read(self, read: ZkRead) -> None:
        """Begin to read; ZkReadDone comes once, whatever happens."""
        session = self._current(read.session)
        if session is None:
            unread = ZkUnread(f"ZooKeeper session {read.session} is over")
            self._emit(ZkReadDone(read.session, read.request_id, unread))
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

    def _current(self, number: int) -> Session | None:
        with self._lock:
            return self._session if self._session is not None and self._session.number == number else None

    def _begin(self) -> None:
        with self._lock:
            if self._closing.is_set():
                return
            self._begun += 1
            self._session = session = Session(self._begun, self._settings, self._emit, self._lost, self._log)
        session.start()

    def _lost(self, lost: Session) -> None:
        """Go on with another session; on a thread, for the end of kazoo's client waits for the thread that tells us."""
        threading.Thread(target=self._replace, args=(lost,), name="kcoord-zookeeper-next", daemon=True).start()

    def _replace(self, lost: Session) -> None:
        with self._lock:
            if self._session is not lost:
                return
            self._session = None
        if lost.lived_s() < _SHORT_LIFE_S:
            self._closing.wait(_SHORT_LIFE_S)  # one that ends at once, again and again, must not keep us busy
        self._begin()
        lost.end()

    def _emit(self, event: ZkEvent) -> None:
        if not self._closing.is_set():
            self._post(event)
