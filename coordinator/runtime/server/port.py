"""The server port: members' connections as an asyncio.Protocol each, around one protocol session each.

It decides nothing about groups. It keeps the rules of the wire that need time or memory: a hello within its deadline,
the rest of a frame within its own, a bounded output buffer, a bounded number of connections. Whoever breaks one is
disconnected with one log line and no traceback. All input of one read is handled before anything is written, and
then each connection is written to once. Deadlines are looked at by `check_deadlines`, not by a timer a connection.
Does not promise that what was sent has arrived, nor that a closed connection had nothing more to say.
"""

import asyncio
import contextlib
import resource
import socket
from collections import deque
from typing import Protocol, cast

from structlog.typing import FilteringBoundLogger

from coordinator.config import ServerSettings
from coordinator.protocol.errors import RemoteProtocolError
from coordinator.protocol.messages import Push, Request, Response
from coordinator.protocol.session import (
    HelloReceived,
    RequestReceived,
    Role,
    Session,
    SessionLimits,
    UnknownRequestReceived,
)
from coordinator.protocol.text.addresses import Address, format_address
from coordinator.runtime.clock import Clock
from coordinator.runtime.server.held_input import HeldInput, largest

_ACCEPTED_AT_ONCE = 32
"""Connections that are accepted before others are served again."""
FLUSH_LOT = 500
"""Connections that are written to before others are served again."""
RESERVED_FILES = 128
"""Open files that are kept for Kafka, for reading logs and for Python itself, besides the logs that are written."""


class ConnectionListener(Protocol):
    """The listener that is told what happens on the connections; called on the event loop only."""

    def connection_opened(self, connection_id: int, host: str) -> None:
        """Take note of a peer whose hello was accepted."""

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
    ) -> None:
        self.settings = settings
        self._reserved_files = RESERVED_FILES + open_logs
        self.listener = listener
        self.clock = clock
        self.log = log
        self._server: asyncio.Server | None = None
        self.session_limits = SessionLimits(
            hello_bytes=settings.hello_bytes,
            frame_bytes=settings.frame_bytes,
            answer_bytes=settings.answer_bytes,
            in_flight=settings.requests_in_flight,
        )
        self._max_connections = settings.max_connections
        self._next_id = 1
        self._live: set[_Connection] = set()
        self._open: dict[int, _Connection] = {}
        self._unflushed: deque[_Connection] = deque()
        self._is_flush_due = False
        self._hello_due: dict[_Connection, int] = {}
        self._frame_due: dict[_Connection, int] = {}
        self._close_due: dict[_Connection, int] = {}
        self._unread: set[_Connection] = set()
        self.held: HeldInput[_Connection] = HeldInput()
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
                lambda: _Connection(self), host, port, backlog=_ACCEPTED_AT_ONCE, start_serving=False
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
            (self._hello_due, _Connection.hello_overdue),
            (self._frame_due, _Connection.frame_overdue),
            (self._close_due, _Connection.close_overdue),
        ):
            while due:
                connection = next(iter(due))
                if due[connection] > now_ms:
                    break
                del due[connection]
                act(connection)
        for connection, total in largest(self._unread, _Connection.waiting_bytes, self.settings.output_total_bytes):
            connection.unread_overdue(total)
        for connection, total in largest(self._frame_due, _Connection.begun_bytes, self.settings.input_total_bytes):
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

    def admit(self, connection: "_Connection") -> int | None:
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

    def opened(self, connection: "_Connection") -> None:
        """Take note of a hello."""
        self._hello_due.pop(connection, None)
        self._open[connection.id] = connection
        self.listener.connection_opened(connection.id, connection.host)

    def forget(self, connection: "_Connection", why: str) -> None:
        """Take note that a connection is gone."""
        self._live.discard(connection)
        self._unread.discard(connection)
        self.held.forget(connection)
        for due in (self._hello_due, self._frame_due, self._close_due):
            due.pop(connection, None)
        if self._open.pop(connection.id, None) is not None:
            self.listener.connection_closed(connection.id, why)
            self.flush()

    def note_unread(self, connection: "_Connection", *, is_unread: bool) -> None:
        """Take note of a peer that is behind with reading, or no longer."""
        if is_unread and connection in self._live:
            self._unread.add(connection)
        else:
            self._unread.discard(connection)

    def await_frame(self, connection: "_Connection", *, is_same_frame: bool) -> None:
        """Expect the rest of a frame in time."""
        if not is_same_frame:
            self._frame_due.pop(connection, None)
        self._frame_due.setdefault(connection, self.clock.monotonic_ms() + self.settings.frame_timeout_ms)

    def frame_finished(self, connection: "_Connection") -> None:
        """Expect nothing any more."""
        if self._frame_due:
            self._frame_due.pop(connection, None)

    def await_close(self, connection: "_Connection") -> None:
        """Expect the last bytes to leave in time."""
        self._hello_due.pop(connection, None)
        self._frame_due.pop(connection, None)
        self._close_due[connection] = self.clock.monotonic_ms() + self.settings.close_timeout_ms

    def to_flush(self, connection: "_Connection") -> None:
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


