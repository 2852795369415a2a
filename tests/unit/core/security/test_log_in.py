"""The machine of a log-in: each stage and all that may be said in it, and reasons that tell no secret."""

from collections.abc import Callable

import pytest
from scramp import ScramClient, ScramMechanism

from coordinator.core.security.log_in import (
    TRANSITIONS,
    Accepted,
    Challenge,
    LogInMachine,
    Outcome,
    Refused,
    Stage,
    TokenAccepted,
    TokenRefused,
    Ways,
)
from coordinator.core.security.principal import Principal
from coordinator.core.security.users import MECHANISMS, SCRAM_MECHANISMS, Users, Verifier
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_ID_LENGTH
from coordinator.protocol.log_in import token_message

PASSWORD = "c4n4ry-p4ssw0rd"
MECHANISM = "SCRAM-SHA-256"


def verifier(mechanism: str, password: str = PASSWORD, iterations: int = 4096) -> Verifier:
    salt, stored_key, server_key, count = ScramMechanism(mechanism).make_auth_info(password, iterations)
    return Verifier(count, salt, stored_key, server_key)


USERS = Users({(mechanism, "alice"): verifier(mechanism) for mechanism in SCRAM_MECHANISMS}, {}, b"secret")


def check_token(token: str) -> TokenAccepted | TokenRefused:
    answers = {"good": TokenAccepted("bob", 70.0), "nobody": TokenAccepted("ANONYMOUS"), "ugly": TokenAccepted("\n")}
    return answers.get(token, TokenRefused("it has expired"))


def machine(mechanisms: tuple[str, ...] = MECHANISMS) -> LogInMachine:
    return LogInMachine(Ways(mechanisms, USERS, check_token), "server-nonce")


class Client:
    """Somebody who logs in by SCRAM."""

    def __init__(self, name: str = "alice", password: str = PASSWORD, mechanism: str = MECHANISM) -> None:
        self.mechanism = mechanism
        self.scram = ScramClient([mechanism], name, password)

    def name(self, to: LogInMachine) -> Outcome:
        outcome = to.hear(self.mechanism, self.scram.get_client_first().encode())
        if isinstance(outcome, Challenge):
            self.scram.set_server_first(outcome.data.decode())
        return outcome

    def prove(self, to: LogInMachine) -> Outcome:
        return to.hear(self.mechanism, self.scram.get_client_final().encode())


def denied(why: str, told: str, code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED) -> Refused:
    return Refused(code, told, why)


def token(text: str) -> Callable[[LogInMachine], Outcome]:
    return lambda to: to.hear("OAUTHBEARER", token_message(text))


NOT_FIT = "user name and password do not fit"
FIRST = [
    ("a user is named", lambda to: Client().name(to), None, Stage.PROVING),
    ("a user is named that there is not", lambda to: Client("mallory").name(to), None, Stage.PROVING),
    (
        "it cannot be read",
        lambda to: to.hear(MECHANISM, b"n,,nobody"),
        "its first message cannot be read",
        Stage.REFUSED,
    ),
    ("it is no text", lambda to: to.hear(MECHANISM, b"\xff\xfe"), "its first message cannot be read", Stage.REFUSED),
    ("it wants channel binding", lambda to: to.hear(MECHANISM, b"p=tls-unique,,n=alice,r=x"), "first", Stage.REFUSED),
    ("it acts for another", lambda to: to.hear(MECHANISM, b"n,a=bob,n=alice,r=x"), "first", Stage.REFUSED),
    ("a good token", token("good"), None, Stage.DONE),
    ("a bad token", token("bad"), "its token is refused: it has expired", Stage.REFUSED),
    ("no token", lambda to: to.hear("OAUTHBEARER", b"n,,"), "its message holds no bearer token", Stage.REFUSED),
    ("a token of nobody", token("nobody"), "makes no good name of a principal", Stage.REFUSED),
    ("a token with a bad name", token("ugly"), "makes no good name of a principal", Stage.REFUSED),
    ("another mechanism", lambda to: to.hear("PLAIN", b"x"), "wants to log in by 'PLAIN'", Stage.REFUSED),
    ("something else", lambda to: to.hear_other(), "before it had logged in", Stage.REFUSED),
]


@pytest.mark.parametrize(("act", "why", "stage"), [case[1:] for case in FIRST], ids=[case[0] for case in FIRST])
def test_what_is_said_first(act: Callable[[LogInMachine], Outcome], why: str | None, stage: Stage) -> None:
    at = machine()
    outcome = act(at)
    assert at.stage is stage
    if why is None:
        assert not isinstance(outcome, Refused)
    else:
        assert isinstance(outcome, Refused)
        assert why in outcome.why


PROVING = [
    ("the proof", lambda client, to: client.prove(to), None, Stage.DONE),
    ("no proof", lambda client, to: to.hear(MECHANISM, b"c=biws,r=x,p=AAAA"), "cannot be read", Stage.REFUSED),
    ("nothing", lambda client, to: to.hear(MECHANISM, b""), "cannot be read", Stage.REFUSED),
    ("no text", lambda client, to: to.hear(MECHANISM, b"\xff"), "cannot be read", Stage.REFUSED),
    ("another mechanism", lambda client, to: to.hear("SCRAM-SHA-512", b"x"), "with another mechanism", Stage.REFUSED),
    ("a token", lambda client, to: token("good")(to), "with another mechanism", Stage.REFUSED),
    ("something else", lambda client, to: to.hear_other(), "before it had logged in", Stage.REFUSED),
]


