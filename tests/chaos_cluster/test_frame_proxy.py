"""The proxy between processes: it tells nodes apart, and delays, holds, drops and cuts what it is told to."""

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from coordinator.protocol.peer_messages import PeerHello
from coordinator.protocol.peer_messages.session import PeerSession
from tests.chaos_cluster.frame_proxy import ANYBODY, FrameProxies, Rules, caller_in, is_zookeeper_write
from tests.helpers.waiting import wait_until

PATIENCE_S = 30.0


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


class Echo:
    """A server that says each frame again, on a thread for each connection."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while (frame := read_frame(connection)) is not None:
                self.heard.append(frame)
                connection.sendall(framed(frame))


def read_frame(connection: socket.socket) -> bytes | None:
    """Return the next frame's body, None when the connection is over."""
    data = b""
    try:
        while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
            more = connection.recv(1)
            if not more:
                return None
            data += more
    except ConnectionError:
        return None
    return data[4:]


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxies() -> Iterator[FrameProxies]:
    with FrameProxies() as running:
        yield running


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def test_what_is_said_is_passed_on_and_answered(echo: Echo, proxies: FrameProxies) -> None:
    with connected(proxies.stand_before(echo.port, 0, 3)) as client:
        client.sendall(framed(b"one") + framed(b"two"))
        assert [read_frame(client), read_frame(client)] == [b"one", b"two"]
        assert proxies.connections(ANYBODY, 3) == 1


def test_a_node_is_known_by_its_hello() -> None:
    assert caller_in(PeerSession().greet(PeerHello("c", 7, 0, "1"))) == 7
    assert caller_in(framed(b"KCRDxxxx")) == ANYBODY


def test_rules_are_for_one_link_alone(echo: Echo, proxies: FrameProxies) -> None:
    port = proxies.stand_before(echo.port, 0, 3)
    hello = PeerSession().greet(PeerHello("c", 7, 0, "1"))
    with connected(port) as seven, connected(port) as other:
        seven.sendall(hello)
        assert read_frame(seven) == hello[4:]
        proxies.change(7, 3, said=Rules(is_held=True))
        seven.sendall(framed(b"held"))
        other.sendall(framed(b"free"))
        assert read_frame(other) == b"free"
        proxies.heal()
        assert read_frame(seven) == b"held"


def test_one_direction_is_held_and_the_other_is_not(echo: Echo, proxies: FrameProxies) -> None:
    with connected(proxies.stand_before(echo.port, 0, 3)) as client:
        proxies.change(ANYBODY, 3, heard=Rules(is_held=True))
        client.sendall(framed(b"one"))
        wait_until(lambda: echo.heard == [b"one"], timeout_s=PATIENCE_S, what="the server hears")
        proxies.change(ANYBODY, 3)
        assert read_frame(client) == b"one"


def test_what_is_dropped_never_comes_and_the_connection_ends_when_the_link_is_healed(
    echo: Echo, proxies: FrameProxies
) -> None:
    with connected(proxies.stand_before(echo.port, 0, 3)) as client:
        client.sendall(framed(b"one"))
        assert read_frame(client) == b"one"
        proxies.change(ANYBODY, 3, heard=Rules(is_dropped=True))
        client.sendall(framed(b"two"))
        wait_until(lambda: echo.heard == [b"one", b"two"], timeout_s=PATIENCE_S, what="the server hears")
        client.sendall(framed(b"three"))
        wait_until(lambda: len(echo.heard) == 3, timeout_s=PATIENCE_S, what="the server hears")
        proxies.heal()
        assert read_frame(client) is None


def test_a_request_is_passed_on_and_its_answer_cut(echo: Echo, proxies: FrameProxies) -> None:
    with connected(proxies.stand_before(echo.port, 0, 3)) as client:
        client.sendall(framed(b"one"))
        assert read_frame(client) == b"one"
        proxies.change(ANYBODY, 3, said=Rules(is_cut=True), heard=Rules(is_held=True))
        client.sendall(framed(b"two"))
        assert read_frame(client) is None
    wait_until(lambda: echo.heard == [b"one", b"two"], timeout_s=PATIENCE_S, what="the server has heard")


def test_a_frame_is_the_last_whose_answer_does_not_come_until_the_link_is_healed(
    echo: Echo, proxies: FrameProxies
) -> None:
    with connected(proxies.stand_before(echo.port, 0, 3)) as client:
        proxies.change(ANYBODY, 3, said=Rules(is_last=lambda frame: frame.endswith(b"write")))
        client.sendall(framed(b"read"))
        assert read_frame(client) == b"read"
        assert not proxies.has_come_to_its_last(ANYBODY, 3)
        client.sendall(framed(b"write"))
        wait_until(lambda: echo.heard == [b"read", b"write"], timeout_s=PATIENCE_S, what="the server hears")
        assert proxies.has_come_to_its_last(ANYBODY, 3)
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        client.settimeout(PATIENCE_S)
        proxies.heal()
        assert read_frame(client) == b"write"


@pytest.mark.parametrize(
    ("number", "kind", "is_write"),
    [(7, 5, True), (7, 14, True), (7, 4, False), (0, 5, False), (-2, 11, False)],
    ids=["setData", "multi", "getData", "a greeting", "a ping"],
)
def test_writes_to_zookeeper_are_known(number: int, kind: int, is_write: bool) -> None:
    assert is_zookeeper_write(framed(struct.pack(">ii", number, kind) + b"path")) is is_write
    assert not is_zookeeper_write(framed(b""))


def test_connections_of_a_link_are_cut(echo: Echo, proxies: FrameProxies) -> None:
    port = proxies.stand_before(echo.port, 0, 3)
    with connected(port) as client:
        client.sendall(framed(b"one"))
        assert read_frame(client) == b"one"
        proxies.cut(ANYBODY, 3)
        assert read_frame(client) is None
    wait_until(lambda: proxies.connections(ANYBODY, 3) == 0, timeout_s=PATIENCE_S, what="it is over")


def test_whoever_connects_while_nobody_listens_is_reset(proxies: FrameProxies) -> None:
    with connected(proxies.stand_before(1, 0, 3)) as client:
        client.sendall(framed(b"one"))
        assert read_frame(client) is None


def test_who_is_dead_refuses_connections_until_it_is_back(echo: Echo, proxies: FrameProxies) -> None:
    port = proxies.stand_before(echo.port, 0, 3)
    proxies.leave(3)
    with pytest.raises(ConnectionRefusedError):
        connected(port)
    proxies.come_back(3)
    with connected(port) as client:
        client.sendall(framed(b"one"))
        assert read_frame(client) == b"one"
