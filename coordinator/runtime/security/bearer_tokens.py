"""Bearer tokens: those of the users file, and JSON Web Tokens against the keys of a JWKS file.

PyJWT checks them: the signature by a key of the file and an algorithm that is allowed, then issuer, audience and times.
Only algorithms with a public key are ever allowed, so that whoever can read the file can sign nothing. A reason names
no part of a token whose signature was not good.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from structlog.typing import FilteringBoundLogger

from coordinator.config import AuthenticationSettings, ConfigError
from coordinator.core.security.log_in import TokenAccepted, TokenRefused
from coordinator.core.security.users import Users
from coordinator.runtime.security.reread import FileError, Reread, read_file

if TYPE_CHECKING:
    from jwt import PyJWK

MOST_BYTES: Final = 1024 * 1024
"""Longest JWKS file."""
MOST_KEYS: Final = 100
_CURVES: Final[Mapping[str, tuple[str, ...]]] = {
    "RSA": (),
    "EC": ("P-256", "P-384", "P-521"),
    "OKP": ("Ed25519", "Ed448"),
}
"""Kinds of keys that sign tokens here, with their curves."""
_NO_KEY: Final = "it is signed by no key of authentication.jwks_file"


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of an issuer, by their ids; `unnamed` are those without one."""

    named: Mapping[str, "PyJWK"]
    unnamed: tuple["PyJWK", ...] = ()

    def key_of(self, key_id: object) -> "PyJWK | None":
        """Return the key that a token names; the only one where it names none."""
        if isinstance(key_id, str):
            return self.named.get(key_id)
        every = (*self.named.values(), *self.unnamed)
        return every[0] if key_id is None and len(every) == 1 else None


def keys_of(settings: AuthenticationSettings, log: FilteringBoundLogger) -> Reread[Keys] | None:
    """Return the keys that the settings name, None where no such tokens are taken; raises ConfigError."""
    if not settings.jwks_file:
        return None
    try:
        import jwt  # noqa: F401 - whether it is there
        from cryptography.hazmat.primitives import serialization  # noqa: F401
    except ImportError:
        raise ConfigError(
            ["authentication.jwks_file is given, and PyJWT with cryptography is not installed: install kcoord[jwt]"]
        ) from None
    path = Path(settings.jwks_file)
    return Reread("keys of tokens", [path], lambda: read_keys(path, settings.token_algorithms), log)


def read_keys(path: Path, algorithms: tuple[str, ...]) -> Keys:
    """Return the keys of a JWKS file that sign tokens; raises FileError, which names the key by its place.

    A key of a kind or for an algorithm that is not known here is passed over (RFC 7517, section 5): an issuer publishes
    all its keys in one set, and may add such a one while the others go on signing.
    """
    from jwt import PyJWK, PyJWTError

    try:
        found = json.loads(read_file(path, MOST_BYTES + 1))
    except json.JSONDecodeError as error:
        raise FileError(f"{path}, line {error.lineno}: is not JSON: {error.msg}") from None
    except (ValueError, RecursionError):  # no text, a number of too many digits, too deep
        raise FileError(f"{path}: is not JSON") from None
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list):
        raise FileError(f'{path}: is no set of keys: {{"keys": [...]}}')
    if len(keys) > MOST_KEYS:
        raise FileError(f"{path}: has {len(keys)} keys and at most {MOST_KEYS} are allowed")
    named: dict[str, PyJWK] = {}
    unnamed: list[PyJWK] = []
    for place, each in enumerate(keys, 1):
        if not isinstance(each, dict):
            raise FileError(f"{path}, key {place}: is no key")
        if each.get("use", "sig") != "sig":
            continue
        if each.get("kty") == "oct" or "d" in each:
            raise FileError(f"{path}, key {place}: is not a public key; whoever reads it could sign tokens")
        if not isinstance(each.get("kid"), str | None):
            raise FileError(f"{path}, key {place}: its kid is no text")
        if not _is_known(each, algorithms):
            continue
        try:
            key = PyJWK(each)
        except (PyJWTError, ValueError, TypeError) as error:
            raise FileError(f"{path}, key {place}: cannot be used: {type(error).__name__}") from None
        if key.algorithm_name not in algorithms:
            continue
        if key.key_id is None:
            unnamed.append(key)
        elif key.key_id in named:
            raise FileError(f"{path}, key {place}: is the second one with its kid")
        else:
            named[key.key_id] = key
    if not named and not unnamed:
        raise FileError(f"{path}: has no key for {', '.join(algorithms)}")
    return Keys(named, tuple(unnamed))


def _is_known(key: Mapping[str, object], algorithms: tuple[str, ...]) -> bool:
    """Say whether a key may be one that signs tokens; what is no text is left to whoever reads the key."""
    kind, curve, algorithm = (key.get(name) for name in ("kty", "crv", "alg"))
    if isinstance(kind, str) and kind not in _CURVES:
        return False
    curves = _CURVES[kind] if isinstance(kind, str) else ()
    return not (
        (isinstance(algorithm, str) and algorithm not in algorithms)
        or (curves and isinstance(curve, str) and curve not in curves)
    )


class Tokens:
    """The check of tokens by the users and keys that count now."""

    def __init__(self, settings: AuthenticationSettings, keys: Keys | None, users: Users) -> None:
        self._settings = settings
        self._keys = keys
        self._users = users

    def check(self, token: str) -> TokenAccepted | TokenRefused:
        """Return whose token it is, or why it is not good."""
        owner = self._users.owner_of(token)
        if owner is not None:
            return TokenAccepted(owner)
        if self._keys is None or token.count(".") != 2:
            return TokenRefused("it is nobody's")
        return self._check_signed(token, self._keys)

    def _check_signed(self, token: str, keys: Keys) -> TokenAccepted | TokenRefused:
        import jwt

        settings = self._settings
        try:
            key = keys.key_of(jwt.get_unverified_header(token).get("kid"))
            if key is None:
                return TokenRefused(_NO_KEY)
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                issuer=settings.token_issuer,
                audience=settings.token_audience,
                leeway=settings.token_leeway_ms / 1000,
                options={"require": ["exp", "iss", "aud", settings.token_principal_claim]},
            )
            ends_at_s = float(claims["exp"]) + settings.token_leeway_ms / 1000
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            return TokenRefused(next((why for kind, why in _reasons() if isinstance(error, kind)), "it is malformed"))
        name = claims[settings.token_principal_claim]
        if not isinstance(name, str):
            return TokenRefused(f"its claim {settings.token_principal_claim} is no text")
        return TokenAccepted(name, ends_at_s)


def _reasons() -> tuple[tuple[type[Exception], str], ...]:
    import jwt

    return (
        (jwt.ExpiredSignatureError, "it has expired"),
        (jwt.ImmatureSignatureError, "it is not valid yet"),
        (jwt.InvalidIssuedAtError, "it is not valid yet"),
        (jwt.InvalidAudienceError, "it is for another audience"),
        (jwt.InvalidIssuerError, "it is of another issuer"),
        (jwt.MissingRequiredClaimError, "a claim is missing that is needed"),
        (jwt.InvalidSignatureError, "its signature is not good"),
        (jwt.InvalidAlgorithmError, "it is signed by an algorithm that is not allowed"),
    )
