"""The member's network on loopback sockets: every failure comes out as an event with its reason."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from coordinator.client.security import ClientSecurity, Secret
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.log_in import LogInAsked, LogInSession
from coordinator.protocol.messages.log_in import LogInResponse
from coordinator.protocol.session import Role
from spark_kcoord.member.core.events import BytesReceived, Connected, ConnectionLost
from spark_kcoord.member.transport import MAX_UNSENT_BYTES, NetworkEvent, Transport
from tests.helpers.certificates import Authority

PATIENCE_S = 60.0


@pytest.fixture
def transport() -> Iterator[Transport]:
    made = Transport()
    yield made
    made.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def events_of(transport: Transport, kind: type[NetworkEvent]) -> list[NetworkEvent]:
    """Wait until something of this kind happens and return all that happened with it."""
    deadline_s = time.monotonic() + PATIENCE_S
    seen: list[NetworkEvent] = []
    while not any(isinstance(event, kind) for event in seen):
        assert time.monotonic() < deadline_s, f"no {kind.__name__}: {seen}"
        seen += transport.wait(1)
    return seen


def connected(transport: Transport, listener: socket.socket, connection_id: int = 1) -> socket.socket:
    transport.connect(connection_id, *listener.getsockname(), PATIENCE_S)
    peer, _ = listener.accept()
    assert events_of(transport, Connected) == [Connected(connection_id)]
    return peer


def test_bytes_go_both_ways(transport: Transport, listener: socket.socket) -> None:
    with connected(transport, listener) as peer:
        transport.send(1, b"ping")
        assert peer.recv(100) == b"ping"
        peer.sendall(b"pong")
        assert events_of(transport, BytesReceived) == [BytesReceived(1, b"pong")]


def test_what_came_before_the_close_is_delivered_first(transport: Transport, listener: socket.socket) -> None:
    with connected(transport, listener) as peer:
        peer.sendall(b"last words")
    assert events_of(transport, ConnectionLost) == [
        BytesReceived(1, b"last words"),
        ConnectionLost(1, "it closed the connection"),
    ]


def test_refused_connection_is_an_event_with_the_systems_reason(transport: Transport) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closing:
        address = closing.getsockname()
    transport.connect(4, *address, 10)
    assert events_of(transport, ConnectionLost) == [ConnectionLost(4, "Connection refused")]


def test_thread_that_is_not_to_be_had_is_an_event_and_the_next_attempt_is_one_like_any_other(
    transport: Transport, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        transport.connect(1, *listener.getsockname(), PATIENCE_S)
    assert events_of(transport, ConnectionLost) == [ConnectionLost(1, "can't start new thread")]
    connected(transport, listener, 2).close()


@pytest.mark.parametrize(("host", "port"), [("no.such.host.invalid", 1), ("a" * 70, 1), ("127.0.0.1", 70_000)])
def test_address_that_leads_nowhere_is_an_event(transport: Transport, host: str, port: int) -> None:
    transport.connect(1, host, port, 10)
    (event,) = events_of(transport, ConnectionLost)
    assert isinstance(event, ConnectionLost)
    assert event.why


def test_large_message_is_written_as_the_peer_takes_it(transport: Transport, listener: socket.socket) -> None:
    size = MAX_UNSENT_BYTES // 2
    with connected(transport, listener) as peer:
        transport.send(1, b"x" * size)
        received = 0
        peer.settimeout(30)
        while received < size:
            transport.wait(0)
            received += len(peer.recv(1 << 20))
        assert received == size


def test_peer_that_takes_nothing_is_given_up(transport: Transport, listener: socket.socket) -> None:
    with connected(transport, listener):
        for _ in range(40):
            transport.send(1, b"x" * (MAX_UNSENT_BYTES // 8))
        (event,) = events_of(transport, ConnectionLost)
        assert isinstance(event, ConnectionLost)
        assert "it has not taken" in event.why


def test_outcome_of_an_abandoned_attempt_is_dropped(transport: Transport, listener: socket.socket) -> None:
    transport.connect(1, *listener.getsockname(), PATIENCE_S)
    abandoned, _ = listener.accept()
    with abandoned, connected(transport, listener, connection_id=2):
        transport.send(1, b"to nobody")
        transport.disconnect(1)
        abandoned.settimeout(0.05)
        deadline_s = time.monotonic() + PATIENCE_S
        said: bytes | None = None
        while said is None and time.monotonic() < deadline_s:
            assert transport.wait(0) == []
            with suppress(TimeoutError):
                said = abandoned.recv(10)
        assert said == b""


def test_wake_ends_a_wait_and_is_harmless_after_the_close(transport: Transport) -> None:
    transport.wake()
    assert transport.wait(None) == []  # without a wake-up it would wait for ever
    transport.close()
    transport.wake()


def test_with_tls_bytes_go_both_ways_also_many_at_once(listener: socket.socket, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.pair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    many = bytes(range(256)) * 8_000

    def serve() -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as peer:
            heard = b""
            while len(heard) < len(many):
                heard += peer.recv(100_000)
            peer.sendall(heard)

    serving = threading.Thread(target=serve)
    serving.start()
    transport = Transport(ClientSecurity("SSL", ca_location=str(authority.trusted)))
    try:
        transport.connect(1, *listener.getsockname(), PATIENCE_S)
        assert events_of(transport, Connected) == [Connected(1)]
        transport.send(1, many)
        seen = events_of(transport, ConnectionLost)
        assert b"".join(event.data for event in seen if isinstance(event, BytesReceived)) == many
        assert seen[-1] == ConnectionLost(1, "it closed the connection")
    finally:
        transport.close()
        serving.join()


def test_with_tls_a_node_that_is_not_trusted_is_a_lost_connection_with_the_reason(
    listener: socket.socket, tmp_path: Path
) -> None:
    pair = Authority(tmp_path, "another").pair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)

    def serve() -> None:
        plain, _ = listener.accept()
        with plain, suppress(OSError):
            context.wrap_socket(plain, server_side=True).close()

    serving = threading.Thread(target=serve)
    serving.start()
    transport = Transport(ClientSecurity("SSL", ca_location=str(Authority(tmp_path).trusted)))
    try:
        transport.connect(1, *listener.getsockname(), PATIENCE_S)
        (lost,) = events_of(transport, ConnectionLost)
        assert isinstance(lost, ConnectionLost)
        assert "the certificate of the other end is refused" in lost.why
    finally:
        transport.close()
        serving.join()


def by_token(protocol: str, authority: Authority | None = None) -> ClientSecurity:
    trusted = "" if authority is None else str(authority.trusted)
    return ClientSecurity(protocol, ca_location=trusted, mechanism="OAUTHBEARER", token=Secret("abc"))


def answer_one_log_in(peer: socket.socket, response: LogInResponse, behind: bytes = b"") -> None:
    """Answer as a coordinator does, with what is said behind in the same piece."""
    session = LogInSession(Role.COORDINATOR)
    peer.sendall(session.greet())
    while True:
        for heard in session.receive(peer.recv(65536)):
            if isinstance(heard, LogInAsked):
                peer.sendall(session.answer(heard.correlation_id, response) + behind)
                return


def test_what_comes_decrypted_with_the_end_of_a_log_in_is_not_forgotten(
    listener: socket.socket, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    pair = authority.pair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)

    def serve() -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as peer:
            answer_one_log_in(peer, LogInResponse(is_done=True), b"the next hello")
            peer.recv(100)

    serving = threading.Thread(target=serve)
    serving.start()
    transport = Transport(by_token("SASL_SSL", authority))
    try:
        transport.connect(1, *listener.getsockname(), PATIENCE_S)
        assert events_of(transport, BytesReceived) == [Connected(1), BytesReceived(1, b"the next hello")]
    finally:
        transport.close()
        serving.join()


def test_a_refused_log_in_is_told_apart_from_a_coordinator_that_is_away(listener: socket.socket) -> None:
    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            answer_one_log_in(peer, LogInResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "the token is refused"))

    serving = threading.Thread(target=serve)
    serving.start()
    transport = Transport(by_token("SASL_PLAINTEXT"))
    try:
        transport.connect(1, *listener.getsockname(), PATIENCE_S)
        lost = events_of(transport, ConnectionLost)
        assert lost == [ConnectionLost(1, "refused the log-in: the token is refused", is_refused=True)]
    finally:
        transport.close()
        serving.join()
