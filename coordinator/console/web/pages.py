"""The pages: each is a document of the API, written for people. Filters are in the address."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, quote

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from coordinator.console.acts import KINDS
from coordinator.console.documents import Act, Rows
from coordinator.console.known import tables
from coordinator.console.known.assignment_map import assignment_map
from coordinator.console.known.selection import BadQueryError
from coordinator.console.web.acting import CHANGES_ARE_OFF, Actor, PerhapsDoneError, ShownOtherwiseError
from coordinator.console.web.api import FORESEEN, ReaderOf
from coordinator.console.web.assets import ASSETS
from coordinator.console.web.operations import openapi
from coordinator.console.web.reading import NotAllowedError, NotHeardError, Query, Reader
from coordinator.console.web.templates import environment, render
from coordinator.protocol.text.escaping import one_line
from coordinator.protocol.vocabulary import EventKind, GroupStatus, MemberStatus, ResetKind

_STATES: Final = tuple(str(state) for state in GroupStatus)
_GROUP_STATUSES: Final = tuple(str(status) for status in tables.GROUP_STATUSES)
_PARTITION_STATUSES: Final = ("OK", "WARN", "STOP", "STALL", "REWIND")
_MEMBER_STATES: Final = tuple(str(state) for state in MemberStatus)
_KINDS: Final = tuple(str(kind) for kind in EventKind)
_BEHIND: Final = 10
_REBALANCES: Final = 50
_CONTROLS_SHOWN: Final = 20
_MEMBERS_NAMED: Final = 500
_ROWS_SHOWN: Final = 500
_HEADINGS: Final = {
    400: "This cannot be shown",
    403: "Not allowed",
    404: "Not found",
    503: "No coordinator answers",
}
_templates = environment()

Make = Callable[[Reader, Mapping[str, str], Query], dict[str, Any]]
"""Returns what a template is given: the name of the template is its value `page`."""


def routes(reader_of: ReaderOf, actor: Actor) -> list[BaseRoute]:
    """Return the routes of the pages and of their files."""
    made: list[tuple[str, Make]] = [
        ("/", _overview),
        ("/groups", _groups),
        ("/groups/{group}", _partitions),
        ("/groups/{group}/members", _members),
        ("/groups/{group}/timeline", _timeline),
        ("/groups/{group}/acts", _acts),
        ("/topics", _topics),
        ("/topics/{topic}", _topic),
        ("/nodes", _nodes),
        ("/shards", _shards),
        ("/settings", _settings),
        ("/api/docs", _docs),
    ]
    return [
        Mount("/assets", StaticFiles(directory=ASSETS)),
        *(Route(path, _endpoint(reader_of, make)) for path, make in made),
        Route("/groups/{group}/acts/{act}", _act_endpoint(reader_of, actor), methods=["POST"]),
    ]


def not_there(reader: Reader, request: Request, status: int) -> Response:
    """Return the page of an address that there is not."""
    sentence = f"There is no page {request.url.path}." if status == 404 else "This is not done."
    return _problem(reader, request, status, sentence)


def _endpoint(reader_of: ReaderOf, make: Make) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    def answer(request: Request) -> Response:
        reader = reader_of(request)
        query = request.query_params.multi_items()
        try:
            values = make(reader, request.path_params, query)
            rows = values.get("rows")
            if isinstance(rows, Rows) and rows.page > rows.pages:  # there were more when this address was made
                nearest = [(name, str(rows.pages) if name == "page" else text) for name, text in query]
                values = make(reader, request.path_params, nearest)
        except tuple(FORESEEN) as error:
            return _problem(reader, request, FORESEEN[type(error)][0], str(error))
        return _page(reader, request, 200, {"query": request.query_params, "live": True, **values})

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(answer, request)

    return endpoint


def _page(reader: Reader, request: Request, status: int, values: dict[str, Any]) -> Response:
    here = quote(request.scope["path"], safe="/") + (f"?{request.url.query}" if request.url.query else "")
    given: dict[str, Any] = {
        "here": here,
        "section": None,
        "is_down": False,
        "trouble": None,
        "as_of_ms": None,
        "now_ms": reader.now_ms(),
        "allow_changes": reader.settings.allow_changes,
        "person": reader.person,
        **values,
    }
    given["is_partial"] = given["trouble"] is not None and reader.is_answered
    return HTMLResponse(render(_templates, given.pop("page"), **given), status)


def _problem(reader: Reader, request: Request, status: int, sentence: str) -> Response:
    is_down = status == 503
    heading = {400: "This cannot be shown", 403: "Not allowed", 404: "Not found", 503: "No coordinator answers"}.get(
        status, "Refused"
    )
    end = "" if sentence.endswith(".") else "."
    values = {"page": "problem.html", "heading": heading, "sentence": sentence + end, "live": is_down, "query": {}}
    return _page(reader, request, status, {**values, "is_down": is_down})


def _overview(reader: Reader, _: Mapping[str, str], query: Query) -> dict[str, Any]:
    _must_be_bare(query)
    told = reader.overview()
    behind = []
    if told.as_of_ms is not None:
        rows = reader.groups((("sort", "lag"), ("order", "desc"), ("per_page", str(_BEHIND)))).rows
        behind = [row for row in rows if row.lag]
    return {
        "page": "overview.html",
        "heading": "Overview",
        "section": "/",
        "told": told,
        "behind": behind,
        "trouble": told.trouble,
        "as_of_ms": told.as_of_ms,
        "is_down": told.as_of_ms is None,
    }


def _groups(reader: Reader, _: Mapping[str, str], query: Query) -> dict[str, Any]:
    rows = reader.groups(query)
    return {**_rows("groups.html", "Groups", "/groups", rows), "states": _STATES, "statuses": _GROUP_STATUSES}


def _group(reader: Reader, name: str, view: str) -> dict[str, Any]:
    """Return what all views of a group show above their rows."""
    told = reader.group(name)
    try:
        controls, why_no_controls = reader.controls(name), None
    except NotHeardError as error:
        controls, why_no_controls = [], str(error)
    return {
        "heading": f"Group {one_line(name)}",
        "section": "/groups",
        "group": name,
        "view": view,
        "told": told,
        "controls": controls[:_CONTROLS_SHOWN],
        "more_controls": max(0, len(controls) - _CONTROLS_SHOWN),
        "why_no_controls": why_no_controls,
        "trouble": told.trouble,
        "as_of_ms": told.as_of_ms,
    }


def _partitions(reader: Reader, names: Mapping[str, str], query: Query) -> dict[str, Any]:
    rows = reader.partitions(names["group"], query)
    return {
        **_group(reader, names["group"], ""),
        "page": "partitions.html",
        "rows": rows,
        "statuses": _PARTITION_STATUSES,
    }


def _members(reader: Reader, names: Mapping[str, str], query: Query) -> dict[str, Any]:
    rows = reader.members(names["group"], query)
    measured = reader.watched(names["group"]).measured
    return {
        **_group(reader, names["group"], "/members"),
        "page": "members.html",
        "rows": rows,
        "member_states": _MEMBER_STATES,
        "map": {"topics": ()} if measured is None else assignment_map(measured),
    }


def _timeline(reader: Reader, names: Mapping[str, str], query: Query) -> dict[str, Any]:
    values = _group(reader, names["group"], "/timeline")
    rows = reader.events(names["group"], query)
    is_all = rows.page == 1 and not any(text for name, text in query if name in ("kind", "search"))
    return {
        **values,
        "page": "timeline.html",
        "rows": rows,
        "kinds": _KINDS,
        "rebalances": reader.rebalances(names["group"])[:_REBALANCES] if is_all else (),
    }


def _acts(reader: Reader, names: Mapping[str, str], query: Query) -> dict[str, Any]:
    _must_be_bare(query)
    if not reader.settings.allow_changes:
        raise NotAllowedError(CHANGES_ARE_OFF)
    measured = reader.watched(names["group"]).measured
    members = () if measured is None else measured.description.members
    return {
        **_group(reader, names["group"], "/acts"),
        "page": "acts.html",
        "kinds": tuple(KINDS.values()),
        "targets": tuple(str(kind) for kind in ResetKind),
        "members": members[:_MEMBERS_NAMED],
        "live": False,
    }


def _act_endpoint(reader_of: ReaderOf, actor: Actor) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Return what answers a form of an act, with a piece of a page."""

    def failed(sentence: str, status: int, *, is_perhaps_done: bool = False) -> Response:
        page = render(_templates, "act_failed.html", sentence=sentence, is_perhaps_done=is_perhaps_done)
        return HTMLResponse(page, status)

    def answer(reader: Reader, names: Mapping[str, str], body: bytes) -> Response:
        group, name = names["group"], names["act"]
        try:
            given = dict(parse_qsl(body.decode("ascii"), max_num_fields=20, encoding="utf-8", errors="strict"))
            act = Act(
                dry_run=given.get("step") != "execute",
                why=given.get("why", ""),
                confirm=given.get("confirm", ""),
                topics=given.get("topics", "").split(),
                member=given.get("member", ""),
                to=given.get("to", ""),
                value=given.get("value", ""),
                release_claims=given.get("release_claims") == "yes",
                shown=given.get("shown", ""),
            )
            try:
                told, sentence = actor.act(reader, group, name, act), ""
            except ShownOtherwiseError as error:
                act = msgspec.structs.replace(act, dry_run=True)
                told, sentence = actor.act(reader, group, name, act), str(error)
        except (UnicodeError, ValueError) as error:
            text = str(error) if isinstance(error, BadQueryError) else "the form cannot be read"
            return failed(text, 400)
        except tuple(FORESEEN) as error:
            return failed(str(error), FORESEEN[type(error)][0], is_perhaps_done=isinstance(error, PerhapsDoneError))
        values = {"told": told, "act": act, "kind": KINDS[name], "most": _ROWS_SHOWN, "sentence": sentence}
        return HTMLResponse(render(_templates, "act_result.html", **values), 409 if sentence else 200)

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(answer, reader_of(request), request.path_params, await request.body())

    return endpoint


