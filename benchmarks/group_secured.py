"""TLS and a log-in for the load of a group: what the node is given, and a connection of a member made of a plain one.

The certificate's key is of an elliptic curve and the password is iterated as seldom as RFC 7677 allows, for members are
many here and share one core; both are costs of connecting alone.
"""

import socket
import ssl
from pathlib import Path
from typing import Final

import trustme

from coordinator.client.log_in import log_in
from coordinator.client.security import ClientSecurity, Secret
from coordinator.core.security.users import LEAST_ITERATIONS
from coordinator.runtime.security.users_store import add_password

_MECHANISM: Final = "SCRAM-SHA-256"
_USER: Final = "load"
_PASSWORD: Final = "pencil"
_TIMEOUT_S: Final = 20.0


class Secured:
    """The files of a node in a folder, and the connections of its members."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        trusted, pair, users = folder / "ca.pem", folder / "node.pem", folder / "users"
        authority.cert_pem.write_to_path(str(trusted))
        authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA).private_key_and_cert_chain_pem.write_to_path(
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
        speaking = self._context.wrap_socket(sock, server_hostname="127.0.0.1")
        log_in(speaking, self._security, _TIMEOUT_S)
        return speaking
