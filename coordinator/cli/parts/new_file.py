"""The file that a verb is to write: one that is there is replaced only when that is asked for, and no device ever."""

import errno
import os
from pathlib import Path

import typer

from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode


def must_be_free(path: Path, what: str, *, replaces: bool, option: str) -> None:
    """End with ERROR where `what` may not be written.

    A file is there and `option` was not given, what is there is no file, or its directory is not there or closed.
    """
    try:
        path.lstat()
        if not path.is_file():
            why = f"is no file that {what} may take the place of; name another one"
        elif not replaces:
            why = f"is there already; name another file, or add {option}"
        else:
            return
    except FileNotFoundError:
        folder = Path(os.path.realpath(path)).parent
        if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
            return
        why = f"cannot be written: {os.strerror(errno.EACCES if folder.is_dir() else errno.ENOENT)}"
    except OSError as error:  # the name is too long, or a directory on the way to it is closed to this user
        why = f"cannot be written: {error.strerror}"
    notes.error(f"{path} {why}", DocCode.FILE)
    raise typer.Exit(ExitCode.ERROR)
