"""HTTP of a node, asked by clients that are careful, careless, slow, silent and many."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest

from coordinator.admin.http import AdminListenError, Answer, HttpLimits, HttpServer, say

LARGE = (b"x" * 65536,) * 800
"""More than the buffers of a connection on this machine take."""
PATIENT = HttpLimits(connections=8, ask_s=60.0, answer_s=60.0)
HURRIED = HttpLimits(connections=8, ask_s=0.2, answer_s=0.2)


@contextlib.contextmanager
def serving(limits: HttpLimits = PATIENT) -> Iterator[tuple[str, int]]:
    server = HttpServer(
        {
            "/one": lambda: say(200, "one"),
            "/large": lambda: Answer(200, LARGE),
            "/made": lambda: Answer(200, (b"%d\n" % number for number in range(3))),
        },
        limits,
    )
    address = server.start("127.0.0.1", 0)
    try:
        yield address
    finally:
        server.close()


def asked(address: tuple[str, int], path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, str]:
    with contextlib.closing(HTTPConnection(*address, timeout=30)) as client:
        client.request(method, path, body=body)
        answer = client.getresponse()
        return answer.status, answer.read().decode()


def said_to(address: tuple[str, int], request: bytes) -> bytes:
    """Return all that is answered to some bytes until the server closes."""
    with socket.create_connection(address, timeout=30) as client:
        with contextlib.suppress(OSError):  # it closes as soon as it has seen enough
            client.sendall(request)
        return all_of(client)


def all_of(client: socket.socket) -> bytes:
    said = b""
    with contextlib.suppress(ConnectionError):
        while part := client.recv(65536):
            said += part
    return said


def test_pages_are_answered_by_their_path() -> None:
    with serving() as address:
        assert asked(address, "/one") == (200, "one\n")
        assert asked(address, "/one?a=b") == (200, "one\n")
        assert asked(address, "/made") == (200, "0\n1\n2\n")
        assert asked(address, "/large") == (200, b"".join(LARGE).decode())
        assert asked(address, "/one", "HEAD") == (200, "")
        assert asked(address, "/made", "HEAD") == (200, "")


def test_a_connection_is_used_again() -> None:
    with serving() as address, contextlib.closing(HTTPConnection(*address, timeout=30)) as client:
        for _ in range(3):
            client.request("GET", "/made")
            assert client.getresponse().read() == b"0\n1\n2\n"
        client.request("GET", "/one")
        answer: HTTPResponse = client.getresponse()
        assert (answer.read(), answer.headers["Content-Length"]) == (b"one\n", "4")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/", "GET", 404),
        ("/one/", "GET", 404),
        ("//one", "GET", 404),
        ("/../one", "GET", 404),
        ("/two", "POST", 404),
        *[("/one", method, 405) for method in ("POST", "PUT", "DELETE", "OPTIONS", "BREW")],
    ],
)
def test_other_paths_and_methods_are_refused(path: str, method: str, status: int) -> None:
    with serving() as address:
        assert asked(address, path, method)[0] == status


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n", b"414"),
        (b"GET /" + b"a" * 1_000_000, b"431"),
        (b"GET /one HTTP/1.1\r\nHost: h\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(10_000)), b"431"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),  # a client of TLS
        (b"GET /one\r\n\r\n", b"400"),
        (b"GET /one HTTP/1.1\r\n\r\n", b"400"),  # without a host
        (b"GET /one HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", b"413"),
        (b"GET /one HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", b"413"),
        (b"GET /one HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: what\r\n\r\n", b"501"),
    ],
)
def test_wild_requests_are_refused_and_the_connection_ends(request_bytes: bytes, status: bytes) -> None:
    with serving() as address:
        said = said_to(address, request_bytes)
        assert said[:13] in {b"HTTP/1.1 " + status + b" ", b""}, said[:200]  # a reset may overtake the answer
        assert asked(address, "/one") == (200, "one\n")


def test_requests_that_come_together_are_answered_in_turn() -> None:
    one = b"GET /one HTTP/1.1\r\nHost: h\r\n\r\n"
    with serving() as address:
        said = said_to(address, one * 20 + one.replace(b"Host: h", b"Host: h\r\nConnection: close"))
        assert said.count(b"HTTP/1.1 200") == 21


def test_an_old_client_is_answered_and_its_connection_ends() -> None:
    with serving() as address:
        assert said_to(address, b"GET /made HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\n0\n1\n2\n")


@pytest.mark.parametrize("said", [b"", b"GET /o", b"GET /one HTTP/1.1\r\nHost: h\r\n\r\nGET /o"])
def test_whoever_asks_nothing_for_long_is_closed(said: bytes) -> None:
    server = HttpServer({"/one": lambda: say(200, "one")}, HURRIED)
    address, has_asked = server.start("127.0.0.1", 0), threading.Event()
    server.call(has_asked.wait, 30)  # the server's time begins once all is said that is to be
    with contextlib.closing(server), socket.create_connection(address, timeout=30) as client:
        client.sendall(said)
        has_asked.set()
        assert all_of(client).count(b"HTTP/1.1 200") == said.count(b"\r\n\r\n")


def test_an_answer_that_is_not_read_is_cut_off() -> None:
    with serving(HURRIED) as address, socket.create_connection(address, timeout=30) as slow:
        slow.sendall(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        with socket.create_connection(address, timeout=30) as silent:
            all_of(silent)  # it was closed for its silence, later than the slow one for its slowness
        assert len(all_of(slow)) < sum(map(len, LARGE))


def test_a_thousand_silent_connections_keep_nobody_from_asking() -> None:
    with serving() as address, contextlib.ExitStack() as many:
        for _ in range(1000):
            many.enter_context(socket.create_connection(address, timeout=30))
        assert asked(address, "/one") == (200, "one\n")


def test_slow_readers_are_no_more_than_connections_may_be() -> None:
    with serving() as address, contextlib.ExitStack() as many:
        slow = [many.enter_context(socket.create_connection(address, timeout=30)) for _ in range(PATIENT.connections)]
        for one in slow:
            one.sendall(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
            one.recv(1)  # its answer has begun
        with socket.create_connection(address, timeout=30) as more:
            assert all_of(more) == b""
        slow[0].close()


def test_a_server_may_be_closed_as_soon_as_it_has_started() -> None:
    for _ in range(50):
        server = HttpServer({}, PATIENT)
        server.start("127.0.0.1", 0)
        server.close()
        server.close()


def test_an_address_that_is_taken_is_refused_with_its_name() -> None:
    with serving() as (host, port):
        other = HttpServer({}, PATIENT)
        with pytest.raises(AdminListenError, match=f"admin.listen {host}:{port} cannot be used"):
            other.start(host, port)
        other.close()


def test_many_requests_that_come_at_once_are_answered_one_after_the_other() -> None:
    many = 2_000
    request = b"HEAD /one HTTP/1.1\r\nHost: a\r\n\r\n"
    last = b"HEAD /one HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    with serving() as address, socket.create_connection(address, timeout=30) as client:
        client.sendall(request * many + last)
        assert all_of(client).count(b"HTTP/1.1 200") == many + 1


def test_of_many_connections_that_come_at_once_no_more_stay_than_may() -> None:
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(serving())
        clients = [
            stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(4 * PATIENT.connections)
        ]
        assert asked(address, "/one") == (200, "one\n"), "all of the others have been taken in before"
        stay = 0
        for client in clients:
            client.setblocking(False)
            try:
                client.recv(1)
            except BlockingIOError:
                stay += 1
            except ConnectionError:
                pass
        assert stay <= PATIENT.connections


def test_of_too_many_the_connection_that_was_idle_for_longest_makes_room() -> None:
    limits = HttpLimits(connections=3, ask_s=60.0, answer_s=60.0)
    with serving(limits) as address, contextlib.ExitStack() as clients:

        def ask(client: HTTPConnection) -> bytes:
            client.request("GET", "/one")
            return client.getresponse().read()

        def connect() -> HTTPConnection:
            client = clients.enter_context(contextlib.closing(HTTPConnection(*address, timeout=30)))
            assert ask(client) == b"one\n"
            return client

        first, second, third = connect(), connect(), connect()
        assert ask(first) == b"one\n", "the oldest connection is the one that has asked last"
        connect()
        assert second.sock.recv(1) == b"", "it has asked nothing for longest"
        assert [ask(first), ask(third)] == [b"one\n"] * 2


def test_a_server_whose_thread_cannot_listen_says_why_and_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("asyncio.base_events.BaseEventLoop.create_server", refuse)
    server = HttpServer({}, HttpLimits())
    with pytest.raises(AdminListenError, match=r"admin\.listen 127\.0\.0\.1:0 cannot be served: .*Too many open files"):
        server.start("127.0.0.1", 0)
    server.close()


@pytest.mark.timeout(60)
def test_the_end_of_a_node_does_not_wait_for_a_page_whose_disk_does_not_answer() -> None:
    is_asked, answers = threading.Event(), threading.Event()

    def page() -> Answer:
        is_asked.set()
        answers.wait(30)
        return say(200, "late")

    server = HttpServer({"/": page}, replace(PATIENT, end_s=0.2))
    with socket.create_connection(server.start("127.0.0.1", 0), timeout=30) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert is_asked.wait(30)
        closing = threading.Thread(target=server.close, daemon=True)
        closing.start()
        closing.join(15)
        has_closed = not closing.is_alive()
        answers.set()
        closing.join(30)
    server.close()
    assert has_closed


@pytest.mark.timeout(60)
def test_a_server_that_is_closed_again_while_it_ends_ends_in_order() -> None:
    again = list[threading.Thread]()
    is_told = threading.Event()

    class ClosedAgain(HttpServer):
        """A server that is closed once more by another thread as it lets go of its connections."""

        def left(self, connection: Any) -> None:
            super().left(connection)
            if not again:
                again.append(threading.Thread(target=self.close))
                again[0].start()
                assert is_told.wait(30)

        def call(self, work: Callable[..., object], *arguments: object) -> None:
            super().call(work, *arguments)
            if again:
                is_told.set()

    server = ClosedAgain({"/": lambda: say(200, "one")}, PATIENT)
    with socket.create_connection(server.start("127.0.0.1", 0), timeout=30) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert client.recv(65536)
        server.close()
        again[0].join(30)
    assert server.loop.is_closed()
