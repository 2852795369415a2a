"""The door of the application: a request passes that brings a credential which the coordinators take.

There are no cookies and no sessions: a browser asks its user once, as HTTP has it, and brings name and password with
each request. Behind the door the header is gone, and `person_of` says who asks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from coordinator.client.security import Coordinators
from coordinator.console.people.credential import BadCredentialError, Credential, read_authorization
from coordinator.console.people.people import REQUESTS_AT_ONCE, Known, NotInError, People, TooManyError
from coordinator.console.web.answers import failure
from coordinator.protocol.text.escaping import one_line

_REALM: Final = 'realm="kcoord console"'
BASIC: Final = f'Basic {_REALM}, charset="UTF-8"'
BEARER: Final = f"Bearer {_REALM}"
_PERSON: Final = "kcoord.person"
_NOBODY: Final = (
    "this console asks for a log-in: name and password, or a token as 'Authorization: Bearer', as for the coordinators"
)


@dataclass(frozen=True, slots=True)
class Person:
    """The person who asks, for as long as the request is in work."""

    known: Known
    coordinators: Coordinators
    """The coordinators, spoken to as this person."""
    may_go_on: Callable[[], bool]
    """Says whether a stream of this person goes on."""


def person_of(scope: Scope) -> Person | None:
    """Return who asks; None where the console lets in everybody."""
    person: Person | None = scope.get(_PERSON)
    return person


class Door:
    """An ASGI application in front of another one; `came_in` hears the address of who was let in."""

    def __init__(
        self, app: ASGIApp, people: People, coordinators: Coordinators, came_in: Callable[[str], None]
    ) -> None:
        self._app = app
        self._people = people
        self._coordinators = coordinators
        self._came_in = came_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] != "http":
            return
        host = scope["client"][0] if scope.get("client") else ""
        try:
            credential = _credential_of(Headers(scope=scope))
            known = await self._people.let_in(credential, host)
            self._came_in(host)
            if known.requests >= REQUESTS_AT_ONCE:
                raise TooManyError(f"{REQUESTS_AT_ONCE} requests of this log-in are in work, which is the most", 1)
        except NotInError as error:
            await _refusal(error, is_api=scope["path"].startswith("/api/"))(scope, receive, send)
            return
        coordinators = Coordinators(self._coordinators, credential.security(self._coordinators.security))
        headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        person = Person(known, coordinators, lambda: self._people.is_good(known))
        known.requests += 1
        try:
            await self._app({**scope, "headers": headers, _PERSON: person}, receive, send)
        finally:
            known.requests -= 1


def _credential_of(headers: Headers) -> Credential:
    given = headers.getlist("authorization")
    if not given:
        raise NotInError(_NOBODY)
    if len(given) > 1:
        raise NotInError("'Authorization' is given twice")
    try:
        return read_authorization(given[0])
    except BadCredentialError as error:
        raise NotInError(str(error)) from None


def _refusal(error: NotInError, *, is_api: bool) -> Response:
    """Return a refusal, for pages such that a browser asks its user."""
    text = str(error)
    said = failure(error.status, error.word, text) if is_api else PlainTextResponse(f"{one_line(text)}\n", error.status)
    if error.status == NotInError.status:
        said.headers.append("www-authenticate", BASIC)
        if is_api:
            said.headers.append("www-authenticate", BEARER)
    if error.wait_s:
        said.headers["retry-after"] = str(error.wait_s)
    return said
