"""One blocking connection to a coordinator node: opened, greeted, asked, closed.

Every wait but the look-up of a host name, which is the operating system's, ends in the time that was given for it.
Whatever keeps a response from coming is a `NodeError`, whose text continues a sentence that begins with the node's
address. Which node is asked, and whether again, is not decided here.
"""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from coordinator.client.security import PLAINTEXT, ClientSecurity, LogInError, LogInRefusedError, SecurityError
from coordinator.client.tls_reasons import why_tls_failed
from coordinator.protocol.errors import RemoteProtocolError
from coordinator.protocol.messages import Request, Response
from coordinator.protocol.session import HelloReceived, ResponseReceived, Role, Session, SessionEvent
from coordinator.protocol.text.addresses import Address

CONNECT_ERRORS: Final = (OSError, UnicodeError, OverflowError, SecurityError)
"""The exceptions of opening a connection: the system's and those of TLS, a name no resolver takes, a port out of range,
a file of TLS or of a log-in that cannot be used, a log-in that is refused."""

_READ_BYTES: Final = 256 * 1024
_LEAST_S: Final = 0.001
"""A time-out of 0 would be none for a socket."""


class NodeError(Exception):
    """A node gave no response; the text says why, and `advice` what to do."""

    def __init__(self, why: str, advice: str) -> None:
        super().__init__(why)
        self.advice = advice

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a copy in another process is made of."""
        return type(self), (*self.args, self.advice), dict(self.__dict__)


class NodeTimeoutError(NodeError):
    """The node gave no response in the time it had."""


class NodeRefusalError(NodeError):
    """The node did not let this client log in."""


def open_socket(host: str, port: int, timeout_s: float, security: ClientSecurity = PLAINTEXT) -> socket.socket:
    """Open a connection without Nagle's delay, with TLS and the log-in done; raises one of CONNECT_ERRORS."""
    context = security.tls_context() if security.is_tls else None
    deadline_s = time.monotonic() + timeout_s
    sock = _connect(host, port, deadline_s)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(max(deadline_s - time.monotonic(), _LEAST_S))
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname=host)
        if security.is_log_in:
            from coordinator.client.log_in import log_in  # loads a fifth of what a client is made of

            log_in(sock, security, deadline_s - time.monotonic())
    except BaseException:
        sock.close()
        raise
    return sock


def _connect(host: str, port: int, deadline_s: float) -> socket.socket:
    """Connect to one of the addresses of a host, which share the time that is left: one may drop what it is sent."""
    addresses = [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for place, address in enumerate(addresses):
        share_s = (deadline_s - time.monotonic()) / (len(addresses) - place)
        try:
            return socket.create_connection((address, port), timeout=max(share_s, _LEAST_S))
        except OSError:
            if place + 1 == len(addresses):
                raise
    raise OSError(f"{host} has no address")


def why_failed(error: Exception) -> str:
    """Return the operating system's words for a network error."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, ssl.SSLError):
        return why_tls_failed(error)
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


class Connection:
    """A connection that has exchanged hellos; a context manager that closes it.

    Whether it speaks TLS is said by `security`. Raises NodeError when the node cannot be reached or says no hello
    within `timeout_s`.
    """

    def __init__(self, address: Address, timeout_s: float, security: ClientSecurity = PLAINTEXT) -> None:
        self._session = Session(Role.MEMBER)
        self._events: Iterator[SessionEvent] = iter(())
        self._begin(timeout_s)
        with self._failures():
            self._socket = open_socket(*address, self._remaining_s(), security)
        try:
            with self._failures():
                self._socket.sendall(self._session.send_hello())
                while not isinstance(said := self._next(), HelloReceived):
                    pass
                self.peer_versions = said.peer_versions
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def certificate_end_s(self) -> float | None:
        """Return when the certificate that the node has shown ends, in seconds since 1970; None without TLS."""
        shown = self._socket.getpeercert() if isinstance(self._socket, ssl.SSLSocket) else None
        return ssl.cert_time_to_seconds(str(shown["notAfter"])) if shown else None

    def ask(self, request: Request, timeout_s: float) -> Response:
        """Send a request and return its response, which may be a refusal.

        Pushes are passed over: they are for members. Raises NodeError, and LocalProtocolError for a request that cannot
        be sent.
        """
        self._begin(timeout_s)
        correlation_id, data = self._session.send_request(request)
        with self._failures():
            self._socket.settimeout(self._remaining_s())
            self._socket.sendall(data)
            while True:
                event = self._next()
                if isinstance(event, ResponseReceived) and event.correlation_id == correlation_id:
                    return event.response

    def _next(self) -> SessionEvent:
        while True:
            for event in self._events:
                return event
            self._socket.settimeout(self._remaining_s())
            data = self._socket.recv(_READ_BYTES)
            if not data:
                raise EOFError
            self._events = self._session.receive_bytes(data)

    def _begin(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._deadline_s = time.monotonic() + timeout_s

    def _remaining_s(self) -> float:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn all that can go wrong on the way into a NodeError."""
        try:
            yield
        except TimeoutError as error:
            raise NodeTimeoutError(
                f"did not answer within {round(self._timeout_s, 2):g} s",
                "check that the address is a coordinator's and that it is running, or allow more time",
            ) from error
        except RemoteProtocolError as error:
            raise NodeError(
                f"does not speak as a kcoord coordinator: {error}",
                "check that the address is a kcoord coordinator's, of a release that this one can speak with",
            ) from error
        except (*CONNECT_ERRORS, EOFError) as error:
            raise self._lost(error) from error

    def _lost(self, error: Exception) -> NodeError:
        if isinstance(error, LogInError):
            kind = NodeRefusalError if isinstance(error, LogInRefusedError) else NodeError
            return kind(str(error), "check how this client logs in, and what the node's log says of it")
        is_closed = isinstance(error, EOFError | ConnectionResetError | BrokenPipeError)
        if not is_closed:
            return NodeError(
                f"cannot be reached: {why_failed(error)}", "check the address and that a coordinator is running there"
            )
        if self._session.version is None:
            return NodeError(
                "closed the connection without an answer",
                "check that the address is a kcoord coordinator's and not a Kafka broker's",
            )
        return NodeError(
            "closed the connection before it answered: it was stopped, or met a bug, which its log says",
            "look whether what was asked for is done, and ask again",
        )
