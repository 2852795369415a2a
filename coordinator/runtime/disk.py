"""The disk port: a locked data directory, one writer thread, and the promise that durable means synced.

The thread writes in groups: what arrived while the last group was being synced is the next one. Each group is
one frame and one sync a shard, then `on_durable`; where a sync takes long, those of a group go on beside each
other. The first failure of any write, sync or rename is final: nothing is retried, nothing more is reported
durable, `on_failure` says why. So is a directory that is no longer where it was opened. Snapshots are written by
the same thread, a piece between two groups. At most `max_pending_bytes` of records wait in memory, and then one append
more; going past that is a failure too, since the disk has then stood still for longer than anybody waits. Decides
nothing about what records mean or when a snapshot is due.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import google_crc32c

from coordinator.core.log.entry import MAX_BATCH_BYTES
from coordinator.core.log.meta import DirectoryMeta, decode_meta, encode_meta
from coordinator.core.log.queue import AppendQueue, QueueFullError
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.log.snapshot_queue import SnapshotQueue
from coordinator.core.log.storage import LogSink, RecoveredShard
from coordinator.runtime.data_directory import MAKING, META, refuse_what_is_not_ours
from coordinator.runtime.files import DirectoryLock, DiskError, Files, OsFiles, explained, write_atomically
from coordinator.runtime.shard_files import ShardFiles

DEFAULT_SEGMENT_BYTES = 16 * 1024 * 1024
DEFAULT_MAX_PENDING_BYTES = 64 * 1024 * 1024
DEFAULT_WAIT_S = 30.0
MAX_SHARDS = 10_000

_SYNCERS = 4
_LONG_SYNC_S = 0.0005
"""A sync that takes longer leaves time to start others beside it."""
_META_LIMIT = 64 * 1024
_SHARD_NAME = re.compile(r"shard-\d{5}")


class Disk:
    """The shards' logs on a file system; the real `DiskPort`. Made by `Disk.open`.

    Every method may be called from any thread, but calls for one shard from one at a time.
    """

    def __init__(
        self,
        lock: DirectoryLock,
        meta: DirectoryMeta,
        shards: Sequence[ShardFiles],
        *,
        is_new: bool,
        max_pending_bytes: int,
        wait_s: float,
        on_durable: Callable[[int, int], None],
        on_snapshot: Callable[[int, int, bool], None] | None,
        on_failure: Callable[[str], None],
    ) -> None:
        self._lock = lock
        self._meta = meta
        self.is_new = is_new
        """True when the directory was made by this opening of it."""
        self._shards = shards
        self._wait_s = wait_s
        self._on_durable = on_durable
        self._on_snapshot = on_snapshot
        self._on_failure = on_failure
        self._changed = threading.Condition()  # guards everything below
        self._queue = AppendQueue(max_pending_bytes)
        self._snapshots = SnapshotQueue()
        self._busy: set[int] = set()
        self._failure: str | None = None
        self._closing = False
        self._syncers = ThreadPoolExecutor(_SYNCERS, "kcoord-log-sync")
        self._thread = threading.Thread(target=self._run, name="kcoord-log-writer", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls,
        data_dir: Path,
        shards: int,
        *,
        new_directory_id: str,
        on_durable: Callable[[int, int], None],
        on_failure: Callable[[str], None],
        on_snapshot: Callable[[int, int, bool], None] | None = None,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        max_pending_bytes: int = DEFAULT_MAX_PENDING_BYTES,
        wait_s: float = DEFAULT_WAIT_S,
        files: Files | None = None,
    ) -> "Disk":
        """Open the data directory, made with `new_directory_id` when there is none, and start the writer.

        `on_durable(shard, end_offset)`, `on_snapshot(shard, end_offset, is_whole)`, which reports each piece, and
        `on_failure(message)` are called from the writer thread (`on_failure` also from an `append` that passes
        the limit). `wait_s` bounds how long `recover` and `close` wait for the writer. Raises StorageError when
        another process holds the directory, when it was made for another number of shards, or when anything
        in it is missing, unreadable or damaged.
        """
        if not 1 <= shards <= MAX_SHARDS:
            raise ValueError(f"{shards} shards is outside 1..{MAX_SHARDS}")
        if max_pending_bytes < MAX_BATCH_BYTES:
            raise ValueError(f"max_pending_bytes {max_pending_bytes} is less than one batch, {MAX_BATCH_BYTES}")
        files = files or OsFiles()
        with explained("make the directory", data_dir):
            files.make_directory(data_dir)
        refuse_what_is_not_ours(files, data_dir)
        lock = DirectoryLock.acquire(data_dir)
        try:
            meta, is_new = _open_directory(files, data_dir, shards, new_directory_id, segment_bytes)
            lock.hold(data_dir / META)
            opened = [ShardFiles(files, _shard_directory(data_dir, n), segment_bytes) for n in range(shards)]
        except BaseException:
            lock.release()
            raise
        return cls(
            lock,
            meta,
            opened,
            is_new=is_new,
            max_pending_bytes=max_pending_bytes,
            wait_s=wait_s,
            on_durable=on_durable,
            on_snapshot=on_snapshot,
            on_failure=on_failure,
        )

    @property
    def directory_id(self) -> str:
        """Return the id the directory was made with."""
        return self._meta.directory_id

    @property
    def notices(self) -> tuple[str, ...]:
        """Return what an operator should know about this machine."""
        if google_crc32c.implementation == "c":
            return ()
        return (f"CRC-32C runs in {google_crc32c.implementation}, not in C: logs are written and loaded slowly",)

    @property
    def pending_bytes(self) -> int:
        """Return the bytes of appended records that are not yet durable."""
        with self._changed:
            return self._queue.pending_bytes

    def recover(self, shard: int, sink: LogSink | None = None) -> RecoveredShard:
        """Read a shard; see `DiskPort.recover`. Blocks on the disk: not for the event loop once it serves."""
        with self._changed:
            self._refuse_when_stopped()
            self._queue.close_shard(shard)
            self._snapshots.give_up(shard)
            idle = self._changed.wait_for(lambda: self._failure is not None or self._is_idle(shard), self._wait_s)
            self._refuse_when_stopped()
            if not idle:
                raise DiskError(f"shard {shard}: its writes have not finished in {self._wait_s:g} s; check the disk")
        recovered = self._shards[shard].recover(sink)
        with self._changed:
            self._queue.open_shard(shard, recovered.log_end_offset, recovered.leader_epoch)
        return recovered

    def append(self, shard: int, base_offset: int, leader_epoch: int, records: Sequence[bytes]) -> None:
        """Take records for the log; see `DiskPort.append`."""
        with self._changed:
            self._refuse_when_stopped()
            try:
                self._queue.add(shard, base_offset, leader_epoch, records)
            except QueueFullError as error:
                message = f"the disk does not keep up: {error}. Use a faster disk, or fewer groups on this node"
                self._failure = message
            else:
                self._changed.notify_all()
                return
        self._on_failure(message)
        raise DiskError(message)

    def write_snapshot(
        self,
        shard: int,
        end_offset: int,
        leader_epoch: int,
        records: Sequence[bytes],
        *,
        index: int = 0,
        is_last: bool = True,
    ) -> None:
        """Take a piece of a snapshot; see `DiskPort.write_snapshot`. `on_snapshot` reports it."""
        with self._changed:
            self._refuse_when_stopped()
            if end_offset > self._queue.end_offset(shard):
                raise ValueError(f"shard {shard}: snapshot at {end_offset}, past the end of the log")
            self._snapshots.add(shard, SnapshotPiece(end_offset, leader_epoch, tuple(records), index, is_last))
            self._changed.notify_all()

    def close(self) -> None:
        """Write and report what waits, stop the thread and unlock the directory; again, do nothing.

        Raises DiskError when the writer has not finished in `wait_s`; the directory then stays locked until
        the process ends, since a write may still happen.
        """
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        self._thread.join(self._wait_s)
        if self._thread.is_alive():
            raise DiskError(f"the log's last writes have not finished in {self._wait_s:g} s; check the disk")
        self._syncers.shutdown()
        try:
            for shard in self._shards:
                shard.close()
        finally:
            self._lock.release()

    def _refuse_when_stopped(self) -> None:
        if self._failure is not None:
            raise DiskError(f"the log takes nothing more since it failed: {self._failure}")
        if self._closing:
            raise DiskError("the log is closed")

    def _is_idle(self, shard: int) -> bool:
        return shard not in self._busy and not self._queue.has(shard)

    def _run(self) -> None:
        failure: str | None = "the log writer ended by a defect; the traceback is in the node's output"
        try:
            self._write_until_closed()
            failure = None
        except DiskError as error:
            failure = str(error)
        finally:
            if failure is not None:
                with self._changed:
                    is_first, self._failure = self._failure is None, self._failure or failure
                    self._busy.clear()
                    self._changed.notify_all()
                if is_first:
                    self._on_failure(failure)

    def _write_until_closed(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._failure or self._queue or self._snapshots)
                if self._failure or not (self._queue or self._snapshots):
                    return
                group = self._queue.take_group()
                pieces = self._snapshots.take(lambda shard: self._shards[shard].durable_end_offset)
                self._busy = {*group, *pieces}
            for shard, batch in group.items():
                self._shards[shard].write(batch)
            if group:
                self._lock.check()
            for shard, end_offset in self._sync(tuple(group)):
                if self._failure is not None:
                    return
                self._on_durable(shard, end_offset)
            for shard, piece in pieces.items():
                self._shards[shard].write_snapshot(piece)
                if self._on_snapshot is not None:
                    self._on_snapshot(shard, piece.end_offset, piece.is_last)
            with self._changed:
                self._queue.finish()
                self._busy.clear()
                self._changed.notify_all()

    def _sync(self, shards: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Sync shards and yield each with the end of what is durable; where that takes long, the rest at once."""
        if not shards:
            return
        first, *rest = shards
        started_s = time.monotonic()
        yield first, self._shards[first].sync()
        if len(rest) > 1 and time.monotonic() - started_s > _LONG_SYNC_S:
            yield from zip(rest, self._syncers.map(lambda shard: self._shards[shard].sync(), rest), strict=True)
        else:
            for shard in rest:
                yield shard, self._shards[shard].sync()


