"""The text of the users file: a proof of a user a line, empty lines, and comments behind `#`.

    *      SECRET$4Jx1...
    alice  SCRAM-SHA-256$16384:c2FsdA...$u5Wz...:0qYc...
    ci     TOKEN-SHA-256$9f86d0...

A name with a space, a quote or a `#` in it stands in quotes. The verifiers have the form of RFC 5803. The line of `*`
holds what the answers to those who are no users are made up with. A text with one mistake is refused whole, and no
error shows a part of a line but a name.
"""

import base64
import binascii
import hashlib
import shlex
from typing import Final, TypeVar

import re2

from coordinator.core.security.principal import ANONYMOUS, why_bad_name
from coordinator.core.security.users import (
    HASH_BYTES,
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    Users,
    Verifier,
)

MOST_USERS: Final = 10_000
"""Most users of one file."""
MOST_BYTES: Final = 8 * 1024 * 1024
"""Longest text of users."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_EVERYBODY: Final = "*"
_SECRET: Final = "SECRET"  # noqa: S105 - the word before it
_TOKEN: Final = "TOKEN-SHA-256"  # noqa: S105 - the word before it
_BASE64: Final = r"([A-Za-z0-9+/=]+)"
_VERIFIER: Final = re2.compile(rf"(\d{{1,7}}):{_BASE64}\${_BASE64}:{_BASE64}")
_LEAST_SALT: Final = 12
_HEAD: Final = (
    "# Users of kcoord, written by `kcoord user`. Whoever reads this file can try passwords: keep it at mode 0600.\n"
)


class UsersError(ValueError):
    """A text that cannot be used as users; it names the line."""


def parse_users(text: str, secret: bytes = b"") -> Users:
    """Return the users of a text; raises UsersError at the first mistake.

    `secret` counts where the text has no line of `*`; without either it is made of the text, whose verifiers nobody
    knows.
    """
    if len(text) > MOST_BYTES:
        raise UsersError(f"the users have {len(text)} characters and at most {MOST_BYTES} are allowed")
    verifiers: dict[tuple[str, str], Verifier] = {}
    tokens: dict[bytes, str] = {}
    secrets: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = _words(line)
            if not words:
                continue
            name, kind, proof = words
            if kind == _SECRET:
                _take(secrets, name, _secret(name, proof))
                continue
            must_be_a_name(name)
            if kind == _TOKEN:
                _take(tokens, _token_hash(proof), name)
            else:
                _take(verifiers, (kind, name), _verifier(kind, proof))
        except ValueError as error:
            raise UsersError(f"line {number}: {error}") from None
        if len(verifiers) + len(tokens) > 3 * MOST_USERS:
            raise UsersError(f"line {number}: there are more than {MOST_USERS} users")
    return Users(verifiers, tokens, secrets.get(_EVERYBODY) or secret or hashlib.sha256(text.encode()).digest())


def users_text(users: Users) -> str:
    """Return the text of users, which `parse_users` reads."""
    lines = [f"{_EVERYBODY} {_SECRET}${_text_of(users.secret)}"]
    lines += [
        f"{shlex.quote(name)} {mechanism}${verifier.iterations}:{_text_of(verifier.salt)}"
        f"${_text_of(verifier.stored_key)}:{_text_of(verifier.server_key)}"
        for (mechanism, name), verifier in sorted(users.verifiers.items(), key=lambda item: item[0][::-1])
    ]
    lines += [f"{shlex.quote(name)} {_TOKEN}${kept.hex()}" for kept, name in sorted(users.tokens.items())]
    return _HEAD + "".join(f"{line}\n" for line in lines)


def must_be_a_name(name: str) -> None:
    """Raise ValueError for what is no name of a user."""
    why = why_bad_name(name)
    if why is not None:
        raise ValueError(f"{name[:100]!r} is no user: {why}")
    if name == _EVERYBODY or name == ANONYMOUS.name:
        raise ValueError(f"{name!r} is no user: it stands for others")


def _words(line: str) -> tuple[str, str, str] | None:
    """Return the name, the kind and the proof of a line, None of one that says nothing."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        raise ValueError("a quote is not closed") from None
    if not words:
        return None
    kind, dollar, proof = words[-1].partition("$")
    if len(words) != 2 or not dollar:
        raise ValueError("a user has another form: NAME KIND$PROOF")
    return words[0], kind, proof


def _secret(name: str, proof: str) -> bytes:
    if name != _EVERYBODY:
        raise ValueError(f"{_SECRET} is the word of a line that begins with {_EVERYBODY}")
    return _bytes_of(proof)


def _verifier(mechanism: str, proof: str) -> Verifier:
    if mechanism not in HASH_BYTES:
        raise ValueError(f"the proof is none of {', '.join((*HASH_BYTES, _TOKEN))}")
    found = _VERIFIER.fullmatch(proof)
    if found is None:
        raise ValueError("a verifier has another form: ITERATIONS:SALT$STORED-KEY:SERVER-KEY")
    iterations = int(found.group(1))
    if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise ValueError(f"it has {iterations} iterations, not from {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
    salt, stored_key, server_key = (_bytes_of(found.group(group)) for group in (2, 3, 4))
    if len(salt) < _LEAST_SALT:
        raise ValueError(f"its salt has {len(salt)} bytes, less than {_LEAST_SALT}")
    if {len(stored_key), len(server_key)} != {HASH_BYTES[mechanism]}:
        raise ValueError(f"its keys are not those of {mechanism}, which have {HASH_BYTES[mechanism]} bytes")
    return Verifier(iterations, salt, stored_key, server_key)


def _token_hash(proof: str) -> bytes:
    try:
        kept = bytes.fromhex(proof)
    except ValueError:
        kept = b""
    if len(kept) != hashlib.sha256().digest_size:
        raise ValueError("a token is kept as 64 hexadecimal digits")
    return kept


def _take(known: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    if key in known:
        raise ValueError("it is the second line of the same")
    known[key] = value


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("a part of it is not Base64") from None


def _text_of(data: bytes) -> str:
    return base64.b64encode(data).decode()
