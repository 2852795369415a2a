"""The log-in of a client, on a connection that is open: hellos, the words of a mechanism, and the end of it.

It is done before anything of a group is said, by whoever opens a connection, and leaves the connection as if it had
just been opened. A coordinator has to show in its turn that it knows the password; one that does not is not spoken to.
No error shows a secret.
"""

import socket
import time
from typing import Any, Final, Protocol

from scramp import ScramClient, ScramException

from coordinator.client.security import TOKEN_MECHANISM, ClientSecurity, LogInError, LogInRefusedError
from coordinator.protocol.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from coordinator.protocol.framing import LENGTH_BYTES
from coordinator.protocol.log_in import MOST_BYTES, Heard, LogInAnswered, LogInSession, token_message
from coordinator.protocol.messages import ErrorResponse
from coordinator.protocol.messages.log_in import LogIn, LogInResponse
from coordinator.protocol.session import Role

MOST_ITERATIONS: Final = 1_000_000
"""The most that a coordinator may have the password hashed."""


class Proof(Protocol):
    """The words of a mechanism as a client says them. Raises LogInError."""

    def first(self) -> bytes:
        """Return the first words."""

    def following(self, data: bytes) -> bytes:
        """Return the words that answer the coordinator's."""

    def end(self, data: bytes) -> None:
        """Take the coordinator's last words, which have to be good."""


class ScramProof:
    """Shows that the client knows a password, and has the coordinator show that it does."""

    def __init__(self, security: ClientSecurity) -> None:
        try:
            self._client: Any = ScramClient([security.mechanism], security.username, security.password.read())
        except ScramException as error:
            raise LogInRefusedError(
                f"cannot be logged in to with this user name and password: {_plain(error)}"
            ) from None
        self._is_proven = False

    def first(self) -> bytes:
        """Return the first words, which name the user."""
        first: str = self._client.get_client_first()
        return first.encode()

    def following(self, data: bytes) -> bytes:
        """Return the proof."""
        if self._is_proven:
            raise LogInError("did not end the log-in when it was due")
        self._is_proven = True
        try:
            self._client.set_server_first(data.decode())
            if int(self._client.iterations) > MOST_ITERATIONS:
                raise LogInError(
                    f"asks for more than {MOST_ITERATIONS} iterations of the password, which takes too long"
                )
            final: str = self._client.get_client_final()
        except (ScramException, UnicodeDecodeError) as error:
            raise LogInError(f"broke a rule of {self._client.mechanism_name}: {_plain(error)}") from None
        return final.encode()

    def end(self, data: bytes) -> None:
        """Check that the coordinator knows the password too, or what was made of it."""
        if not self._is_proven:
            raise LogInError("wanted no proof of the password, as if it did not know it: it may be another program")
        try:
            self._client.set_server_final(data.decode())
        except (ScramException, UnicodeDecodeError):
            raise LogInError("did not show that it knows the password: it may be another program") from None


class TokenProof:
    """Shows a token."""

    def __init__(self, security: ClientSecurity) -> None:
        self._token = security.token.read().strip()
        if not self._token or not self._token.isascii() or not self._token.isprintable() or " " in self._token:
            raise LogInRefusedError("is not shown the token: it is empty, or is no token")

    def first(self) -> bytes:
        """Return the token as RFC 7628 has it said."""
        return token_message(self._token)

    def following(self, data: bytes) -> bytes:
        """Refuse to say more: a token is all there is."""
        del data
        raise LogInError("did not end the log-in when it was due")

    def end(self, data: bytes) -> None:
        """Take nothing."""


def proof_of(security: ClientSecurity) -> Proof:
    """Return the proof that a client gives, with the secret as it is now; raises SecurityError."""
    return TokenProof(security) if security.mechanism == TOKEN_MECHANISM else ScramProof(security)


def log_in(sock: socket.socket, security: ClientSecurity, timeout_s: float) -> None:
    """Log in on a connection; raises SecurityError, and OSError when the connection fails or takes too long."""
    deadline_s = time.monotonic() + timeout_s
    session = LogInSession(Role.MEMBER)
    proof = proof_of(security)
    try:
        _send(sock, session.greet(), deadline_s)
        _hear(sock, session, deadline_s)
        data = proof.first()
        while True:
            _send(sock, session.ask(LogIn(security.mechanism, data)), deadline_s)
            heard = _hear(sock, session, deadline_s)
            assert isinstance(heard, LogInAnswered), "what comes after a hello is an answer"
            answer = _must_not_be_refused(heard.response)
            if answer.is_done:
                proof.end(answer.data)
                return
            data = proof.following(answer.data)
    except LocalProtocolError as error:
        raise LogInRefusedError(f"cannot be logged in to: {error}; the token is too long") from None
    except RemoteProtocolError as error:
        raise LogInError(f"does not speak as a kcoord coordinator: {error}") from error


def _must_not_be_refused(response: LogInResponse | ErrorResponse) -> LogInResponse:
    if isinstance(response, LogInResponse) and response.error is ErrorCode.NONE:
        return response
    if response.error is ErrorCode.UNSUPPORTED_VERSION:
        raise LogInRefusedError(
            "logs nobody in: set kcoord.security.protocol to SSL or PLAINTEXT, or authentication.mechanisms of the node"
        )
    raise LogInRefusedError(f"refused the log-in: {response.message or response.error.name}")


def _send(sock: socket.socket, data: bytes, deadline_s: float) -> None:
    sock.settimeout(_remaining_s(deadline_s))
    sock.sendall(data)


def _hear(sock: socket.socket, session: LogInSession, deadline_s: float) -> Heard:
    """Return what the coordinator says next; no byte behind its frame is read, for that is of the next session."""
    head = _read(sock, LENGTH_BYTES, deadline_s)
    length = min(int.from_bytes(head), MOST_BYTES)  # a longer one ends the session before its body is looked at
    for heard in session.receive(head):
        return heard
    for heard in session.receive(_read(sock, length, deadline_s)):
        return heard
    raise LogInError("did not say a whole frame")


def _read(sock: socket.socket, count: int, deadline_s: float) -> bytes:
    read = b""
    while len(read) < count:
        sock.settimeout(_remaining_s(deadline_s))
        came = sock.recv(count - len(read))
        if not came:
            raise ConnectionResetError("the coordinator closed the connection during the log-in")
        read += came
    return read


def _remaining_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _plain(error: Exception) -> str:
    return str(error).partition(":")[0]
