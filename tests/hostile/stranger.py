"""One hostile connection: a blocking socket from an address of its own, and a session that says what it is told to."""

import resource
import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from coordinator.protocol.messages import Request
from coordinator.protocol.session import ResponseReceived, Role, Session

PATIENCE_S = 20.0
_AT_ONCE = struct.pack("ii", 1, 0)


def source(number: int) -> str:
    """Return one of some ten thousand addresses of loopback that nobody else uses."""
    return f"127.{10 + number // 250 % 200}.0.{number % 250 + 1}"


def raise_file_limit() -> None:
    """Open as many files as may be."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connected(address: str, number: int) -> socket.socket:
    """Return a connection from the source of this number."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), PATIENCE_S, source_address=(source(number), 0))


class Stranger:
    """A connection that has said hello; a context manager that goes without a word."""

    def __init__(self, address: str, number: int = 0) -> None:
        self.session = Session(Role.MEMBER)
        self.socket = connected(address, number)
        self.socket.sendall(self.session.send_hello())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.go()

    def go(self) -> None:
        """Reset the connection, so that nothing of it stays with the kernel."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.socket.close()

    def greet(self) -> None:
        """Wait for the node's hello; raises EOFError when it closes the connection instead."""
        while self.session.version is None:
            self._read()

    def send(self, requests: Sequence[Request]) -> None:
        """Send requests at once, and wait for nothing."""
        self.socket.sendall(b"".join(self.session.send_request(request)[1] for request in requests))

    def ask(self, request: Request) -> Any:
        """Return the response to a request."""
        self.greet()
        self.send([request])
        while True:
            for event in self._read():
                if isinstance(event, ResponseReceived):
                    return event.response

    def _read(self) -> list[object]:
        data = self.socket.recv(1 << 18)
        if not data:
            raise EOFError("the node closed the connection")
        return list(self.session.receive_bytes(data))
