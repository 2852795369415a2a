"""The operations of the API in one table: paths, parameters, documents that are answered; and OpenAPI made of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final, TypeAlias

import msgspec

from coordinator.console.acts import KINDS
from coordinator.console.documents import (
    Act,
    ActResult,
    Change,
    Control,
    Event,
    Failure,
    Group,
    GroupDetails,
    LagCurve,
    Member,
    Node,
    Overview,
    Partition,
    Rebalance,
    Rows,
    Setting,
    Shard,
    Topic,
    TopicGroup,
)
from coordinator.console.known import tables
from coordinator.console.known.selection import LAST_PAGE, LONGEST_SEARCH, MOST_PER_PAGE, PER_PAGE, Table
from coordinator.console.web.guard import MARK
from coordinator.console.web.reading import Query, Reader

Read: TypeAlias = Callable[[Reader, Mapping[str, str], Query], object]
"""Answers an operation: given the reader, what the path names, and the parameters."""

ROOT: Final = "/api/v1"


@dataclass(frozen=True, slots=True)
class Operation:
    """One GET of the API."""

    path: str
    summary: str
    answers: Any
    read: Read
    table: Table[Any] | None = None
    fields: tuple[str, ...] = ()
    """Names by which rows are sorted and filtered, of a table that is made for each group."""


_PARTITION_KEYS: Final = (
    "partition",
    "committed",
    "end",
    "lag",
    "lag_seconds",
    "consumer_id",
    "owner_epoch",
    "last_commit_ms",
    "status",
)

OPERATIONS: Final = (
    Operation("/overview", "All at once.", Overview, lambda reader, _, __: reader.overview()),
    Operation("/groups", "Groups.", Rows[Group], lambda reader, _, query: reader.groups(query), tables.GROUPS),
    Operation("/groups/{group}", "One group.", GroupDetails, lambda reader, names, _: reader.group(names["group"])),
    Operation(
        "/groups/{group}/partitions",
        "Partitions of a group.",
        Rows[Partition],
        lambda reader, names, query: reader.partitions(names["group"], query),
        None,
        _PARTITION_KEYS,
    ),
    Operation(
        "/groups/{group}/members",
        "Members of a group, with what each owns.",
        Rows[Member],
        lambda reader, names, query: reader.members(names["group"], query),
        tables.MEMBERS,
    ),
    Operation(
        "/groups/{group}/events",
        "The timeline of a group, newest first.",
        Rows[Event],
        lambda reader, names, query: reader.events(names["group"], query),
        tables.EVENTS,
    ),
    Operation(
        "/groups/{group}/rebalances",
        "Why a group rebalanced: causes, partitions moved, how long; newest first.",
        list[Rebalance],
        lambda reader, names, _: reader.rebalances(names["group"]),
    ),
    Operation(
        "/groups/{group}/controls",
        "Pauses, drained members and pending resets of a group.",
        list[Control],
        lambda reader, names, _: reader.controls(names["group"]),
    ),
    Operation(
        "/groups/{group}/lag",
        "The lag of a group over the last hour.",
        LagCurve,
        lambda reader, names, _: reader.curve(names["group"]),
    ),
    Operation("/topics", "Topics.", Rows[Topic], lambda reader, _, query: reader.topics(query), tables.TOPICS),
    Operation(
        "/topics/{topic}/groups",
        "The groups that read a topic.",
        Rows[TopicGroup],
        lambda reader, names, query: reader.topic_groups(names["topic"], query),
        tables.TOPIC_GROUPS,
    ),
    Operation("/nodes", "Nodes.", Rows[Node], lambda reader, _, query: reader.nodes(query), tables.NODES),
    Operation("/shards", "Shards.", Rows[Shard], lambda reader, _, query: reader.shards(query), tables.SHARDS),
    Operation(
        "/settings",
        "The settings of this console; secrets are hidden.",
        list[Setting],
        lambda reader, _, __: reader.in_force(),
    ),
)

CHANGES: Final = f"{ROOT}/changes"
ACTS: Final = f"{ROOT}/groups/{{group}}/acts/{{act}}"


_OF_PEOPLE: Final = {
    "401": "Nobody has logged in, where that is asked for, or the log-in is not good.",
    "403": "The coordinators do not let this person see it, or a page of another site asks.",
    "429": "Too much at once, or too many log-ins were refused; Retry-After says how long to wait.",
}
"""The refusals for the sake of who asks."""
_LOG_INS: Final = {
    "password": {"type": "http", "scheme": "basic"},
    "token": {"type": "http", "scheme": "bearer"},
}


def openapi() -> dict[str, Any]:
    """Return the description of the API in OpenAPI 3.1."""
    kinds = [operation.answers for operation in OPERATIONS]
    schemas, components = msgspec.json.schema_components(
        [*kinds, Act, ActResult, Failure, Change], ref_template="#/components/schemas/{name}"
    )
    failure = {"application/json": {"schema": schemas[-2]}}
    paths: dict[str, Any] = {}
    for operation, schema in zip(OPERATIONS, schemas, strict=False):
        named = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
        responses: dict[str, Any] = {
            "200": {"description": "The document.", "content": {"application/json": {"schema": schema}}},
            **{status: {"description": text, "content": failure} for status, text in _OF_PEOPLE.items()},
            "400": {"description": "A parameter cannot be used.", "content": failure},
            "503": {"description": "No coordinator answers, or none that knows.", "content": failure},
        }
        if named:
            responses["404"] = {"description": "There is none of this name.", "content": failure}
        paths[f"{ROOT}{operation.path}"] = {
            "get": {
                "summary": operation.summary,
                "operationId": _operation_id(operation.path),
                "parameters": [
                    *({"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named),
                    *_row_parameters(operation),
                ],
                "responses": responses,
            }
        }
    paths[CHANGES] = {
        "get": {
            "summary": "A stream of server-sent events, one a second at most, that name what has changed.",
            "operationId": "changes",
            "parameters": [],
            "responses": {
                "200": {
                    "description": "Events of the type `change`, each with a document as its data.",
                    "content": {"text/event-stream": {"schema": schemas[-1]}},
                },
                **{status: {"description": text, "content": failure} for status, text in _OF_PEOPLE.items()},
                "503": {"description": "Too many streams are open.", "content": failure},
            },
        }
    }
    statuses = {
        "400": "The act says too little, or what cannot be.",
        "401": _OF_PEOPLE["401"],
        "403": "Changes are off, or the request comes from a page of another site.",
        "404": "There is no such group.",
        "409": "The coordinator refused.",
        "413": "The act is too large.",
        "429": _OF_PEOPLE["429"],
        "503": "No coordinator answers; with the word `perhaps_done` the act may be done all the same.",
    }
    paths[ACTS] = {
        "post": {
            "summary": "Change a group, or be told what would be changed; off without --allow-changes.",
            "operationId": "act",
            "parameters": [
                {"name": "group", "in": "path", "required": True, "schema": {"type": "string"}},
                {"name": "act", "in": "path", "required": True, "schema": {"type": "string", "enum": list(KINDS)}},
                {"name": MARK, "in": "header", "required": True, "schema": {"type": "string"}},
            ],
            "requestBody": {"required": True, "content": {"application/json": {"schema": schemas[-4]}}},
            "responses": {
                "200": {"description": "The outcome.", "content": {"application/json": {"schema": schemas[-3]}}},
                **{status: {"description": text, "content": failure} for status, text in statuses.items()},
            },
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kcoord console",
            "version": metadata.version("kcoord"),
            "description": "What is not known is null. Times are milliseconds since 1970.",
        },
        "paths": paths,
        "security": [{}, *({name: []} for name in _LOG_INS)],
        "components": {"schemas": components, "securitySchemes": _LOG_INS},
    }


def _row_parameters(operation: Operation) -> list[dict[str, Any]]:
    table = operation.table
    keys = operation.fields if table is None else tuple(table.keys)
    if not keys:
        return []
    words: dict[str, frozenset[str] | None] = (
        {"topic": None, "consumer_id": None, "status": tables.PARTITION_STATUSES}
        if table is None
        else {name: table.words.get(name) for name in table.fields}
    )
    filters = [
        {
            "name": name,
            "in": "query",
            "description": "Only rows that have this; may be given repeatedly.",
            "schema": {
                "type": "array",
                "items": {"type": "string"} if allowed is None else {"type": "string", "enum": sorted(allowed)},
            },
        }
        for name, allowed in words.items()
    ]
    return [
        _parameter(
            "search",
            "Only rows in whose names this is, whatever its case.",
            {"type": "string", "maxLength": LONGEST_SEARCH},
        ),
        *filters,
        _parameter("sort", "The order of rows; what is not known is last.", {"type": "string", "enum": list(keys)}),
        _parameter("order", "", {"type": "string", "enum": ["asc", "desc"], "default": "asc"}),
        _parameter(
            "page",
            "Counted from 1; one beyond the last has no rows.",
            {"type": "integer", "minimum": 1, "maximum": LAST_PAGE, "default": 1},
        ),
        _parameter("per_page", "", {"type": "integer", "minimum": 1, "maximum": MOST_PER_PAGE, "default": PER_PAGE}),
    ]


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _operation_id(path: str) -> str:
    return "_".join(part for part in path.split("/") if part and not part.startswith("{")) + (
        "_of_one" if path.endswith("}") else ""
    )
