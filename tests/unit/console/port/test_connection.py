"""The bounds of connections, on an event loop with real sockets and short deadlines."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import structlog
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from coordinator.console.port import connection
from coordinator.console.port.connection import OF_ADDRESS, SAID_TO_PLAIN, Connections
from tests.helpers.certificates import Authority

LARGE = b"x" * 4_000_000
MIDDLE = b"x" * 200_000
BODIES = {"/large": LARGE, "/middle": MIDDLE}


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body of the request; with another one where that is asked for."""
    body, is_more = b"", True
    while is_more:
        message = await receive()
        body, is_more = body + message.get("body", b""), message.get("more_body", False)
    body = BODIES.get(scope["path"], body)
    headers = [(b"content-length", str(len(body)).encode()), (b"x-scheme", scope["scheme"].encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def listening(connections: Connections, made: list[asyncio.Transport] | None = None) -> AsyncIterator[int]:
    """Listen while the block runs; yield the port, and append the transport of what is connected to `made`."""
    config = uvicorn.Config(application, http=H11Protocol, ws="none", lifespan="off", log_config=None)
    config.load()
    state = ServerState()

    def protocol() -> asyncio.BaseProtocol:
        served = connections.protocol(H11Protocol(config=config, server_state=state, app_state={}))
        connected = served.connection_made

        def note(transport: asyncio.BaseTransport) -> None:
            connected(transport)
            if made is not None:
                made.append(cast(asyncio.Transport, transport))

        setattr(served, "connection_made", note)  # noqa: B010 - mypy takes no other function for a method
        return served

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # what a kernel takes counts as read
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        connections.close()


def run(play: Callable[[], Awaitable[None]]) -> list[str]:
    """Run a play; return the reasons in the log."""
    with structlog.testing.capture_logs() as lines:
        asyncio.run(asyncio.wait_for(play(), 60))
    return [line["why"] for line in lines]


async def said_on(port: int, *pieces: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """Return all that is answered until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    said = b""
    with contextlib.suppress(ConnectionError):  # it may have been closed before the last piece
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.05)
    with contextlib.suppress(ConnectionError):
        said = await reader.read()
    writer.close()
    return said


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WHOLE_REQUEST_S", 0.3)
    monkeypatch.setattr(connection, "READ_S", 0.3)


WHOLE = b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (b"GET / HT",),
        (b"GET / HTTP/1.1\r\n", b"A: b\r\n"),
        (WHOLE[:-2],),
        (WHOLE.replace(b"close", b"keep-alive"), b"GE"),
    ],
    ids=["silent", "half a line", "half a head", "half a body", "half of a second request"],
)
def test_a_request_that_is_not_whole_in_time_ends_its_connection(pieces: tuple[bytes, ...]) -> None:
    async def play() -> None:
        async with listening(Connections(structlog.get_logger())) as port:
            said = await said_on(port, *pieces)
            assert said.endswith(b"hello") if b"GE" in pieces else said == b""

    assert run(play) == (["no whole request came within 0.3 s"] if pieces else [])


@pytest.mark.parametrize(
    ("path", "left", "is_tls"),
    [("/large", len(LARGE), False), ("/large", len(LARGE), True), ("/middle", 16 * 1024, False)],
    ids=["nothing is read", "nothing is read by TLS", "all is read but the last 16 KiB"],
)
def test_an_answer_that_is_not_read_to_its_end_ends_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, left: int, *, is_tls: bool
) -> None:
    monkeypatch.setattr(connection, "READ_S", 1.0)
    served, trusting = Authority(tmp_path).contexts() if is_tls else (None, None)

    async def play() -> None:
        connections = Connections(structlog.get_logger(), None if served is None else lambda: served)
        made: list[asyncio.Transport] = []
        async with listening(connections, made) as port:
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            client.connect(("127.0.0.1", port))
            name = None if trusting is None else "127.0.0.1"
            reader, writer = await asyncio.open_connection(sock=client, limit=4096, ssl=trusting, server_hostname=name)
            while not made:
                await asyncio.sleep(0)
            # Else the kernel may take more than is to be left in one go.
            made[0].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
            writer.write(b"GET %b HTTP/1.1\r\nHost: h\r\n\r\n" % path.encode())
            await reader.readexactly(1)
            while made[0].get_write_buffer_size() > left:
                await reader.read(8192)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            assert made[0].get_write_buffer_size()
            while connections.count:
                await asyncio.sleep(0.02)
            writer.transport.abort()

    assert run(play) == []


def test_tls_is_spoken_and_who_speaks_none_is_told_so_in_http(tmp_path: Path) -> None:
    context, client = Authority(tmp_path).contexts()

    async def play() -> None:
        async with listening(Connections(structlog.get_logger(), lambda: context)) as port:
            said = await said_on(port, WHOLE, tls=client)
            assert said.endswith(b"hello")
            assert b"x-scheme: https" in said
            assert await said_on(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n") == SAID_TO_PLAIN

    (why,) = run(play)
    assert "https://" in why


def test_a_peer_that_does_not_read_the_handshake_is_waited_for_before_http_has_begun(tmp_path: Path) -> None:
    served, _ = Authority(tmp_path).contexts()

    async def play() -> None:
        connections = Connections(structlog.get_logger(), lambda: served)
        made: list[asyncio.Transport] = []
        async with listening(connections, made) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            while not made:
                await asyncio.sleep(0.01)
            protocol = cast(asyncio.Protocol, made[0].get_protocol())
            protocol.pause_writing()
            protocol.resume_writing()
            assert connections.count == 1
            writer.transport.abort()

    assert run(play) == []


@pytest.mark.usefixtures("_short")
def test_a_handshake_that_is_begun_and_not_ended_ends_with_the_deadline(tmp_path: Path) -> None:
    pair = Authority(tmp_path).pair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)

    async def play() -> None:
        connections = Connections(structlog.get_logger(), lambda: context)
        async with listening(connections) as port:
            assert await said_on(port, b"\x16\x03\x01\x02\x00\x01") == b""
            assert connections.count == 0

    assert run(play) == ["TLS was not spoken within 0.3 s"]


def test_one_address_has_so_many_connections_and_the_rest_are_closed_at_once() -> None:
    async def play() -> None:
        connections = Connections(structlog.get_logger())
        async with listening(connections) as port:
            opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(OF_ADDRESS + 1)]
            assert await opened[-1][0].read() == b""
            assert connections.count == OF_ADDRESS
            for _, writer in opened:
                writer.close()
            while connections.count:
                await asyncio.sleep(0.01)

    (why,) = run(play)
    assert f"has {OF_ADDRESS} connections" in why
