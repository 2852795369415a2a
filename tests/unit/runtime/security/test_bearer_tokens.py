"""Tokens: those of the users file, and JSON Web Tokens by the keys of a file, each wrong one with its reason."""

import base64
import hmac
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from coordinator.config import AuthenticationSettings, ConfigError, load_settings
from coordinator.core.security.log_in import TokenAccepted, TokenRefused
from coordinator.core.security.users import Users, hash_of_token
from coordinator.runtime.security.bearer_tokens import Tokens, keys_of, read_keys
from coordinator.runtime.security.reread import FileError
from tests.helpers.loopback import RememberedLog

ISSUER, AUDIENCE = "https://issuer.example", "kcoord"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def public(key: Any, **more: object) -> dict[str, Any]:
    """Return the public part of a key as JWKS has it."""
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    found: dict[str, Any] = algorithm.to_jwk(key.public_key(), as_dict=True)
    return found | more


def settings_of(path: Path, **more: object) -> AuthenticationSettings:
    given = {
        "mechanisms": "OAUTHBEARER",
        "jwks_file": str(path),
        "token_issuer": ISSUER,
        "token_audience": AUDIENCE,
    } | more
    return load_settings(None, {f"authentication.{name}": value for name, value in given.items()}).authentication


@pytest.fixture
def jwks(tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [public(RSA_KEY, kid="one", use="sig"), public(EC_KEY, kid="two")]}))
    return path


def checked(path: Path, token: str, users: Users | None = None, **more: object) -> TokenAccepted | TokenRefused:
    settings = settings_of(path, **more)
    return Tokens(settings, read_keys(path, settings.token_algorithms), users or Users()).check(token)


def claims(**more: object) -> dict[str, object]:
    now = int(time.time())
    given: Mapping[str, object] = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": now + 60, "iat": now}
    return {name: value for name, value in (given | more).items() if value is not None}


def signed(key: Any = RSA_KEY, algorithm: str = "RS256", kid: str | None = "one", **more: object) -> str:
    return jwt.encode(claims(**more), key, algorithm, headers={} if kid is None else {"kid": kid})


def test_a_good_token_says_whose_it_is_and_until_when(jwks: Path) -> None:
    ends = int(time.time()) + 3600
    assert checked(jwks, signed(exp=ends)) == TokenAccepted("alice", ends + 5.0)
    assert checked(jwks, signed(exp=ends), token_leeway_ms=0) == TokenAccepted("alice", ends)
    by_ec = signed(EC_KEY, "ES256", "two", exp=ends, aud=["others", AUDIENCE])
    assert checked(jwks, by_ec) == TokenAccepted("alice", ends + 5.0)
    named = signed(exp=ends, client_id="etl")
    assert checked(jwks, named, token_principal_claim="client_id") == TokenAccepted("etl", ends + 5.0)


def unsigned(**header: str) -> str:
    parts = [{"typ": "JWT"} | header, claims()]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def by_the_public_key_as_a_secret() -> str:
    unsigned_part = unsigned(alg="HS256", kid="one").rstrip(".").encode()
    made = hmac.digest(json.dumps(public(RSA_KEY)).encode(), unsigned_part, "sha256")
    return f"{unsigned_part.decode()}.{base64.urlsafe_b64encode(made).decode().rstrip('=')}"


def flipped(token: str) -> str:
    head, body, signature = token.split(".")
    return f"{head}.{body}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"


LONG_AGO = 1_000_000_000
WRONG = [
    ("expired", lambda: signed(exp=LONG_AGO), "it has expired"),
    ("just over", lambda: signed(exp=int(time.time()) - 6), "it has expired"),
    ("not yet", lambda: signed(nbf=int(time.time()) + 600), "it is not valid yet"),
    ("another audience", lambda: signed(aud="others"), "it is for another audience"),
    ("no audience", lambda: signed(aud=None), "a claim is missing that is needed"),
    ("another issuer", lambda: signed(iss="https://mallory.example"), "it is of another issuer"),
    ("no end", lambda: signed(exp=None), "a claim is missing that is needed"),
    ("nobody", lambda: signed(sub=None), "a claim is missing that is needed"),
    ("an endless end", lambda: signed(exp=float("inf")), "it is malformed"),
    ("an end of too many digits", lambda: signed(exp=10**400), "it is malformed"),
    ("another key", lambda: signed(OTHER_KEY), "its signature is not good"),
    ("a changed signature", lambda: flipped(signed()), "its signature is not good"),
    ("an unknown key", lambda: signed(kid="three"), "it is signed by no key of authentication.jwks_file"),
    ("no key of two", lambda: signed(kid=None), "it is signed by no key of authentication.jwks_file"),
    ("another algorithm of the key", lambda: signed(algorithm="RS512"), "algorithm that is not allowed"),
    ("no signature", lambda: unsigned(alg="none", kid="one"), "algorithm that is not allowed"),
    ("a public key as a secret", by_the_public_key_as_a_secret, "algorithm that is not allowed"),
    ("no header", lambda: "..", "it is malformed"),
    ("no token", lambda: "abc", "it is nobody's"),
    ("deep", lambda: base64.urlsafe_b64encode(b"[" * 9_000).decode() + ".e30.x", "it is malformed"),
]


