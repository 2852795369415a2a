"""The application of the console: guard, API, stream of changes and pages, over one picture."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coordinator.console.web import api, pages
from coordinator.console.web.acting import Actor
from coordinator.console.web.answers import failure
from coordinator.console.web.changes import Changes
from coordinator.console.web.guard import Guard
from coordinator.console.web.operations import CHANGES
from coordinator.console.web.reading import Reader


def make_app(reader: Reader, changes: Changes) -> Starlette:
    """Return the application."""

    actor = Actor(reader)

    async def not_there(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        if not request.url.path.startswith("/api/"):
            return pages.not_there(reader, request, status)
        if status == 404:
            return failure(404, "not_found", f"there is no {request.url.path}; /api/docs lists what there is")
        return failure(status, "refused", error.detail if isinstance(error, HTTPException) else "it failed")

    return Starlette(
        routes=[*api.routes(reader, actor), Route(CHANGES, changes.endpoint), *pages.routes(reader, actor)],
        middleware=[Middleware(Guard)],
        exception_handlers={HTTPException: not_there},
    )
