"""The outcome of one check of `kcoord doctor`, and how another process is asked for what only it can know."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

PROCESS_TIMEOUT_S: Final = 60.0


class Check(msgspec.Struct, frozen=True):
    """The outcome of one check: its name, ok, warn, fail or skip, what was found, and what it means."""

    name: str
    status: str
    value: str
    why: str = ""


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
