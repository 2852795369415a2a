"""The reasons for which TLS did not come about, in the words of the end that has to mend it.

OpenSSL's own words name its functions. Nothing here shows a secret: no key and no password is in an error of TLS.
"""

import ssl
from typing import Final

_REASONS: Final = {
    "WRONG_VERSION_NUMBER": "the other end does not speak TLS here, or no version that this end speaks",
    "HTTP_REQUEST": "the other end does not speak TLS here: it made an HTTP request",
    "UNSUPPORTED_PROTOCOL": "the other end speaks only a version of TLS that is too old for this end",
    "VERSION_TOO_LOW": "the other end speaks only a version of TLS that is too old for this end",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the other end takes no version of TLS that this end speaks, or no TLS at all",
    "NO_SHARED_CIPHER": "no cipher is known to both ends",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the other end showed no certificate, and one is required",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the other end requires a certificate of this one, which has shown none",
    "TLSV1_ALERT_UNKNOWN_CA": "the other end does not trust the issuer of this end's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "to the other end the certificate of this one has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the other end does not take the certificate of this one",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other end does not take the certificate of this one",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "to the other end the certificate of this one is revoked",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the other end refused, and gave no reason: perhaps it requires a certificate",
    "TLSV1_ALERT_DECRYPT_ERROR": "the other end could not check the signature of this one",
    "UNEXPECTED_EOF_WHILE_READING": "the other end closed the connection in the middle of TLS",
}


def why_tls_failed(error: ssl.SSLError) -> str:
    """Return a sentence without its full stop for an error of TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the other end is refused: {error.verify_message}"
    reason = error.reason or ""
    return _REASONS.get(reason) or f"TLS failed: {reason.lower().replace('_', ' ') or 'no reason is known'}"
