"""The files of the audit log: one that is written, and those before it under its name with a growing number.

Lines are whole and on disk when `write` returns. A file that has grown to its size is set aside before more is written,
and the oldest ones are deleted. One that others have moved or deleted is begun anew. A link is followed: it stays, and
files are set aside beside what it leads to. A line that a crash has cut short stays, and ends where it was cut.
"""

import contextlib
import fcntl
import os
import re
from pathlib import Path

from coordinator.core.log.entry import StorageError

write_some = os.write
"""Writes a part of some bytes, and returns how many; a test has it fail."""


class AuditFileError(StorageError):
    """The file of the audit log cannot be used; the text says why."""


class AuditFiles:
    """The audit log on disk, which one process writes; every call may block. Raises AuditFileError."""

    def __init__(self, path: Path, *, file_bytes: int, files_max: int) -> None:
        self._path = path
        self._file_bytes = file_bytes
        self._files_max = files_max
        self._descriptor, self._size = self._open()

    def write(self, lines: list[bytes]) -> None:
        """Add lines, each with its end, and have them on disk.

        If this raises none of them is there, as far as the disk still obeys.
        """
        begin = None
        try:
            self._look_for_it()
            if self._size >= self._file_bytes:
                self._set_aside()
            begin, left = self._size, b"".join(lines)
            while left:
                written = write_some(self._descriptor, left)
                self._size += written
                left = left[written:]
            os.fsync(self._descriptor)
        except OSError as error:
            if begin is not None:
                self._take_back(begin)
            raise _explained(self._path, error) from error

    def close(self) -> None:
        """Let go of the file."""
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def _open(self) -> tuple[int, int]:
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _explained(self._path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                size += os.write(descriptor, b"\n")
            _sync_folder(Path(os.path.realpath(self._path)).parent)
        except BlockingIOError as error:
            os.close(descriptor)
            raise AuditFileError(
                f"the audit log {self._path} is written by another process: give each node its own (audit.file)"
            ) from error
        except OSError as error:
            os.close(descriptor)
            raise _explained(self._path, error) from error
        return descriptor, size

    def _look_for_it(self) -> None:
        """Begin another file where somebody has moved or deleted this one, in which nobody would look for lines."""
        here = os.fstat(self._descriptor)
        self._size = here.st_size  # somebody may have cut it off
        try:
            there = self._path.stat()
            is_there = (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
        except FileNotFoundError:
            is_there = False
        except OSError:
            is_there = True  # nobody can say; what is open can still be written
        if is_there:
            return
        descriptor, size = self._open()
        os.close(self._descriptor)
        self._descriptor, self._size = descriptor, size

    def _take_back(self, begin: int) -> None:
        """Cut off what was written of lines that found no room, so that they are not there twice."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, begin)
            self._size = begin

    def _set_aside(self) -> None:
        path = Path(os.path.realpath(self._path))
        numbers = _numbers(path)
        if path.exists():  # else it was set aside, and there was no room for another one
            path.rename(_aside(path, (numbers[-1] if numbers else 0) + 1))
        descriptor, size = self._open()
        os.close(self._descriptor)
        self._descriptor, self._size = descriptor, size
        for number in _numbers(path)[: -(self._files_max - 1) or None]:
            _aside(path, number).unlink()


def _aside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number:06}")


def _numbers(path: Path) -> list[int]:
    """Return the numbers of the files that were set aside, in order."""
    name = re.compile(re.escape(path.name) + r"\.(\d{6,})")
    return sorted(int(found[1]) for each in path.parent.iterdir() if (found := name.fullmatch(each.name)))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _explained(path: Path, error: OSError) -> AuditFileError:
    return AuditFileError(f"the audit log {path} cannot be written: {error.strerror or error}; look at audit.file")
