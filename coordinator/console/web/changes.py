"""The stream of changes: server-sent events for whoever wants to know that something is new, and not ask for it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from coordinator.console.known.picture import Picture
from coordinator.console.web.api import failure
from coordinator.protocol.text.escaping import json_document

STREAMS: Final = 64
"""Streams that are open at once; more are refused, and their pages ask by themselves."""
LOOK_S: Final = 1.0
_SIGN_OF_LIFE: Final = 15
"""Looks without a change after which a line is sent, so that a stream that is cut is noticed."""


class Changes:
    """The streams that are open; `close` ends all of them."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._open = 0
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End every stream."""
        self._closing.set()

    async def endpoint(self, request: Request) -> Response:
        """Answer with a stream; `Last-Event-ID` says up to which version the client has heard."""
        if self._open >= STREAMS:
            return failure(503, "too_many_streams", f"{STREAMS} streams are open, which is the most: try again later")
        last = request.headers.get("last-event-id", "")
        since = int(last) if last.isascii() and last.isdigit() and len(last) < 16 else None
        return StreamingResponse(self._messages(since), media_type="text/event-stream")

    async def _messages(self, since: int | None) -> AsyncIterator[str]:
        self._open += 1
        try:
            version = self._picture.heard().version if since is None else since
            yield "retry: 2000\n\n"
            quiet = 0
            while not self._closing.is_set():
                change = self._picture.change_since(version)
                if change is not None:
                    version, quiet = change.version, 0
                    data = json_document(msgspec.json.encode(change).decode())
                    yield f"event: change\nid: {version}\ndata: {data}\n\n"
                elif (quiet := quiet + 1) >= _SIGN_OF_LIFE:
                    quiet = 0
                    yield ": nothing new\n\n"
                try:
                    await asyncio.wait_for(self._closing.wait(), LOOK_S)
                except TimeoutError:
                    continue
        finally:
            self._open -= 1
