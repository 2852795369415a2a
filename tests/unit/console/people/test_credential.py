"""What an `Authorization` is taken for, and that its secret is shown nowhere."""

import base64
import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramException
from scramp.utils import saslprep

from coordinator.client.security import ClientSecurity, Secret
from coordinator.console.people import credential as module
from coordinator.console.people.credential import LONGEST, BadCredentialError, Credential, read_authorization

ALICE = Credential("alice", "s3cret")
PEPPER = b"p" * 32


def basic(text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    return f"Basic {base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (basic("alice:s3cret"), ALICE),
        (basic("alice:s3cret").replace("Basic", "bAsIc  "), ALICE),
        (basic("ann:a:b: "), Credential("ann", "a:b: ")),
        (basic("zoë:pässwörd"), Credential("zoë", "pässwörd")),
        ("Bearer abc.DEF-_~+/==", Credential("", "abc.DEF-_~+/==", is_token=True)),
    ],
)
def test_names_passwords_and_tokens_are_read(said: str, found: Credential) -> None:
    assert read_authorization(said) == found


@pytest.mark.parametrize(
    "said",
    [
        "",
        "Basic",
        "Basic !!!",
        basic(b"\xff\xfe:x"),
        basic("alice"),
        basic("alice:"),
        basic(":s3cret"),
        basic("a\nb:s3cret"),
        basic("alice:s3cret\x00"),
        basic("alice:\u00ad"),
        "Bearer",
        "Bearer a b",
        "Bearer a=b",
        'Digest username="alice"',
        "s3cret",
        "Bearer " + "x" * LONGEST,
    ],
)
def test_what_says_nobodys_name_is_refused_without_a_word_of_it(said: str) -> None:
    with pytest.raises(BadCredentialError) as caught:
        read_authorization(said)
    assert "s3cret" not in str(caught.value)


def test_a_name_and_a_password_are_one_log_in_however_they_are_spelt() -> None:
    for other in ("alice:s3cret\u00ad", "\uff41lice:s3cret", "alice:s\ufe003cre\u1806t", "alice:\uff533cret"):
        assert read_authorization(basic(other)) == ALICE, ascii(other)


@pytest.mark.parametrize("password", ["ü" * 257, "\u00ad" * 2_000 + "x", "\ufdfa" * 15])
def test_what_would_take_long_to_prepare_is_refused_before_it_is(
    password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "saslprep", lambda _: pytest.fail("it is looked at character by character"))
    with pytest.raises(BadCredentialError, match="256 characters"):
        read_authorization(basic(f"alice:{password}"))
    assert read_authorization(basic("alice:" + "x" * 5_000)).secret == "x" * 5_000


@given(st.text(min_size=1, max_size=8))
def test_a_password_is_what_scram_makes_of_it(password: str) -> None:
    try:
        prepared = saslprep(password)
    except ScramException:
        prepared = ""
    try:
        assert read_authorization(basic(f"alice:{password}")).secret == prepared
    except BadCredentialError:
        assert not prepared


@given(st.text(st.characters(codec="latin-1")))
def test_whatever_comes_is_a_credential_or_is_refused(said: str) -> None:
    with contextlib.suppress(BadCredentialError):
        read_authorization(said)


def test_keys_differ_wherever_credentials_do_and_say_nothing_without_the_pepper() -> None:
    others = [
        replace(ALICE, secret="s3cres"),
        replace(ALICE, name="alic", secret="es3cret"),
        replace(ALICE, name="", is_token=True),
        replace(ALICE, name=""),
    ]
    keys = {one.key(PEPPER) for one in (ALICE, *others)}
    assert len(keys) == 5
    assert ALICE.key(b"q" * 32) not in keys
    assert "s3cret" not in repr(ALICE)


def test_a_person_speaks_to_coordinators_by_the_consoles_tls_and_as_nobody_but_themselves() -> None:
    own = ClientSecurity(
        "SASL_SSL", ca_location="/ca", mechanism="SCRAM-SHA-256", username="console", password=Secret("own")
    )
    theirs = ALICE.security(own)
    assert theirs == replace(own, username="alice", password=Secret("s3cret"))
    token = Credential("", "t", is_token=True).security(own)
    assert (token.mechanism, token.username, token.password.read(), token.token.read()) == ("OAUTHBEARER", "", "", "t")
    by_token = replace(own, mechanism="OAUTHBEARER", username="", password=Secret(), token=Secret("own"))
    assert ALICE.security(by_token) == ClientSecurity(
        "SASL_SSL", ca_location="/ca", mechanism="SCRAM-SHA-512", username="alice", password=Secret("s3cret")
    )
    assert ALICE.security(replace(own, protocol="SASL_PLAINTEXT")).protocol == "SASL_PLAINTEXT"
