"""The users of a node, with what proves each of them, and none of their passwords or tokens.

A SCRAM verifier is what RFC 5802 has a server keep; a token is kept as its SHA-256, which is enough for one that was
drawn by chance. Whoever asks for a user that there is not is given a verifier as well, which nobody fits, so that the
answer does not tell who is a user. Nothing here knows a file, nor how a proof is said.
"""

import hashlib
import hmac
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
TOKEN_MECHANISM: Final = "OAUTHBEARER"  # noqa: S105 - the name of a mechanism
MECHANISMS: Final = (*SCRAM_MECHANISMS, TOKEN_MECHANISM)
"""Every mechanism there is, by the names that SASL and Kafka have for them."""

HASH_BYTES: Final = {"SCRAM-SHA-256": 32, "SCRAM-SHA-512": 64}
LEAST_ITERATIONS: Final = 4_096
"""The fewest that RFC 7677 and Kafka allow."""
DEFAULT_ITERATIONS: Final = 16_384
MOST_ITERATIONS: Final = 1_000_000
SALT_BYTES: Final = 16
MOST_PREPARED: Final = 256
"""The most characters of a name or a password that are prepared (RFC 4013): each is looked up in a dozen tables."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """The keys against which a proof of SCRAM is checked; no part of it is shown."""

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Users:
    """Everybody who may log in by a password or a token of the users file.

    `verifiers` are by mechanism and name, `tokens` are names by the SHA-256 of a token. `secret` makes up the verifiers
    of those who are not there: the same on every node that has the same file, so that asking twice tells nothing.
    """

    verifiers: Mapping[tuple[str, str], Verifier] = field(default_factory=dict, repr=False)
    tokens: Mapping[bytes, str] = field(default_factory=dict, repr=False)
    secret: bytes = field(default=b"", repr=False)
    _usual: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Work out once how often the verifiers of most users are iterated."""
        object.__setattr__(self, "_usual", _usual_iterations(self))

    def verifier_of(self, mechanism: str, name: str) -> Verifier:
        """Return the verifier of a user, or for who is none a made-up one, which fits no password.

        It takes the same steps for both.
        """
        made_up = self._made_up(mechanism, name)
        return self.verifiers.get((mechanism, name), made_up)

    def has(self, mechanism: str, name: str) -> bool:
        """Say whether there is such a user now."""
        return (mechanism, name) in self.verifiers

    def owner_of(self, token: str) -> str | None:
        """Return whose token it is, None where it is nobody's here."""
        return self.tokens.get(hash_of_token(token))

    @property
    def names(self) -> list[str]:
        """The names of all users, in order."""
        return sorted({name for _, name in self.verifiers} | set(self.tokens.values()))

    def proofs_of(self, name: str) -> tuple[str, ...]:
        """Return the mechanisms by which a user may log in."""
        found = [mechanism for mechanism in SCRAM_MECHANISMS if (mechanism, name) in self.verifiers]
        return (*found, TOKEN_MECHANISM) if name in self.tokens.values() else tuple(found)

    def _made_up(self, mechanism: str, name: str) -> Verifier:
        length = HASH_BYTES[mechanism]
        drawn = hmac.digest(self.secret, f"{mechanism} {name}".encode(), hashlib.sha512)
        return Verifier(
            self._usual.get(mechanism, DEFAULT_ITERATIONS),
            drawn[:SALT_BYTES],
            hmac.digest(self.secret, drawn + b"stored", hashlib.sha512)[:length],
            hmac.digest(self.secret, drawn + b"server", hashlib.sha512)[:length],
        )


def _usual_iterations(users: Users) -> Mapping[str, int]:
    counts: dict[str, Counter[int]] = {}
    for (mechanism, _), verifier in users.verifiers.items():
        counts.setdefault(mechanism, Counter())[verifier.iterations] += 1
    return {mechanism: max(counted, key=lambda each: (counted[each], each)) for mechanism, counted in counts.items()}


def is_long_to_prepare(text: str) -> bool:
    """Say whether a name or a password has more characters than are prepared, as it came or as NFKC has it.

    One character may become eighteen. No more is looked at than is needed to tell.
    """
    return max(len(text), len(unicodedata.normalize("NFKC", text[: MOST_PREPARED + 1]))) > MOST_PREPARED


def hash_of_token(token: str) -> bytes:
    """Return what is kept of a token."""
    return hashlib.sha256(token.encode()).digest()
