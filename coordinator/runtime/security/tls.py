"""The TLS of the members' port as its files have it, made anew when a certificate or a key has changed.

What is made counts for the connections from then on.
"""

import ssl
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


def _files_of(settings: TlsSettings) -> TlsFiles:
    return TlsFiles(
        "tls", settings.certificate, settings.key, settings.key_password_file, settings.trusted_certificates
    )
