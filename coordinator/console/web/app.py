"""The application of the console: guard, door, API, stream of changes and pages, over one picture."""

from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from coordinator.console.people.door import Door, person_of
from coordinator.console.people.people import People
from coordinator.console.port.hosts import Hosts
from coordinator.console.web import api, pages
from coordinator.console.web.acting import Actor
from coordinator.console.web.answers import failure
from coordinator.console.web.changes import Changes
from coordinator.console.web.guard import Guard
from coordinator.console.web.operations import CHANGES
from coordinator.console.web.reading import Reader


@dataclass(frozen=True, slots=True)
class Front:
    """The way in which an application is reached: under which names, by TLS or not, by whom."""

    hosts: Hosts = field(default_factory=Hosts)
    is_tls: bool = False
    people: People | None = None
    """The people who log in; None lets in everybody."""
    came_in: Callable[[str], None] = lambda _: None
    """Hears the address of somebody who was let in."""


OPEN = Front()
"""On loopback, for everybody."""


def make_app(reader: Reader, changes: Changes, front: Front = OPEN) -> Starlette:
    """Return the application."""

    def reader_of(request: Request) -> Reader:
        person = person_of(request.scope)
        assert person is not None or front.people is None, "the door lets nobody pass whom it does not know"
        return reader.for_request(person)

    async def not_there(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        if not request.url.path.startswith("/api/"):
            return pages.not_there(reader_of(request), request, status)
        if status == 404:
            return failure(404, "not_found", f"there is no {request.url.path}; /api/docs lists what there is")
        return failure(status, "refused", error.detail if isinstance(error, HTTPException) else "it failed")

    async def gone(_: Request, __: Exception) -> Response:
        return Response(status_code=400)  # for nobody: whoever began to say something has left

    actor = Actor()
    middleware = [Middleware(Guard, hosts=front.hosts, is_tls=front.is_tls)]
    if front.people is not None:
        coordinators = reader.settings.coordinators
        middleware.append(Middleware(Door, people=front.people, coordinators=coordinators, came_in=front.came_in))
    return Starlette(
        routes=[*api.routes(reader_of, actor), Route(CHANGES, changes.endpoint), *pages.routes(reader_of, actor)],
        middleware=middleware,
        exception_handlers={HTTPException: not_there, ClientDisconnect: gone},
    )
