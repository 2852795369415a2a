"""A coordinator on a loopback socket that answers as a test says; a thread serves one connection at a time.

What it says for a request is a response, something that makes one, or a misdeed, after which the connection is closed.
"""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from coordinator.protocol.codec import encode_message
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.framing import encode_envelope
from coordinator.protocol.messages import ErrorResponse, Message, Push, Request, Response
from coordinator.protocol.session import RequestReceived, Role, Session


@dataclass(frozen=True)
class Misdeed:
    """Breaks a rule: takes the connection and the request's correlation id, and sends what it likes."""

    act: Callable[[socket.socket, int], None]


Answer = Response | Callable[[Request], Response] | Misdeed


class ScriptedCoordinator:
    """Answers each request by its type from `answers`; a list is used up from its start, its last answer stays.

    A context manager; `asked` holds the requests that came, in order, and `taken` counts connections. `pushes` are said
    before each response. With `hangs_up_after` it reads so many bytes of a connection and then resets it.
    """

    def __init__(
        self,
        answers: dict[type[Request], Answer | list[Answer]],
        pushes: tuple[Push, ...] = (),
        *,
        hangs_up_after: int | None = None,
    ) -> None:
        self.asked: list[Request] = []
        self.taken = 0
        self.answers = {
            kind: list(answer) if isinstance(answer, list) else [answer] for kind, answer in answers.items()
        }
        self._pushes = pushes
        self._hangs_up_after = hangs_up_after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._thread = threading.Thread(target=self._serve, name="scripted coordinator")

    def __enter__(self) -> "ScriptedCoordinator":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # shut down by __exit__
                return
            self.taken += 1
            with connection, suppress(ConnectionError):  # whoever asked may have gone
                self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        connection.settimeout(30)
        session = Session(Role.COORDINATOR)
        connection.sendall(session.send_hello())
        if self._hangs_up_after is not None:
            connection.recv(self._hangs_up_after, socket.MSG_WAITALL)  # a close with bytes unread is a reset
            return
        while data := connection.recv(65536):
            for event in session.receive_bytes(data):
                if isinstance(event, RequestReceived):
                    self.asked.append(event.request)
                    answer = self._answer(event.request)
                    if isinstance(answer, Misdeed):
                        with suppress(OSError):  # the other side may have had enough
                            answer.act(connection, event.correlation_id)
                        return
                    for push in self._pushes:
                        connection.sendall(session.send_push(push))
                    connection.sendall(session.send_response(event.correlation_id, answer))

    def _answer(self, request: Request) -> Response | Misdeed:
        left = self.answers.get(type(request), [])
        if not left:
            return ErrorResponse(ErrorCode.INVALID_REQUEST, "the script has no answer")
        answer = left.pop(0) if len(left) > 1 else left[0]
        return answer(request) if callable(answer) else answer


def framed(correlation_id: int, message: Message) -> bytes:
    """Return the bytes of a response, whoever it is for."""
    return encode_envelope(correlation_id, encode_message(message))


def sends(make: Callable[[int], bytes]) -> Misdeed:
    """Send what is made of the correlation id, and close."""
    return Misdeed(lambda connection, correlation_id: connection.sendall(make(correlation_id)))


def late(pause_s: float, message: Message) -> Misdeed:
    """Answer after a pause."""

    def act(connection: socket.socket, correlation_id: int) -> None:
        time.sleep(pause_s)
        connection.sendall(framed(correlation_id, message))

    return Misdeed(act)


def byte_by_byte(message: Message) -> Misdeed:
    """Answer as it should be, one byte a time."""

    def act(connection: socket.socket, correlation_id: int) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in framed(correlation_id, message):
            connection.sendall(bytes([byte]))

    return Misdeed(act)


CLOSES = sends(lambda _: b"")
"""Closes the connection amid the request, without a byte."""
