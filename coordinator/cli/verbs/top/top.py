"""`kcoord top`: one screen of what goes on now in a cluster, for whoever is called at night."""

import sys
import time
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator.cli.parts.asking import Coordinator, Timeout, coordinators_of
from coordinator.cli.parts.exits import must_not_be_refused, notes, tool_errors_as_text
from coordinator.cli.parts.tables import OngoingFormat
from coordinator.cli.parts.which_groups import Match
from coordinator.cli.verbs.top.known import Known
from coordinator.cli.verbs.top.looking import Looker, LookRefusedError
from coordinator.cli.verbs.top.plain import Plain
from coordinator.cli.verbs.top.seen import Seen, Sorting, shown
from coordinator.cli.verbs.waiting.wait import parse_seconds
from coordinator.client.request import LogInFailedError, RequestError
from coordinator.protocol.vocabulary import GroupStatus

if TYPE_CHECKING:
    from rich.console import Console

_LEAST_EVERY_S = 0.05


def top(
    coordinator: Coordinator,
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="How often to look.")] = "2s",
    sort: Annotated[
        Sorting, typer.Option("--sort", case_sensitive=False, help="The order of groups, the greatest first.")
    ] = Sorting.LAG,
    match: Match = None,
    state: Annotated[
        list[GroupStatus] | None,
        typer.Option("--state", case_sensitive=False, help="Only groups in this state; may be given repeatedly."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", metavar="N", min=0, help="At most so many groups; else as many as the screen has room."
        ),
    ] = None,
    times: Annotated[
        int | None, typer.Option("--times", metavar="N", min=1, help="End after so many looks; else Ctrl-C ends it.")
    ] = None,
    output: Annotated[OngoingFormat, typer.Option("--output", "-o", help="How to write it.")] = OngoingFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Show the cluster and its groups as they are now, again and again: lag, rates, where that leads, and health.

    On a terminal it is one screen: q ends it, s sorts by the next column. Elsewhere looks follow one another.
    """
    every_s = max(_LEAST_EVERY_S, parse_seconds(every))
    if output.is_document and times != 1:
        why = f"a {output.upper()} document has an end and looks have none"
        raise typer.BadParameter(f"{why}; take -o jsonl, a document a line, or --times 1")
    looker = Looker(coordinators_of(coordinator), Known(match, state or ()), every_s, timeout)
    try:
        first = _look_first(looker)
        console = _terminal() if output is OngoingFormat.TABLE else None
        if console is None:
            _write(looker, first, sort, Plain(output), limit=limit, every_s=every_s, times=times)
        else:
            _show(looker, first, sort, console, limit=limit, every_s=every_s, times=times)
    except KeyboardInterrupt:
        return
    except LogInFailedError:  # to try on is what locks an account
        with tool_errors_as_text():
            raise


def _look_first(looker: Looker) -> Seen:
    try:
        with tool_errors_as_text():
            seen = looker.look(())
    except LookRefusedError as error:
        must_not_be_refused(error.response)
        raise
    if not seen.rows:
        notes.print("No group is there, or none that is meant.")
    return seen


def _look_again(looker: Looker, groups: Collection[str]) -> Seen:
    """Look; a coordinator that is away, or does not answer this now, is told with what was known before."""
    try:
        return looker.look(groups)
    except LogInFailedError:
        raise
    except (RequestError, LookRefusedError) as error:
        return looker.fail(str(error))


def _write(
    looker: Looker, seen: Seen, sort: Sorting, plain: Plain, *, limit: int | None, every_s: float, times: int | None
) -> None:
    looks = 1
    while True:
        rows = shown(seen.rows, sort, limit)
        plain.write(seen, rows)
        if looks == times:
            return
        time.sleep(every_s)
        seen = _look_again(looker, [row.group for row in rows])
        looks += 1


def _show(
    looker: Looker,
    seen: Seen,
    sort: Sorting,
    console: "Console",
    *,
    limit: int | None,
    every_s: float,
    times: int | None,
) -> None:
    from coordinator.cli.verbs.top import screen  # loads what only a terminal needs

    if times != 1:
        look = partial(_look_again, looker)
        seen, sort = screen.run(console, look, seen, sort, limit=limit, every_s=every_s, times=times)
    if times is not None:  # the screen is gone, and its last look is to be read
        room = len(seen.rows) if limit is None else limit
        Plain(OngoingFormat.TABLE).write(seen, shown(seen.rows, sort, min(room, console.size.height)))


def _terminal() -> "Console | None":
    """Return the console where standard output is a terminal that draws, else None."""
    if not sys.stdout.isatty():
        return None
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal and not console.is_dumb_terminal else None
