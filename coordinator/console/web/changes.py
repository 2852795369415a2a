"""The stream of changes: server-sent events for whoever wants to know that something is new, and not ask for it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from coordinator.console.known.picture import Picture
from coordinator.console.known.sight import SeenBy
from coordinator.console.people.door import Person, person_of
from coordinator.console.people.people import STREAMS_AT_ONCE
from coordinator.console.web.answers import failure
from coordinator.protocol.text.escaping import json_document

STREAMS: Final = 64
"""Streams that are open at once; more are refused, and their pages ask by themselves."""
LOOK_S: Final = 1.0
_MEDIA_TYPE: Final = "text/event-stream"
_SIGN_OF_LIFE: Final = 15
"""Looks without a change after which a line is sent, so that a stream that is cut is noticed."""


class Changes:
    """The streams that are open; `close` ends all of them."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self.open = 0
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End every stream."""
        self._closing.set()

    async def endpoint(self, request: Request) -> Response:
        """Answer with a stream; `Last-Event-ID` says up to which version the client has heard."""
        if request.method == "HEAD":
            return Response(media_type=_MEDIA_TYPE)  # a stream without a body would go on until its client leaves
        last = request.headers.get("last-event-id", "")
        since = int(last) if last.isascii() and last.isdigit() and len(last) < 16 else None
        person = person_of(request.scope)
        return _Counted(self, person, self._messages(since, person))

    async def _messages(self, since: int | None, person: Person | None) -> AsyncIterator[str]:
        now = self._picture.heard().version
        picture = self._picture if person is None else SeenBy(self._picture, lambda: person.known.sight)
        # A version that is still to come is of another console, whose clock was ahead: all is new to its client.
        version = now if since is None else since if since <= now else 0
        yield "retry: 2000\n\n"
        quiet = 0
        # A stream whose log-in was not looked at again for long ends; a client that comes again has it looked at.
        while not self._closing.is_set() and (person is None or person.may_go_on()):
            change = picture.change_since(version)
            version = version if change is None else change.version
            is_of_others = person is not None and change is not None and not (change.groups or change.is_cluster)
            if change is not None and not is_of_others:
                quiet = 0
                data = json_document(msgspec.json.encode(change).decode())
                yield f"event: change\nid: {version}\ndata: {data}\n\n"
            elif (quiet := quiet + 1) >= _SIGN_OF_LIFE:
                quiet = 0
                yield ": nothing new\n\n"
            try:
                await asyncio.wait_for(self._closing.wait(), LOOK_S)
            except TimeoutError:
                continue


class _Counted(StreamingResponse):
    """A stream that is counted from before its first byte until it ends, however it ends."""

    def __init__(self, changes: Changes, person: Person | None, messages: AsyncIterator[str]) -> None:
        super().__init__(messages, media_type=_MEDIA_TYPE)
        self._changes = changes
        self._known = None if person is None else person.known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse where too many streams are open."""
        known = self._known
        if known is not None and known.streams >= STREAMS_AT_ONCE:
            why = f"{STREAMS_AT_ONCE} streams of this log-in are open, which is the most: close another one"
            await failure(429, "too_many_streams", why)(scope, receive, send)
            return
        if self._changes.open >= STREAMS:
            why = f"{STREAMS} streams are open, which is the most: try again later"
            await failure(503, "too_many_streams", why)(scope, receive, send)
            return
        self._changes.open += 1
        if known is not None:
            known.streams += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._changes.open -= 1
            if known is not None:
                known.streams -= 1
