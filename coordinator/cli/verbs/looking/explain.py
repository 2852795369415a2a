"""`kcoord explain`: what an error's code means, why it comes, and what to do. Asks nobody."""

import sys
from typing import Annotated

import typer

from coordinator.cli.diagnosis import explained
from coordinator.cli.parts.asking import Output
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.cli.parts.tables import OutputFormat, write_rows


def explain(
    code: Annotated[
        str | None,
        typer.Argument(metavar="[CODE]", help="KC-1002, or an error's name, such as PARTITION_OWNED; all without."),
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say what an error's code means, why it comes and what to do; exit with 3 when there is none of that name."""
    try:
        codes = explained.explained(explained.page())
    except FileNotFoundError as error:
        notes.error(f"this install is not whole: {error}; install kcoord anew", DocCode.FILE)
        raise typer.Exit(ExitCode.ERROR) from None
    if code is None:
        write_rows(output, ("CODE", "ERROR"), [(each.code, each.title) for each in codes])
        return
    found = explained.named(code, codes)
    if found is None:
        near = explained.nearest(code, codes)
        hint = f"did you mean {near}?" if near is not None else "`kcoord explain` lists those that there are"
        notes.error(f"no error has the code or the name '{code}'; {hint}", DocCode.NAME)
        raise typer.Exit(ExitCode.NOT_FOUND)
    if output is OutputFormat.TABLE:
        sys.stdout.write(f"{found.code} {found.title}\n\n{found.text}\n")
    else:
        write_rows(output, ("CODE", "ERROR", "TEXT"), [(found.code, found.title, found.text)])
