"""One connection of a member or a tool: an asyncio.Protocol around one protocol session.

Bytes to its session, what the session says to the server's listener; whatever holds for all connections together is
the server's. A peer that breaks a rule is disconnected with one log line and no traceback.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, cast

from coordinator.core.security.principal import ANONYMOUS, Principal, principal_of_subject
from coordinator.protocol.errors import RemoteProtocolError
from coordinator.protocol.log_in import LOG_IN_NUMBER
from coordinator.protocol.session import (
    HelloReceived,
    RequestReceived,
    Role,
    Session,
    SessionEvent,
    UnknownRequestReceived,
)
from coordinator.runtime.security.tls_end import Shown
from coordinator.runtime.server.turns import TURN_NS
from coordinator.runtime.server.unread import unsent_bytes

if TYPE_CHECKING:
    from coordinator.runtime.server.gate import Gate
    from coordinator.runtime.server.port import Server

_NOBODY_LOGS_IN: Final = (
    "it wants to log in, and nobody does here: give authentication.mechanisms, or set its kcoord.security.protocol to "
    "SSL or PLAINTEXT"
)
_FIRST_FRAMES: Final = 2
"""Frames of a connection that are handled at once, and those between two looks how long they took."""
_WAITING_BYTES: Final = 4096
"""So much of a connection that waits for its turn is read: a peer that hangs up is noticed, and then not heard."""


class Connection(asyncio.Protocol):
    """One peer: bytes to its session, what the session says to the server's listener."""

    __slots__ = (
        "_ends",
        "_events",
        "_gate",
        "_has_asked",
        "_held",
        "_is_at_gate",
        "_is_dropped",
        "_is_unread",
        "_is_waiting",
        "_queued",
        "_server",
        "_transport",
        "_until_gone",
        "_why",
        "_written_bytes",
        "host",
        "id",
        "is_gone",
        "is_member",
        "principal",
        "session",
    )

    def __init__(self, server: "Server") -> None:
        self.id = 0
        self.host = "?"
        self.principal = ANONYMOUS
        self.session = Session(Role.COORDINATOR, server.session_limits, in_flight=server.in_flight)
        self.is_gone = False
        self._until_gone: asyncio.Event | None = None
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._queued: list[bytes] = []
        self._held = b""
        self._why = ""
        self._is_at_gate = server.log_ins is not None
        self._gate: Gate | None = None
        self._ends: asyncio.TimerHandle | None = None
        self._has_asked = False
        self._is_dropped = False
        self._is_unread = False
        self._is_waiting = False
        self._events: Iterator[SessionEvent] | None = None
        """The rest of what was said, while it waits for a turn."""
        self.is_member = False
        """A member has registered on it; the server takes note of that."""
        self._written_bytes = 0
        """The bytes that were written while it was behind with reading."""

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
        transport.write(self.session.send_hello())

    def tls_done(self, shown: Shown) -> None:
        """Take note of who the peer is by its certificate, if it has shown one."""
        if not shown.is_shown:
            return
        principal = principal_of_subject(shown.subject, self._server.subject_rules)
        if principal is None:
            why = f"its certificate's subject {shown.subject!r} is of no principal by authentication.certificate_rules"
            self.refuse_log_in(why)
            return
        self.principal = principal

    def tls_failed(self, why: str) -> None:
        """Say why there is no TLS with the peer; the connection is being closed."""
        self._server.log.warning("stranger", why=why, host=self.host)
        self._server.failed(self)
        self._why = self._why or why
        if not self.session.is_closed:
            self.session.close()
        self._server.await_close(self)

    def data_received(self, data: bytes) -> None:
        """Hand what the peer said to the server's listener, then write what came of it; or keep it for later."""
        server = self._server
        if self._events is not None or self._is_waiting or self._is_unread:
            self._held += data
            if len(self._held) > _WAITING_BYTES:
                self.stop_reading()
            return
        if server.held.is_any and server.held.holds(self, len(data) + self.session.buffered_bytes):
            server.frame_finished(self)
            server.asked(self)
            self._held += data
            self.stop_reading()
            return
        if self.is_member:
            self._take(self.session.receive_bytes(data), _FIRST_FRAMES)
            return
        if server.turns.is_over:
            self._held += data
            self._wait()
            return
        begun_ns = server.turns.now_ns()
        self._hear(data)
        server.turns.spend(begun_ns)

    def _hear(self, data: bytes) -> None:
        """Hear what was said: at the gate, or as somebody who is let in."""
        if self._is_at_gate:
            data = self._heard_at_gate(data)
        if data:
            self._take(self.session.receive_bytes(data), _FIRST_FRAMES)

    def take_turn(self) -> None:
        """Handle more of what the peer has said, as much as a turn is for, and hear on once that is all.

        Of a peer that does not keep up nothing is handled until it does: each answer would wait for it too.
        """
        self._is_waiting = False
        if self._is_unread:
            return
        events, self._events = self._events, None
        if events is not None:
            self._take(events)
        else:
            held, self._held = self._held, b""
            self._hear(held)
        if self._events is None and self._held:
            self._wait()
        if not self._is_waiting and not self._is_unread:
            self._read_on()

    def _wait(self) -> None:
        """Be left unheard until a turn of the loop has time for it, and unread once enough of it was read."""
        self._is_waiting = True
        self._server.frame_finished(self)
        if self._events is not None or len(self._held) > _WAITING_BYTES:
            self.stop_reading()
        self._server.turns.wait(self, says_much=self._events is not None, is_new=not self._has_asked)

    def _take(self, events: Iterator[SessionEvent], most_frames: int = 0) -> None:
        """Handle what was said, at most for a turn, or so many frames of it; the rest waits."""
        server, session = self._server, self.session
        until_ns = frames = 0
        try:
            for event in events:
                frames += 1
                if not self._has_asked and type(event) is not HelloReceived:
                    self._has_asked = True
                    server.asked(self)
                if type(event) is RequestReceived:
                    server.listener.request_received(self.id, event.correlation_id, event.request)
                else:
                    self._take_other(event)
                if frames % _FIRST_FRAMES or not session.is_inside_frame or session.is_closed:
                    continue
                now_ns = server.turns.now_ns()
                until_ns = until_ns or now_ns + TURN_NS
                if frames == most_frames or now_ns >= until_ns:
                    self._events = events
                    break
        except RemoteProtocolError as error:
            self._refuse(str(error))
        if self._events is not None:
            self._wait()
        elif session.is_inside_frame and not session.is_closed:
            server.await_frame(self, is_same_frame=frames == 0)
        elif server.frame_due:
            server.frame_finished(self)
        if server.in_flight.bytes > server.requests.least_bytes:
            server.bound_requests()
        server.flush()

    def _take_other(self, event: SessionEvent) -> None:
        """Handle what is no request that is known."""
        match event:
            case UnknownRequestReceived(correlation_id, number, answer):
                is_lost_log_in = number == LOG_IN_NUMBER and self._server.log_ins is None
                why = _NOBODY_LOGS_IN if is_lost_log_in else answer.message
                self._server.log.warning("unknown-request", why=why, host=self.host, number=number)
                self.queue(self.session.send_response(correlation_id, answer))
            case HelloReceived():
                self._server.opened(self)
            case _:
                raise AssertionError(f"a coordinator's session said {event!r}")

    def eof_received(self) -> None:
        """Expect that the peer takes its last bytes in time; asyncio closes the connection once it has."""
        self._server.await_close(self)

    def pause_writing(self) -> None:
        """Take note that the peer does not keep up, and hear nothing more of it until it does."""
        self._is_unread = True
        self._server.note_unread(self, is_unread=True)
        self.stop_reading()

    def resume_writing(self) -> None:
        """Take note that it has, and hear on."""
        self._is_unread = False
        self._server.note_unread(self, is_unread=False)
        if self._is_waiting or self._server.held.has(self):
            return
        if self._events is not None or self._held:
            self._wait()
        else:
            self._read_on()

    def take_held(self) -> None:
        """Take in what was held, and read on."""
        held, self._held = self._held, b""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._is_unread:
            self._read_on()
        if held:
            self.data_received(held)  # which may have it wait for a turn, unread

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell that the connection is gone, with the first reason that was known."""
        if not self._why:
            self._why = _reason_of(exc) if exc is not None else "its process closed it or ended"
        if not self.session.is_closed:
            self.session.close()
        self._queued.clear()
        if self._ends is not None:
            self._ends.cancel()
        self._events = self._gate = None
        self.is_gone = True
        if self._until_gone is not None:
            self._until_gone.set()
        self._server.forget(self, self._why)

    # ---- log-in -----------------------------------------------------------------------------------------------------

    def _heard_at_gate(self, data: bytes) -> bytes:
        """Hand what came to the gate; return what the session of members is to hear."""
        log_ins = self._server.log_ins
        assert log_ins is not None
        try:
            if self._gate is None:
                from coordinator.runtime.server.gate import Gate  # a node where nobody logs in loads nothing of it

                self._gate = Gate(self, log_ins, self._server.session_limits)
            passed = self._gate.take(data)
        except RemoteProtocolError as error:
            self._refuse(str(error))
            return b""
        if passed:
            self._is_at_gate, self._gate = False, None
        return passed

    def say(self, data: bytes) -> None:
        """Write bytes now, after what was queued."""
        self.queue(data)
        self._server.flush()

    def let_in(self, principal: Principal, ends_at_s: float | None) -> None:
        """Begin anew as somebody who has logged in, until that ends."""
        self._is_at_gate, self._gate = False, None
        self.principal = principal
        self.session = Session(Role.COORDINATOR, self._server.session_limits, in_flight=self._server.in_flight)
        self.say(self.session.send_hello())
        if ends_at_s is not None:
            in_s = max(0.0, ends_at_s - time.time())
            self._ends = asyncio.get_running_loop().call_later(in_s, self._log_in_ended)

    def _log_in_ended(self) -> None:
        self._server.log.info("log-in-ended", why=f"the token of {self.principal} has expired", host=self.host)
        self.close("the token that it logged in with has expired")

    def refuse_log_in(self, why: str, answer: bytes = b"") -> None:
        """Say in the node's log why, and close; with an answer after the delay, until which nothing more is read."""
        self._server.log.warning("log-in-refused", why=why, host=self.host)
        self._server.failed(self)
        if not answer or self._server.log_ins is None:
            self.close(why)
            return
        self._server.refused(self)
        self.stop_reading()
        delay_s = self._server.log_ins.settings.refusal_delay_ms / 1000
        self._ends = asyncio.get_running_loop().call_later(delay_s, self._answer_and_close, answer, why)

    def _answer_and_close(self, answer: bytes, why: str) -> None:
        self.say(answer)
        self.close(why)

    # ---- out --------------------------------------------------------------------------------------------------------

    def queue(self, data: bytes) -> None:
        """Write these bytes at the next flush."""
        if not self._queued:
            self._server.to_flush(self)
        self._queued.append(data)

    def write_queued(self) -> None:
        """Write what was queued; disconnect a peer that does not read."""
        transport, queued = self._transport, self._queued
        if transport is None or transport.is_closing() or not queued:
            queued.clear()
            return
        data = queued[0] if len(queued) == 1 else b"".join(queued)
        queued.clear()
        if self._is_unread:
            self._written_bytes += len(data)
        transport.write(data)
        waiting = transport.get_write_buffer_size()
        if waiting > self._server.settings.output_buffer_bytes:
            self._drop(f"it does not read: {waiting} bytes wait for it", "slow-reader", "server.output_buffer_bytes")
        elif self._is_unread:
            self._server.more_unread(len(data))

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
        if not self.is_gone:
            self._server.await_close(self)

    async def wait_until_gone(self) -> None:
        """Wait until it is closed."""
        if not self.is_gone:
            self._until_gone = self._until_gone or asyncio.Event()
            await self._until_gone.wait()

    def abort(self) -> None:
        """Close without writing anything more."""
        if self._transport is not None:
            self._transport.abort()

    def stop_reading(self) -> None:
        """Leave what the peer says unread."""
        if self._transport is not None and not self._transport.is_closing():
            with contextlib.suppress(RuntimeError):
                self._transport.pause_reading()

    def _read_on(self) -> None:
        if self._gate is not None and self._gate.is_over:
            return
        if self._transport is not None and not self._transport.is_closing() and not self._server.is_stopping:
            with contextlib.suppress(RuntimeError):
                self._transport.resume_reading()

    # ---- deadlines and refusals -------------------------------------------------------------------------------------

    def hello_overdue(self) -> None:
        """Disconnect a peer that says nothing; one that has spoken and is not heard yet is not late."""
        if self._is_waiting or self._server.held.has(self):
            self._server.await_hello(self)
            return
        missing = "no hello came" if self._gate is None else self._gate.why_overdue
        why = f"{missing} within {self._server.settings.hello_timeout_ms} ms"
        self._drop(why, "stranger", "server.hello_timeout_ms")

    def gives_way(self) -> None:
        """Disconnect a peer that has not said who it is, since others would."""
        why = f"more than {self._server.settings.half_open_max} connections have not said who they are"
        self._drop(why, "gave-way", "server.half_open_max")

    def request_overdue(self) -> None:
        """Disconnect a peer that has said hello and nothing more."""
        timeout_ms = self._server.settings.first_request_timeout_ms
        self._drop(f"no request came within {timeout_ms} ms", "idle-peer", "server.first_request_timeout_ms")

    def frame_overdue(self) -> None:
        """Disconnect a peer that stopped in the middle of a frame; one that is left unread until it reads did not."""
        if self._is_unread:
            self._server.await_frame(self, is_same_frame=True)
            return
        timeout_ms = self._server.settings.frame_timeout_ms
        why = f"the rest of a frame did not come within {timeout_ms} ms"
        self._drop(why, "broken-peer", "server.frame_timeout_ms")

    def read_overdue(self) -> None:
        """Disconnect a peer for which much waits and which has read next to nothing of it for a while."""
        timeout_ms = self._server.settings.read_timeout_ms
        why = f"it does not read: {self.waiting_bytes()} bytes wait for it, and it took none within {timeout_ms} ms"
        self._drop(why, "slow-reader", "server.read_timeout_ms")

    def close_overdue(self) -> None:
        """Give up on a peer that does not take its last bytes."""
        self.abort()

    def waiting_bytes(self) -> int:
        """Return how much waits for the peer to read."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def taken_bytes(self) -> int:
        """Return how much its machine has taken, from any beginning that stays the same while it is behind."""
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        return self._written_bytes - self.waiting_bytes() - (0 if sock is None else unsent_bytes(sock.fileno()))

    def begun_bytes(self) -> int:
        """Return how much of a frame has come that is not whole."""
        return self.session.buffered_bytes

    def begun_overdue(self, total_bytes: int) -> None:
        """Disconnect a peer that has begun a long frame when too many are begun."""
        self._drop(
            f"it has begun a frame of which {self.begun_bytes()} bytes came, and {total_bytes} of all that are begun",
            "broken-peer",
            "server.input_total_bytes",
        )

    def unread_overdue(self, total_bytes: int) -> None:
        """Disconnect a peer that reads too slowly when too much waits for all of them."""
        self._drop(
            f"it does not read: {self.waiting_bytes()} bytes wait for it, and {total_bytes} for all who do not",
            "slow-reader",
            "server.output_total_bytes",
        )

    def _refuse(self, why: str) -> None:
        self._server.log.warning("broken-peer" if self.session.version else "stranger", why=why, host=self.host)
        self._server.failed(self)
        self.close(f"it broke the protocol: {why}")

    def _drop(self, why: str, kind: str, setting: str) -> None:
        if self._is_dropped:
            return
        self._is_dropped = True
        self._server.log.warning(kind, why=why, host=self.host)
        self._server.reached[setting] += 1
        if kind == "broken-peer":  # one that is late is none: a node that cannot keep up finds a whole cluster late
            self._server.failed(self)
        self._why = self._why or why
        self.abort()


def _reason_of(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
