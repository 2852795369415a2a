"""One connection between two nodes as an asyncio.Protocol, around one session.

It keeps what needs time or memory: a hello in time, pings, silence, the rest of a frame, a bounded output. Its owner
decides about everything that is said. It reads no clock: `look` tells it the time, so what happens between two looks
counts as having happened at the later one.
"""

import asyncio
import socket
from typing import Protocol, cast

from coordinator.protocol.errors import RemoteProtocolError
from coordinator.protocol.peer_messages import PeerClosing, PeerHello, PeerMessage, PeerPing
from coordinator.protocol.peer_messages.ranges import MAX_WHY
from coordinator.protocol.peer_messages.session import PeerSession, Said
from coordinator.runtime.peers.limits import PeerLimits
from coordinator.runtime.security.tls_end import Shown


class Owner(Protocol):
    """The port, as its connections see it."""

    limits: PeerLimits

    def made(self, connection: "PeerConnection") -> PeerHello | None:
        """Take in a new connection; return the hello to say, None to close it."""

    def greeted(self, connection: "PeerConnection", hello: PeerHello) -> None:
        """Judge the other end's hello."""

    def heard(self, connection: "PeerConnection", message: PeerMessage) -> None:
        """Take what the other end said."""

    def pinged(self, connection: "PeerConnection") -> None:
        """Take note that the other end lives."""

    def broken(self, connection: "PeerConnection", why: str) -> None:
        """Take note that the other end broke a rule, and close the connection."""

    def lost(self, connection: "PeerConnection", why: str) -> None:
        """Take note that the connection is gone."""

    def to_flush(self, connection: "PeerConnection") -> None:
        """Have `flush` called when the loop's turn is over."""


class PeerConnection(asyncio.Protocol):
    """A connection to the node `asked_for`, or one that another node has opened (None)."""

    def __init__(self, owner: Owner, number: int, asked_for: int | None) -> None:
        self.number = number
        self.asked_for = asked_for
        self.answers = 0
        """The call that this node's hello on it has named."""
        self.hello: PeerHello | None = None
        """The other end's, once it was accepted."""
        self.held: list[PeerMessage] = []
        """Messages that came before the contact began."""
        self.held_bytes = 0
        self.host = "?"
        self.shown = Shown()
        """The other end's certificate, as far as it is looked at, where TLS is spoken."""
        self.gone = asyncio.Event()
        self._owner = owner
        self._session = PeerSession()
        self._transport: asyncio.Transport | None = None
        self._queued: list[bytes] = []
        self._queued_bytes = 0
        self._why = ""
        self._has_heard = self._has_written = True
        self._heard_ms = self._written_ms = 0
        self._opened_ms: int | None = None
        self._closed_ms: int | None = None
        self._is_closing = False
        self._frame_ms: int | None = None
        self._is_new_frame = False

    @property
    def is_closing(self) -> bool:
        """True when nothing is said or heard any more."""
        return self._is_closing

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes that wait for the other end to read."""
        written = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return written + self._queued_bytes

    # ---- asyncio ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello."""
        self._transport = transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if peer else "?"
        hello = self._owner.made(self)
        if hello is None:
            self.abort("")
            return
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.write(self._session.greet(hello))

    def tls_done(self, shown: Shown) -> None:
        """Keep what the other end's certificate says until its hello says who it is."""
        self.shown = shown

    def tls_failed(self, why: str) -> None:
        """Give the connection up."""
        self._owner.broken(self, why)

    def data_received(self, data: bytes) -> None:
        """Hand on what the other end said."""
        self._has_heard = True
        if self.held:
            self.held_bytes += len(data)
        has_finished = False
        try:
            for said in self._session.receive(data):
                has_finished = True
                self._take(said)
        except RemoteProtocolError as error:
            self._owner.broken(self, str(error))
        if not self._session.is_inside_frame:
            self._frame_ms, self._is_new_frame = None, False
        elif has_finished or self._frame_ms is None:
            self._frame_ms, self._is_new_frame = None, True

    def _take(self, said: PeerHello | Said) -> None:
        match said:
            case PeerHello():
                self._owner.greeted(self, said)
            case PeerPing():
                self._owner.pinged(self)
            case PeerClosing(why):
                self._why = self._why or f"the other end closed it: {why}"
            case _:
                self._owner.heard(self, said)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell that the connection is gone, with the first reason that was known."""
        reason = "the other end closed it or its process ended" if exc is None else _reason_of(exc)
        self._end(self._why or reason)
        self._transport = None
        self.gone.set()
        self._owner.lost(self, self._why)

    # ---- out --------------------------------------------------------------------------------------------------------

    def say(self, message: Said) -> None:
        """Say something when the turn is over; raises LocalProtocolError for a message larger than a frame may be."""
        data = self._session.say(message)
        if not self._queued:
            self._owner.to_flush(self)
        self._queued.append(data)
        self._queued_bytes += len(data)

    def flush(self) -> None:
        """Write what was said."""
        if self._queued and self._transport is not None and not self._transport.is_closing():
            self._transport.write(self._queued[0] if len(self._queued) == 1 else b"".join(self._queued))
            self._has_written = True
        self._queued.clear()
        self._queued_bytes = 0

    def close(self, why: str) -> None:
        """Close it after what was said, with the reason as the last word."""
        if self._is_closing:
            return
        if self._session.is_open:
            self.say(PeerClosing(why[:MAX_WHY]))
        self.flush()
        self._end(why)
        if self._transport is not None:
            self._transport.close()

    def abort(self, why: str) -> None:
        """Close it without another word; what was said may be lost."""
        self._end(why)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, why: str) -> None:
        self._why = self._why or why
        self._queued.clear()
        self._queued_bytes = 0
        self.held.clear()
        if not self._is_closing:
            self._is_closing = True
            self._session.close()

    # ---- time -------------------------------------------------------------------------------------------------------

    def look(self, now_ms: int) -> str:
        """Say that this end lives, if that is due; return why the connection is to be given up, empty if it is not."""
        limits = self._owner.limits
        if self._is_closing:
            self._closed_ms = now_ms if self._closed_ms is None else self._closed_ms
            if now_ms - self._closed_ms >= limits.close_ms:
                self.abort("")
            return ""
        if self._opened_ms is None:
            self._opened_ms = now_ms
        if self._has_heard:
            self._has_heard, self._heard_ms = False, now_ms
        if self._has_written:
            self._has_written, self._written_ms = False, now_ms
        if self._is_new_frame:
            self._is_new_frame, self._frame_ms = False, now_ms
        if self.hello is None and now_ms - self._opened_ms >= limits.hello_ms:
            return f"no hello came within {limits.hello_ms} ms"
        if now_ms - self._heard_ms >= limits.silence_ms:
            return f"nothing came from it for {limits.silence_ms} ms"
        if self._frame_ms is not None and now_ms - self._frame_ms >= limits.frame_ms:
            return f"the rest of a frame did not come within {limits.frame_ms} ms"
        if self.hello is not None and now_ms - self._written_ms >= limits.ping_ms:
            self.say(PeerPing())
        return ""


def _reason_of(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
