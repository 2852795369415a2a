"""`kcoord group wait`: wait until a group is stable, empty, of a size or nearly caught up; for scripts."""

import time
from collections.abc import Callable
from typing import Annotated, Final

import typer

from coordinator.cli.parts.asking import Coordinator, Group, coordinators_of
from coordinator.cli.parts.exits import ExitCode, must_not_be_refused, notes, tool_errors_as_text
from coordinator.cli.verbs.lag import lag_of
from coordinator.client.refusals import refusal_of
from coordinator.client.request import LogInFailedError, RequestError, ask
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeGroup, DescribeGroupResponse
from coordinator.protocol.text.counts import counted
from coordinator.protocol.text.durations import parse_duration_ms
from coordinator.protocol.vocabulary import GroupStatus

SHORTEST_LOOK_S: Final = 1.0
"""The least time of one look, however little is left."""
LOOK_TIMEOUT_S: Final = 5.0
"""The longest time of one look; a coordinator that restarts is asked again."""


def parse_seconds(text: str) -> float:
    """Read `30`, `30s`, `5m`, `500ms` or `PT5M` as seconds; raises typer.BadParameter."""
    try:
        return parse_duration_ms(text, bare_unit="s") / 1000
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def wait(
    group: Group,
    coordinator: Coordinator,
    stable: Annotated[bool, typer.Option("--stable", help="Until every member holds its target.")] = False,
    empty: Annotated[bool, typer.Option("--empty", help="Until it has no members, or does not exist.")] = False,
    members: Annotated[
        int | None, typer.Option("--members", metavar="N", min=0, help="Until it has at least N members.")
    ] = None,
    lag_below: Annotated[
        int | None,
        typer.Option("--lag-below", metavar="N", min=1, help="Until its lag is known and below N; 1 is caught up."),
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="How long to wait at most.")] = "5m",
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="How often to look.")] = "500ms",
) -> None:
    """Wait until everything named holds at one moment; exit with 6 when it does not in time."""
    timeout_s, every_s = parse_seconds(timeout), max(0.01, parse_seconds(every))
    conditions = _conditions(stable=stable, empty=empty, members=members, lag_below=lag_below)
    if not conditions:
        raise typer.BadParameter("name what to wait for: --stable, --empty, --members N or --lag-below N")
    deadline = time.monotonic() + timeout_s
    while True:
        look_s = min(LOOK_TIMEOUT_S, max(deadline - time.monotonic(), SHORTEST_LOOK_S))
        missing = _missing(coordinator, group, conditions, look_s)
        left_s = deadline - time.monotonic()
        if missing is None:
            notes.print(f"Consumer group '{group}' is as wanted.")
            return
        if left_s <= 0:
            notes.print(f"error: group '{group}' is not as wanted after {timeout_s:g} s: {missing}")
            raise typer.Exit(ExitCode.TIMEOUT)
        time.sleep(min(every_s, left_s))


_Condition = Callable[[DescribeGroupResponse], str | None]


def _conditions(*, stable: bool, empty: bool, members: int | None, lag_below: int | None) -> list[_Condition]:
    """Return the conditions as functions that say why one does not hold."""
    conditions: list[_Condition] = []
    if stable:
        conditions.append(
            lambda group: None if group.state == GroupStatus.STABLE else f"it is {group.state or 'not there'}"
        )
    if empty:
        conditions.append(lambda group: f"it has {counted(len(group.members), 'member')}" if group.members else None)
    if members is not None:
        conditions.append(
            lambda group: None if len(group.members) >= members else f"it has {counted(len(group.members), 'member')}"
        )
    if lag_below is not None:
        conditions.append(lambda group: _why_behind(group, lag_below))
    return conditions


def _why_behind(group: DescribeGroupResponse, lag_below: int) -> str | None:
    if group.kafka_failure:
        return f"its lag is not known now: {group.kafka_failure}"
    lags = [lag_of(partition) for partition in group.partitions]
    known = [lag for lag in lags if lag is not None]
    if not lags or len(known) < len(lags):
        return f"the lag of {len(lags) - len(known)} of its {counted(len(lags), 'partition')} is not known"
    return None if sum(known) < lag_below else f"its lag is {sum(known)}"


def _missing(coordinator: str, group: str, conditions: list[_Condition], look_s: float) -> str | None:
    """Return why the conditions do not hold now, or None.

    A refusal that cannot pass ends the program, and so does a log-in that is refused: to try on locks an account.
    """
    try:
        response = ask(coordinators_of(coordinator), DescribeGroup(group), look_s)
    except LogInFailedError:
        with tool_errors_as_text():
            raise
    except RequestError as error:
        return str(error)
    if isinstance(response, DescribeGroupResponse) and response.error is ErrorCode.GROUP_ID_NOT_FOUND:
        response = DescribeGroupResponse()
    refusal = refusal_of(response)
    if refusal is not None and refusal[0].is_retriable:
        return f"{refusal[1]} ({refusal[0].name})"
    must_not_be_refused(response, group)
    if not isinstance(response, DescribeGroupResponse):
        return f"the coordinator answered with {type(response).__name__}"
    found = [why for condition in conditions if (why := condition(response)) is not None]
    return "; ".join(found) or None
