"""The log-in of a client: what it says, what it demands of the coordinator, and that no secret comes out of it."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from scramp import ScramMechanism

from coordinator.client.log_in import log_in
from coordinator.client.security import ClientSecurity, LogInRefusedError, Secret, SecurityError
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.log_in import LogInAsked, LogInSession, token_in
from coordinator.protocol.messages import ErrorResponse
from coordinator.protocol.messages.log_in import LogIn, LogInResponse
from coordinator.protocol.session import Role

CANARY = "c4n4ry-p4ssw0rd"
MECHANISM = "SCRAM-SHA-256"
PATIENCE_S = 20.0

Answer = Callable[[LogIn], LogInResponse | ErrorResponse]


@contextmanager
def coordinator(answer: Answer, behind: bytes = b"") -> Iterator[tuple[socket.socket, list[LogIn]]]:
    """Give a connection to a coordinator that answers each LogIn as told, and what it was asked."""
    here, there = socket.socketpair()
    asked: list[LogIn] = []

    def serve() -> None:
        with suppress(OSError):  # the client is gone
            converse()

    def converse() -> None:
        session = LogInSession(Role.COORDINATOR)
        there.sendall(session.greet())
        while data := there.recv(65536):
            for heard in session.receive(data):
                if isinstance(heard, LogInAsked):
                    asked.append(heard.request)
                    there.sendall(session.answer(heard.correlation_id, answer(heard.request)) + behind)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield here, asked
    finally:
        here.close()
        thread.join(PATIENCE_S)
        there.close()


def knowing(password: str) -> Answer:
    """Answer as a coordinator does that knows this password."""
    mechanism = ScramMechanism(MECHANISM)
    server = mechanism.make_server(lambda _name: mechanism.make_auth_info(password, 4096))

    def answer(asked: LogIn) -> LogInResponse:
        if server.stage is None:
            server.set_client_first(asked.data.decode())
            return LogInResponse(data=server.get_server_first().encode())
        server.set_client_final(asked.data.decode())
        return LogInResponse(data=server.get_server_final().encode(), is_done=True)

    return answer


def by_password(password: str = CANARY) -> ClientSecurity:
    return ClientSecurity("SASL_PLAINTEXT", mechanism=MECHANISM, username="alice", password=Secret(password))


def by_token(token: Secret) -> ClientSecurity:
    return ClientSecurity("SASL_PLAINTEXT", mechanism="OAUTHBEARER", token=token)


def test_a_password_is_proven_and_never_said() -> None:
    with coordinator(knowing(CANARY)) as (sock, asked):
        log_in(sock, by_password(), PATIENCE_S)
    assert [each.mechanism for each in asked] == [MECHANISM, MECHANISM]
    assert CANARY.encode() not in b"".join(each.data for each in asked)


def test_nothing_behind_the_last_answer_is_taken() -> None:
    with coordinator(done_at_once, behind=b"the next hello") as (sock, _):
        log_in(sock, by_token(Secret("abc")), PATIENCE_S)
        assert sock.recv(100) == b"the next hello"


def test_a_token_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    security = by_token(Secret(path=str(file), name="kcoord.auth.token.file"))
    for token in ("first", "second"):
        file.write_text(token + "\n")
        with coordinator(done_at_once) as (sock, asked):
            log_in(sock, security, PATIENCE_S)
        assert [token_in(each.data) for each in asked] == [token]
    file.unlink()
    with (
        coordinator(done_at_once) as (sock, _),
        pytest.raises(SecurityError, match=r"'kcoord\.auth\.token\.file' is .* cannot be read"),
    ):
        log_in(sock, security, PATIENCE_S)


def done_at_once(_asked: LogIn) -> LogInResponse:
    return LogInResponse(is_done=True)


def done_without_proof(asked: LogIn) -> LogInResponse:
    if asked.data.startswith(b"n,,"):
        nonce = asked.data.decode().partition("r=")[2]
        return LogInResponse(data=f"r={nonce}x,s=c2FsdHNhbHRzYWx0,i=4096".encode())
    return LogInResponse(data=b"v=AAAA", is_done=True)


def wants_more(asked: LogIn) -> LogInResponse:
    return done_without_proof(asked) if asked.data.startswith(b"n,,") else LogInResponse(data=b"v=AAAA")


def wants_much(asked: LogIn) -> LogInResponse:
    nonce = asked.data.decode().partition("r=")[2]
    return LogInResponse(data=f"r={nonce}x,s=c2FsdHNhbHRzYWx0,i=9000000".encode())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (done_at_once, "wanted no proof of the password"),
        (done_without_proof, "did not show that it knows the password"),
        (wants_more, "did not end the log-in when it was due"),
        (wants_much, "more than 1000000 iterations"),
        (lambda _: LogInResponse(data=b"r=another,s=c2FsdHNhbHRzYWx0,i=4096"), "broke a rule of SCRAM-SHA-256"),
        (lambda _: LogInResponse(data=b"\xff"), "broke a rule of SCRAM-SHA-256"),
    ],
)
def test_a_coordinator_that_does_not_know_the_password_is_not_spoken_to(answer: Answer, why: str) -> None:
    with coordinator(answer) as (sock, _), pytest.raises(SecurityError) as raised:
        log_in(sock, by_password(), PATIENCE_S)
    assert why in str(raised.value)
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize("text", ["", "two words", "\u00e4", CANARY + "\x01"])
def test_what_is_no_token_is_not_sent_and_not_shown(text: str) -> None:
    with coordinator(done_at_once) as (sock, asked), pytest.raises(LogInRefusedError) as raised:
        log_in(sock, by_token(Secret(text)), PATIENCE_S)
    assert asked == []
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize("password", [CANARY + "\0", CANARY + "\nmore", CANARY + "\U0001f600"])
def test_a_password_that_scram_does_not_know_is_refused_at_once_and_not_shown(password: str) -> None:
    with coordinator(done_at_once) as (sock, asked), pytest.raises(LogInRefusedError) as raised:
        log_in(sock, by_password(password), PATIENCE_S)
    assert "with this user name and password" in str(raised.value)
    assert (asked, CANARY in str(raised.value)) == ([], False)


def test_a_token_that_is_too_long_for_a_frame_is_refused_here() -> None:
    with coordinator(done_at_once) as (sock, _), pytest.raises(LogInRefusedError, match="too long"):
        log_in(sock, by_token(Secret("x" * 17_000)), PATIENCE_S)


def test_a_coordinator_that_logs_nobody_in_has_refused() -> None:
    unknown = ErrorResponse(error=ErrorCode.UNSUPPORTED_VERSION, message="request number 20 is not known")
    with coordinator(lambda _: unknown) as (sock, _), pytest.raises(LogInRefusedError, match="logs nobody in"):
        log_in(sock, by_password(), PATIENCE_S)


def test_a_coordinator_that_says_nothing_is_given_up_in_time() -> None:
    here, there = socket.socketpair()
    with here, there, pytest.raises(TimeoutError):
        log_in(here, by_password(), 0.05)


def test_a_coordinator_that_ends_the_connection_is_an_error_of_the_connection() -> None:
    here, there = socket.socketpair()
    there.close()
    with here, pytest.raises(ConnectionError):
        log_in(here, by_password(), PATIENCE_S)


def test_another_program_is_named() -> None:
    here, there = socket.socketpair()
    there.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with here, there, pytest.raises(SecurityError, match="an HTTP answer"):
        log_in(here, by_password(), PATIENCE_S)


def test_a_client_that_only_connects_loads_nothing_of_a_log_in() -> None:
    loaded = "import sys, coordinator.client.request, spark_kcoord.member.client; print('scramp' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", loaded], capture_output=True, check=True, text=True).stdout == "False\n"
    )
