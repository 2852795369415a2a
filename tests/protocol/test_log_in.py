"""The log-in of a client, said by the product's own ends: what each may say when, and what it is answered."""

from dataclasses import dataclass, field
from functools import cache

import pytest
from scramp import ScramClient, ScramMechanism

from coordinator.config import AuthenticationSettings, load_settings
from coordinator.core.security.log_in import LogInMachine, TokenAccepted, TokenRefused, Ways
from coordinator.core.security.principal import ANONYMOUS, Principal
from coordinator.core.security.users import MECHANISMS, Users, Verifier
from coordinator.protocol.errors import ErrorCode, RemoteProtocolError
from coordinator.protocol.framing import encode_envelope
from coordinator.protocol.log_in import (
    Greeted,
    Heard,
    LogInAnswered,
    LogInAsked,
    LogInSession,
    OtherAsked,
    token_in,
    token_message,
)
from coordinator.protocol.messages import ErrorResponse, ListGroups
from coordinator.protocol.messages.log_in import LogIn, LogInResponse
from coordinator.protocol.session import HelloReceived, RequestReceived, ResponseReceived, Role, Session, SessionLimits
from coordinator.runtime.server.gate import Gate
from tests.helpers.sentences import says

MECHANISM = "SCRAM-SHA-256"
GOOD = "good"


@cache
def settings_of(given: tuple[tuple[str, object], ...]) -> AuthenticationSettings:
    wanted = {"mechanisms": ",".join(MECHANISMS), "users_file": "users"} | dict(given)
    return load_settings(None, {f"authentication.{name}": value for name, value in wanted.items()}).authentication


@cache
def users() -> Users:
    salt, stored_key, server_key, iterations = ScramMechanism(MECHANISM).make_auth_info("pencil", 4096)
    return Users({(MECHANISM, "alice"): Verifier(iterations, salt, stored_key, server_key)}, {}, b"secret")


class LogIns:
    """The ways in of a test; a token is good or not by its text."""

    def __init__(self, **settings: object) -> None:
        self.settings = settings_of(tuple(settings.items()))
        self._users = users()

    def begin(self) -> LogInMachine:
        return LogInMachine(Ways(self.settings.mechanisms, self._users, self._check), "server-nonce")

    def _check(self, token: str) -> TokenAccepted | TokenRefused:
        return TokenAccepted("bob", 7.0) if token == GOOD else TokenRefused("it has expired")


