"""A value that is made of files and made anew when one of them has changed, while the node runs.

The first time a mistake in a file is an error; afterwards the value that was there stays, and the mistake is said.
A file that somebody writes at the moment is left for the next look, and one that is empty is a mistake: half of some
rules are rules too, and none are some. Knows nothing of what the files hold.
"""

import asyncio
import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from structlog.typing import FilteringBoundLogger

from coordinator.config import ConfigError

T = TypeVar("T")

Look = tuple[int, int, int] | None
"""Time of its last change, size and inode of a file; None where it cannot be looked at."""

SETTLE_S: Final = 0.1
"""A file that has changed is looked at again after so long: one that changes on is being written."""


class FileError(Exception):
    """A file that cannot be used; the text names it, and the line where that is known, and shows no secret."""


def read_file(path: Path, most_bytes: int) -> bytes:
    """Return the first `most_bytes` of a file; raises FileError.

    A pipe, a device or a directory is refused before it is read, for a pipe may never say anything.
    """
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FileError(f"{path} cannot be read: it is not a regular file")
            return file.read(most_bytes)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from error


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


class Reread(Generic[T]):
    """The value of some files; `value` is the one that counts now.

    Raises ConfigError when it is made and a file cannot be used.
    """

    def __init__(
        self,
        name: str,
        paths: Sequence[Path],
        load: Callable[[], T],
        log: FilteringBoundLogger,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._name = name
        self._paths = tuple(paths)
        self._load = load
        self._log = log
        self._pause = pause
        self._refused = ""
        """The reason for which the files as they are cannot be used, empty where they are."""
        self._seen = self._look()
        try:
            self.value = load()
        except FileError as error:
            raise ConfigError([str(error)]) from error

    def look(self, *, in_any_case: bool = False) -> bool:
        """Make the value anew if a file has changed, or `in_any_case`; say whether that was done and succeeded.

        Files that were refused are tried again: that nobody could read one leaves no mark on it. Blocks for a moment.
        """
        seen = self._look()
        is_changed = seen != self._seen
        if is_changed:
            self._pause(SETTLE_S)
            if self._look() != seen:
                return False
        elif not (in_any_case or self._refused):
            return False
        self._seen = seen
        try:
            self._must_not_be_empty(seen)
            self.value = self._load()
        except FileError as error:
            if is_changed or in_any_case or str(error) != self._refused:
                # The world's fault, no traceback.
                self._log.error("file-refused", why=f"{error}; what was read before counts on", name=self._name)
            self._refused = str(error)
            return False
        self._refused = ""
        self._log.info("file-read", why=f"{self._name} was read anew", files=[str(path) for path in self._paths])
        return True

    def _must_not_be_empty(self, seen: Sequence[Look]) -> None:
        for path, look in zip(self._paths, seen, strict=True):
            if look is not None and look[1] == 0:
                raise FileError(
                    f"{path} is empty: it was cut off, as by a full disk; have a comment in it if it is to be"
                )

    def _look(self) -> tuple[Look, ...]:
        return tuple(_look_at(path) for path in self._paths)


def _look_at(path: Path) -> Look:
    """Return what changes when a file does, also behind the links that mounted secrets are made of."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class Watch:
    """Looks at values in turn, every `look_ms` and when it is told to, without keeping the event loop."""

    def __init__(self, rereads: Iterable[Reread[object]], look_ms: int, log: FilteringBoundLogger) -> None:
        self._rereads = tuple(rereads)
        self._log = log
        self._look_s = look_ms / 1000
        self._told = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_any(self) -> bool:
        """Say whether there is anything to look at."""
        return bool(self._rereads)

    def start(self) -> None:
        """Look from now on; on the event loop."""
        if self._rereads:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def look_now(self) -> None:
        """Read everything anew, whether or not it has changed; on the event loop."""
        self._told.set()

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), self._look_s)
            is_told = self._told.is_set()
            self._told.clear()
            for reread in self._rereads:
                try:
                    await asyncio.to_thread(reread.look, in_any_case=is_told)
                except Exception:  # noqa: BLE001 - a mistake of ours; files are looked at on, or none is read anew
                    self._log.critical("bug", why="changed files could not be read anew", exc_info=True)
