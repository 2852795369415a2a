"""The TLS of the members' port, and that between nodes, as their files have it, made anew when one has changed.

What is made counts for the connections from then on.
"""

import ssl
from dataclasses import dataclass
from typing import Final

from structlog.typing import FilteringBoundLogger

from coordinator.config import TlsSettings
from coordinator.runtime.security.reread import Reread
from coordinator.runtime.security.tls_files import TlsFiles

VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_ASKED_FOR: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def tls_of_members(settings: TlsSettings, log: FilteringBoundLogger) -> Reread[ssl.SSLContext] | None:
    """Return the TLS of the members' port, None where there is none; raises ConfigError."""
    if not settings.is_on:
        return None
    return Reread("tls", _files_of(settings).paths, lambda: context_for_members(settings), log)


def context_for_members(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of the members' port; raises FileError."""
    context = _files_of(settings).context(ssl.PROTOCOL_TLS_SERVER, VERSIONS[settings.min_version])
    context.verify_mode = _ASKED_FOR[settings.client_auth]
    return context


@dataclass(frozen=True, slots=True)
class PeerTls:
    """The contexts of a node among other nodes: for those who connect to it, and for connecting to them."""

    called: ssl.SSLContext
    calling: ssl.SSLContext


def tls_of_peers(settings: TlsSettings | None, log: FilteringBoundLogger) -> Reread[PeerTls] | None:
    """Return the TLS between nodes, None where there is none; raises ConfigError."""
    if settings is None:
        return None
    return Reread("peers", _files_of(settings, "peers").paths, lambda: contexts_for_peers(settings), log)


def contexts_for_peers(settings: TlsSettings) -> PeerTls:
    """Return the contexts between nodes, where both ends show a certificate; raises FileError."""
    files, oldest = _files_of(settings, "peers"), VERSIONS[settings.min_version]
    called = files.context(ssl.PROTOCOL_TLS_SERVER, oldest)
    called.verify_mode = ssl.CERT_REQUIRED
    return PeerTls(called, files.context(ssl.PROTOCOL_TLS_CLIENT, oldest))


def _files_of(settings: TlsSettings, section: str = "tls") -> TlsFiles:
    return TlsFiles(
        section, settings.certificate, settings.key, settings.key_password_file, settings.trusted_certificates
    )
