"""Common parts of the verbs that change groups: a dry run by default, author and reason, refused partitions."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from coordinator.cli.parts.exits import EXIT_OF_REFUSAL, ExitCode, notes
from coordinator.cli.parts.tables import Cell, OutputFormat, write_rows
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import PartitionResult, ResetResult

Execute = Annotated[bool, typer.Option("--execute", help="Do it; otherwise only what would be done is shown.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done, which is the default.")]
MoveBack = Annotated[bool, typer.Option("--move-back", help="Also set offsets back; what lies between is read again.")]
ReleaseClaims = Annotated[bool, typer.Option("--release-claims", help="Pass over running claims whose owner is gone.")]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason; it is recorded with who asks.")]


def is_dry(*, execute: bool, dry_run: bool) -> bool:
    """Return whether nothing is to be changed; raises typer.BadParameter when both are asked for."""
    if execute and dry_run:
        raise typer.BadParameter("--execute and --dry-run contradict each other: name one")
    return not execute


def end(*, dry: bool, does_something: bool, code: int = ExitCode.OK) -> None:
    """Say that this was a dry run, where `--execute` would do something, and exit with a code unless all is well."""
    if dry and does_something:
        notes.print("This was a dry run: nothing has been changed. Add --execute to do it.")
    if code != ExitCode.OK:
        raise typer.Exit(code)


def end_with_results(
    answers: Mapping[str, Sequence[PartitionResult | ResetResult]], *, dry: bool, code: int = ExitCode.OK
) -> None:
    """End after the answers of groups by their ids: show which partitions were refused and why.

    Exits with the code that is given, or else with that of the first partition that was refused.
    """
    results = [(group, result) for group, mine in answers.items() for result in mine]
    for group, result in results:
        if result.error is not ErrorCode.NONE:
            name = f"{result.topic}-{result.partition} of group '{group}'"
            notes.error(f"{name} was refused: {result.message} ({result.error.name})", result.error.doc_code)
            code = code or EXIT_OF_REFUSAL.get(result.error, ExitCode.ERROR)
    end(dry=dry, does_something=any(result.error is ErrorCode.NONE for _, result in results), code=code)


def write_accepted(answers: Mapping[str, Sequence[PartitionResult]], output: OutputFormat) -> None:
    """Write the partitions that were accepted, with their committed offsets."""
    rows: list[tuple[Cell, ...]] = [
        (group, result.topic, result.partition, result.committed)
        for group, results in answers.items()
        for result in results
        if result.error is ErrorCode.NONE
    ]
    write_rows(output, ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET"), rows)
