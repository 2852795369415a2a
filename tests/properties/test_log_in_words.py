"""Nobody comes in by whatever is said to a node that logs clients in: it ends by a rule of the wire or a refusal."""

import contextlib
from collections.abc import Iterator
from unittest.mock import patch

import scramp.core
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient

from coordinator.core.security.log_in import Accepted, Challenge, LogInMachine, Refused, TokenRefused, Ways
from coordinator.core.security.users import MECHANISMS, MOST_PREPARED, Users, Verifier
from coordinator.core.security.users_file import UsersError, parse_users, users_text
from coordinator.protocol.errors import RemoteProtocolError
from coordinator.protocol.log_in import LogInSession, token_message
from coordinator.protocol.messages.log_in import LogIn
from coordinator.protocol.session import Role, Session
from tests.protocol.test_log_in import MECHANISM, Client, users

KNOWN = users()
SCRAM_WORDS = st.text("nmrpcsiv=,yAxy9+/\u00e9\u0000 ", max_size=60) | st.builds(
    "{},{}={},r={}{}".format,
    st.sampled_from(["n,", "y,", "p=tls-unique,", "n,a=bob", ""]),
    st.sampled_from("nam"),
    st.text(max_size=10),
    st.text("abc=,\u00e9", max_size=5),
    st.sampled_from(["", ",m=x", ",x=y", ",", ",r=x"]),
)
WORDS = st.binary(max_size=80) | SCRAM_WORDS.map(str.encode) | st.text(max_size=40).map(token_message)


def machine() -> LogInMachine:
    return LogInMachine(Ways(MECHANISMS, KNOWN, lambda _token: TokenRefused("it is nobody's")), "nonce")


@given(st.sampled_from(MECHANISMS), WORDS, WORDS)
def test_no_words_but_a_proof_let_anybody_in(mechanism: str, first: bytes, then: bytes) -> None:
    at = machine()
    outcome = at.hear(mechanism, first)
    if isinstance(outcome, Challenge):
        outcome = at.hear(mechanism, then)
    assert isinstance(outcome, Refused)


MUCH = st.builds(
    lambda letters, times: letters * times,
    st.text(st.sampled_from("a,=\u00ad\u00fc\ufdfa\u3316 "), max_size=6)
    | st.sampled_from(["=2C", "=3D", ",n=", ",r="]),
    st.integers(0, 1_000),
)
LONG_WORDS = st.builds("{},n={},r={}{}".format, st.sampled_from(["n,", "y,"]), MUCH, MUCH, st.just("x")) | st.builds(
    "{}{}={},{}={}{}".format, st.sampled_from(["n,,", ",,", "", "n,"]), *[st.sampled_from("nrxm"), MUCH] * 2, MUCH
)


@contextlib.contextmanager
def prepared() -> Iterator[list[int]]:
    """Note how many characters are prepared of each name."""
    lengths: list[int] = []
    real = scramp.core.saslprep

    def note(text: str) -> str:
        found: str = real(text)
        lengths.append(max(len(text), len(found)))
        return found

    with patch.object(scramp.core, "saslprep", note):
        yield lengths


@given(LONG_WORDS)
def test_no_words_of_a_stranger_have_much_prepared_or_kept(said: str) -> None:
    at = machine()
    with prepared() as lengths:
        outcome = at.hear(MECHANISM, said.encode())
    assert [length for length in lengths if length > MOST_PREPARED] == []
    if isinstance(outcome, Challenge):
        assert len(outcome.data) < 4_096


@given(st.binary(max_size=80) | SCRAM_WORDS.map(str.encode), st.integers(0, 200), st.integers(0, 255))
def test_no_change_of_a_proof_lets_anybody_in(tail: bytes, place: int, letter: int) -> None:
    at, client = machine(), ScramClient([MECHANISM], "alice", "pencil")
    challenge = at.hear(MECHANISM, client.get_client_first().encode())
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.data.decode())
    good = client.get_client_final().encode()
    changed = bytearray(good)
    changed[place % len(good)] = letter
    said = bytes(changed) + tail
    outcome = at.hear(MECHANISM, said)
    assert isinstance(outcome, Accepted if said == good else Refused)


@given(st.lists(st.binary(max_size=60), max_size=4), st.booleans())
def test_no_bytes_let_anybody_in(pieces: list[bytes], is_framed: bool) -> None:
    client = Client()
    with contextlib.suppress(RemoteProtocolError):
        for piece in pieces:
            assert client.gate.take((len(piece).to_bytes(4) if is_framed else b"") + piece) == b""
    assert client.door.let_in_as == []


@given(st.text(max_size=64), st.binary(max_size=200))
def test_no_request_of_a_log_in_lets_anybody_in(mechanism: str, data: bytes) -> None:
    session, client = LogInSession(Role.MEMBER), Client()
    session.greet()
    list(session.receive(Session(Role.COORDINATOR).send_hello()))
    assert client.gate.take(session.ask(LogIn(mechanism, data))) == b""
    assert client.door.let_in_as == []


NAMES = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20).filter(
    lambda name: name not in {"*", "ANONYMOUS"}
)
VERIFIERS = st.builds(
    Verifier,
    st.integers(4096, 1_000_000),
    st.binary(min_size=12, max_size=40),
    *[st.binary(min_size=32, max_size=32)] * 2,
)


@given(st.dictionaries(NAMES, VERIFIERS, max_size=4), st.dictionaries(st.binary(min_size=32, max_size=32), NAMES))
def test_users_are_read_as_they_were_written(verifiers: dict[str, Verifier], tokens: dict[bytes, str]) -> None:
    known = Users({(MECHANISM, name): each for name, each in verifiers.items()}, tokens, b"secret")
    assert parse_users(users_text(known)) == known


@given(st.text(max_size=200))
def test_no_text_of_users_breaks_more_than_a_rule(text: str) -> None:
    with contextlib.suppress(UsersError):
        parse_users(text)
