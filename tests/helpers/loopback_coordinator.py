"""A coordinator on a real loopback socket that answers as its script says; it can be killed and come back."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from coordinator.protocol.claim_columns import count_of
from coordinator.protocol.messages import (
    Advance,
    ConfirmClaims,
    ConfirmClaimsResponse,
    FetcherStarted,
    FetcherStartedResponse,
    FetcherStopped,
    FetcherStoppedResponse,
    FindCoordinator,
    LeaveGroup,
    LeaveGroupResponse,
    Ping,
    PingResponse,
    Push,
    RegisterConsumer,
    Request,
    Response,
)
from coordinator.protocol.parts import ClaimStatuses
from coordinator.protocol.session import RequestReceived, Role, Session
from tests.helpers.member_pair import accepted, found, registered, start_fetcher

Answer = Callable[[Any], Response | None]


def unused_address() -> tuple[str, int]:
    """Return an address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address: tuple[str, int] = listener.getsockname()
        return address


class LoopbackCoordinator:
    """Answers each kind of request by `script`, an answer of None being silence; pushes `grants` to whoever registers.

    `greeting` replaces the hello, and nothing is understood then. `requests` collects everything that came.
    """

    def __init__(self, greeting: bytes | None = None) -> None:
        self.requests: list[Request] = []
        self.grants: list[Push] = [start_fetcher(0, 1)]
        self.connections_taken = 0
        self._greeting = greeting
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self.script: dict[type[Request], Answer] = {
            FindCoordinator: lambda _: found(self.address),
            RegisterConsumer: registered,
            Ping: lambda _: PingResponse(member_epoch=1),
            FetcherStarted: lambda _: FetcherStartedResponse(),
            FetcherStopped: lambda _: FetcherStoppedResponse(),
            Advance: accepted,
            ConfirmClaims: lambda request: ConfirmClaimsResponse(claims=ClaimStatuses(count_of(request.claims))),
            LeaveGroup: lambda _: LeaveGroupResponse(),
        }
        self._lock = threading.Lock()
        self._sockets: dict[socket.socket, Session] = {}
        self._threads: list[threading.Thread] = []
        self._begin()

    def __enter__(self) -> "LoopbackCoordinator":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _begin(self) -> None:
        self._spawn(self._accept, self._listener)

    def _spawn(self, work: Callable[[socket.socket], None], sock: socket.socket) -> None:
        thread = threading.Thread(target=work, args=(sock,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def kill(self) -> None:
        """Close everything at once, as a dead process does."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        if self._threads:
            self._threads[0].join(30)  # which accepts: what it has accepted by then is dropped with the others
        self._listener.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join(30)
        self._threads.clear()

    def drop_connections(self) -> None:
        with self._lock:
            for sock in self._sockets:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def come_back(self) -> None:
        """Listen on the same port again."""
        self._listener = socket.create_server(self.address)
        self._begin()

    def say(self, data: bytes) -> None:
        """Write raw bytes to every connection."""
        with self._lock:
            for sock in self._sockets:
                sock.sendall(data)

    def push(self, *pushes: Push) -> None:
        with self._lock:
            for sock, session in self._sockets.items():
                for push in pushes:
                    sock.sendall(session.send_push(push))

    def received(self, kind: type[Request]) -> list[Any]:
        return [request for request in self.requests if isinstance(request, kind)]

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                sock, _ = listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections_taken += 1
                with self._lock:
                    self._sockets[sock] = Session(Role.COORDINATOR)
                self._spawn(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        session = self._sockets[sock]
        with sock:
            try:
                sock.sendall(session.send_hello() if self._greeting is None else self._greeting)
                while data := sock.recv(65536):
                    if self._greeting is None:
                        self._answer(sock, session, data)
            except OSError:
                pass
            finally:
                with self._lock:
                    del self._sockets[sock]

    def _answer(self, sock: socket.socket, session: Session, data: bytes) -> None:
        for said in session.receive_bytes(data):
            if not isinstance(said, RequestReceived):
                continue
            self.requests.append(said.request)
            response = self.script[type(said.request)](said.request)
            if response is None:
                continue
            with self._lock:
                sock.sendall(session.send_response(said.correlation_id, response))
                if isinstance(said.request, RegisterConsumer):
                    for push in self.grants:
                        sock.sendall(session.send_push(push))
