"""A cut or a replacement of a log made to its files, each step durable before the next; `core.log.cutting` has the
steps.

Not thread-safe; raises DiskError for anything the operating system fails, and CorruptLogError for files to which the
change cannot be made.
"""

from collections.abc import Iterable
from pathlib import Path

from coordinator.core.log.cutting import (
    MARKER,
    Change,
    Cut,
    DeleteFile,
    FileChange,
    PutFile,
    RenameFile,
    begun,
    decode_marker,
    rest_of,
)
from coordinator.core.log.entry import CorruptLogError
from coordinator.runtime.disk.files import Files, explained, write_atomically

_MOST_BYTES = 2 * 1024 * 1024 * 1024


def make_change(files: Files, directory: Path, change: Change) -> list[FileChange]:
    """Cut or replace a log; returns what was done to its files, after which a start makes nothing else of them."""
    rest = _rest_of(files, directory, change)
    _apply(files, directory, [begun(change)])
    _apply(files, directory, rest)
    return rest


def finish_change(files: Files, directory: Path, names: Iterable[str]) -> str | None:
    """Finish what a crash has stopped, if anything; returns a sentence about it for the operator."""
    if MARKER not in names:
        return None
    path = directory / MARKER
    with explained("read", path):
        change = decode_marker(files.read(path, 1024), path_hint=str(path))
    _apply(files, directory, _rest_of(files, directory, change))
    what = "cut" if isinstance(change, Cut) else "replaced by another replica's snapshot"
    return f"{directory}: the log was being {what} at log offset {change.end} when the node ended; that is finished"


def _rest_of(files: Files, directory: Path, change: Change) -> list[FileChange]:
    with explained("read the directory", directory):
        names = files.names(directory)

    def read(name: str) -> bytes:
        with explained("read", directory / name):
            return files.read(directory / name, _MOST_BYTES)

    try:
        return rest_of(change, names, read)
    except CorruptLogError as error:
        hint = str(directory / error.path_hint)
        raise CorruptLogError(hint, error.position, error.offset, error.why) from error


def _apply(files: Files, directory: Path, changes: Iterable[FileChange]) -> None:
    for change in changes:
        match change:
            case PutFile(name, data):
                write_atomically(files, directory / name, data)
                continue
            case RenameFile(name, to):
                with explained("rename to its final name", directory / name):
                    files.rename(directory / name, directory / to)
            case DeleteFile(name):
                with explained("delete", directory / name):
                    files.delete(directory / name)
        with explained("sync", directory):
            files.sync_directory(directory)
