"""HTTP of a node, on a thread and an event loop of its own: a few pages, asked for with GET.

Whatever a client does costs the node's own loop no step, only turns of the interpreter, which the threads share; and it
costs this one bounded time and memory: a head has a size and a deadline, a body is refused, an answer that is not read
is cut off, and of too many connections the one that has been idle for longest makes room. The form of HTTP is h11's. It
knows nothing of what the pages say.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias

import h11

from coordinator.protocol.text.addresses import Address

_BUFFER_BYTES: Final = 64 * 1024
_METHODS: Final = (b"GET", b"HEAD")
PLAIN: Final = "text/plain; charset=utf-8"


class AdminListenError(Exception):
    """The address cannot be listened on; the text says why."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """The bounds of what clients do."""

    connections: int = 64
    head_bytes: int = 8192
    ask_s: float = 5.0
    """Time for the head of a request, from the connection or from the answer before it."""
    answer_s: float = 10.0
    """Time to read an answer; Prometheus gives up after as much."""
    end_s: float = 5.0
    """Time for a page that is being made, when the server is closed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer; parts of its body may be made while it is sent, each in a few milliseconds."""

    status: int
    body: Iterable[bytes]
    content_type: str = PLAIN
    allow: str = ""


Page: TypeAlias = Callable[[], Answer]
"""Makes the answer of a path, in a few milliseconds, on the thread of the server."""


def say(status: int, text: str) -> Answer:
    """Return an answer of one line."""
    return Answer(status, (f"{text}\n".encode(),))


class HttpServer:
    """Serves pages by path from its own thread, from `start` to `close`."""

    def __init__(self, pages: Mapping[str, Page], limits: HttpLimits) -> None:
        self.pages = pages
        self.limits = limits
        self._open: dict[_Connection, None] = {}  # the one that was opened or answered last at the end
        self.loop: asyncio.AbstractEventLoop
        self._is_up = threading.Event()
        self._is_ending = False
        self._why_not: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="kcoord-admin", daemon=True)
        self._socket: socket.socket

    def start(self, host: str, port: int) -> Address:
        """Listen, and return the address; raises AdminListenError, after which nothing is held."""
        try:
            family, _, _, _, address = socket.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            self._socket = socket.create_server(address[:2], family=family, backlog=self.limits.connections)
        except OSError as error:
            raise AdminListenError(f"admin.listen {host}:{port} cannot be used: {error.strerror or error}") from error
        bound = self._socket.getsockname()
        try:
            self.loop = asyncio.new_event_loop()
            self._thread.start()
        except (OSError, RuntimeError) as error:  # no file, or no thread, is to be had any more
            self._socket.close()
            raise AdminListenError(f"admin.listen {host}:{port} cannot be served: {error}") from error
        self._is_up.wait()  # a loop that is told to stop before it runs does not stop
        if self._why_not is not None:
            self._thread.join()
            raise AdminListenError(f"admin.listen {host}:{port} cannot be served: {self._why_not}") from self._why_not
        return bound[0], bound[1]

    def close(self) -> None:
        """Close every connection and end the thread; does nothing the second time.

        A page that stands still, as on a disk that does not answer, is waited for no longer: its thread is a daemon.
        """
        if self._thread.is_alive():
            self.call(self._stop)
            self._thread.join(self.limits.end_s)

    def _stop(self) -> None:
        if not self._is_ending:  # else the loop runs for what is left to do at the end
            self._is_ending = True
            self.loop.stop()

    def call(self, work: Callable[..., object], *arguments: object) -> None:
        """Have something done on the thread of this server; any thread, also after the end."""
        try:
            self.loop.call_soon_threadsafe(work, *arguments)
        except RuntimeError:
            if not self.loop.is_closed():
                raise

    def entered(self, connection: "_Connection") -> None:
        """Count a connection; where there are too many, the one that has been idle for longest goes, or this one."""
        idle = next((one for one in self._open if not one.is_answering), connection)
        self._open[connection] = None
        if len(self._open) > self.limits.connections:
            idle.drop()

    def answered(self, connection: "_Connection") -> None:
        """Take note that a connection has its answer, and is idle from now on."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None

    def left(self, connection: "_Connection") -> None:
        """Count a connection no more."""
        self._open.pop(connection, None)

    def _run(self) -> None:
        try:
            making = self.loop.create_server(lambda: _Connection(self), sock=self._socket)
            listening = self.loop.run_until_complete(making)
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever has begun this thread waits for its word
            self._why_not = error
            self._socket.close()
            self.loop.close()
            self._is_up.set()
            return
        self.loop.call_soon(self._is_up.set)
        try:
            self.loop.run_forever()
        finally:
            listening.close()
            for connection in list(self._open):
                connection.drop()
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.close()


