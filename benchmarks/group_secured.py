"""TLS and a log-in for the load of a group: what the node is given, and a connection of a member made of a plain one.

The certificate's key is of an elliptic curve and the password is iterated as seldom as RFC 7677 allows. Members are
many here, share one core and have one password: it is hashed once, where each of so many machines would hash its own.
"""

import select
import socket
import ssl
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import scramp.core
import trustme

from coordinator.client.log_in import log_in, proof_of
from coordinator.client.security import ClientSecurity, Secret
from coordinator.core.security.users import LEAST_ITERATIONS
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.log_in import Greeted, Heard, LogInAnswered, LogInSession
from coordinator.protocol.messages.log_in import LogIn, LogInResponse
from coordinator.protocol.session import Role
from coordinator.runtime.security.users_store import add_password

_MECHANISM: Final = "SCRAM-SHA-256"
_USER: Final = "load"
_PASSWORD: Final = "pencil"
_HOST: Final = "127.0.0.1"
_TIMEOUT_S: Final = 20.0
_READ_BYTES: Final = 4096


def password_hashed_once() -> AbstractContextManager[Any]:
    """Return a context in which a password is hashed for the first log-in with it alone."""
    hashed = lru_cache(scramp.core.hi)
    return patch.object(scramp.core, "hi", lambda kind, *words: hashed(kind, *words[:-1], int(words[-1])))


class SecuredEntry:
    """The way in of one connection that is being made: TLS, then a log-in."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, security: ClientSecurity) -> None:
        self.sock = sock
        self._context = context
        self._session = LogInSession(Role.MEMBER)
        self._proof = proof_of(security)
        self._unsent = self._session.greet()
        self._is_in = False

    def go_on(self) -> int:
        """Go on where the socket is ready; raises OSError, and RuntimeError where the node refuses the log-in."""
        try:
            if not isinstance(self.sock, ssl.SSLSocket):
                self.sock = self._context.wrap_socket(self.sock, server_hostname=_HOST, do_handshake_on_connect=False)
            assert isinstance(self.sock, ssl.SSLSocket)
            if self.sock.version() is None:
                self.sock.do_handshake()
            while not self._is_in:
                while self._unsent:
                    self._unsent = self._unsent[self.sock.send(self._unsent) :]
                data = self.sock.recv(_READ_BYTES)
                if not data:
                    raise RuntimeError("the node closed a connection during its log-in")
                for heard in self._session.receive(data):
                    self._take(heard)
        except ssl.SSLWantReadError:
            return select.EPOLLIN
        except ssl.SSLWantWriteError:
            return select.EPOLLOUT
        return 0

    def _take(self, heard: Heard) -> None:
        match heard:
            case Greeted():
                data = self._proof.first()
            case LogInAnswered(LogInResponse(error=ErrorCode.NONE) as answer):
                if answer.is_done:
                    self._proof.end(answer.data)
                    self._is_in = True
                    return
                data = self._proof.following(answer.data)
            case other:
                raise RuntimeError(f"a log-in was answered by {other}")
        self._unsent += self._session.ask(LogIn(_MECHANISM, data))


class Secured:
    """The files of a node in a folder, and the connections of its members."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        trusted, pair, users = folder / "ca.pem", folder / "node.pem", folder / "users"
        authority.cert_pem.write_to_path(str(trusted))
        authority.issue_cert(_HOST, key_type=trustme.KeyType.ECDSA).private_key_and_cert_chain_pem.write_to_path(
            str(pair)
        )
        add_password(users, _USER, _PASSWORD, (_MECHANISM,), LEAST_ITERATIONS)
        self.settings = (
            f"tls.certificate={pair}",
            f"authentication.mechanisms={_MECHANISM}",
            f"authentication.users_file={users}",
        )
        self._security = ClientSecurity(
            "SASL_SSL",
            ca_location=str(trusted),
            mechanism=_MECHANISM,
            username=_USER,
            password=Secret(_PASSWORD),
        )
        self._context = self._security.tls_context()

    def connect(self, sock: socket.socket) -> ssl.SSLSocket:
        """Speak TLS on a connection and log in; it blocks."""
        speaking = self._context.wrap_socket(sock, server_hostname=_HOST)
        log_in(speaking, self._security, _TIMEOUT_S)
        return speaking

    def begin(self, sock: socket.socket) -> SecuredEntry:
        """Return the way in of a connection that is being made."""
        return SecuredEntry(sock, self._context, self._security)
