"""Puts questions to a client of kazoo's on a thread of their own, and answers each of them once.

kazoo wakes its own thread through a socket pair, which fills up while no server answers; then its caller waits. So it
is called on a thread that may wait, and at most REQUESTS_AT_ONCE requests are with it. It may answer a request twice,
or never if its session ends in the wrong moment; here each request has a ticket that is taken once. Nothing is known of
what is asked.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeAlias

from kazoo.exceptions import KazooException
from structlog.typing import FilteringBoundLogger

REQUESTS_AT_ONCE: Final = 64
"""The socket pair through which kazoo is woken takes about 270 bytes, one a request, before its sender has to wait."""

Begin: TypeAlias = Callable[[], Any]
"""Asks, and returns kazoo's promise of a result."""
Done: TypeAlias = Callable[[Any, BaseException | None], None]
"""Takes the result of one request, or its error."""


class DefectError(Exception):
    """A request was not asked, or its answer not understood, because of a mistake of ours, which has been logged."""


class Requests:
    """The requests of one client, from its start to its end."""

    def __init__(self, number: int, log: FilteringBoundLogger, took: Callable[[float], None] = lambda _: None) -> None:
        self._log = log
        self._took = took
        self._lock = threading.Lock()
        self._is_over = False
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._room = threading.Semaphore(REQUESTS_AT_ONCE)
        self._open: dict[int, Done] = {}
        """The requests without a result yet, by ticket: who takes one out tells of it, so that each is told of once."""
        self._tickets = 0
        self._worker = threading.Thread(target=self._run, name=f"kcoord-zookeeper-{number}", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._worker.start()

    def ask(self, begin: Begin, done: Done) -> None:
        """Ask when there is room; `done` is called once, on any thread."""
        with self._lock:
            self._tickets += 1
            ticket = self._tickets
            self._open[ticket] = done
            is_over = self._is_over
        if is_over:
            self._finish(ticket, None, KazooException("the session is over"))
        else:
            self._work.put(partial(self._begin, ticket, begin))

    def stop(self) -> None:
        """Ask nothing more; `give_up` answers what is open."""
        with self._lock:
            self._is_over = True
        self._work.put(None)
        self._room.release()  # for a worker that waits for room

    def give_up(self) -> None:
        """Answer everything that is open with an error, after `stop`."""
        error = KazooException("the session is over")
        for ticket in list(self._open):
            self._finish(ticket, None, error)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _begin(self, ticket: int, begin: Begin) -> None:
        self._room.acquire()
        if self._is_over:  # `give_up` answers for all that was asked
            self._room.release()
            return
        began_s = time.monotonic()
        try:
            promise = begin()
        except KazooException as error:  # the client says so at once when it is closed
            self._take(ticket, None, error)
        except Exception as error:  # noqa: BLE001 - a mistake of ours; the thread goes on, or all that follows is lost
            self._log.critical("bug", why="a question to ZooKeeper could not be put", exc_info=True)
            self._take(ticket, None, DefectError(repr(error)))
        else:
            promise.rawlink(partial(self._take_result, ticket, began_s))

    def _take_result(self, ticket: int, began_s: float, result: Any) -> None:
        """Take what a request came to, as kazoo tells of it, on a thread of its own; it may say so twice."""
        error = result.exception
        if self._take(ticket, None if error is not None else result.value, error):
            self._took(time.monotonic() - began_s)

    def _take(self, ticket: int, value: Any, error: BaseException | None) -> bool:
        is_first = self._finish(ticket, value, error)
        if is_first:
            self._room.release()
        return is_first

    def _finish(self, ticket: int, value: Any, error: BaseException | None) -> bool:
        done = self._open.pop(ticket, None)
        if done is None:
            return False
        try:
            done(value, error)
        except Exception as defect:  # noqa: BLE001 - kazoo would drop it, and the asker would wait for ever
            self._log.critical("bug", why="an answer of ZooKeeper's could not be taken", exc_info=True)
            if error is None:
                done(None, DefectError(repr(defect)))
        return True
