"""A coordinator on a loopback socket that greets as it should, and then sends for a request whatever a test says."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from coordinator.protocol.codec import encode_message
from coordinator.protocol.framing import encode_envelope
from coordinator.protocol.messages import Message
from coordinator.protocol.session import RequestReceived, Role, Session

Misdeed = Callable[[socket.socket, int], None]
"""Takes the connection and the correlation id of the request, and sends what it likes; then it is closed."""


class MisbehavingCoordinator:
    """Does the `misdeed` for each request; a context manager. `taken` counts connections, `asked` requests."""

    def __init__(self, misdeed: Misdeed) -> None:
        self.taken = 0
        self.asked = 0
        self._misdeed = misdeed
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._thread = threading.Thread(target=self._serve, name="misbehaving coordinator")

    def __enter__(self) -> "MisbehavingCoordinator":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # shut down by __exit__
                return
            self.taken += 1
            with connection, suppress(OSError):
                self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        connection.settimeout(10)
        session = Session(Role.COORDINATOR)
        connection.sendall(session.send_hello())
        while data := connection.recv(65536):
            for event in session.receive_bytes(data):
                if isinstance(event, RequestReceived):
                    self.asked += 1
                    self._misdeed(connection, event.correlation_id)
                    return


def framed(correlation_id: int, message: Message) -> bytes:
    """Return the bytes of a response, whoever it is for."""
    return encode_envelope(correlation_id, encode_message(message))


def late(pause_s: float, message: Message) -> Misdeed:
    """Answer after a pause."""

    def misdeed(connection: socket.socket, correlation_id: int) -> None:
        time.sleep(pause_s)
        connection.sendall(framed(correlation_id, message))

    return misdeed


def sends(make: Callable[[int], bytes]) -> Misdeed:
    """Send what is made of the correlation id, and close."""
    return lambda connection, correlation_id: connection.sendall(make(correlation_id))


def byte_by_byte(message: Message) -> Misdeed:
    """Answer as it should be, one byte a time."""

    def misdeed(connection: socket.socket, correlation_id: int) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in framed(correlation_id, message):
            connection.sendall(bytes([byte]))

    return misdeed
