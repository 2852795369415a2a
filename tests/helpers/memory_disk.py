"""A disk without threads: the production files' code over files in memory, written when the test says so."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random

from coordinator.core.log.entry import Batch, StorageError
from coordinator.core.log.queue import QueueFullError
from coordinator.core.log.requests import CutLog, LogRequests
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.log.storage import LogReplacedError, LogSink, OpenedLog, RecoveredShard, SnapshotPart
from coordinator.runtime.disk.data_directory import NodeDirectory, WithDirectory, open_in_cluster
from coordinator.runtime.disk.files import DiskError
from coordinator.runtime.disk.log_files import DAMAGED, LogFiles
from coordinator.runtime.disk.log_view import LogView
from tests.helpers.memory_files import MemoryFiles

ROOT = Path("/")


class MemoryDisk:
    """A `DiskPort` whose writer is `flush`. `crash` loses power, `files.fail` makes calls fail.

    After a crash every shard has to be recovered again, as after a start. It has all its shards from the beginning, as
    a standalone node's has; see `MemoryClusterDisk`.
    """

    def __init__(
        self,
        shards: int,
        *,
        on_durable: Callable[[int, int, int], None],
        on_failure: Callable[[str], None],
        on_snapshot: Callable[[int, int, bool, int], None] = lambda *_: None,
        on_cut: Callable[[int, int], None] = lambda *_: None,
        on_installed: Callable[[int, int, int, int], None] = lambda *_: None,
        segment_bytes: int = 4096,
        max_pending_bytes: int = 64 * 1024 * 1024,
        files: MemoryFiles | None = None,
    ) -> None:
        self.files = files or MemoryFiles()
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._on_snapshot = on_snapshot
        self._on_cut = on_cut
        self._on_installed = on_installed
        self._segment_bytes = segment_bytes
        self._max_pending_bytes = max_pending_bytes
        self._count = shards
        self._closed = False
        self._start()
        self._make()

    def _start(self) -> None:
        self._logs = LogFiles(self.files, ROOT, self._segment_bytes)
        self._requests = LogRequests(self._max_pending_bytes)
        self._failure: str | None = None
        self._unsynced: dict[int, int] = {}

    def _make(self) -> None:
        for shard in range(self._count):
            self._logs.make(shard)
        self._logs.sync_names()

    # ---- the port ----------------------------------------------------------------------------------------------------

    def recover(self, shard: int, sink: LogSink | None = None) -> RecoveredShard:
        self._close_and_finish(shard)
        recovered = self._logs.recover(shard, sink)
        marks = self._logs.marks(shard)
        self._requests.open_log(shard, OpenedLog(recovered.snapshot_end, recovered.log_end_offset, marks, 0))
        return recovered

    def shards(self) -> tuple[int, ...]:
        return self._logs.shards()

    def open_log(self, shard: int, log_number: int) -> OpenedLog:
        self._finish(shard)
        found = self._requests.opened(shard)
        if found is not None:
            self._requests.queue.renumber(shard, log_number)
            return OpenedLog(found.start, found.end, found.epochs, log_number)
        self._close_and_finish(shard)
        log = self._logs.open(shard, log_number)
        self._requests.open_log(shard, log)
        return log

    def load(self, shard: int, end: int, sink: LogSink) -> None:
        with closing(self._view(shard, None)) as view:
            if view.snapshot_end > end:
                raise ValueError("the snapshot ends above")
            assert view.durable_end >= end, "nobody writes the rest meanwhile"
            view.load(end, sink)

    def append(self, shard: int, base_offset: int, leader_epoch: int, records: Sequence[bytes]) -> None:
        with self._failing_when_full():
            self._requests.queue.add(shard, base_offset, leader_epoch, records)

    def append_batches(self, shard: int, log_number: int, batches: Sequence[Batch]) -> None:
        with self._failing_when_full():
            self._requests.append_batches(shard, log_number, batches)

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
        self._refuse_when_stopped()
        piece = SnapshotPiece(end_offset, leader_epoch, tuple(records), index, is_last)
        self._requests.write_snapshot(shard, piece)

    def truncate(self, shard: int, end: int, log_number: int) -> None:
        self._refuse_when_stopped()
        self._requests.truncate(shard, end, log_number)

    def install(self, shard: int, log_number: int, piece: SnapshotPiece) -> None:
        self._refuse_when_stopped()
        self._requests.install(shard, log_number, piece)

    def give_up_install(self, shard: int) -> None:
        self._refuse_when_stopped()
        self._requests.give_up_install(shard)

    def read(self, shard: int, from_offset: int, most_bytes: int) -> tuple[Batch, ...] | None:
        with closing(self._view(shard, from_offset)) as view:
            return view.batches(from_offset, most_bytes)

    def read_snapshot(self, shard: int, end_offset: int | None, position: int) -> SnapshotPart | None:
        return self._logs.read_snapshot(shard, end_offset, position)

    def drop(self, shard: int, *, aside_ms: int | None) -> None:
        self._refuse_when_stopped()
        self._requests.drop(shard, aside_ms)

    def delete_aside(self, before_ms: int) -> tuple[str, ...]:
        return self._logs.delete_aside(before_ms)

    @property
    def pending_bytes(self) -> int:
        return self._requests.queue.pending_bytes

    def close(self) -> None:
        if not self._closed:
            self.flush()
            self._closed = True

    # ---- the writer --------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write everything that waits."""
        while self._requests and self._failure is None:
            self.flush_group()

    def flush_group(self) -> None:
        """Make the changes and write one group, or snapshots when nothing else waits."""
        if self.write_without_sync():
            self.sync_group()
        else:
            self.write_snapshots()
            self.write_incoming()

    def sync_group(self) -> None:
        """Make durable what `write_without_sync` has written, and report it."""
        group, self._unsynced = self._unsynced, {}
        with self._failing():
            for shard, number in group.items() if self._failure is None else ():
                self._on_durable(shard, self._logs.sync(shard), number)
            self._logs.close_needless()
        self._requests.queue.finish()

    def write_snapshots(self) -> dict[int, SnapshotPiece]:
        """Write the next piece of each shard that has one waiting; returns these by shard."""
        pieces, numbers = self._requests.take_pieces(self._logs.durable_end)
        try:
            for shard, piece in pieces.items():
                self._logs.write_snapshot(shard, piece)
                if piece.is_last:
                    self._requests.snapshot_written(shard, piece.end_offset)
                self._on_snapshot(shard, piece.end_offset, piece.is_last, numbers[shard])
        except StorageError as error:
            self._fail(str(error))
            return {}
        return pieces

    def write_incoming(self) -> None:
        """Write the next piece of each snapshot that replaces a log."""
        with self._failing():
            for shard, piece in self._requests.take_incoming().items():
                if self._logs.take_incoming(shard, piece):
                    number = self._requests.installed(shard, piece.end_offset, piece.leader_epoch)
                    if number is not None:
                        self._on_installed(shard, piece.end_offset, piece.leader_epoch, number)

    def write_without_sync(self) -> bool:
        """Hand one group to the file system and stop there: what a crash may tear. False when nothing waits."""
        self.make_changes()
        group = self._requests.queue.take_group()
        self._unsynced = {shard: self._requests.queue.number(shard) for shard in group}
        with self._failing():
            for shard, batch in group.items():
                self._logs.write(shard, batch)
        return bool(group)

    def make_changes(self) -> None:
        """Cut and move logs as was asked."""
        with self._failing():
            for change in self._requests.take_changes():
                durable_end = self._logs.change(change)
                if isinstance(change, CutLog) and durable_end is not None:
                    self._on_durable(change.shard, durable_end, change.log_number)
                    self._on_cut(change.shard, change.log_number)

    @property
    def has_work(self) -> bool:
        """Return whether anything waits to be written or changed."""
        return bool(self._requests) and self._failure is None

    # ---- mishaps -----------------------------------------------------------------------------------------------------

    def stop_within(self, calls: int) -> None:
        """Write on, and stop before a call of the files after so many; nothing more is done until `restart`."""
        left = count(calls, -1)

        def stop(_call: str, _path: Path) -> None:
            if next(left) <= 0:
                raise _StoppedError

        self.files.fail = stop
        with contextlib.suppress(_StoppedError):
            self.flush()
        self.files.fail = lambda _call, _path: None
        self._closed = True

    def crash(self, dice: Random) -> None:
        """Lose power: what waits is gone, what was not synced survives by `dice`."""
        self.files.lose_power(dice)
        self._start()

    def exchange(self, copy: Mapping[Path, bytes] | None) -> None:
        """Put in another disk: an empty one, or one with the files of a copy."""
        self.files.replace(copy or {})
        self._start()
        if copy is None:
            self._make()

    def restart(self) -> None:
        """Open again what was closed."""
        self._closed = False
        self._start()

    # ---- within ------------------------------------------------------------------------------------------------------

    def _view(self, shard: int, from_offset: int | None) -> LogView:
        self._refuse_when_stopped()
        while self._requests.is_changing(shard):
            self.make_changes()
            self._refuse_when_stopped()
        if not self._requests.queue.is_open(shard):
            raise LogReplacedError(f"shard {shard} is not open")
        return self._logs.view(shard, from_offset)

    def _close_and_finish(self, shard: int) -> None:
        self._refuse_when_stopped()
        self._requests.close_log(shard)
        self._finish(shard)

    def _finish(self, shard: int) -> None:
        self._refuse_when_stopped()
        while not self._requests.is_idle(shard):
            self.flush_group()
            self._refuse_when_stopped()

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            self._fail(str(error))

    @contextlib.contextmanager
    def _failing_when_full(self) -> Iterator[None]:
        self._refuse_when_stopped()
        try:
            yield
        except QueueFullError as error:
            self._fail(str(error))
            raise DiskError(str(error)) from error

    def _fail(self, message: str) -> None:
        if self._failure is None:
            self._failure = message
            self._on_failure(message)

    def _refuse_when_stopped(self) -> None:
        if self._closed or self._failure is not None:
            raise DiskError(f"the log takes nothing more: {self._failure or 'it is closed'}")