def _topics(reader: Reader, _: Mapping[str, str], query: Query) -> dict[str, Any]:
    return _rows("topics.html", "Topics", "/topics", reader.topics(query))


def _topic(reader: Reader, names: Mapping[str, str], query: Query) -> dict[str, Any]:
    rows = reader.topic_groups(names["topic"], query)
    heading = f"Topic {one_line(names['topic'])}"
    return {**_rows("topic.html", heading, "/topics", rows), "topic": names["topic"], "states": _STATES}


def _nodes(reader: Reader, _: Mapping[str, str], query: Query) -> dict[str, Any]:
    return _rows("nodes.html", "Nodes", "/nodes", reader.nodes(query))


def _shards(reader: Reader, _: Mapping[str, str], query: Query) -> dict[str, Any]:
    return _rows("shards.html", "Shards", "/shards", reader.shards(query))


def _settings(reader: Reader, _: Mapping[str, str], query: Query) -> dict[str, Any]:
    _must_be_bare(query)
    return {
        "page": "settings.html",
        "heading": "Settings",
        "section": "/settings",
        "rows": reader.in_force(),
        "live": False,
    }


def _docs(_: Reader, __: Mapping[str, str], query: Query) -> dict[str, Any]:
    _must_be_bare(query)
    return {"page": "docs.html", "heading": "REST API", "section": "/api/docs", "told": openapi(), "live": False}


def _rows(page: str, heading: str, section: str, rows: Any) -> dict[str, Any]:
    return {
        "page": page,
        "heading": heading,
        "section": section,
        "rows": rows,
        "trouble": rows.trouble,
        "as_of_ms": rows.as_of_ms,
    }


def _must_be_bare(query: Query) -> None:
    given: Sequence[tuple[str, str]] = list(query)
    if given:
        raise BadQueryError(f"this page takes no parameters, and '{one_line(given[0][0])}' is given")