@pytest.mark.parametrize(("token", "why"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_token_is_refused_with_its_reason(jwks: Path, token: Any, why: str) -> None:
    found = checked(jwks, token())
    assert isinstance(found, TokenRefused)
    assert why in found.why


def test_a_token_of_the_users_file_is_its_owners_and_does_not_end(jwks: Path) -> None:
    users = Users({}, {hash_of_token("kcoord_x"): "ci"})
    assert checked(jwks, "kcoord_x", users) == TokenAccepted("ci", None)
    alone = Tokens(settings_of(jwks), None, users)
    assert alone.check("kcoord_y") == TokenRefused("it is nobody's")
    assert alone.check(signed()) == TokenRefused("it is nobody's")


def test_a_single_key_need_not_be_named(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"keys": [public(RSA_KEY), public(EC_KEY, kid="two", use="enc")]}))
    assert isinstance(checked(path, signed(kid=None)), TokenAccepted)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"keys": [\n}', "line 2: is not JSON"),
        ("[]", "is no set of keys"),
        ('{"keys": {}}', "is no set of keys"),
        ('{"keys": []}', "has no key for RS256"),
        ('{"keys": [1]}', "key 1: is no key"),
        ('{"keys": [{"kty": "RSA"}]}', "key 1: cannot be used"),
        ('{"keys": [{"kid": "a"}]}', "key 1: cannot be used"),
        ('{"keys": [{"kty": ["RSA"]}]}', "key 1: cannot be used"),
        ('{"keys": [{"kty": "XXX"}]}', "has no key for RS256"),
        ('{"keys": [{"kty": "oct", "k": "c4n4ry"}]}', "key 1: is not a public key"),
        (json.dumps({"keys": [public(EC_KEY, d="c4n4ry")]}), "key 1: is not a public key"),
        (json.dumps({"keys": [public(RSA_KEY, kid="a"), public(EC_KEY, kid="a")]}), "key 2: is the second one"),
        (json.dumps({"keys": [1] * 101}), "has 101 keys"),
        ("[" * 100_000, "is not JSON"),
        ('{"keys": ' + "1" * 5_000 + "}", "is not JSON"),
        (json.dumps({"keys": [public(RSA_KEY, kid=["a"])]}), "key 1: its kid is no text"),
        (json.dumps({"keys": [public(RSA_KEY, kid={})]}), "key 1: its kid is no text"),
        (json.dumps({"keys": [public(RSA_KEY, alg=["RS256"])]}), "key 1: cannot be used"),
        (json.dumps({"keys": [public(RSA_KEY, alg="none")]}), "has no key for RS256"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_place(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "jwks.json"
    path.write_text(text)
    with pytest.raises(FileError) as raised:
        read_keys(path, ("RS256", "ES256"))
    assert why in str(raised.value)
    assert str(path) in str(raised.value)
    assert "c4n4ry" not in str(raised.value)


def test_keys_of_another_kind_or_use_beside_those_that_sign_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    others = [
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA", "kid": "a"},
        {"kty": "OKP", "crv": "X25519", "x": "AAAA", "kid": "b"},
        {"kty": "EC", "crv": "secp256k1", "x": "AAAA", "y": "AAAA", "kid": "c"},
        public(OTHER_KEY, kid="d", alg="RSA-OAEP"),
        public(OTHER_KEY, kid="e", alg="none"),
    ]
    path.write_text(json.dumps({"keys": [*others, public(RSA_KEY, kid="one")]}))
    assert list(read_keys(path, ("RS256", "ES256")).named) == ["one"]


def test_keys_are_read_anew_and_a_bad_file_leaves_those_that_were_there(jwks: Path) -> None:
    log = RememberedLog()
    settings = settings_of(jwks)
    keys = keys_of(settings, log.logger)
    assert keys is not None
    other = signed(OTHER_KEY, kid="next")
    assert Tokens(settings, keys.value, Users()).check(other) == TokenRefused(
        "it is signed by no key of authentication.jwks_file"
    )
    jwks.write_text("no keys")
    assert not keys.look(in_any_case=True)
    assert isinstance(Tokens(settings, keys.value, Users()).check(signed()), TokenAccepted)
    jwks.write_text(json.dumps({"keys": [public(OTHER_KEY, kid="next")]}))
    assert keys.look(in_any_case=True)
    assert isinstance(Tokens(settings, keys.value, Users()).check(other), TokenAccepted)
    assert [line["event"] for line in log.lines] == ["file-refused", "file-read"]


def test_a_file_that_cannot_be_used_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        keys_of(settings_of(tmp_path / "none"), RememberedLog().logger)