class _StoppedError(Exception):
    """The process ends here."""


class MemoryClusterDisk(MemoryDisk, WithDirectory):
    """The same for a node of a cluster, and its `ClusterDirectory`. Each `restart` and `crash` counts as a start."""

    def __init__(
        self,
        node_id: int,
        *,
        on_durable: Callable[[int, int, int], None],
        on_failure: Callable[[str], None],
        on_snapshot: Callable[[int, int, bool, int], None] = lambda *_: None,
        on_cut: Callable[[int, int], None] = lambda *_: None,
        on_installed: Callable[[int, int, int, int], None] = lambda *_: None,
        segment_bytes: int = 4096,
        max_pending_bytes: int = 64 * 1024 * 1024,
        files: MemoryFiles | None = None,
        directory_id: str = "d1",
    ) -> None:
        self._node_id = node_id
        self._directory_id = directory_id
        super().__init__(
            0,
            on_durable=on_durable,
            on_failure=on_failure,
            on_snapshot=on_snapshot,
            on_cut=on_cut,
            on_installed=on_installed,
            segment_bytes=segment_bytes,
            max_pending_bytes=max_pending_bytes,
            files=files,
        )

    def _start(self) -> None:
        super()._start()
        lock = _NoLock()
        found = open_in_cluster(self.files, ROOT, self._logs, self._node_id, self._directory_id, lock)
        self._directory = NodeDirectory(self.files, ROOT, found, lock)
        self.is_new = found.is_new

    def exchange(self, copy: Mapping[Path, bytes] | None, directory_id: str = "d2") -> None:
        """Put in another disk: an empty one, which gets the id, or one with the files of a copy."""
        self._directory_id = directory_id
        super().exchange(copy)

    def close(self) -> None:
        if not self._closed:
            super().close()
            if self._failure is None:
                self._directory.mark_stopped()

    def move_damaged_aside(self, shard: int, aside_ms: int) -> None:
        self._close_and_finish(shard)
        self._logs.move(shard, DAMAGED, aside_ms)


class _NoLock:
    """Nobody else has files in memory."""

    def hold(self, _path: Path) -> None:
        """Do nothing."""

    @contextlib.contextmanager
    def replaced(self, _path: Path) -> Iterator[None]:
        yield