def _open_directory(
    files: Files, data_dir: Path, shards: int, new_directory_id: str, segment_bytes: int
) -> tuple[DirectoryMeta, bool]:
    """Read the meta file, or make the directory: marked while it is being made, the meta file last.

    Returns what the file says and whether the directory was made.
    """
    path, marker = data_dir / META, data_dir / MAKING
    with explained("read", data_dir):
        names = files.names(data_dir)
    is_new = path.name not in names
    if is_new:
        made = [name for name in names if _SHARD_NAME.fullmatch(name)]
        if made and marker.name not in names:
            raise DiskError(
                f"{path} is missing, but {data_dir / made[0]} is there. Restore the file from a copy of this "
                "data directory, or give the node an empty directory"
            )
        write_atomically(files, marker, b"")
        for shard in range(shards):
            ShardFiles(files, _shard_directory(data_dir, shard), segment_bytes).create()
        write_atomically(files, path, encode_meta(DirectoryMeta(shards, new_directory_id)))
        names = [marker.name]
    with explained("read", path):
        meta = decode_meta(files.read(path, _META_LIMIT), path_hint=str(path))
    if meta.shards != shards:
        raise DiskError(
            f"{data_dir} was made for {meta.shards} shards and the node is set to {shards}. The number "
            f"decides where each group is kept: set shards to {meta.shards}, or give the node an empty data "
            "directory"
        )
    if marker.name in names:
        with explained("delete", marker):
            files.delete(marker)
            files.sync_directory(data_dir)
    return meta, is_new


def _shard_directory(data_dir: Path, shard: int) -> Path:
    return data_dir / f"shard-{shard:05d}"
