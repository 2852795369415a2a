"""A raw peer on a loopback socket, and a log that remembers its lines."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import structlog

from coordinator.protocol.messages import Request
from coordinator.protocol.session import ResponseReceived, Role, Session, SessionEvent

PATIENCE_S = 60.0


class RememberedLog:
    """Collects (level, kind, fields); stands in for a structlog logger."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.logger = structlog.wrap_logger(None, processors=[self._remember], wrapper_class=structlog.BoundLogger)

    def _remember(self, _logger: Any, level: str, line: dict[str, Any]) -> None:
        self.lines.append({"level": level, **line})
        raise structlog.DropEvent

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == kind]


class Peer:
    """A member's end of a connection, made of a session and asyncio streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.session = Session(Role.MEMBER)
        self.reader = reader
        self.writer = writer
        self.events: list[SessionEvent] = []

    @classmethod
    async def connect(cls, address: tuple[str, int], *, hello: bool = True) -> "Peer":
        peer = cls(*await asyncio.open_connection(*address))
        if hello:
            peer.writer.write(peer.session.send_hello())
        return peer

    async def next_event(self) -> SessionEvent:
        while not self.events:
            data = await asyncio.wait_for(self.reader.read(65536), PATIENCE_S)
            if not data:
                raise EOFError("the coordinator closed the connection")
            self.events.extend(self.session.receive_bytes(data))
        return self.events.pop(0)

    async def next_of(self, kind: type[Any], where: Callable[[Any], bool] = lambda _: True) -> Any:
        while True:
            event = await self.next_event()
            if isinstance(event, kind) and where(event):
                return event

    async def ask(self, request: Request) -> Any:
        if self.session.version is None:
            await self.next_event()
        correlation_id, data = self.session.send_request(request)
        self.writer.write(data)
        answer = await self.next_of(ResponseReceived, lambda event: event.correlation_id == correlation_id)
        return answer.response

    async def read_to_end(self) -> bytes:
        try:
            return await asyncio.wait_for(self.reader.read(), PATIENCE_S)
        except ConnectionResetError:
            return b""

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until something is so."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it never became so"
        await asyncio.sleep(0)
