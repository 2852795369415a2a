"""The disk port for real: one writer thread, and the promise that durable means synced.

The thread writes in groups: what arrived while the last group was being synced is the next one. Each group is one frame
and one sync a shard, then `on_durable`; where a sync takes long, those of a group go on beside each other. The first
failure of any write, sync or rename is final: nothing is retried, nothing more is reported durable, `on_failure` says
why. So is a directory that is no longer where it was opened. Logs are cut, replaced and moved by the same thread,
between two groups; so are snapshots written, a piece at a time. At most `max_pending_bytes` of records wait in memory,
and then one append more; going past that is a failure too, since the disk has then stood still for longer than anybody
waits. Decides nothing about what records mean or when a snapshot is due.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import google_crc32c

from coordinator.core.log.entry import Batch, StorageError
from coordinator.core.log.queue import QueueFullError
from coordinator.core.log.requests import Change, CutLog, LogRequests, Work
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.log.storage import LogReplacedError, LogSink, OpenedLog, RecoveredShard, SnapshotPart
from coordinator.runtime.disk.files import DirectoryLock, DiskError, SlowDiskError
from coordinator.runtime.disk.log_files import LogFiles
from coordinator.runtime.disk.log_view import LogView

_SYNCERS = 4
_LONG_SYNC_S = 0.0005
"""A sync that takes longer leaves time to start others beside it."""


@dataclass(frozen=True, slots=True)
class Reports:
    """The callables through which a disk reports; see `DiskPort`."""

    on_durable: Callable[[int, int, int], None]
    on_failure: Callable[[str], None]
    on_snapshot: Callable[[int, int, bool, int], None]
    on_cut: Callable[[int, int], None]
    on_installed: Callable[[int, int, int, int], None]
    took_to_sync: Callable[[float], None] = lambda _: None
    """Takes the seconds of each sync, on any thread."""


@dataclass(slots=True)
class _Look:
    """A wish to read a log from an offset on, or its snapshot and all after it, once it is durable up to `end`."""

    shard: int
    from_offset: int | None
    end: int
    number: int = 0
    view: LogView | None = None
    is_done: bool = False


class LogDisk:
    """The shards' logs on a file system; the real `DiskPort`.

    Every method may be called from any thread, but calls for one shard from one at a time; those that only read, and
    `drop`, may come beside others.
    """

    def __init__(
        self, lock: DirectoryLock, logs: LogFiles, reports: Reports, max_pending_bytes: int, wait_s: float
    ) -> None:
        self._lock = lock
        self._logs = logs
        self._wait_s = wait_s
        self._reports = reports
        self._changed = threading.Condition()  # guards everything below
        self._requests = LogRequests(max_pending_bytes)
        self._looks: list[_Look] = []
        self._busy: set[int] = set()
        self._opening: set[int] = set()
        self._failure: str | None = None
        self._closing = False
        self._has_ended = False
        self._syncers = ThreadPoolExecutor(_SYNCERS, "kcoord-log-sync")
        self._thread = threading.Thread(target=self._run, name="kcoord-log-writer", daemon=True)
        self._thread.start()

    @property
    def notices(self) -> tuple[str, ...]:
        """Return what an operator should know about this machine."""
        if google_crc32c.implementation == "c":
            return ()
        return (f"CRC-32C runs in {google_crc32c.implementation}, not in C: logs are written and loaded slowly",)

    # ---- opened ------------------------------------------------------------------------------------------------------

    def recover(self, shard: int, sink: LogSink | None = None) -> RecoveredShard:
        """Read a shard; see `DiskPort.recover`. Blocks on the disk: not for the event loop once it serves."""
        recovered: list[RecoveredShard] = []

        def read() -> OpenedLog:
            found = self._logs.recover(shard, sink)
            recovered.append(found)
            return OpenedLog(found.snapshot_end, found.log_end_offset, self._logs.marks(shard), 0)

        self._open(shard, read)
        return recovered[0]

    def shards(self) -> tuple[int, ...]:
        """Return the shards of which there is a log; see `DiskPort.shards`."""
        return self._logs.shards()

    def open_log(self, shard: int, log_number: int) -> OpenedLog:
        """Open a log for appends; see `DiskPort.open_log`. Blocks on the disk."""
        with self._changed:
            self._wait_for_writes(shard)
            found = self._requests.opened(shard)
            if found is not None:
                self._requests.queue.renumber(shard, log_number)
                return OpenedLog(found.start, found.end, found.epochs, log_number)
        return self._open(shard, lambda: self._logs.open(shard, log_number))

    def _open(self, shard: int, read: Callable[[], OpenedLog]) -> OpenedLog:
        """Read a log with nothing else done to it, and take appends from then on, unless it was dropped meanwhile."""
        with self._changed:
            self._close_and_wait(shard)
            self._opening.add(shard)
        log: OpenedLog | None = None
        try:
            log = read()
        finally:
            with self._changed:
                self._opening.remove(shard)
                self._changed.notify_all()
                is_dropped = self._requests.is_changing(shard)
                if log is not None and not is_dropped:
                    self._requests.open_log(shard, log)
        if is_dropped:
            raise LogReplacedError(f"shard {shard}: the log was dropped while it was opened")
        return log

    def drop(self, shard: int, *, aside_ms: int | None) -> None:
        """Close a log, or move it aside; see `DiskPort.drop`."""
        with self._changed:
            self._refuse_when_stopped()
            self._requests.drop(shard, aside_ms)
            self._changed.notify_all()

    def delete_aside(self, before_ms: int) -> tuple[str, ...]:
        """Delete what was moved aside; see `DiskPort.delete_aside`. Blocks on the disk."""
        return self._logs.delete_aside(before_ms)

    # ---- written -----------------------------------------------------------------------------------------------------

    @property
    def pending_bytes(self) -> int:
        """Return the bytes of appended records that are not yet durable."""
        with self._changed:
            return self._requests.queue.pending_bytes

    def append(self, shard: int, base_offset: int, leader_epoch: int, records: Sequence[bytes]) -> None:
        """Take records for the log; see `DiskPort.append`."""
        with self._changed:
            self._refuse_when_stopped()
            try:
                self._requests.queue.add(shard, base_offset, leader_epoch, records)
            except QueueFullError as error:
                why = self._too_slow(error)
            else:
                self._changed.notify_all()
                return
        self._reports.on_failure(why)
        raise DiskError(why)

    def append_batches(self, shard: int, log_number: int, batches: Sequence[Batch]) -> None:
        """Take a leader's batches; see `DiskPort.append_batches`."""
        with self._changed:
            self._refuse_when_stopped()
            try:
                self._requests.append_batches(shard, log_number, batches)
            except QueueFullError as error:
                why = self._too_slow(error)
            else:
                self._changed.notify_all()
                return
        self._reports.on_failure(why)
        raise DiskError(why)

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
            piece = SnapshotPiece(end_offset, leader_epoch, tuple(records), index, is_last)
            self._requests.write_snapshot(shard, piece)
            self._changed.notify_all()

    def truncate(self, shard: int, end: int, log_number: int) -> None:
        """Take what is at or above `end` away; see `DiskPort.truncate`. `on_cut` reports it."""
        with self._changed:
            self._refuse_when_stopped()
            self._requests.truncate(shard, end, log_number)
            self._changed.notify_all()

    def install(self, shard: int, log_number: int, piece: SnapshotPiece) -> None:
        """Take a piece of a snapshot that replaces the log; see `DiskPort.install`. `on_installed` reports it."""
        with self._changed:
            self._refuse_when_stopped()
            self._requests.install(shard, log_number, piece)
            self._changed.notify_all()

    def give_up_install(self, shard: int) -> None:
        """Forget the pieces that have come; see `DiskPort.give_up_install`."""
        with self._changed:
            self._refuse_when_stopped()
            self._requests.give_up_install(shard)
            self._changed.notify_all()

    # ---- read --------------------------------------------------------------------------------------------------------

    def load(self, shard: int, end: int, sink: LogSink) -> None:
        """Hand on the log up to `end`; see `DiskPort.load`. Blocks on the disk."""
        with closing(self._view(_Look(shard, None, end))) as view:
            if view.snapshot_end > end:
                raise ValueError(f"shard {shard}: a load up to {end}, but the snapshot ends at {view.snapshot_end}")
            view.load(end, sink)

    def read(self, shard: int, from_offset: int, most_bytes: int) -> tuple[Batch, ...] | None:
        """Return durable records; see `DiskPort.read`. Blocks on the disk."""
        with closing(self._view(_Look(shard, from_offset, 0))) as view:
            return view.batches(from_offset, most_bytes)

    def read_snapshot(self, shard: int, end_offset: int | None, position: int) -> SnapshotPart | None:
        """Return a piece of a snapshot; see `DiskPort.read_snapshot`. Blocks on the disk."""
        return self._logs.read_snapshot(shard, end_offset, position)

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
            self._logs.close()
            if self._failure is None:
                self._closed_cleanly()
        finally:
            self._lock.release()

    def _closed_cleanly(self) -> None:
        """Do what is to be done once all that was asked for is on disk."""

    # ---- waiting for the writer, under the condition -----------------------------------------------------------------

    def _close_and_wait(self, shard: int) -> None:
        with self._changed:
            self._refuse_when_stopped()
            self._requests.close_log(shard)
            self._wait_for_writes(shard)

    def _wait_for_writes(self, shard: int) -> None:
        self._refuse_when_stopped()
        self._wait_until(lambda: self._is_idle(shard), shard)

    def _is_idle(self, shard: int) -> bool:
        return shard not in self._busy and shard not in self._opening and self._requests.is_idle(shard)

    def _wait_until(self, is_so: Callable[[], bool], shard: int) -> None:
        done = self._changed.wait_for(lambda: self._failure is not None or self._has_ended or is_so(), self._wait_s)
        self._refuse_when_stopped()
        if not done:
            raise SlowDiskError(f"shard {shard}: its writes have not finished in {self._wait_s:g} s; check the disk")

    def _view(self, look: "_Look") -> LogView:
        """Have the writer open a log to be read, once all of it that is wanted is durable."""
        with self._changed:
            self._refuse_when_stopped()
            look.number = self._requests.queue.number(look.shard)
            self._looks.append(look)
            self._changed.notify_all()
            try:
                self._wait_until(lambda: look.is_done, look.shard)
            finally:
                look.is_done = True
        if look.view is None:
            raise LogReplacedError(f"shard {look.shard}: the log that was to be read is not there any more")
        return look.view

    def _is_ready(self, look: "_Look") -> bool:
        if look.is_done or not self._is_there(look):
            return True
        return not self._requests.is_changing(look.shard) and self._logs.durable_end(look.shard) >= look.end

    def _is_there(self, look: "_Look") -> bool:
        queue = self._requests.queue
        return queue.is_open(look.shard) and queue.number(look.shard) == look.number

    def _open_views(self) -> None:
        """Open what is ready to be read; nothing is unsynced now."""
        for look in [look for look in self._looks if self._is_ready(look)]:
            self._looks.remove(look)
            if not look.is_done:
                look.view = self._logs.view(look.shard, look.from_offset) if self._is_there(look) else None
                look.is_done = True
                self._changed.notify_all()

    def _refuse_when_stopped(self) -> None:
        if self._failure is not None:
            raise DiskError(f"the log takes nothing more since it failed: {self._failure}")
        if self._closing:
            raise DiskError("the log is closed")

    def _too_slow(self, error: QueueFullError) -> str:
        self._failure = f"the disk does not keep up: {error}. Use a faster disk, or fewer groups on this node"
        return self._failure

    # ---- the writer's thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        failure: str | None = "the log writer ended by a defect; the traceback is in the node's output"
        try:
            self._write_until_closed()
            failure = None
        except StorageError as error:
            failure = str(error)
        finally:
            with self._changed:
                is_first = self._failure is None and failure is not None
                self._failure = self._failure or failure
                self._has_ended = True
                self._busy.clear()
                self._changed.notify_all()
            if is_first and failure is not None:
                self._reports.on_failure(failure)

    def _write_until_closed(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._looks:
                    self._open_views()
                if self._failure or (self._closing and not self._requests.is_waiting(self._opening)):
                    return
                work = self._requests.take(self._logs.durable_end, self._opening)
                self._busy = work.shards
            for change in work.changes:
                self._change(change)
            self._write_group(work)
            for shard, piece in work.pieces.items():
                self._logs.write_snapshot(shard, piece)
                if piece.is_last:
                    with self._changed:
                        self._requests.snapshot_written(shard, piece.end_offset)
                self._reports.on_snapshot(shard, piece.end_offset, piece.is_last, work.snapshot_numbers[shard])
            for shard, piece in work.incoming.items():
                self._take_incoming(shard, piece)
            self._logs.close_needless()
            with self._changed:
                self._requests.queue.finish()
                self._busy = set()
                self._changed.notify_all()

    def _has_work(self) -> bool:
        waits = self._requests.is_waiting(self._opening)
        return bool(waits or self._closing or self._failure or any(map(self._is_ready, self._looks)))

    def _change(self, change: Change) -> None:
        durable_end = self._logs.change(change)
        if isinstance(change, CutLog) and durable_end is not None:
            self._reports.on_durable(change.shard, durable_end, change.log_number)
            self._reports.on_cut(change.shard, change.log_number)

    def _write_group(self, work: Work) -> None:
        for shard, batch in work.group.items():
            self._logs.write(shard, batch)
        if work.group:
            self._lock.check()
        for shard, end_offset in self._sync(tuple(work.group)):
            if self._failure is not None:
                return
            self._reports.on_durable(shard, end_offset, work.numbers[shard])

    def _take_incoming(self, shard: int, piece: SnapshotPiece) -> None:
        if not self._logs.take_incoming(shard, piece):
            return
        with self._changed:
            number = self._requests.installed(shard, piece.end_offset, piece.leader_epoch)
        if number is not None:
            self._reports.on_installed(shard, piece.end_offset, piece.leader_epoch, number)

    def _sync(self, shards: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Sync shards and yield each with the end of what is durable; where that takes long, the rest at once."""
        if not shards:
            return
        first, *rest = shards
        started_s = time.monotonic()
        yield first, self._sync_one(first)
        if len(rest) > 1 and time.monotonic() - started_s > _LONG_SYNC_S:
            yield from zip(rest, self._syncers.map(self._sync_one, rest), strict=True)
        else:
            for shard in rest:
                yield shard, self._sync_one(shard)

    def _sync_one(self, shard: int) -> int:
        started_s = time.monotonic()
        durable_end = self._logs.sync(shard)
        self._reports.took_to_sync(time.monotonic() - started_s)
        return durable_end
