"""The server port: members' connections, with what holds for all of them.

It decides nothing about groups. It keeps the rules of the wire that need time or memory: a hello within its deadline,
the rest of a frame within its own, a bounded output buffer, a bounded number of connections. Whoever breaks one is
disconnected with one log line and no traceback. All input of one read is handled before anything is written, and
then each connection is written to once. Deadlines are looked at by `check_deadlines`, not by a timer a connection.
Does not promise that what was sent has arrived, nor that a closed connection had nothing more to say.
"""

import asyncio
import contextlib
import resource
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from coordinator.config import ServerSettings
from coordinator.core.security.principal import DEFAULT_RULE, Principal, SubjectRule
from coordinator.protocol.messages import Push, Request, Response
from coordinator.protocol.session import SessionLimits
from coordinator.protocol.text.addresses import Address, format_address
from coordinator.runtime.clock import Clock
from coordinator.runtime.security.log_ins import LogIns
from coordinator.runtime.security.reread import Reread
from coordinator.runtime.security.tls_end import TlsEnd
from coordinator.runtime.server.connection import Connection
from coordinator.runtime.server.held_input import HeldInput, largest

_ACCEPTED_AT_ONCE = 32
"""Connections that are accepted before others are served again."""
FLUSH_LOT = 500
"""Connections that are written to before others are served again."""
RESERVED_FILES = 128
"""Open files that are kept for Kafka, for reading logs and for Python itself, besides the logs that are written."""


class ConnectionListener(Protocol):
    """The listener that is told what happens on the connections; called on the event loop only."""

    def connection_opened(self, connection_id: int, host: str, principal: Principal) -> None:
        """Take note of a peer whose hello was accepted, and of whom it acts for."""

    def request_received(self, connection_id: int, correlation_id: int, request: Request) -> None:
        """Take a request."""

    def connection_closed(self, connection_id: int, why: str) -> None:
        """Take note that an opened connection is gone."""


class ListenError(Exception):
    """The address cannot be listened on; the text says why and what to do."""


