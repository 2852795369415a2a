"""What the verbs that change a group share: dry run by default, who asks and why, and how refused partitions end."""

import getpass
import os
import socket
from collections.abc import Iterable
from typing import Annotated

import typer

from coordinator.cli.exits import EXIT_OF_REFUSAL, ExitCode, notes
from coordinator.protocol.errors import ErrorCode

Execute = Annotated[bool, typer.Option("--execute", help="Do it; otherwise only what would be done is shown.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done, which is the default.")]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason; it is recorded with who asks.")]


def is_dry(*, execute: bool, dry_run: bool) -> bool:
    """Return whether nothing is to be changed; raises typer.BadParameter when both are asked for."""
    if execute and dry_run:
        raise typer.BadParameter("--execute and --dry-run contradict each other: name one")
    return not execute


def who_asks() -> str:
    """Return `user@host` of this process, in characters that can be printed."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid-{os.getuid()}"
    name = f"{user}@{socket.gethostname()}"
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:250]


def note_dry_run(*, dry: bool) -> None:
    """Say that nothing was changed, if so."""
    if dry:
        notes.print("This was a dry run: nothing has been changed. Add --execute to do it.")


def exit_if_refused(results: Iterable[tuple[str, int, ErrorCode, str]]) -> None:
    """Show why partitions were refused and exit with the code of the first; return when none was."""
    code = ExitCode.OK
    for topic, partition, error, why in results:
        if error is not ErrorCode.NONE:
            notes.print(f"error: {topic}-{partition} was refused: {why} ({error.name})")
            code = code or EXIT_OF_REFUSAL.get(error, ExitCode.ERROR)
    if code is not ExitCode.OK:
        raise typer.Exit(code)
