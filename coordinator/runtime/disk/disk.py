"""The disks of a standalone node and of a node of a cluster: a locked data directory, and the logs in it.

They differ in what a directory is made of: all shards at once, or each as the controller says; and in what the node has
to remember besides its logs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from coordinator.core.log.entry import MAX_BATCH_BYTES
from coordinator.core.log.meta import DirectoryMeta
from coordinator.runtime.disk.data_directory import (
    META,
    Found,
    NodeDirectory,
    WithDirectory,
    open_in_cluster,
    open_standalone,
    refuse_what_is_not_ours,
)
from coordinator.runtime.disk.files import DirectoryLock, Files, OsFiles, explained
from coordinator.runtime.disk.log_disk import LogDisk, Reports
from coordinator.runtime.disk.log_files import DAMAGED, LogFiles

DEFAULT_SEGMENT_BYTES: Final = 16 * 1024 * 1024
DEFAULT_MAX_PENDING_BYTES: Final = 64 * 1024 * 1024
DEFAULT_WAIT_S: Final = 30.0
MAX_SHARDS: Final = 10_000


def _nobody(*_: object) -> None:
    """Take a report that nobody waits for."""


class Disk(LogDisk):
    """A standalone node's shards, all of which there are from the beginning. Made by `Disk.open`."""

    def __init__(
        self,
        meta: DirectoryMeta,
        lock: DirectoryLock,
        logs: LogFiles,
        reports: Reports,
        *,
        is_new: bool,
        max_pending_bytes: int,
        wait_s: float,
    ) -> None:
        super().__init__(lock, logs, reports, max_pending_bytes, wait_s)
        self._meta = meta
        self.is_new = is_new
        """True when the directory was made by this opening of it."""

    @classmethod
    def open(
        cls,
        data_dir: Path,
        shards: int,
        *,
        new_directory_id: str,
        on_durable: Callable[[int, int, int], None],
        on_failure: Callable[[str], None],
        on_snapshot: Callable[[int, int, bool, int], None] = _nobody,
        took_to_sync: Callable[[float], None] = _nobody,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        max_pending_bytes: int = DEFAULT_MAX_PENDING_BYTES,
        wait_s: float = DEFAULT_WAIT_S,
        files: Files | None = None,
    ) -> "Disk":
        """Open the data directory, made with `new_directory_id` when there is none, and start the writer.

        The callables are those of `DiskPort`; they are called from the writer thread (`on_failure` also from an
        `append` that passes the limit). `wait_s` bounds how long anything waits for the writer. Raises StorageError
        when another process holds the directory, when it was made for another number of shards or for a node of a
        cluster, or when anything in it is missing, unreadable or damaged.
        """
        if not 1 <= shards <= MAX_SHARDS:
            raise ValueError(f"{shards} shards is outside 1..{MAX_SHARDS}")
        files = files or OsFiles()
        with _locked(files, data_dir, max_pending_bytes) as lock:
            logs = LogFiles(files, data_dir, segment_bytes)
            meta, is_new = open_standalone(files, data_dir, logs, shards, new_directory_id)
            lock.hold(data_dir / META)
        reports = Reports(on_durable, on_failure, on_snapshot, _nobody, _nobody, took_to_sync)
        return cls(meta, lock, logs, reports, is_new=is_new, max_pending_bytes=max_pending_bytes, wait_s=wait_s)

    @property
    def directory_id(self) -> str:
        """Return the id the directory was made with."""
        return self._meta.directory_id


class ClusterDisk(LogDisk, WithDirectory):
    """The shards of a node of a cluster, and what it has to remember: a `DiskPort` and a `ClusterDirectory`.

    Made by `ClusterDisk.open`. What a `ClusterDirectory` says blocks is for one thread at a time.
    """

    def __init__(
        self,
        data_dir: Path,
        files: Files,
        found: Found,
        lock: DirectoryLock,
        logs: LogFiles,
        reports: Reports,
        *,
        max_pending_bytes: int,
        wait_s: float,
    ) -> None:
        super().__init__(lock, logs, reports, max_pending_bytes, wait_s)
        self._directory = NodeDirectory(files, data_dir, found, lock)
        self.is_new = found.is_new
        """True when the directory was made by this opening of it."""

    @classmethod
    def open(
        cls,
        data_dir: Path,
        node_id: int,
        reports: Reports,
        *,
        new_directory_id: str,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        max_pending_bytes: int = DEFAULT_MAX_PENDING_BYTES,
        wait_s: float = DEFAULT_WAIT_S,
        files: Files | None = None,
    ) -> "ClusterDisk":
        """Open the data directory, made with `new_directory_id` when there is none; count this start; start the writer.

        See `Disk.open`. Raises StorageError also for the directory of another node or of a standalone one.
        """
        files = files or OsFiles()
        with _locked(files, data_dir, max_pending_bytes) as lock:
            logs = LogFiles(files, data_dir, segment_bytes)
            found = open_in_cluster(files, data_dir, logs, node_id, new_directory_id, lock)
        return cls(data_dir, files, found, lock, logs, reports, max_pending_bytes=max_pending_bytes, wait_s=wait_s)

    def move_damaged_aside(self, shard: int, aside_ms: int) -> None:
        """Move a log aside that must not be served; see `ClusterDirectory.move_damaged_aside`."""
        self._close_and_wait(shard)
        self._logs.move(shard, DAMAGED, aside_ms)

    def _closed_cleanly(self) -> None:
        self._directory.mark_stopped()


@contextmanager
def _locked(files: Files, data_dir: Path, max_pending_bytes: int) -> Iterator[DirectoryLock]:
    """Hold a data directory from now on, but not if the block raises."""
    if max_pending_bytes < MAX_BATCH_BYTES:
        raise ValueError(f"max_pending_bytes {max_pending_bytes} is less than one batch, {MAX_BATCH_BYTES}")
    with explained("make the directory", data_dir):
        files.make_directory(data_dir)
    refuse_what_is_not_ours(files, data_dir)
    lock = DirectoryLock.acquire(data_dir)
    try:
        yield lock
    except BaseException:
        lock.release()
        raise
