"""The TLS of connections to Kafka, made of the files that the options name, as they are when a connection is made.

A file that was exchanged counts for the connections from then on. One that cannot be used is an OptionError that names
the option that was given, the file and the reason; where the files were good before, what they held then is used on,
and a warning says so. No terminal is asked for a password. Host names and certificates are checked by OpenSSL.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from spark_kcoord.errors import OptionError
from spark_kcoord.options.kafka_settings import KafkaSettings

__all__ = ["TlsFiles", "tls_files_of"]

_log = logging.getLogger(__name__)

_PASSWORD: Final = "kafka.ssl.key.password"  # noqa: S105 - the name of an option
_PEM_BEGINS: Final = b"-----BEGIN "
_REASONS: Final = {
    "KEY_VALUES_MISMATCH": "the key is not that of the certificate",
    "NO_CERTIFICATE_OR_CRL_FOUND": "there is no certificate in it",
}


def tls_files_of(settings: KafkaSettings) -> TlsFiles | None:
    """Return the TLS of a client's connections; None where it has none, or was given a context of its user's."""
    client = dict(settings.client)
    is_tls = client.get("security_protocol") in ("SSL", "SASL_SSL")
    return TlsFiles(settings) if is_tls and client.get("ssl_context") is None else None


class TlsFiles:
    """Stands where kafka-python takes a context of the ssl module, and makes one for each connection."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._client = dict(settings.client)
        self._options = dict(settings.file_options)
        self._last: ssl.SSLContext | None = None

    def wrap_socket(self, sock: socket.socket, **how: Any) -> ssl.SSLSocket:
        """Return a socket that will speak TLS; raises OptionError, and closes the socket then."""
        try:
            return self._latest().wrap_socket(sock, **how)
        except OptionError:
            sock.close()
            raise

    def _latest(self) -> ssl.SSLContext:
        try:
            self._last = self.context()
        except OptionError as error:
            if self._last is None:
                raise
            _log.warning("%s What the files held before is used.", error)
        return self._last

    def context(self) -> ssl.SSLContext:
        """Return a context made of the files as they are now; raises OptionError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self._client.get("ssl_check_hostname", True)
        self._load_trusted(context)
        self._load_own(context)
        self._load_revoked(context)
        return context

    def _load_trusted(self, context: ssl.SSLContext) -> None:
        trusted = self._client.get("ssl_cafile")
        if trusted is None:
            context.load_default_certs()
            return
        self._load("ssl_cafile", lambda: context.load_verify_locations(cafile=trusted))

    def _load_own(self, context: ssl.SSLContext) -> None:
        certificate, key = self._client.get("ssl_certfile"), self._client.get("ssl_keyfile")
        if certificate is None:
            return
        if key is not None:
            self._must_be_pem("ssl_keyfile")
        keys = "ssl_certfile" if key is None else "ssl_keyfile"
        is_encrypted = False

        def password() -> str:
            # OpenSSL asks when it finds that the key is encrypted, and would ask a terminal without this.
            nonlocal is_encrypted
            is_encrypted = True
            given: str | None = self._client.get("ssl_password")
            if given is None:
                raise self._unusable(keys, f"its key is encrypted, and '{_PASSWORD}' is not given")
            return given

        def told() -> OptionError:
            if is_encrypted:
                return self._unusable(keys, f"its key is encrypted, and not with the '{_PASSWORD}' that is given")
            what = "no certificate with its key" if key is None else f"no certificate, or no key in '{key}'"
            return self._unusable("ssl_certfile", f"there is {what}")

        self._load("ssl_certfile", lambda: context.load_cert_chain(certificate, key, password=password), told)

    def _load_revoked(self, context: ssl.SSLContext) -> None:
        revoked = self._client.get("ssl_crlfile")
        if revoked is None:
            return
        before = context.cert_store_stats()
        self._load("ssl_crlfile", lambda: context.load_verify_locations(cafile=revoked))
        after = context.cert_store_stats()
        if after["x509"] != before["x509"]:
            raise self._unusable("ssl_crlfile", "there are certificates in it, which would be trusted")
        if after["crl"] == before["crl"]:
            raise self._unusable("ssl_crlfile", "there is no list of revoked certificates in it")
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF

    def _load(self, setting: str, load: Callable[[], None], told: Callable[[], OptionError] | None = None) -> None:
        """Load a file; `told` is the error where OpenSSL itself has no reason."""
        self._must_be_pem(setting)
        try:
            load()
        except OptionError:
            raise
        except (OSError, ValueError) as error:  # those of the ssl module too
            if told is not None and getattr(error, "reason", None) in (None, "BAD_DECRYPT"):
                raise told() from None
            raise self._unusable(setting, _why(error)) from None

    def _must_be_pem(self, setting: str) -> None:
        try:
            held = Path(self._client[setting]).read_bytes()
        except (OSError, ValueError) as error:
            raise self._unusable(setting, _why(error)) from None
        if _PEM_BEGINS not in held:
            raise self._unusable(setting, "it is not PEM")

    def _unusable(self, setting: str, why: str) -> OptionError:
        option, path = self._options.get(setting, setting), self._client[setting]
        return OptionError(f"Option '{option}' is '{path}', which cannot be used on {socket.gethostname()}: {why}.")


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    if isinstance(error, ssl.SSLError):
        return _REASONS.get(reason or "") or (reason or "it is damaged").lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error)
