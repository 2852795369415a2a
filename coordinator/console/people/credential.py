"""The credential that comes with a request: a name and a password, or a token, as `Authorization` says them. Pure.

The two schemes are HTTP's own (RFC 7617, RFC 6750). Name and password are those that SCRAM makes of them (RFC 4013), so
that whoever spells theirs in many ways has one log-in, with its bounds. No secret is in a representation, an error or a
key.
"""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass, field, replace
from typing import Final

from scramp import ScramException
from scramp.utils import saslprep

from coordinator.client.security import NO_SECRET, SCRAM_MECHANISMS, TOKEN_MECHANISM, ClientSecurity, Secret
from coordinator.core.security.users import MOST_PREPARED, is_long_to_prepare

LONGEST: Final = 8 * 1024
"""The characters of the longest `Authorization` that is looked at."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*\Z")


class BadCredentialError(Exception):
    """An `Authorization` that says nobody's name; the text shows nothing of it."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A name and a password, or a token, which has no name."""

    name: str
    secret: str = field(repr=False)
    is_token: bool = False

    @property
    def who(self) -> str:
        """The person for logs and pages; whose a token is only the coordinators know."""
        return self.name or "the holder of a token"

    def key(self, pepper: bytes) -> bytes:
        """Return what a credential is known by while it is good, which says nothing to who does not know the pepper."""
        kind = b"token" if self.is_token else b"name"
        parts = (kind, self.name.encode(), self.secret.encode())
        framed = b"".join(len(part).to_bytes(4) + part for part in parts)
        return hashlib.blake2b(framed, key=pepper, digest_size=32).digest()

    def security(self, own: ClientSecurity) -> ClientSecurity:
        """Return how this person speaks to the coordinators that the console speaks to in its own way."""
        scram = own.mechanism if own.mechanism in SCRAM_MECHANISMS else SCRAM_MECHANISMS[-1]
        return replace(
            own,
            protocol="SASL_SSL" if own.is_tls else "SASL_PLAINTEXT",
            mechanism=TOKEN_MECHANISM if self.is_token else scram,
            username=self.name,
            password=NO_SECRET if self.is_token else Secret(self.secret),
            token=Secret(self.secret) if self.is_token else NO_SECRET,
        )


def read_authorization(given: str) -> Credential:
    """Read the value of an `Authorization`; raises BadCredentialError."""
    if len(given) > LONGEST:
        raise BadCredentialError(f"'Authorization' is longer than {LONGEST} characters")
    scheme, _, value = given.partition(" ")
    value = value.strip()
    match scheme.lower():
        case "basic":
            return _basic(value)
        case "bearer":
            if not _TOKEN.match(value):
                raise BadCredentialError("'Authorization: Bearer' holds no token")
            return Credential("", value, is_token=True)
        case _:
            raise BadCredentialError("'Authorization' is neither Basic nor Bearer")


def _basic(value: str) -> Credential:
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        raise BadCredentialError("'Authorization: Basic' is no name and password in UTF-8 and Base64") from None
    name, colon, password = text.partition(":")
    if not (name and colon and password):
        raise BadCredentialError("'Authorization: Basic' holds no name, or no password")
    if not name.isprintable():
        raise BadCredentialError("the name in 'Authorization: Basic' has characters that cannot be printed")
    name, password = _prepared(name), _prepared(password)
    if not (name and password):
        raise BadCredentialError("'Authorization: Basic' holds no name, or no password")
    return Credential(name, password)


def _prepared(text: str) -> str:
    """Return what SCRAM makes of a name or a password; of a long one in no more time than a request may take."""
    if text.isascii() and text.isprintable():
        return text
    if is_long_to_prepare(text):
        raise BadCredentialError(
            f"'Authorization: Basic' holds more than {MOST_PREPARED} characters, some of them not printable ASCII"
        )
    try:
        return str(saslprep(text))
    except ScramException:
        raise BadCredentialError("'Authorization: Basic' holds characters that no user has (RFC 4013)") from None
