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
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from coordinator.config import ServerSettings
from coordinator.core.security.admission import Admission, AdmissionLimits, Refusal
from coordinator.core.security.principal import DEFAULT_RULE, Principal, SubjectRule
from coordinator.core.token_buckets import Rate
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Push, RegisterConsumerResponse, Request, Response
from coordinator.protocol.session import InFlight, SessionLimits
from coordinator.protocol.text.addresses import Address, format_address
from coordinator.runtime.clock import Clock
from coordinator.runtime.security.log_ins import LogIns
from coordinator.runtime.security.reread import Reread
from coordinator.runtime.security.tls_end import TlsEnd
from coordinator.runtime.server.connection import Connection
from coordinator.runtime.server.held_input import HeldInput, largest
from coordinator.runtime.server.input_bound import InputBound
from coordinator.runtime.server.listening import ACCEPTED_AT_ONCE, accept_beside, begin_accepting
from coordinator.runtime.server.turns import Turns
from coordinator.runtime.server.unread import Unread

DROPPED_AT_ONCE = 16
"""Connections that are too late and are closed before others are served again."""
FLUSH_LOT = 500
"""Connections that are written to before others are served again."""
MORE_UNREAD_BYTES = 16 * 1024 * 1024
"""So much is written to those who are behind before it is looked whether it is too much, also between two ticks."""
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
        self._beside: list[asyncio.Server] = []
        """More listeners of the same sockets."""
        self._bound: Address = ("", 0)
        self.session_limits = SessionLimits(
            hello_bytes=settings.hello_bytes,
            frame_bytes=settings.frame_bytes,
            answer_bytes=settings.answer_bytes,
            in_flight=settings.requests_in_flight,
        )
        self.admission: Admission[Connection] = Admission(admission_limits(settings, settings.max_connections))
        self.reached: Counter[str] = Counter()
        """The times that each limit has refused or closed something, by its setting."""
        self.in_flight = InFlight()
        self.requests = InputBound(2 * settings.requests_total_bytes)
        self._held_above: dict[str, int | None] = {}
        self._next_id = 1
        self._live: set[Connection] = set()
        self._open: dict[int, Connection] = {}
        self._unflushed: deque[Connection] = deque()
        self.to_flush: Callable[[Connection], None] = self._unflushed.append
        """Writes to a connection at the next flush."""
        self._is_flush_due = False
        self._hello_due: dict[Connection, int] = {}
        self._first_due: dict[Connection, int] = {}
        self.frame_due: dict[Connection, int] = {}
        """The time at which the rest of a frame is to have come, of each connection that has begun one."""
        self._begun_at_most = 0
        """A bound of what has come of them, so that thousands that trickle are not all asked with each tick."""
        self._close_due: dict[Connection, int] = {}
        self._are_more_overdue = False
        self._unread: Unread[Connection] = Unread(settings.read_timeout_ms)
        self._more_unread_bytes = 0
        self.held: HeldInput[Connection] = HeldInput()
        self.is_stopping = False
        self.turns: Turns[Connection] = Turns(lambda: self.held.is_any or self.is_stopping)
        self._said_full: set[str] = set()

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
                self._serve_one, host, port, backlog=ACCEPTED_AT_ONCE, start_serving=False
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise ListenError(
                f"cannot listen on {format_address((host, port))}: {reason}; stop what uses the address, or choose "
                "another with --listen"
            ) from error
        bound = self._server.sockets[0].getsockname()
        self._bound = str(bound[0]), int(bound[1])
        return self._bound

    async def accept(self) -> Address:
        """Accept connections from now on, on the address that was bound; raises ListenError when it was lost."""
        if self._server is None:
            raise RuntimeError("bind first")
        try:
            await begin_accepting(self._server)
            self._beside = await accept_beside(self._server, self._serve_one, self.settings.backlog)
        except OSError as error:
            raise ListenError(
                f"cannot listen on {format_address(self._bound)}: {error.strerror}; another process took the address "
                "meanwhile: stop it, or choose another with --listen"
            ) from error
        return self._bound

    def _serve_one(self) -> asyncio.Protocol:
        """Return the protocol of a connection that has come."""
        return Connection(self) if self._tls is None else TlsEnd(self._tls.value, Connection(self))

    def send_response(self, connection_id: int, correlation_id: int, response: Response) -> None:
        """Queue a response; `flush` writes it. Void when the connection is gone."""
        connection = self._open.get(connection_id)
        if connection is not None and not connection.session.is_closed:
            connection.queue(connection.session.send_response(correlation_id, response))
            if type(response) is RegisterConsumerResponse and response.error is ErrorCode.NONE:
                connection.is_member = True
                self.admission.member_came(connection.host, self.clock.monotonic_ms())

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
        unflushed = self._unflushed
        for _ in range(FLUSH_LOT):
            if not unflushed:
                return
            unflushed.popleft().write_queued()
        if unflushed and not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush_rest)

    def _flush_rest(self) -> None:
        self._is_flush_due = False
        self.flush()

    def check_deadlines(self, now_ms: int) -> None:
        """Disconnect whoever did not say hello, finish a frame or take its last bytes in time."""
        if not self._are_more_overdue:
            self._drop_overdue(now_ms)
        for connection in self._unread.overdue(now_ms):
            connection.read_overdue()
        self._bound_output()
        if self.requests.is_holding:
            self.bound_requests()
        self.turns.go_on()
        if self._begun_at_most > self.settings.input_total_bytes:
            self._begun_at_most = self.begun_bytes
            for connection, total in largest(self.frame_due, Connection.begun_bytes, self.settings.input_total_bytes):
                connection.begun_overdue(total)

    def _drop_overdue(self, now_ms: int) -> None:
        """Disconnect the next ones who are too late, and the rest after others were served."""
        self._are_more_overdue = False
        left = DROPPED_AT_ONCE
        # Each time-out is one constant, so these dicts are in the order of their deadlines.
        for due, act in (
            (self._hello_due, Connection.hello_overdue),
            (self.frame_due, Connection.frame_overdue),
            (self._first_due, Connection.request_overdue),
            (self._close_due, Connection.close_overdue),
        ):
            while due:
                connection = next(iter(due))
                if due[connection] > now_ms:
                    break
                if not left:
                    self._are_more_overdue = True
                    asyncio.get_running_loop().call_soon(self._drop_overdue, now_ms)
                    return
                left -= 1
                del due[connection]
                act(connection)

    def more_unread(self, count: int) -> None:
        """Take note of bytes that were written to a peer which is behind: much of it is looked at at once."""
        self._more_unread_bytes += count
        if self._more_unread_bytes > MORE_UNREAD_BYTES:
            self._bound_output()

    def _bound_output(self) -> None:
        self._more_unread_bytes = 0
        for connection, total in largest(self._unread, Connection.waiting_bytes, self.settings.output_total_bytes):
            connection.unread_overdue(total)

    @property
    def is_behind(self) -> bool:
        """True while connections that are no members' have said what is not heard yet."""
        return self.turns.is_behind

    @property
    def unread_bytes(self) -> int:
        """Bytes that wait for those who are behind with reading."""
        return sum(connection.waiting_bytes() for connection in self._unread)

    @property
    def begun_bytes(self) -> int:
        """Bytes of frames that have begun to come and are not whole."""
        return sum(connection.begun_bytes() for connection in self.frame_due)

    def hold_input(self, above_bytes: int) -> None:
        """Leave what connections say unread until `release_input`, of those that say more than this at once."""
        self._hold("disk", above_bytes)

    def release_input(self) -> None:
        """Read everything again, also what was left unread."""
        self._hold("disk", None)

    def bound_requests(self) -> None:
        """Leave connections unread while the requests that wait for their answers are too many bytes."""
        above_bytes, is_changed = self.requests.look(self.in_flight.bytes)
        if not is_changed:
            return
        if above_bytes is not None:
            self.reached["server.requests_total_bytes"] += 1
            self.log.warning(
                "requests-held",
                why=f"{self.in_flight.bytes} bytes of requests wait for their answers: connections that send more than "
                f"{above_bytes} at once wait until there are fewer",
            )
        self._hold("requests", above_bytes)

    def _hold(self, reason: str, above_bytes: int | None) -> None:
        self._held_above[reason] = above_bytes
        least = min((above for above in self._held_above.values() if above is not None), default=None)
        if least is None:
            self.held.release()
        else:
            self.held.hold(least)

    def stop_accepting(self) -> None:
        """Close the listening sockets and read no more from those that are connected."""
        self.is_stopping = True
        self.held.stop()
        if self._server is not None:
            for server in (self._server, *self._beside):
                server.close()
        for connection in self._live:
            connection.stop_reading()

    async def close(self, why: str, *, timeout_ms: int | None = None) -> None:
        """Close every connection, at the latest after the time-out, which is the close time-out if none is given."""
        self.stop_accepting()
        for connection in tuple(self._live):
            connection.close(why)
        gone = [asyncio.ensure_future(connection.wait_until_gone()) for connection in self._live]
        if gone:
            timeout_ms = self.settings.close_timeout_ms if timeout_ms is None else timeout_ms
            _, waiting = await asyncio.wait(gone, timeout=timeout_ms / 1000)
            for task in waiting:
                task.cancel()
        for connection in tuple(self._live):
            connection.abort()

    # ---- the connections' side --------------------------------------------------------------------------------------

    def admit(self, connection: "Connection") -> int | None:
        """Give a new connection its id, or None when it is not let in; another one may have to give way to it."""
        now_ms = self.clock.monotonic_ms()
        verdict = self.admission.admit(connection, connection.host, now_ms)
        if isinstance(verdict, Refusal):
            self.reached[verdict.setting] += 1
            if verdict.setting not in self._said_full:
                self._said_full.add(verdict.setting)
                why = f"{verdict.why}; newcomers are disconnected until that has changed ({verdict.setting})"
                self.log.warning("too-many-connections", why=why, host=connection.host)
            return None
        self._said_full.clear()
        connection_id = self._next_id
        self._next_id += 1
        self._live.add(connection)
        self.await_hello(connection)
        if verdict.gives_way is not None:
            verdict.gives_way.gives_way()
        return connection_id

    def await_hello(self, connection: "Connection") -> None:
        """Expect a hello in time, and a log-in where there is one."""
        self._hello_due[connection] = self.clock.monotonic_ms() + self.settings.hello_timeout_ms

    def failed(self, connection: "Connection") -> None:
        """Take note that a peer was refused for what it said, or for who it is."""
        self.admission.failed(connection.host, self.clock.monotonic_ms())

    def refused(self, connection: "Connection") -> None:
        """Expect no hello any more of who is answered later: the answer closes the connection, in a time of its own."""
        self._hello_due.pop(connection, None)

    def opened(self, connection: "Connection") -> None:
        """Take note of a hello."""
        self._hello_due.pop(connection, None)
        self.admission.known(connection, connection.host)
        self._first_due[connection] = self.clock.monotonic_ms() + self.settings.first_request_timeout_ms
        self._open[connection.id] = connection
        self.listener.connection_opened(connection.id, connection.host, connection.principal)

    def asked(self, connection: "Connection") -> None:
        """Take note that a connection has asked for something, or has begun to."""
        if self._first_due:
            self._first_due.pop(connection, None)

    def forget(self, connection: "Connection", why: str) -> None:
        """Take note that a connection is gone."""
        if connection in self._live:
            self._live.discard(connection)
            self.admission.gone(connection, connection.host, self.clock.monotonic_ms())
        self._unread.discard(connection)
        self.held.forget(connection)
        self.turns.forget(connection)
        for due in (self._hello_due, self._first_due, self.frame_due, self._close_due):
            due.pop(connection, None)
        if self._open.pop(connection.id, None) is not None:
            self.listener.connection_closed(connection.id, why)
            self.flush()

    def note_unread(self, connection: "Connection", *, is_unread: bool) -> None:
        """Take note of a peer that is behind with reading, or no longer."""
        if is_unread and connection in self._live:
            self._unread.add(connection, self.clock.monotonic_ms())
        else:
            self._unread.discard(connection)

    def await_frame(self, connection: "Connection", *, is_same_frame: bool) -> None:
        """Expect the rest of a frame in time."""
        self.asked(connection)
        self._begun_at_most += connection.begun_bytes()
        if not is_same_frame:
            self.frame_due.pop(connection, None)
        self.frame_due.setdefault(connection, self.clock.monotonic_ms() + self.settings.frame_timeout_ms)

    def frame_finished(self, connection: "Connection") -> None:
        """Expect nothing any more."""
        if self.frame_due:
            self.frame_due.pop(connection, None)

    def await_close(self, connection: "Connection") -> None:
        """Expect the last bytes to leave in time, counted from the first time that they are expected to."""
        for due in (self._hello_due, self._first_due, self.frame_due):
            due.pop(connection, None)
        self._close_due.setdefault(connection, self.clock.monotonic_ms() + self.settings.close_timeout_ms)

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
            most = max(1, soft - self._reserved_files)
            self.admission = Admission(admission_limits(self.settings, most))
            self.log.warning(
                "few-open-files",
                why=f"the limit on open files is {soft}, so at most {most} connections are accepted "
                f"and not {self.settings.max_connections}; raise it with `ulimit -n {wanted}` or LimitNOFILE={wanted}",
            )


def admission_limits(settings: ServerSettings, connections: int) -> AdmissionLimits:
    """Return how many may connect, of so many in all."""
    return AdmissionLimits(
        connections=connections,
        connections_of_address=settings.connections_per_address,
        half_open=settings.half_open_max,
        kept=connections * settings.kept_for_members_percent // 100,
        failures=Rate(settings.failures_burst, settings.failures_per_s),
    )