class _Connection(asyncio.Protocol):
    """One connection: a request, its answer, and again."""

    def __init__(self, server: HttpServer) -> None:
        self.is_answering = False
        self._server = server
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=server.limits.head_bytes)
        self._transport: asyncio.Transport
        self._request: h11.Request | None = None
        self._body: Iterator[bytes] = iter(())
        self._is_full = False
        self._deadline: asyncio.TimerHandle | None = None

    # ---- called by the loop -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        self._set_deadline(self._server.limits.ask_s)
        self._server.entered(self)

    def data_received(self, data: bytes) -> None:
        """Take in what came, unless nothing more counts."""
        if self._http.their_state is not h11.ERROR:
            self._http.receive_data(data)
            self._read()

    def eof_received(self) -> bool:
        """Go on with an answer; else there is nothing to wait for."""
        return self.is_answering

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything."""
        del exc
        if self._deadline is not None:
            self._deadline.cancel()
        self._body = iter(())
        self._server.left(self)

    def pause_writing(self) -> None:
        """Make no more of the body for now."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Go on with the body."""
        self._is_full = False
        self._send_more()

    def drop(self) -> None:
        """End the connection at once; it counts no more, though the loop tells of its end in a later turn."""
        self._server.left(self)
        self._transport.abort()

    # ---- a request and its answer -----------------------------------------------------------------------------------

    def _read(self) -> None:
        while not self.is_answering:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._refuse(error.error_status_hint)
                return
            if isinstance(event, h11.Request):
                self._request = event
                if len(event.target) > self._server.limits.head_bytes:  # it came whole, so that h11 let it pass
                    self._refuse(HTTPStatus.REQUEST_URI_TOO_LONG)
            elif isinstance(event, h11.EndOfMessage):
                self._answer()
            elif isinstance(event, h11.Data):
                self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            elif isinstance(event, h11.ConnectionClosed):
                self._transport.close()
                return
            else:
                return

    def _answer(self) -> None:
        assert self._request is not None
        path = self._request.target.partition(b"?")[0].decode("ascii", "replace")
        page = self._server.pages.get(path)
        if page is None:
            self._send(say(HTTPStatus.NOT_FOUND, f"There are {', '.join(sorted(self._server.pages))}."))
        elif self._request.method not in _METHODS:
            said = say(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD are answered.")
            self._send(Answer(said.status, said.body, allow="GET, HEAD"))
        else:
            self._send(page())

    def _refuse(self, status: int) -> None:
        """Answer what is no request that could be answered, and end."""
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            self._send(say(status, HTTPStatus(status).phrase), is_last=True)
        else:
            self.drop()

    def _send(self, answer: Answer, *, is_last: bool = False) -> None:
        headers = [("Content-Type", answer.content_type), ("Cache-Control", "no-store")]
        headers.append(("X-Content-Type-Options", "nosniff"))
        if isinstance(answer.body, tuple):
            headers.append(("Content-Length", str(sum(map(len, answer.body)))))
        if answer.allow:
            headers.append(("Allow", answer.allow))
        if is_last:
            headers.append(("Connection", "close"))
        self.is_answering = True
        self._transport.pause_reading()
        self._set_deadline(self._server.limits.answer_s)
        self._write(h11.Response(status_code=answer.status, headers=headers, reason=HTTPStatus(answer.status).phrase))
        has_body = self._request is None or self._request.method != b"HEAD"
        self._body = iter(answer.body) if has_body else iter(())
        if not self._is_full:
            self._server.loop.call_soon(self._send_more)  # not at once: a client may have sent requests by the thousand

    def _send_more(self) -> None:
        """Send a part of the body, and the next one in a turn of its own."""
        if self._is_full or not self.is_answering or self._transport.is_closing():
            return
        part = next(self._body, None)
        if part is None:
            self._end()
            return
        self._write(h11.Data(data=part))
        if not self._is_full:
            self._server.loop.call_soon(self._send_more)

    def _end(self) -> None:
        self._write(h11.EndOfMessage())
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            self._transport.close()
            return
        self._http.start_next_cycle()
        self.is_answering = False
        self._server.answered(self)
        self._request = None
        self._set_deadline(self._server.limits.ask_s)
        self._transport.resume_reading()
        self._read()

    def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._transport.write(data)

    def _set_deadline(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._server.loop.call_later(seconds, self.drop)
