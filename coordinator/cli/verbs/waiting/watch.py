"""`kcoord group watch`: a line each time a group is not as it was, for as long as somebody looks."""

import csv
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import typer

from coordinator.cli.parts.asking import Coordinator, Group, Output, coordinators_of
from coordinator.cli.parts.exits import must_not_be_refused, notes, tool_errors_as_text
from coordinator.cli.parts.tables import Cell, OutputFormat, write_document
from coordinator.cli.verbs.waiting.wait import parse_seconds
from coordinator.client.operating.lag import lag_of
from coordinator.client.operating.waiting import LOOK_TIMEOUT_S
from coordinator.client.refusals import refusal_of
from coordinator.client.request import LogInFailedError, RequestError, ask
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
    Request,
    Response,
)
from coordinator.protocol.messages.groups import AFTER_ALL
from coordinator.protocol.parts import GroupEvent
from coordinator.protocol.text.escaping import csv_cell, json_document, one_line

COLUMNS: Final = ("TIME", "STATE", "#MEMBERS", "GROUP-EPOCH", "LAG", "EVENTS")
_WIDTHS: Final = (20, 12, 8, 11, 12, 0)
_NAMED_EVENTS: Final = 5


@dataclass(frozen=True, slots=True)
class Look:
    """A group as it was seen: what changes make a line, and its lag, None where that of some partition is not known."""

    state: str
    members: int
    group_epoch: int
    lag: int | None

    @classmethod
    def of(cls, group: DescribeGroupResponse) -> "Look":
        """Make it of what a coordinator says."""
        lags = [lag_of(partition) for partition in group.partitions]
        known = [lag for lag in lags if lag is not None]
        lag = sum(known) if len(known) == len(lags) else None
        return cls(str(group.state) or "not there", len(group.members), group.group_epoch, lag)

    def row(self, at: datetime, events: Sequence[GroupEvent]) -> tuple[Cell, ...]:
        """Return it as a line with the newest events."""
        kinds = [event.kind for event in events]
        more = f" and {len(kinds) - _NAMED_EVENTS} more" if len(kinds) > _NAMED_EVENTS else ""
        named = ", ".join(kinds[-_NAMED_EVENTS:]) + more
        when = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return (when, self.state, self.members, self.group_epoch, self.lag, named or None)


def watch(
    group: Group,
    coordinator: Coordinator,
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="How often to look.")] = "2s",
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", min=1, help="End after so many lines; else Ctrl-C ends it.")
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show a line now, and one each time that state, members, epoch or lag have changed, with the events since."""
    every_s = max(0.05, parse_seconds(every))
    try:
        for number, row in enumerate(_changes(coordinator, group, every_s)):
            _write(output, row, is_first=number == 0)
            if number + 1 == count:
                return
    except KeyboardInterrupt:
        return


def _changes(coordinator: str, group: str, every_s: float) -> Iterator[tuple[Cell, ...]]:
    """Yield a row for the group as it is, and then one for each change; a coordinator that is away is waited for."""
    seen: Look | None = None
    after: int | None = None
    why_away = ""
    while True:
        try:
            now = Look.of(_described(_asked(coordinator, DescribeGroup(group)), group))
            told = _told(coordinator, group, AFTER_ALL if after is None else after)
            if after is not None and 0 < told.last_sequence < after:  # the timeline has begun anew
                told = _told(coordinator, group, 0)
        except LogInFailedError:  # to try on is what locks an account
            with tool_errors_as_text():
                raise
        except RequestError as error:
            if str(error) != why_away:
                why_away = str(error)
                notes.print(f"{why_away}; looking again")
        else:
            why_away = ""
            if now != seen or told.events:
                yield now.row(datetime.now(UTC), told.events)
            seen, after = now, told.last_sequence or after or 0
        time.sleep(every_s)


def _asked(coordinator: str, request: Request) -> Response:
    """Ask, and take a refusal that passes for a coordinator that is away."""
    response = ask(coordinators_of(coordinator), request, LOOK_TIMEOUT_S)
    refusal = refusal_of(response)
    if refusal is not None and refusal[0].is_retriable:
        raise RequestError(f"{refusal[1]} ({refusal[0].name})")
    return response


def _described(response: Response, group: str) -> DescribeGroupResponse:
    if isinstance(response, DescribeGroupResponse) and response.error is ErrorCode.GROUP_ID_NOT_FOUND:
        return DescribeGroupResponse()
    must_not_be_refused(response, group)
    assert isinstance(response, DescribeGroupResponse)
    return response


def _told(coordinator: str, group: str, after: int) -> ListGroupEventsResponse:
    response = _asked(coordinator, ListGroupEvents(group, after))
    if not isinstance(response, ListGroupEventsResponse) or response.error is ErrorCode.GROUP_ID_NOT_FOUND:
        return ListGroupEventsResponse()
    must_not_be_refused(response, group)
    return response


def _write(output: OutputFormat, row: tuple[Cell, ...], *, is_first: bool) -> None:
    """Write one line, of a document one document a line, at once."""
    match output:
        case OutputFormat.TABLE:
            lines = [COLUMNS, row] if is_first else [row]
            for cells in lines:
                shown = ["-" if cell is None else one_line(str(cell)) for cell in cells]
                padded = [cell.ljust(width) for cell, width in zip(shown, _WIDTHS, strict=True)]
                sys.stdout.write("  ".join(padded).rstrip() + "\n")
        case OutputFormat.CSV:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            if is_first:
                writer.writerow(COLUMNS)
            writer.writerow([csv_cell(cell) if isinstance(cell, str) else cell for cell in row])
        case OutputFormat.JSON | OutputFormat.YAML:
            names = [column.lower().replace("-", "_").replace("#", "") for column in COLUMNS]
            document = dict(zip(names, row, strict=True))
            if output is OutputFormat.JSON:
                sys.stdout.write(json_document(msgspec.json.encode(document).decode()) + "\n")
            else:
                sys.stdout.write("---\n")
                write_document(output, document)
    sys.stdout.flush()
