"""The few file calls that the log is made of, as a port, and what to tell people when one of them fails.

`OsFiles` is the operating system; a test puts a failing call or a file system in memory in its place and runs
the same code above it. Errors are plain OSError here; `explained` turns them into a DiskError that names the
file, what was being done, and what to do. Nothing here retries: after a failed sync the kernel may have
dropped the data.
"""

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from coordinator.core.log.entry import StorageError

_sync_data = getattr(os, "fdatasync", os.fsync)


class DiskError(StorageError):
    """The operating system refused or failed something the log needs."""


class SlowDiskError(DiskError):
    """The disk has not done in time what was asked of it, and may have done it a moment later."""


@contextlib.contextmanager
def explained(doing: str, path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a DiskError about `doing` (a verb) to `path`."""
    try:
        yield
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "unknown")
        raise DiskError(
            f"cannot {doing} {path}: {error.strerror or error} ({name}). {_advice(error)}. "
            "Nothing that was acknowledged is lost by stopping here"
        ) from error


def _advice(error: OSError) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return "Make room on this file system (or raise the quota or size limit) and start the node again"
        case errno.EACCES | errno.EPERM:
            return "Give the node's user read and write permission to it and start the node again"
        case errno.EROFS:
            return (
                "The file system is read-only. Where it was not meant to be, the kernel has made it so after an error "
                "of the disk: look at the kernel's log, mend the disk, mount it for writing and start the node again"
            )
        case errno.EEXIST:
            return "This is a file, and a directory is needed: look at --data (node.data_dir)"
        case errno.ENOTDIR:
            return "A part of this path is a file: look at --data (node.data_dir)"
        case errno.ENOENT | errno.EISDIR:
            return "Check the path of the data directory, or restore what is missing from a copy"
        case errno.EMFILE | errno.ENFILE:
            return "Raise the limit of open files and start the node again"
        case _:
            return "Check the disk and the kernel's log before starting the node again"


class Files(Protocol):
    """File calls as POSIX means them: content is durable after a sync, a name after `sync_directory`.

    Every call may raise OSError. Descriptors are opaque numbers.
    """

    has_synced_writes: bool
    """One call can do both, write and sync."""

    def open(self, path: Path) -> int:
        """Open an existing file for reading and writing."""
        ...

    def create(self, path: Path) -> int:
        """Create an empty file, in place of one of that name, and open it for reading and writing."""
        ...

    def read(self, path: Path, limit: int) -> bytes:
        """Return the whole content; more than `limit` bytes raise OSError EFBIG before they are read."""
        ...

    def read_at(self, descriptor: int, length: int, position: int) -> bytes:
        """Return `length` bytes from `position` on; fewer where the file ends."""
        ...

    def write(self, descriptor: int, data: bytes, position: int) -> None:
        """Write all of `data` at `position`."""
        ...

    def write_synced(self, descriptor: int, data: bytes, position: int) -> None:
        """Write all of `data` at `position` and make it durable, with the size; what else was written may not be."""
        ...

    def size(self, descriptor: int) -> int:
        """Return the size in bytes."""
        ...

    def sync(self, descriptor: int) -> None:
        """Make content and size durable."""
        ...

    def close(self, descriptor: int) -> None:
        """Close the descriptor."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Give `source` the name `target`, atomically, in place of a file of that name; a directory, of none."""
        ...

    def delete(self, path: Path) -> None:
        """Delete a file."""
        ...

    def make_directory(self, path: Path) -> None:
        """Make a directory; one that is there is fine."""
        ...

    def delete_directory(self, path: Path) -> None:
        """Delete a directory that is empty."""
        ...

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def sync_directory(self, directory: Path) -> None:
        """Make the names in a directory durable."""
        ...


class OsFiles:
    """The operating system's files."""

    has_synced_writes = hasattr(os, "RWF_DSYNC")

    def open(self, path: Path) -> int:
        """Open an existing file for reading and writing."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def create(self, path: Path) -> int:
        """Create or empty a file that only the node's user can read."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def read(self, path: Path, limit: int) -> bytes:
        """Return the whole content, checking its size first."""
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > limit:
                raise OSError(errno.EFBIG, f"the file has more than {limit} bytes")
            return file.read()

    def read_at(self, descriptor: int, length: int, position: int) -> bytes:
        """Return what is there, going on after a short read."""
        parts = []
        while length and (part := os.pread(descriptor, length, position)):
            parts.append(part)
            length, position = length - len(part), position + len(part)
        return b"".join(parts)

    def write(self, descriptor: int, data: bytes, position: int) -> None:
        """Write all of `data`, going on after a short write (whose reason the next one reports)."""
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view, position)
            view, position = view[written:], position + written

    def write_synced(self, descriptor: int, data: bytes, position: int) -> None:
        """Do both in one call, which waits for the interpreter's lock once, or in two on a file system without that."""
        view = memoryview(data)
        while view and self.has_synced_writes:
            try:
                written = os.pwritev(descriptor, [view], position, os.RWF_DSYNC)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS):
                    raise
                self.has_synced_writes = False
            else:
                view, position = view[written:], position + written
        if view:
            self.write(descriptor, bytes(view), position)
            self.sync(descriptor)

    def size(self, descriptor: int) -> int:
        """Return the size in bytes."""
        return os.fstat(descriptor).st_size

    def sync(self, descriptor: int) -> None:
        """Call fdatasync, which includes the size when it grew."""
        _sync_data(descriptor)

    def close(self, descriptor: int) -> None:
        """Close the descriptor."""
        os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Rename atomically."""
        source.replace(target)

    def delete(self, path: Path) -> None:
        """Delete a file."""
        path.unlink()

    def make_directory(self, path: Path) -> None:
        """Make a directory and its parents."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def delete_directory(self, path: Path) -> None:
        """Delete an empty directory."""
        path.rmdir()

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(directory))  # noqa: PTH208 - names, not paths

    def sync_directory(self, directory: Path) -> None:
        """Sync the directory itself."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


TEMPORARY_SUFFIX = ".tmp"


def write_atomically(files: Files, path: Path, data: bytes, suffix: str = TEMPORARY_SUFFIX) -> None:
    """Put `data` at `path` so that a crash leaves all of it or what was there before; durable on return.

    Until then it is beside it, with `suffix` behind its name, which is of one writer at a time.
    """
    temporary = path.with_name(path.name + suffix)
    with explained("write", temporary):
        descriptor = files.create(temporary)
        try:
            files.write(descriptor, data, 0)
            files.sync(descriptor)
        finally:
            files.close(descriptor)
    with explained("rename to its final name", temporary):
        files.rename(temporary, path)
    with explained("sync", path.parent):
        files.sync_directory(path.parent)


class DirectoryLock:
    """An exclusive hold on a data directory, given up by `release` or by the end of the process."""

    def __init__(self, directory: Path, descriptor: int) -> None:
        self._directory = directory
        self._descriptor = descriptor
        self._held: dict[Path, tuple[int, os.stat_result]] = {}
        """Of each file that is held the descriptor, and what it was when it was opened: its identity stays the same."""
        self._replacing = threading.Lock()

    @classmethod
    def acquire(cls, directory: Path) -> "DirectoryLock":
        """Lock `directory` or raise DiskError, naming the process that holds it."""
        path = directory / "lock"
        with explained("open", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with explained("lock", path):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except DiskError as error:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            if isinstance(error.__cause__, BlockingIOError):
                raise DiskError(
                    f"{directory} is in use by process {holder}. Stop that node first, or give this one "
                    "another data directory"
                ) from error
            raise
        return cls(directory, descriptor)

    def hold(self, path: Path) -> None:
        """Lock a file of the directory too, since people delete lock files; raises DiskError when another holds it."""
        with explained("open", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._held[path] = descriptor, os.fstat(descriptor)
        try:
            with explained("lock", path):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except DiskError as error:
            if isinstance(error.__cause__, BlockingIOError):
                raise DiskError(
                    f"{self._directory} is in use by another process, whose lock file was deleted. Stop that node "
                    f"first (`fuser {path}` names it), or give this one another data directory"
                ) from error
            raise

    @contextlib.contextmanager
    def replaced(self, path: Path) -> Iterator[None]:
        """Hold the file that the block puts in the place of one that is held."""
        with self._replacing:
            yield
            os.close(self._held.pop(path)[0])
            self.hold(path)

    def check(self) -> None:
        """Raise DiskError when what is held is no longer where it was: nothing written now would be found again."""
        with self._replacing:
            self._check()

    def _check(self) -> None:
        for path, (_, opened) in self._held.items():
            with explained("look for", path):
                try:
                    is_there = os.path.samestat(path.stat(), opened)
                except (FileNotFoundError, NotADirectoryError):
                    is_there = False
            if is_there:
                continue
            raise DiskError(
                f"{self._directory} is no longer the directory that this node has opened: it was moved, replaced or "
                "deleted. Put it back, or start the node with --data where it is now: all that was acknowledged is in "
                "it, unless it was deleted"
            )

    def release(self) -> None:
        """Let others lock the directory."""
        for descriptor in (*(held for held, _ in self._held.values()), self._descriptor):
            os.close(descriptor)
        self._held.clear()
