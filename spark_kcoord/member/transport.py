"""Sockets for one member, with TLS and a log-in where wanted: one connection at a time, and a wake-up by other threads.

It performs what the machine wants done on the network and reports what happens there, as the machine's events. All
methods but `wake` belong to the thread that calls `wait`. Names are resolved and connections opened on a short-lived
thread each, since a resolver may block for long; its outcome is dropped when nobody waits for it any more. Every
failure of the outside world comes out as ConnectionLost with the operating system's reason, never as an exception.
"""

import selectors
import socket
import ssl
import threading
from collections import deque
from contextlib import suppress
from typing import Final, TypeAlias

from coordinator.client.connection import CONNECT_ERRORS, open_socket, why_failed
from coordinator.client.security import PLAINTEXT, ClientSecurity, LogInRefusedError
from spark_kcoord.member.core.events import BytesReceived, Connected, ConnectionLost

RECEIVE_BYTES: Final = 256 * 1024
MAX_UNSENT_BYTES: Final = 8 * 1024 * 1024

_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""The exceptions of a socket that does not block, plain or of TLS, when nothing can be read or written now."""

NetworkEvent: TypeAlias = Connected | BytesReceived | ConnectionLost


class Transport:
    """The network of one member; `security` says whether it speaks TLS."""

    def __init__(self, security: ClientSecurity = PLAINTEXT) -> None:
        self._security = security
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_out, selectors.EVENT_READ)
        self._opened: deque[tuple[int, socket.socket | ConnectionLost]] = deque()
        self._connection_id = 0
        self._socket: socket.socket | None = None
        self._unsent = bytearray()
        self._broken: str | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    # ---- from any thread --------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Make `wait` return soon; safe from every thread."""
        # A full buffer means that a wake-up is on its way; a closed one that nobody waits any more.
        with suppress(OSError):
            self._wake_in.send(b"\0")

    # ---- what the machine wants -------------------------------------------------------------------------------------

    def connect(self, connection_id: int, host: str, port: int, timeout_s: float) -> None:
        """Begin to open a connection, which replaces whatever there was; each of its steps has so many seconds."""
        self._drop()
        self._connection_id = connection_id
        opening = threading.Thread(
            target=self._open,
            args=(connection_id, host, port, timeout_s),
            name=f"kcoord-connect-{connection_id}",
            daemon=True,
        )
        try:
            opening.start()
        except RuntimeError as error:  # the system has no thread for it now
            self._opened.append((connection_id, ConnectionLost(connection_id, str(error))))
            self.wake()

    def _open(self, connection_id: int, host: str, port: int, timeout_s: float) -> None:
        outcome: socket.socket | ConnectionLost
        try:
            outcome = open_socket(host, port, timeout_s, self._security)
        except CONNECT_ERRORS as error:
            outcome = ConnectionLost(connection_id, why_failed(error), isinstance(error, LogInRefusedError))
        with self._lock:
            is_late = self._is_closed
            if not is_late:
                self._opened.append((connection_id, outcome))
        if is_late and isinstance(outcome, socket.socket):
            outcome.close()
        self.wake()

    def send(self, connection_id: int, data: bytes) -> None:
        """Write bytes, now as far as the system takes them and the rest when it can."""
        if connection_id != self._connection_id or self._socket is None or self._broken is not None:
            return
        self._unsent += data
        if len(self._unsent) > MAX_UNSENT_BYTES:
            self._broken = f"it has not taken {len(self._unsent)} bytes sent to it"
            return
        self._write(self._socket)

    def disconnect(self, connection_id: int) -> None:
        """Close a connection or forget the attempt to open it."""
        if connection_id == self._connection_id:
            self._drop()

    def close(self) -> None:
        """Close everything; nothing may be called afterwards but `wake`."""
        with self._lock:
            self._is_closed = True
        self._drop()
        self._adopt()
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()

    # ---- what happens -----------------------------------------------------------------------------------------------

    def wait(self, timeout_s: float | None) -> list[NetworkEvent]:
        """Wait until something happens, somebody wakes it or the time is over; return what happened."""
        events: list[NetworkEvent] = []
        for key, mask in self._selector.select(0 if self._broken is not None else timeout_s):
            if key.fileobj is self._wake_out:
                self._take_wake_ups()
            elif self._socket is not None and key.fileobj is self._socket:
                if mask & selectors.EVENT_READ:
                    self._read(self._socket, events)
                if mask & selectors.EVENT_WRITE:
                    self._write(self._socket)
        if self._broken is not None:
            events.append(ConnectionLost(self._connection_id, self._broken))
            self._drop()
        events.extend(self._adopt())
        return events

    def _adopt(self) -> list[NetworkEvent]:
        events: list[NetworkEvent] = []
        while self._opened:
            connection_id, outcome = self._opened.popleft()
            is_wanted = connection_id == self._connection_id and not self._is_closed
            if isinstance(outcome, ConnectionLost):
                if is_wanted:
                    self._connection_id = 0
                    events.append(outcome)
            elif is_wanted:
                outcome.setblocking(False)
                self._socket = outcome
                self._selector.register(outcome, selectors.EVENT_READ)
                events.append(Connected(connection_id))
                self._read(outcome, events)  # TLS may have decrypted a hello along with the end of a log-in
            else:
                outcome.close()
        return events

    def _take_wake_ups(self) -> None:
        with suppress(BlockingIOError):
            while self._wake_out.recv(4096):
                pass

    def _read(self, sock: socket.socket, events: list[NetworkEvent]) -> None:
        try:
            data = sock.recv(RECEIVE_BYTES)
            while isinstance(sock, ssl.SSLSocket) and data and sock.pending():
                data += sock.recv(sock.pending())  # decrypted already: the selector knows nothing of it
        except _NOT_NOW:
            return
        except OSError as error:
            self._broken = why_failed(error)
            return
        if data:
            events.append(BytesReceived(self._connection_id, data))
        else:
            self._broken = "it closed the connection"

    def _write(self, sock: socket.socket) -> None:
        try:
            while self._unsent:
                written = sock.send(self._unsent)
                del self._unsent[:written]
        except _NOT_NOW:
            pass
        except OSError as error:
            # `wait` reads once more, what the other side said before it closed, and then reports this.
            self._unsent.clear()
            self._broken = self._broken or why_failed(error)
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        self._selector.modify(sock, wanted)

    def _drop(self) -> None:
        if self._socket is not None:
            self._selector.unregister(self._socket)
            self._socket.close()
        self._socket = None
        self._connection_id = 0
        self._unsent.clear()
        self._broken = None
