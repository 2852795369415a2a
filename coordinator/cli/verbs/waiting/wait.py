"""`kcoord group wait`: wait until a group is stable, empty, of a size or nearly caught up; for scripts."""

import time
from typing import Annotated, Final

import typer

from coordinator.cli.parts.asking import Coordinator, Group, coordinators_of
from coordinator.cli.parts.exits import ExitCode, end_with_refusal, notes, tool_errors_as_text
from coordinator.cli.parts.notes import DocCode
from coordinator.client.operating.waiting import Wait, WaitRefusedError, WaitTimeoutError, Wanted
from coordinator.protocol.text.durations import parse_duration_ms
from coordinator.protocol.vocabulary import GroupStatus

_LONGEST_DAYS: Final = 365


def parse_seconds(text: str) -> float:
    """Read `30`, `30s`, `5m`, `500ms` or `PT5M`, at most a year, as seconds; raises typer.BadParameter."""
    try:
        seconds = parse_duration_ms(text, bare_unit="s") / 1000
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if seconds > _LONGEST_DAYS * 86_400:  # beyond some such bound the system does not wait at all
        raise typer.BadParameter(f"{text!r} is longer than {_LONGEST_DAYS} d")
    return seconds


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
    if stable and empty:
        raise typer.BadParameter("--stable and --empty are two states: name one")
    state = GroupStatus.STABLE if stable else GroupStatus.EMPTY if empty else None
    conditions = Wanted(state, members, lag_below).conditions()
    if not conditions:
        raise typer.BadParameter("name what to wait for: --stable, --empty, --members N or --lag-below N")
    waiting = Wait(coordinators_of(coordinator), group, conditions, timeout_s, every_s)
    try:
        with tool_errors_as_text():
            while waiting.look() is None:
                time.sleep(waiting.pause_s)
    except WaitTimeoutError as error:
        notes.error(str(error), DocCode.LATE)
        raise typer.Exit(ExitCode.TIMEOUT) from None
    except WaitRefusedError as error:
        end_with_refusal(error.refusal, group)
    notes.print(f"Consumer group '{group}' is as wanted.")
