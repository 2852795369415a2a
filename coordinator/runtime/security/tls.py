"""The TLS of a node as its files have it: one context for those who come, one for going to other nodes.

Each is made anew when a certificate or a key has changed, for the connections from then on. A pair that does not fit,
or a file that cannot be read, is a FileError whose text names the file.
"""

import ssl
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from coordinator.config import TlsSettings
from coordinator.runtime.security.reread import FileError, Reread, read_file

# OpenSSL takes passwords of 1,024 bytes; certificates are looked at here only as far as that they can be read.
_MOST_BYTES: Final = 4096
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_ASKED_FOR: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def tls_of_members(settings: TlsSettings, log: FilteringBoundLogger) -> Reread[ssl.SSLContext] | None:
    """Return the TLS of the members' port, None where there is none; raises ConfigError."""
    if not settings.is_on:
        return None
    return Reread("tls", _paths(settings), lambda: context_for_members(settings), log)


def context_for_members(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of the members' port; raises FileError."""
    context = _context(settings, ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _ASKED_FOR[settings.client_auth]
    return context


def _context(settings: TlsSettings, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = _VERSIONS[settings.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    certificate, key = Path(settings.certificate), Path(settings.key or settings.certificate)
    for name, path in (("tls.certificate", certificate), ("tls.key", key)):
        _read(name, path)
    password = _password(settings)
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(certificate, key, password=password or "")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise FileError(f"tls.certificate {certificate} and tls.key {key} cannot be used: {_why(error)}") from None
    if settings.trusted_certificates:
        trusted = Path(settings.trusted_certificates)
        _read("tls.trusted_certificates", trusted)
        try:
            context.load_verify_locations(cafile=trusted)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise FileError(f"tls.trusted_certificates {trusted} cannot be used: {_why(error)}") from None
    return context


def _paths(settings: TlsSettings) -> list[Path]:
    named = (settings.certificate, settings.key, settings.key_password_file, settings.trusted_certificates)
    return [Path(name) for name in named if name]


def _password(settings: TlsSettings) -> str | None:
    if not settings.key_password_file:
        return None
    return _read("tls.key_password_file", Path(settings.key_password_file)).decode(errors="replace").rstrip("\r\n")


def _read(name: str, path: Path) -> bytes:
    try:
        return read_file(path, _MOST_BYTES)
    except FileError as error:
        raise FileError(f"{name} {error}") from None


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", None) or ""
    known = {
        "KEY_VALUES_MISMATCH": "the key is not that of the certificate",
        "BAD_DECRYPT": "the password of the key is another one",
        "PEM_LIB": "it is not PEM, or the password of the key is another one",
        "NO_START_LINE": "there is nothing in it that is PEM",
        "NO_CERTIFICATE_OR_CRL_FOUND": "there is no certificate in it",
    }
    return known.get(reason) or (reason.lower().replace("_", " ") if reason else type(error).__name__)
