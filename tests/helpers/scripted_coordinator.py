"""A coordinator on a loopback socket that answers as a test says; a thread serves one connection at a time."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ErrorResponse, Push, Request, Response
from coordinator.protocol.session import RequestReceived, Role, Session

Answer = Response | Callable[[Request], Response]


class ScriptedCoordinator:
    """Answers each request by its type from `answers`; a list is used up from its start, its last answer stays.

    A context manager; `asked` holds the requests that came, in order. `pushes` are said before each response.
    """

    def __init__(self, answers: dict[type[Request], Answer | list[Answer]], pushes: tuple[Push, ...] = ()) -> None:
        self.asked: list[Request] = []
        self._answers = {
            kind: list(answer) if isinstance(answer, list) else [answer] for kind, answer in answers.items()
        }
        self._pushes = pushes
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
            with connection, suppress(ConnectionAbortedError):  # an answer raises it that is not to come
                self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        connection.settimeout(10)
        session = Session(Role.COORDINATOR)
        connection.sendall(session.send_hello())
        while data := connection.recv(65536):
            for event in session.receive_bytes(data):
                if isinstance(event, RequestReceived):
                    self.asked.append(event.request)
                    for push in self._pushes:
                        connection.sendall(session.send_push(push))
                    connection.sendall(session.send_response(event.correlation_id, self._answer(event.request)))

    def _answer(self, request: Request) -> Response:
        left = self._answers.get(type(request), [])
        if not left:
            return ErrorResponse(ErrorCode.INVALID_REQUEST, "the script has no answer")
        answer = left.pop(0) if len(left) > 1 else left[0]
        return answer(request) if callable(answer) else answer
