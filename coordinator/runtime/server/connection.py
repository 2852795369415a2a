"""One connection of a member or a tool: an asyncio.Protocol around one protocol session.

Bytes to its session, what the session says to the server's listener; whatever holds for all connections together is
the server's. A peer that breaks a rule is disconnected with one log line and no traceback.
"""

import asyncio
import contextlib
import socket
import time
from typing import TYPE_CHECKING, Final, cast

from coordinator.core.security.principal import ANONYMOUS, Principal, principal_of_subject
from coordinator.protocol.errors import RemoteProtocolError
from coordinator.protocol.log_in import LOG_IN_NUMBER
from coordinator.protocol.session import (
    HelloReceived,
    RequestReceived,
    Role,
    Session,
    UnknownRequestReceived,
)
from coordinator.runtime.security.tls_end import Shown
from coordinator.runtime.server.gate import Gate

if TYPE_CHECKING:
    from coordinator.runtime.server.port import Server

_NOBODY_LOGS_IN: Final = (
    "it wants to log in, and nobody does here: give authentication.mechanisms, or set its kcoord.security.protocol to "
    "SSL or PLAINTEXT"
)


class Connection(asyncio.Protocol):
    """One peer: bytes to its session, what the session says to the server's listener."""

    __slots__ = (
        "_ends",
        "_gate",
        "_held",
        "_is_at_gate",
        "_queued",
        "_server",
        "_transport",
        "_why",
        "gone",
        "host",
        "id",
        "principal",
        "session",
    )

    def __init__(self, server: "Server") -> None:
        self.id = 0
        self.host = "?"
        self.principal = ANONYMOUS
        self.session = Session(Role.COORDINATOR, server.session_limits)
        self.gone = asyncio.Event()
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._queued: list[bytes] = []
        self._held = b""
        self._why = ""
        self._is_at_gate = server.log_ins is not None
        self._gate: Gate | None = None
        self._ends: asyncio.TimerHandle | None = None

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

    def tls_done(self, shown: Shown) -> None:
        """Take note of who the peer is by its certificate, if it has shown one."""
        subject = shown.subject
        if not subject:
            return
        principal = principal_of_subject(subject, self._server.subject_rules)
        if principal is None:
            why = f"its certificate's subject {subject!r} is of no principal by authentication.certificate_rules"
            self.refuse_log_in(why)
            return
        self.principal = principal

    def tls_failed(self, why: str) -> None:
        """Say why there is no TLS with the peer; the connection is being closed."""
        self._server.log.warning("stranger", why=why, host=self.host)
        self._why = self._why or why
        if not self.session.is_closed:
            self.session.close()
        self._server.await_close(self)

    def data_received(self, data: bytes) -> None:
        """Hand what the peer said to the server's listener, then write what came of it; or keep it while it is held."""
        if self._is_at_gate:
            data = self._heard_at_gate(data)
            if not data:
                return
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
                        why = _NOBODY_LOGS_IN if number == LOG_IN_NUMBER and server.log_ins is None else answer.message
                        server.log.warning("unknown-request", why=why, host=self.host, number=number)
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

    def eof_received(self) -> None:
        """Expect that the peer takes its last bytes in time; asyncio closes the connection once it has."""
        self._server.await_close(self)

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
        if self._ends is not None:
            self._ends.cancel()
        self.gone.set()
        self._server.forget(self, self._why)

    # ---- log-in -----------------------------------------------------------------------------------------------------

    def _heard_at_gate(self, data: bytes) -> bytes:
        """Hand what came to the gate; return what the session of members is to hear."""
        log_ins = self._server.log_ins
        assert log_ins is not None
        try:
            if self._gate is None:
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
        self.session = Session(Role.COORDINATOR, self._server.session_limits)
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
        if not answer or self._server.log_ins is None:
            self.close(why)
            return
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
        missing = "no hello came" if self._gate is None else self._gate.why_overdue
        self._drop(f"{missing} within {self._server.settings.hello_timeout_ms} ms", "stranger")

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
