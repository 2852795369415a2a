"""The TLS of the console: its certificate and key, made anew when a file has changed, and the hosts that it is for."""

import contextlib
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from coordinator.client.tls_reasons import why_tls_failed
from coordinator.core.security.host_names import CertificateName
from coordinator.runtime.security.reread import FileError, Reread
from coordinator.runtime.security.tls_files import TlsFiles

LOOK_MS: Final = 5_000
"""The time between two looks whether a file has changed; a node's by its default."""
_NO_CHECK_TIME: Final = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python's ssl does not name."""


@dataclass(frozen=True, slots=True)
class ConsoleTls:
    """The context for connections from now on, and the names in its certificate."""

    context: ssl.SSLContext
    names: tuple[CertificateName, ...]


def tls_of_console(files: TlsFiles, log: FilteringBoundLogger) -> Reread[ConsoleTls]:
    """Return the TLS of a console; raises ConfigError."""
    return Reread("tls", files.paths, lambda: load(files), log)


def load(files: TlsFiles) -> ConsoleTls:
    """Return what the files hold now; raises FileError."""
    context = files.context(ssl.PROTOCOL_TLS_SERVER)
    return ConsoleTls(context, _names_of(context, files))


def _names_of(context: ssl.SSLContext, files: TlsFiles) -> tuple[CertificateName, ...]:
    """Return the names in the certificate that a server shows, by shaking hands with it in memory.

    Python's ssl tells what is in a certificate only of one that the other end has shown and that is trusted: so the
    client here trusts that one by itself, whatever its age.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(_NO_CHECK_TIME)
    certificate = Path(files.certificate)
    try:
        client.load_verify_locations(cafile=certificate)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        server_end = context.wrap_bio(to_server, to_client, server_side=True)
        client_end = client.wrap_bio(to_client, to_server)
        is_done = False
        while not is_done:
            with contextlib.suppress(ssl.SSLWantReadError):
                client_end.do_handshake()
                is_done = True
            with contextlib.suppress(ssl.SSLWantReadError):
                server_end.do_handshake()
        shown: Any = client_end.getpeercert() or {}
    except ssl.SSLError as error:
        name = files.name_of("certificate")
        raise FileError(f"{name} {certificate} cannot be used: {why_tls_failed(error)}") from None
    return tuple((str(kind), str(name)) for kind, name in shown.get("subjectAltName", ()))
