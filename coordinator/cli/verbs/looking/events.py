"""`kcoord group events`: a group's timeline, what is chosen of it, and what comes while somebody waits."""

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import sleep, time_ns
from typing import Annotated, Final, TypeVar

import typer

from coordinator.cli.parts.asking import Coordinator, Group, Timeout, ask_for, coordinators_of
from coordinator.cli.parts.exits import must_not_be_refused, notes, tool_errors_as_text
from coordinator.cli.parts.tables import (
    Cell,
    GrowingTable,
    OngoingFormat,
    OutputFormat,
    write_csv,
    write_document,
    write_line,
)
from coordinator.cli.parts.which_partitions import format_partitions
from coordinator.client.operating.what_is_asked import parse_kind, parse_since
from coordinator.client.refusals import refusal_of
from coordinator.client.request import LogInFailedError, RequestError, ask
from coordinator.protocol.ids import MAX_OFFSET
from coordinator.protocol.messages import ListGroupEvents, ListGroupEventsResponse
from coordinator.protocol.parts import GroupEvent

EVENT_COLUMNS: Final = ("SEQUENCE", "TIME", "KIND", "CONSUMER-ID", "GROUP-EPOCH", "PARTITIONS", "DURATION-MS", "WHY")

FOLLOW_EVERY_S: Final = 1.0
"""The time between two questions of who follows a timeline."""


_Read = TypeVar("_Read")


def _read(parse: Callable[[], _Read]) -> _Read:
    """Return what is read of a value; raises typer.BadParameter."""
    try:
        return parse()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def events(
    group: Group,
    coordinator: Coordinator,
    after: Annotated[int, typer.Option(help="Only events after this sequence number.", min=0, max=MAX_OFFSET)] = 0,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="Only events of the last 15m, or since 2026-01-31T06:30:00Z."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Only events such as rebalance; may be given repeatedly."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    output: Annotated[OngoingFormat, typer.Option("--output", "-o", help="How to write it.")] = OngoingFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Show a group's timeline: what happened, to whom and why."""
    if follow and output.is_document:
        why = f"a {output.upper()} document has an end and --follow has none"
        raise typer.BadParameter(f"{why}; take -o jsonl, a document a line")
    since_ms = None if since is None else _read(lambda: parse_since(since, time_ns() // 1_000_000))
    kinds = _read(lambda: tuple(dict.fromkeys(parse_kind(one) for one in kind or ())))
    request = ListGroupEvents(group, after, since_ms, kinds)
    write = _writer(output)
    try:
        response = ask_for(coordinator, request, timeout, ListGroupEventsResponse, group)
        write(response.events)
        if follow:
            _follow(coordinator, request, response, timeout, write)
    except KeyboardInterrupt:
        if follow:
            return
        raise
    if not response.events and not output.is_document:
        chosen = "".join(
            (f" after {after}" if after else "", f" since {since}" if since else "", " of these kinds" if kind else "")
        )
        notes.print(f"The coordinator remembers no events of group '{group}'{chosen}.")


def _follow(
    coordinator: str,
    request: ListGroupEvents,
    response: ListGroupEventsResponse,
    timeout_s: float,
    write: Callable[[Sequence[GroupEvent]], None],
) -> None:
    """Ask again and again for what is new; a coordinator that is away is said once, and waited for.

    One that does not let this client log in ends it: to try on is what locks an account.
    """
    after = _end_of(response, request.after_sequence)
    is_away = False
    while True:
        sleep(FOLLOW_EVERY_S)
        asked = ListGroupEvents(request.group_id, after, None, request.kinds)
        try:
            answer = ask(coordinators_of(coordinator), asked, timeout_s)
        except LogInFailedError:
            with tool_errors_as_text():
                raise
        except RequestError as error:
            why: str | None = str(error)
        else:
            refusal = refusal_of(answer)
            why = f"{refusal[1]} ({refusal[0].name})" if refusal is not None and refusal[0].is_retriable else None
        if why is not None:
            if not is_away:
                notes.print(f"{why}; trying again until Ctrl-C")
            is_away = True
            continue
        is_away = False
        must_not_be_refused(answer, request.group_id)
        if not isinstance(answer, ListGroupEventsResponse):
            continue
        if 0 < answer.last_sequence < after:
            notes.print(f"The timeline of group '{request.group_id}' has begun anew.")
            after = 0
            continue
        write(answer.events)
        after = _end_of(answer, after)


def _end_of(response: ListGroupEventsResponse, after: int) -> int:
    """Return the number after which to ask for more."""
    return max(after, response.last_sequence, *(event.sequence for event in response.events[-1:]))


def _writer(output: OngoingFormat) -> Callable[[Sequence[GroupEvent]], None]:
    """Return what writes some events at a time, with one header where there is one, and at once."""
    table = GrowingTable(EVENT_COLUMNS)
    has_header = False

    def write(events: Sequence[GroupEvent]) -> None:
        nonlocal has_header
        match output:
            case OngoingFormat.JSON | OngoingFormat.YAML:
                write_document(OutputFormat(output), [_as_json(event) for event in events])
            case OngoingFormat.JSONL:
                for event in events:
                    write_line(_as_json(event))
            case OngoingFormat.CSV:
                write_csv(() if has_header else EVENT_COLUMNS, map(_row, events))
                has_header = True
            case OngoingFormat.TABLE:
                table.write(list(map(_row, events)))
        sys.stdout.flush()

    return write


def _row(event: GroupEvent) -> tuple[Cell, ...]:
    return (
        event.sequence,
        time_text(event.at_ms),
        event.kind,
        event.member_id,
        event.group_epoch,
        _say_partitions(event),
        event.duration_ms,
        event.why,
    )


def _as_json(event: GroupEvent) -> dict[str, object]:
    return {
        "sequence": event.sequence,
        "time": time_text(event.at_ms),
        "kind": event.kind,
        "consumer_id": event.member_id or None,
        "group_epoch": event.group_epoch,
        "partitions": [{"topic": topic, "partition": partition} for topic, partition in event.partitions],
        "partition_count": _count(event),
        "duration_ms": event.duration_ms,
        "why": event.why,
    }


def _count(event: GroupEvent) -> int:
    return max(event.partition_count, len(event.partitions))


def _say_partitions(event: GroupEvent) -> str:
    """Name the partitions of an event, which names only some where they are many, and say how many there are more."""
    more = _count(event) - len(event.partitions)
    named = format_partitions(event.partitions)
    return f"{named} and {more} more" if named and more else named or (f"{more}" if more else "")


def time_text(at_ms: int) -> str:
    """Return a time in UTC, in the form of ISO 8601."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
