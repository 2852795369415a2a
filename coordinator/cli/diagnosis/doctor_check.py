"""The outcome of one check of a doctor, how all are written, and how another process is asked what only it knows."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import typer

from coordinator.cli.parts.exits import ExitCode
from coordinator.cli.parts.tables import OutputFormat, write_rows

COLUMNS: Final = ("CHECK", "STATUS", "VALUE", "WHY")
PROCESS_TIMEOUT_S: Final = 60.0
SLOW_FSYNC_MS: Final = 20.0
"""A disk that takes longer to make a small write durable is slow: every commit waits for one."""


class Check(msgspec.Struct, frozen=True):
    """The outcome of one check: its name, ok, warn, fail or skip, what was found, and what it means."""

    name: str
    status: str
    value: str
    why: str = ""


def write_checks(output: OutputFormat, checks: Sequence[Check]) -> None:
    """Write checks as rows, and end the program with 1 when one fails."""
    write_rows(output, COLUMNS, [(check.name, check.status, check.value, check.why) for check in checks])
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(ExitCode.ERROR)


class UnansweredError(Exception):
    """A process that could not be started or that said nothing; the text says which."""


def said_by(command: Sequence[str], directory: Path | None = None) -> bytes:
    """Return what a process writes to its standard output; raises UnansweredError where that is nothing."""
    try:
        told = subprocess.run(command, capture_output=True, timeout=PROCESS_TIMEOUT_S, check=False, cwd=directory)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnansweredError(f"it could not be asked: {error}") from error
    if told.stdout:
        return told.stdout
    said = told.stderr.decode(errors="replace").strip().splitlines()
    raise UnansweredError(said[-1] if said else f"the process ended with {told.returncode}")