@pytest.mark.parametrize(("act", "why", "stage"), [case[1:] for case in PROVING], ids=[case[0] for case in PROVING])
def test_what_is_said_when_a_proof_is_due(
    act: Callable[[Client, LogInMachine], Outcome], why: str | None, stage: Stage
) -> None:
    at, client = machine(), Client()
    client.name(at)
    outcome = act(client, at)
    assert at.stage is stage
    if why is None:
        assert isinstance(outcome, Accepted)
        assert (outcome.principal, outcome.mechanism, outcome.ends_at_s) == (Principal("alice"), MECHANISM, None)
        client.scram.set_server_final(outcome.data.decode())
    else:
        assert isinstance(outcome, Refused)
        assert why in outcome.why


@pytest.mark.parametrize("last", ["good", "bad"])
@pytest.mark.parametrize(
    "act",
    [lambda to: to.hear(MECHANISM, b"x"), token("good"), lambda to: to.hear_other()],
    ids=["words", "a token", "something else"],
)
def test_nothing_is_heard_once_it_is_over(act: Callable[[LogInMachine], Outcome], last: str) -> None:
    at = machine()
    token(last)(at)
    assert TRANSITIONS[at.stage] == {}
    with pytest.raises(AssertionError, match="while the log-in is"):
        act(at)


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_a_wrong_password_and_an_unknown_user_are_told_the_same_and_logged_apart(mechanism: str) -> None:
    outcomes = {}
    for name, password in (("alice", PASSWORD + "!"), ("mallory", PASSWORD)):
        at, client = machine(), Client(name, password, mechanism)
        client.name(at)
        outcomes[name] = client.prove(at)
    assert outcomes["alice"] == denied("the password of user 'alice' is another one", NOT_FIT)
    assert outcomes["mallory"] == denied(f"'mallory' is no user with {mechanism} in authentication.users_file", NOT_FIT)


def test_a_challenge_looks_the_same_for_a_user_and_for_nobody_also_when_asked_twice() -> None:
    def challenge_of(name: str) -> dict[str, str]:
        outcome = machine().hear(MECHANISM, f"n,,n={name},r=client".encode())
        assert isinstance(outcome, Challenge)
        return dict(part.split("=", 1) for part in outcome.data.decode().split(","))  # type: ignore[misc]

    alice, mallory = challenge_of("alice"), challenge_of("mallory")
    assert challenge_of("mallory") == mallory != challenge_of("mallet")
    assert (alice["r"], alice["i"], alice.keys()) == (mallory["r"], mallory["i"], mallory.keys())
    assert len(alice["s"]) > 15


def test_a_verifier_that_is_made_up_fits_the_iterations_of_most_users_and_their_keys() -> None:
    twice = {(MECHANISM, name): Verifier(8192, b"s" * 16, b"k" * 32, b"k" * 32) for name in ("a", "b")}
    users = Users(twice | {(MECHANISM, "c"): Verifier(4096, b"s" * 16, b"k" * 32, b"k" * 32)}, {}, b"secret")
    found = users.verifier_of(MECHANISM, "mallory")
    assert (found.iterations, len(found.salt), len(found.stored_key)) == (8192, 16, 32)
    assert not users.has(MECHANISM, "mallory")
    assert len(users.verifier_of("SCRAM-SHA-512", "mallory").server_key) == 64
    assert users.verifier_of(MECHANISM, "mallory") != Users(twice, {}, b"other").verifier_of(MECHANISM, "mallory")


def test_a_mechanism_that_is_not_named_in_the_settings_is_refused_with_those_that_are() -> None:
    outcome = Client(mechanism="SCRAM-SHA-512").name(machine((MECHANISM,)))
    assert isinstance(outcome, Refused)
    assert outcome.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert outcome.told == "that mechanism is not taken here; those that are: SCRAM-SHA-256"


@pytest.mark.parametrize(
    "name",
    ["a" * 257, "\ufdfa" * 15, "\u00ad" * 256 + "x", "=2C" * 257],
    ids=["letters", "one becomes eighteen", "it becomes one", "each is three"],
)
def test_a_name_that_would_take_long_to_prepare_is_a_refusal_before_it_is(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scramp.core.saslprep", lambda _: pytest.fail("it is looked at character by character"))
    at = machine()
    assert at.hear(MECHANISM, f"n,,n={name},r=x".encode()) == denied(
        "it names a user with more than 256 characters in its name",
        "there is never a user with more than 256 characters in its name",
    )
    assert at.stage is Stage.REFUSED


def test_words_that_are_longer_than_any_name_and_nonce_are_refused() -> None:
    outcome = machine().hear(MECHANISM, b"n,,n=alice,r=" + b"x" * 2_048)
    assert isinstance(outcome, Refused)
    assert outcome.why == "its first message cannot be read: it has 2061 bytes and at most 2048 are heard"


@pytest.mark.parametrize("letter", ["a", ",", "=", "\u00fc", "\U00020000"], ids=ascii)
def test_the_longest_name_that_a_user_may_have_logs_in(letter: str) -> None:
    name = letter * MAX_ID_LENGTH
    users = Users({(MECHANISM, name): verifier(MECHANISM)}, {}, b"secret")
    at, client = LogInMachine(Ways(MECHANISMS, users, check_token), "server-nonce"), Client(name)
    assert isinstance(client.name(at), Challenge)
    assert isinstance(client.prove(at), Accepted)


def test_no_secret_is_in_a_representation_or_a_reason() -> None:
    at, client = machine(), Client("alice", PASSWORD)
    shown = [repr(client.name(at)), repr(USERS), repr(at.hear(MECHANISM, PASSWORD.encode()))]
    shown += [repr(act(machine())) for act in (token(PASSWORD), lambda to: to.hear(PASSWORD[:3], PASSWORD.encode()))]
    keys = USERS.verifier_of(MECHANISM, "alice")
    assert [each for each in shown if PASSWORD in each or repr(keys.stored_key) in each] == []