class Server:
    """All connections of one node."""

    def __init__(
        self,
        settings: ServerSettings,
        listener: ConnectionListener,
        clock: Clock,
        log: FilteringBoundLogger,
        *,
        open_logs: int = 0,
        tls: Reread[ssl.SSLContext] | None = None,
        subject_rules: Sequence[SubjectRule] = (DEFAULT_RULE,),
        log_ins: LogIns | None = None,
    ) -> None:
        self.settings = settings
        self._reserved_files = RESERVED_FILES + open_logs
        self.listener = listener
        self.clock = clock
        self.log = log
        self._tls = tls
        self.subject_rules = tuple(subject_rules)
        self.log_ins = log_ins
        self._server: asyncio.Server | None = None
        self.session_limits = SessionLimits(
            hello_bytes=settings.hello_bytes,
            frame_bytes=settings.frame_bytes,
            answer_bytes=settings.answer_bytes,
            in_flight=settings.requests_in_flight,
        )
        self._max_connections = settings.max_connections
        self._next_id = 1
        self._live: set[Connection] = set()
        self._open: dict[int, Connection] = {}
        self._unflushed: deque[Connection] = deque()
        self._is_flush_due = False
        self._hello_due: dict[Connection, int] = {}
        self._frame_due: dict[Connection, int] = {}
        self._close_due: dict[Connection, int] = {}
        self._unread: set[Connection] = set()
        self.held: HeldInput[Connection] = HeldInput()
        self._is_full = False

    @property
    def connections(self) -> int:
        """Number of connections, with those that have not said hello yet."""
        return len(self._live)

    async def bind(self, host: str, port: int) -> Address:
        """Take the address, without accepting anybody yet; return what was bound (port 0 takes a free one).

        Raises ListenError when the address is taken, not ours or not allowed.
        """
        self._fit_to_file_limit()
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._serve_one, host, port, backlog=_ACCEPTED_AT_ONCE, start_serving=False
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise ListenError(
                f"cannot listen on {format_address((host, port))}: {reason}; stop what uses the address, or choose "
                "another with --listen"
            ) from error
        return self._address

    async def accept(self) -> Address:
        """Accept connections from now on, on the address that was bound; raises ListenError when it was lost."""
        if self._server is None:
            raise RuntimeError("bind first")
        try:
            await self._server.start_serving()
            for listening in self._server.sockets:
                # asyncio accepts as many in one go as its backlog is long; the kernel's may be longer than that.
                with contextlib.closing(listening.dup()) as sock:
                    sock.listen(self.settings.backlog)
        except OSError as error:
            raise ListenError(f"cannot listen: {error.strerror}; another process took the address meanwhile") from error
        return self._address

    @property
    def _address(self) -> Address:
        if self._server is None:
            raise RuntimeError("bind first")
        bound = self._server.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    def _serve_one(self) -> asyncio.Protocol:
        """Return the protocol of a connection that has come."""
        return Connection(self) if self._tls is None else TlsEnd(self._tls.value, Connection(self))

    def send_response(self, connection_id: int, correlation_id: int, response: Response) -> None:
        """Queue a response; `flush` writes it. Void when the connection is gone."""
        connection = self._open.get(connection_id)
        if connection is not None and not connection.session.is_closed:
            connection.queue(connection.session.send_response(correlation_id, response))

    def send_push(self, connection_id: int, push: Push) -> None:
        """Queue a push; `flush` writes it. Void when the connection is gone."""
        connection = self._open.get(connection_id)
        if connection is not None and not connection.session.is_closed:
            connection.queue(connection.session.send_push(push))

    def close_connection(self, connection_id: int, why: str) -> None:
        """Close a connection once what was sent before has left, or after the close time-out without that."""
        connection = self._open.get(connection_id)
        if connection is not None:
            connection.close(why)

    def flush(self) -> None:
        """Write what was queued, one write a connection; where they are many, in lots with others served between."""
        for _ in range(min(len(self._unflushed), FLUSH_LOT)):
            self._unflushed.popleft().write_queued()
        if self._unflushed and not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush_rest)

    def _flush_rest(self) -> None:
        self._is_flush_due = False
        self.flush()

    def check_deadlines(self, now_ms: int) -> None:
        """Disconnect whoever did not say hello, finish a frame or take its last bytes in time."""
        # Each time-out is one constant, so these dicts are in the order of their deadlines.
        for due, act in (
            (self._hello_due, Connection.hello_overdue),
            (self._frame_due, Connection.frame_overdue),
            (self._close_due, Connection.close_overdue),
        ):
            while due:
                connection = next(iter(due))
                if due[connection] > now_ms:
                    break
                del due[connection]
                act(connection)
        for connection, total in largest(self._unread, Connection.waiting_bytes, self.settings.output_total_bytes):
            connection.unread_overdue(total)
        for connection, total in largest(self._frame_due, Connection.begun_bytes, self.settings.input_total_bytes):
            connection.begun_overdue(total)

    @property
    def begun_bytes(self) -> int:
        """Bytes of frames that have begun to come and are not whole."""
        return sum(connection.begun_bytes() for connection in self._frame_due)

    def hold_input(self, above_bytes: int) -> None:
        """Leave what connections say unread until `release_input`, of those that say more than this at once."""
        self.held.hold(above_bytes)

    def release_input(self) -> None:
        """Read everything again, also what was left unread."""
        self.held.release()

    def stop_accepting(self) -> None:
        """Close the listening sockets and read no more from those that are connected."""
        self.held.stop()
        if self._server is not None:
            self._server.close()
        for connection in self._live:
            connection.stop_reading()

    async def close(self, why: str, *, timeout_ms: int | None = None) -> None:
        """Close every connection, at the latest after the time-out, which is the close time-out if none is given."""
        self.stop_accepting()
        for connection in tuple(self._live):
            connection.close(why)
        gone = [asyncio.ensure_future(connection.gone.wait()) for connection in self._live]
        if gone:
            timeout_ms = self.settings.close_timeout_ms if timeout_ms is None else timeout_ms
            _, waiting = await asyncio.wait(gone, timeout=timeout_ms / 1000)
            for task in waiting:
                task.cancel()
        for connection in tuple(self._live):
            connection.abort()

    # ---- the connections' side --------------------------------------------------------------------------------------

    def admit(self, connection: "Connection") -> int | None:
        """Give a new connection its id, or None when there are too many."""
        if len(self._live) >= self._max_connections:
            if not self._is_full:
                self._is_full = True
                self.log.warning(
                    "too-many-connections",
                    why=f"{len(self._live)} connections are open and no more are allowed; the newcomers are "
                    "disconnected until some are closed",
                )
            return None
        self._is_full = False
        connection_id = self._next_id
        self._next_id += 1
        self._live.add(connection)
        self._hello_due[connection] = self.clock.monotonic_ms() + self.settings.hello_timeout_ms
        return connection_id

    def opened(self, connection: "Connection") -> None:
        """Take note of a hello."""
        self._hello_due.pop(connection, None)
        self._open[connection.id] = connection
        self.listener.connection_opened(connection.id, connection.host, connection.principal)

    def forget(self, connection: "Connection", why: str) -> None:
        """Take note that a connection is gone."""
        self._live.discard(connection)
        self._unread.discard(connection)
        self.held.forget(connection)
        for due in (self._hello_due, self._frame_due, self._close_due):
            due.pop(connection, None)
        if self._open.pop(connection.id, None) is not None:
            self.listener.connection_closed(connection.id, why)
            self.flush()

    def note_unread(self, connection: "Connection", *, is_unread: bool) -> None:
        """Take note of a peer that is behind with reading, or no longer."""
        if is_unread and connection in self._live:
            self._unread.add(connection)
        else:
            self._unread.discard(connection)

    def await_frame(self, connection: "Connection", *, is_same_frame: bool) -> None:
        """Expect the rest of a frame in time."""
        if not is_same_frame:
            self._frame_due.pop(connection, None)
        self._frame_due.setdefault(connection, self.clock.monotonic_ms() + self.settings.frame_timeout_ms)

    def frame_finished(self, connection: "Connection") -> None:
        """Expect nothing any more."""
        if self._frame_due:
            self._frame_due.pop(connection, None)

    def await_close(self, connection: "Connection") -> None:
        """Expect the last bytes to leave in time."""
        self._hello_due.pop(connection, None)
        self._frame_due.pop(connection, None)
        self._close_due[connection] = self.clock.monotonic_ms() + self.settings.close_timeout_ms

    def to_flush(self, connection: "Connection") -> None:
        """Write to this connection at the next flush."""
        self._unflushed.append(connection)

    def _fit_to_file_limit(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = self.settings.max_connections + self._reserved_files
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if raised > soft:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
                soft = raised
        if soft < wanted:
            self._max_connections = max(1, soft - self._reserved_files)
            self.log.warning(
                "few-open-files",
                why=f"the limit on open files is {soft}, so at most {self._max_connections} connections are accepted "
                f"and not {self.settings.max_connections}; raise it with `ulimit -n {wanted}` or LimitNOFILE={wanted}",
            )