@dataclass
class Door:
    """A connection as its gate sees it; it remembers what it was told."""

    principal: Principal = ANONYMOUS
    said: bytes = b""
    let_in_as: list[tuple[Principal, float | None]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def say(self, data: bytes) -> None:
        self.said += data

    def let_in(self, principal: Principal, ends_at_s: float | None) -> None:
        self.let_in_as.append((principal, ends_at_s))

    def refuse_log_in(self, why: str, answer: bytes) -> None:
        self.refused.append(why)
        self.said += answer


class Client:
    """A client and the gate that it speaks to."""

    def __init__(self, principal: Principal = ANONYMOUS, **settings: object) -> None:
        self.door = Door(principal)
        self.gate = Gate(self.door, LogIns(**settings), SessionLimits())  # type: ignore[arg-type]
        self.session = LogInSession(Role.MEMBER)
        self.hello = self.session.greet()
        list(self.session.receive(Session(Role.COORDINATOR).send_hello()))
        assert self.gate.take(self.hello) == b""

    def say(self, mechanism: str, data: bytes) -> LogInResponse | ErrorResponse:
        assert self.gate.take(self.session.ask(LogIn(mechanism, data))) == b""
        return self.answer()

    def answer(self) -> LogInResponse | ErrorResponse:
        said, self.door.said = self.door.said, b""
        (heard,) = self.session.receive(said)
        assert isinstance(heard, LogInAnswered)
        return heard.response

    def prove(self, name: str, password: str) -> LogInResponse | ErrorResponse:
        scram = ScramClient([MECHANISM], name, password)
        challenge = self.say(MECHANISM, scram.get_client_first().encode())
        assert isinstance(challenge, LogInResponse)
        scram.set_server_first(challenge.data.decode())
        answer = self.say(MECHANISM, scram.get_client_final().encode())
        assert isinstance(answer, LogInResponse)
        if answer.is_done:
            scram.set_server_final(answer.data.decode())
        return answer


def heard_by(session: LogInSession, data: bytes) -> list[Heard]:
    return list(session.receive(data))


@says("LogIn is said until an answer says that it is done, or refuses it.")
def test_a_password_is_proven_in_two_steps_and_a_token_in_one() -> None:
    by_password, by_token = Client(), Client()
    assert by_password.prove("alice", "pencil").error is ErrorCode.NONE
    assert by_password.door.let_in_as == [(Principal("alice"), None)]
    assert by_token.say("OAUTHBEARER", token_message(GOOD)) == LogInResponse(is_done=True)
    assert by_token.door.let_in_as == [(Principal("bob"), 7.0)]


@says("A refused LogIn ends the session; the answer is the same for a wrong password and for a user that there is not.")
def test_a_refusal_does_not_tell_whether_there_is_such_a_user() -> None:
    wrong, unknown = Client(), Client()
    answers = [wrong.prove("alice", "pencil!"), unknown.prove("mallory", "pencil!")]
    assert answers[0] == answers[1]
    assert isinstance(answers[0], LogInResponse)
    assert (answers[0].error, answers[0].is_done, answers[0].data) == (ErrorCode.SASL_AUTHENTICATION_FAILED, False, b"")
    for client in (wrong, unknown):
        assert len(client.door.refused) == 1
        assert client.gate.take(client.session.ask(LogIn(MECHANISM, b"again"))) == b""
        assert client.door.said == b""
        assert client.door.let_in_as == []


@says(
    "Somebody who has to log in and asks for anything else is answered by ErrorResponse with "
    "SASL_AUTHENTICATION_FAILED, and the session ends."
)
def test_nothing_but_a_log_in_is_heard_of_somebody_who_is_not_known() -> None:
    client = Client()
    members = Session(Role.MEMBER)
    members.send_hello()
    list(members.receive_bytes(Session(Role.COORDINATOR).send_hello()))
    assert client.gate.take(members.send_request(ListGroups())[1]) == b""
    (answered,) = members.receive_bytes(client.door.said)
    assert isinstance(answered, ResponseReceived)
    assert isinstance(answered.response, ErrorResponse)
    assert answered.response.error is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "log in first" in answered.response.message
    assert client.door.refused == ["it asked for something before it had logged in"]


@says("After the answer that it is done both ends begin anew with their hellos.")
def test_what_follows_a_log_in_is_the_conversation_of_members() -> None:
    client = Client()
    client.say("OAUTHBEARER", token_message(GOOD))
    coordinator, member = Session(Role.COORDINATOR), Session(Role.MEMBER)
    (heard,) = member.receive_bytes(coordinator.send_hello())
    assert isinstance(heard, HelloReceived)
    list(coordinator.receive_bytes(member.send_hello()))
    (asked,) = coordinator.receive_bytes(member.send_request(ListGroups())[1])
    assert isinstance(asked, RequestReceived)


@says("A frame of somebody who has to log in may have 16384 bytes.")
def test_a_long_frame_of_a_stranger_is_refused_by_its_length() -> None:
    most = 16_384 - len(client_frame(b""))
    assert isinstance(Client().say("OAUTHBEARER", bytes(most)), LogInResponse)
    with pytest.raises(RemoteProtocolError, match="over the limit of 16384"):
        Client().gate.take(b"\0\0\x40\x01")


@pytest.mark.parametrize("is_first", [True, False])
def test_whoever_need_not_log_in_and_does_is_held_to_the_frames_of_a_log_in(is_first: bool) -> None:
    client = Client(Principal("by certificate"))
    if not is_first:
        assert client.say(MECHANISM, b"n,,n=alice,r=x").error is ErrorCode.NONE
    asked = LogInSession(Role.MEMBER, SessionLimits())
    asked.greet()
    list(asked.receive(Session(Role.COORDINATOR).send_hello()))
    with pytest.raises(RemoteProtocolError, match="over the limit of 16384") as raised:
        client.gate.take(asked.ask(LogIn(MECHANISM, bytes(16_385))))
    assert raised.value.code is ErrorCode.FRAME_TOO_LARGE
    assert client.door.refused == []


def client_frame(data: bytes) -> bytes:
    """Return the body of the frame in which these words come, with the longest head of them that there is."""
    session = LogInSession(Role.MEMBER)
    session.greet()
    list(session.receive(Session(Role.COORDINATOR).send_hello()))
    return session.ask(LogIn("OAUTHBEARER", bytes(300) + data))[4:-300]


@says("More that comes with the last LogIn, before its answer, ends the session with INVALID_REQUEST.")
def test_nobody_is_let_in_with_words_that_came_before_the_answer() -> None:
    client = Client()
    asked = client.session.ask(LogIn("OAUTHBEARER", token_message(GOOD)))
    with pytest.raises(RemoteProtocolError) as raised:
        client.gate.take(asked + Session(Role.MEMBER).send_hello())
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    assert client.door.let_in_as == []


@says("A coordinator that logs nobody in answers LogIn with UNSUPPORTED_VERSION.")
def test_a_node_without_log_ins_knows_no_such_number() -> None:
    coordinator, client = Session(Role.COORDINATOR), LogInSession(Role.MEMBER)
    list(client.receive(coordinator.send_hello()))
    list(coordinator.receive_bytes(client.greet()))
    (asked,) = coordinator.receive_bytes(client.ask(LogIn(MECHANISM, b"n,,n=a,r=b")))
    (answered,) = client.receive(coordinator.send_response(asked.correlation_id, asked.answer))  # type: ignore[union-attr]
    assert isinstance(answered, LogInAnswered)
    assert answered.response.error is ErrorCode.UNSUPPORTED_VERSION


@says("Somebody who is known without a log-in, or need not be known, may ask without one.")
@pytest.mark.parametrize(
    ("principal", "settings"), [(Principal("by certificate"), {}), (ANONYMOUS, {"allow_anonymous": "true"})]
)
def test_whoever_is_known_passes_with_all_that_it_said_and_may_log_in_all_the_same(
    principal: Principal, settings: dict[str, object]
) -> None:
    client = Client(principal, **settings)
    members = Session(Role.MEMBER)
    hello = members.send_hello()
    list(members.receive_bytes(Session(Role.COORDINATOR).send_hello()))
    asked = b"".join(members.send_request(ListGroups())[1] for _ in range(3))
    assert client.gate.take(asked[:9]) == b""
    assert client.gate.take(asked[9:]) == hello + asked
    assert client.door.said == b""
    other = Client(principal, **settings)
    assert other.say("OAUTHBEARER", token_message(GOOD)).error is ErrorCode.NONE
    assert other.door.let_in_as == [(Principal("bob"), 7.0)]
    denied = Client(principal, **settings)
    assert denied.say("OAUTHBEARER", token_message("bad")).error is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert denied.door.let_in_as == []


def test_whoever_is_known_is_heard_by_the_session_of_members_once_no_log_in_is_so_long() -> None:
    client = Client(Principal("by certificate"))
    begun = (1024 * 1024).to_bytes(4) + bytes(16 * 1024)
    assert client.gate.take(begun) == b""
    assert client.gate.take(bytes(32 * 1024)) == client.hello + begun + bytes(32 * 1024)
    longest = Client(Principal("by certificate"))
    data = token_message(GOOD + "x" * (16 * 1024 - 100))
    asked = longest.session.ask(LogIn("OAUTHBEARER", data))
    assert longest.gate.take(asked[:-1]) == b""
    assert longest.gate.take(asked[-1:]) == b""
    assert longest.door.refused == ["its token is refused: it has expired"]


def test_a_mechanism_that_is_not_taken_is_answered_with_those_that_are() -> None:
    client = Client(mechanisms="SCRAM-SHA-512")
    answer = client.say("PLAIN", b"\0alice\0pencil")
    assert isinstance(answer, LogInResponse)
    assert (answer.error, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("SCRAM-SHA-512",))
    assert "pencil" not in f"{answer} {client.door.refused}"


def test_both_ends_hear_each_other_however_it_is_cut() -> None:
    asker, answerer = LogInSession(Role.MEMBER), LogInSession(Role.COORDINATOR)
    hello = asker.greet()
    assert [heard for byte in hello for heard in answerer.receive(bytes([byte]))] == [Greeted()]
    assert heard_by(asker, answerer.greet()) == [Greeted()]
    asked = asker.ask(LogIn(MECHANISM, b"words"))
    heard = [heard for byte in asked for heard in answerer.receive(bytes([byte]))]
    assert heard == [LogInAsked(1, LogIn(MECHANISM, b"words"))]
    answer = answerer.answer(1, LogInResponse(data=b"more"))
    assert heard_by(asker, answer) == [LogInAnswered(LogInResponse(data=b"more"))]
    assert heard_by(answerer, encode_envelope(9, b"\x91\x0b")) == [OtherAsked(9, 11)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,a=bob,\x01auth=Bearer abc\x01\x01",
        b"n,,auth=Bearer abc\x01\x01",
        "n,,\x01auth=Bearer \u00e4\x01\x01".encode(),
        b"\xff" * 100,
    ],
)
def test_a_message_without_a_token_has_none(data: bytes) -> None:
    assert token_in(data) is None
    assert token_in(token_message("abc")) == "abc"
    assert token_in(b"n,,\x01host=h\x01auth=bearer abc\x01\x01") == "abc"