class _Connection(asyncio.Protocol):
    """One peer: bytes to its session, what the session says to the server's listener."""

    __slots__ = ("_held", "_queued", "_server", "_transport", "_why", "gone", "host", "id", "session")

    def __init__(self, server: Server) -> None:
        self.id = 0
        self.host = "?"
        self.session = Session(Role.COORDINATOR, server.session_limits)
        self.gone = asyncio.Event()
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._queued: list[bytes] = []
        self._held = b""
        self._why = ""

    # ---- asyncio ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello, or close the connection when there are too many."""
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if peer else "?"
        connection_id = self._server.admit(self)
        if connection_id is None:
            self.session.close()
            transport.abort()
            return
        self.id = connection_id
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.write(self.session.send_hello())

    def data_received(self, data: bytes) -> None:
        """Hand what the peer said to the server's listener, then write what came of it; or keep it while it is held."""
        server = self._server
        session = self.session
        if server.held.is_any and server.held.holds(self, len(data) + session.buffered_bytes):
            server.frame_finished(self)
            self._held += data
            self.stop_reading()
            return
        frames = 0
        try:
            for event in session.receive_bytes(data):
                frames += 1
                if type(event) is RequestReceived:
                    server.listener.request_received(self.id, event.correlation_id, event.request)
                    continue
                match event:
                    case UnknownRequestReceived(correlation_id, number, answer):
                        server.log.warning("unknown-request", why=answer.message, host=self.host, number=number)
                        self.queue(session.send_response(correlation_id, answer))
                    case HelloReceived():
                        server.opened(self)
                    case _:
                        raise AssertionError(f"a coordinator's session said {event!r}")
        except RemoteProtocolError as error:
            self._refuse(str(error))
        if session.is_inside_frame and not session.is_closed:
            server.await_frame(self, is_same_frame=frames == 0)
        else:
            server.frame_finished(self)
        server.flush()

    def pause_writing(self) -> None:
        """Take note that the peer does not keep up."""
        self._server.note_unread(self, is_unread=True)

    def resume_writing(self) -> None:
        """Take note that it has."""
        self._server.note_unread(self, is_unread=False)

    def take_held(self) -> None:
        """Take in what was held, and read on."""
        held, self._held = self._held, b""
        if self._transport is None or self._transport.is_closing():
            return
        with contextlib.suppress(RuntimeError):
            self._transport.resume_reading()
        if held:
            self.data_received(held)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell that the connection is gone, with the first reason that was known."""
        if not self._why:
            self._why = _reason_of(exc) if exc is not None else "its process closed it or ended"
        if not self.session.is_closed:
            self.session.close()
        self._queued.clear()
        self.gone.set()
        self._server.forget(self, self._why)

    # ---- out --------------------------------------------------------------------------------------------------------

    def queue(self, data: bytes) -> None:
        """Write these bytes at the next flush."""
        if not self._queued:
            self._server.to_flush(self)
        self._queued.append(data)

    def write_queued(self) -> None:
        """Write what was queued; disconnect a peer that does not read."""
        transport = self._transport
        if transport is None or transport.is_closing() or not self._queued:
            self._queued.clear()
            return
        transport.write(self._queued[0] if len(self._queued) == 1 else b"".join(self._queued))
        self._queued.clear()
        waiting = transport.get_write_buffer_size()
        if waiting > self._server.settings.output_buffer_bytes:
            self._drop(f"it does not read: {waiting} bytes wait for it", "slow-reader")

    def close(self, why: str) -> None:
        """Close after what was queued; the first reason counts."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._why = self._why or why
        self.write_queued()
        if not self.session.is_closed:
            self.session.close()
        transport.close()
        if not self.gone.is_set():
            self._server.await_close(self)

    def abort(self) -> None:
        """Close without writing anything more."""
        if self._transport is not None:
            self._transport.abort()

    def stop_reading(self) -> None:
        """Leave what the peer says unread."""
        if self._transport is not None and not self._transport.is_closing():
            with contextlib.suppress(RuntimeError):
                self._transport.pause_reading()

    # ---- deadlines and refusals -------------------------------------------------------------------------------------

    def hello_overdue(self) -> None:
        """Disconnect a peer that says nothing."""
        self._drop(f"no hello came within {self._server.settings.hello_timeout_ms} ms", "stranger")

    def frame_overdue(self) -> None:
        """Disconnect a peer that stopped in the middle of a frame."""
        self._drop(
            f"the rest of a frame did not come within {self._server.settings.frame_timeout_ms} ms", "broken-peer"
        )

    def close_overdue(self) -> None:
        """Give up on a peer that does not take its last bytes."""
        self.abort()

    def waiting_bytes(self) -> int:
        """Return how much waits for the peer to read."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def begun_bytes(self) -> int:
        """Return how much of a frame has come that is not whole."""
        return self.session.buffered_bytes

    def begun_overdue(self, total_bytes: int) -> None:
        """Disconnect a peer that has begun a long frame when too many are begun."""
        self._drop(
            f"it has begun a frame of which {self.begun_bytes()} bytes came, and {total_bytes} of all that are begun",
            "broken-peer",
        )

    def unread_overdue(self, total_bytes: int) -> None:
        """Disconnect a peer that reads too slowly when too much waits for all of them."""
        self._drop(
            f"it does not read: {self.waiting_bytes()} bytes wait for it, and {total_bytes} for all who do not",
            "slow-reader",
        )

    def _refuse(self, why: str) -> None:
        self._server.log.warning("broken-peer" if self.session.version else "stranger", why=why, host=self.host)
        self.close(f"it broke the protocol: {why}")

    def _drop(self, why: str, kind: str) -> None:
        self._server.log.warning(kind, why=why, host=self.host)
        self._why = self._why or why
        self.abort()


def _reason_of(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
