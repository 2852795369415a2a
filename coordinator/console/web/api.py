"""The API by HTTP: each operation of the table, and acts."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coordinator.console.documents import Act
from coordinator.console.known.selection import BadQueryError
from coordinator.console.web.acting import Actor, PerhapsDoneError, ShownOtherwiseError
from coordinator.console.web.answers import failure, json_response
from coordinator.console.web.operations import ACTS, OPERATIONS, ROOT, Operation, openapi
from coordinator.console.web.reading import NotAllowedError, NotHeardError, NotKnownError, Reader, RefusedError

ReaderOf: TypeAlias = Callable[[Request], Reader]
"""Returns what answers whoever makes a request."""

FORESEEN: Final = {
    BadQueryError: (400, "bad_query"),
    NotAllowedError: (403, "not_allowed"),
    NotKnownError: (404, "not_found"),
    RefusedError: (409, "refused"),
    ShownOtherwiseError: (409, "changed"),
    NotHeardError: (503, "unavailable"),
    PerhapsDoneError: (503, "perhaps_done"),
}
"""The failures that are foreseen, with their statuses and their words."""


def routes(reader_of: ReaderOf, actor: Actor) -> list[Route]:
    """Return the routes of the API."""

    async def describe(_: Request) -> Response:
        return json_response(openapi())

    return [
        Route("/api/openapi.json", describe),
        *(Route(f"{ROOT}{operation.path}", _endpoint(reader_of, operation)) for operation in OPERATIONS),
        Route(ACTS, _act_endpoint(reader_of, actor), methods=["POST"]),
    ]


def _act_endpoint(reader_of: ReaderOf, actor: Actor) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    def answer(reader: Reader, names: Mapping[str, str], body: bytes) -> Response:
        try:
            act = msgspec.json.decode(body, type=Act)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return failure(400, "bad_query", f"the body is no act: {error}")
        try:
            return json_response(actor.act(reader, names["group"], names["act"], act))
        except tuple(FORESEEN) as error:
            return failure(*FORESEEN[type(error)], str(error))

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(answer, reader_of(request), request.path_params, await request.body())

    return endpoint


def _endpoint(reader_of: ReaderOf, operation: Operation) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    def answer(reader: Reader, names: dict[str, str], query: list[tuple[str, str]]) -> Response:
        takes_parameters = operation.table is not None or operation.fields
        try:
            if query and not takes_parameters:
                return failure(400, "bad_query", f"this takes no parameters, and '{query[0][0]}' is given")
            return json_response(operation.read(reader, names, query))
        except tuple(FORESEEN) as error:
            return failure(*FORESEEN[type(error)], str(error))

    async def endpoint(request: Request) -> Response:
        query = request.query_params.multi_items()
        return await run_in_threadpool(answer, reader_of(request), dict(request.path_params), query)

    return endpoint
