"""A context of TLS made of the files that a section of the settings names.

A pair that does not fit, or a file that cannot be read, is a FileError whose text names the setting and the file, and
shows nothing of what is in it.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coordinator.runtime.security.reread import FileError, read_file

# OpenSSL takes passwords of 1,024 bytes; certificates are looked at here only as far as that they can be read.
_MOST_BYTES: Final = 4096
_MOST_SECRET_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of one end of TLS, as settings of one section, or flags; an empty name is a file that is not given."""

    section: str
    certificate: str = ""
    key: str = ""
    key_password_file: str = ""
    trusted_certificates: str = ""

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return the files that are given."""
        named = (self.certificate, self.key, self.key_password_file, self.trusted_certificates)
        return tuple(Path(name) for name in named if name)

    def name_of(self, setting: str) -> str:
        """Return a setting as whoever gives it knows it: of a section of a file, or a flag."""
        if self.section.startswith("--"):
            return f"{self.section}-{setting.replace('_', '-')}"
        return f"{self.section}.{setting}"

    def context(self, protocol: int, oldest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2) -> ssl.SSLContext:
        """Return a context made of the files as they are now; raises FileError."""
        context = ssl.SSLContext(protocol)
        context.minimum_version = oldest
        context.options |= ssl.OP_NO_RENEGOTIATION
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            # Members come back in thousands and take up no session of before: tickets for that were a quarter of the
            # cost of letting one in. TLS 1.2 keeps its own, without which the node would keep the sessions instead.
            context.num_tickets = 0
        if self.certificate:
            self._load_pair(context)
        if self.trusted_certificates:
            self._load_trusted(context)
        return context

    def _load_pair(self, context: ssl.SSLContext) -> None:
        certificate, key = Path(self.certificate), Path(self.key or self.certificate)
        names = self.name_of("certificate"), self.name_of("key")
        for name, path in zip(names, (certificate, key), strict=True):
            _read(name, path)
        password = read_secret(self.name_of("key_password_file"), self.key_password_file)
        is_encrypted = False

        def tell_password() -> str:
            # OpenSSL asks when it finds that the key is encrypted, and would ask a terminal without this.
            nonlocal is_encrypted
            is_encrypted = True
            return password

        try:
            context.load_cert_chain(certificate, key, password=tell_password)
        except (ssl.SSLError, OSError, ValueError) as error:
            why = self._why_locked() if is_encrypted and not _is_other_key(error) else _why(error)
            raise FileError(f"{names[0]} {certificate} and {names[1]} {key} cannot be used: {why}") from None

    def _why_locked(self) -> str:
        setting = self.name_of("key_password_file")
        given = "has another password" if self.key_password_file else "is not given"
        return f"the key is encrypted, and {setting} {given}"

    def _load_trusted(self, context: ssl.SSLContext) -> None:
        name, trusted = self.name_of("trusted_certificates"), Path(self.trusted_certificates)
        _read(name, trusted)
        try:
            context.load_verify_locations(cafile=trusted)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise FileError(f"{name} {trusted} cannot be used: {_why(error)}") from None


def read_secret(name: str, path: str) -> str:
    """Return the text of the file that a setting names, without the end of its line, empty for no file.

    Raises FileError.
    """
    if not path:
        return ""
    return _read(name, Path(path), _MOST_SECRET_BYTES).decode(errors="replace").rstrip("\r\n")


def _read(name: str, path: Path, most_bytes: int = _MOST_BYTES) -> bytes:
    try:
        return read_file(path, most_bytes)
    except FileError as error:
        raise FileError(f"{name} {error}") from None


def _is_other_key(error: Exception) -> bool:
    return getattr(error, "reason", None) == "KEY_VALUES_MISMATCH"


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", None) or ""
    known = {
        "KEY_VALUES_MISMATCH": "the key is not that of the certificate",
        "NO_START_LINE": "there is nothing in it that is PEM",
        "NO_CERTIFICATE_OR_CRL_FOUND": "there is no certificate in it",
    }
    if isinstance(error, ssl.SSLError):
        return known.get(reason) or reason.lower().replace("_", " ") or "there is nothing of the kind in it that is PEM"
    return type(error).__name__
