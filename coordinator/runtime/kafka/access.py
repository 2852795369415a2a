"""The way in which a node speaks to brokers and logs in to them, as its settings and their files have it.

Made anew when a file has changed; the port then connects anew. No secret is in its repr.
"""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl.oauth import AbstractTokenProvider
from structlog.typing import FilteringBoundLogger

from coordinator.config import KafkaSettings
from coordinator.runtime.security.reread import FileError, Reread
from coordinator.runtime.security.tls_files import TlsFiles, read_secret


@dataclass(frozen=True, slots=True, eq=False)
class KafkaAccess:
    """One state of the settings and their files."""

    protocol: str = "PLAINTEXT"
    tls: ssl.SSLContext | None = None
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    token_file: str = ""

    @property
    def who(self) -> str:
        """Return as whom the node logs in, for people."""
        if not self.mechanism:
            return ""
        return f"{self.username or 'the bearer of ' + self.token_file} with {self.mechanism}"

    def for_library(self) -> dict[str, Any]:
        """Return the settings of kafka-python for it."""
        settings: dict[str, Any] = {"security_protocol": self.protocol, "ssl_context": self.tls}
        if self.mechanism:
            settings["sasl_mechanism"] = self.mechanism
        if self.token_file:
            settings["sasl_oauth_token_provider"] = _TokenFile(self.token_file)
        elif self.mechanism:
            settings |= {"sasl_plain_username": self.username, "sasl_plain_password": self.password}
        return settings


PLAIN_ACCESS: Final = KafkaAccess()
"""Neither TLS nor a log-in."""


def kafka_access_of(settings: KafkaSettings, log: FilteringBoundLogger) -> Reread[KafkaAccess] | None:
    """Return how brokers are spoken to, None where plainly; raises ConfigError."""
    if settings.security_protocol == "PLAINTEXT":
        return None
    secrets = tuple(Path(name) for name in (settings.sasl_password_file,) if name)
    return Reread("kafka", (*_files_of(settings).paths, *secrets), lambda: load_access(settings), log)


def load_access(settings: KafkaSettings) -> KafkaAccess:
    """Return it as the files have it now; raises FileError."""
    tls = None
    if settings.is_tls:
        files = _files_of(settings)
        tls = files.context(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname = settings.endpoint_identification == "https"
        if not files.trusted_certificates:
            tls.load_default_certs()
    password = settings.sasl_password.get_secret_value()
    if settings.sasl_password_file:
        password = read_secret("kafka.sasl_password_file", settings.sasl_password_file)
        if not password:
            raise FileError(f"kafka.sasl_password_file {settings.sasl_password_file} has no password in its first line")
    if settings.sasl_token_file:
        _read_token(settings.sasl_token_file)
    return KafkaAccess(
        settings.security_protocol,
        tls,
        settings.sasl_mechanism,
        settings.sasl_username,
        password,
        settings.sasl_token_file,
    )


def _files_of(settings: KafkaSettings) -> TlsFiles:
    return TlsFiles(
        "kafka", settings.certificate, settings.key, settings.key_password_file, settings.trusted_certificates
    )


def _read_token(path: str) -> str:
    token = read_secret("kafka.sasl_token_file", path).strip()
    if not token:
        raise FileError(f"kafka.sasl_token_file {path} is empty")
    if not token.isascii() or any(letter.isspace() or not letter.isprintable() for letter in token):
        raise FileError(f"kafka.sasl_token_file {path} holds more than one token")
    return token


class _TokenFile(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    """Hands the library the token that the file holds at the moment of a log-in."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def token(self) -> str:
        """Return it."""
        try:
            return _read_token(self._path)
        except FileError as error:
            raise SaslAuthenticationFailedError(str(error)) from None
