"""A disk without threads: the production files' code over files in memory, written when the test says so."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

from coordinator.core.log.queue import AppendQueue, QueueFullError
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.log.snapshot_queue import SnapshotQueue
from coordinator.core.log.storage import LogSink, RecoveredShard
from coordinator.runtime.files import DiskError
from coordinator.runtime.shard_files import ShardFiles
from tests.helpers.memory_files import MemoryFiles


class MemoryDisk:
    """A `DiskPort` whose writer is `flush`. `crash` loses power, `files.fail` makes calls fail.

    After a crash every shard has to be recovered again, as after a start.
    """

    def __init__(
        self,
        shards: int,
        *,
        on_durable: Callable[[int, int], None],
        on_failure: Callable[[str], None],
        segment_bytes: int = 4096,
        max_pending_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self.files = MemoryFiles()
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._segment_bytes = segment_bytes
        self._max_pending_bytes = max_pending_bytes
        self._count = shards
        self._closed = False
        self._start()
        for shard in self._shards:
            shard.create()

    def _start(self) -> None:
        directories = [Path(f"/shard-{shard:05d}") for shard in range(self._count)]
        self._shards = [ShardFiles(self.files, each, self._segment_bytes) for each in directories]
        self._queue = AppendQueue(self._max_pending_bytes)
        self._snapshots = SnapshotQueue()
        self._failure: str | None = None
        self._unsynced: tuple[int, ...] = ()

    def recover(self, shard: int, sink: LogSink | None = None) -> RecoveredShard:
        self._refuse_when_stopped()
        self._queue.close_shard(shard)
        self._snapshots.give_up(shard)
        while self._queue.has(shard):
            self.flush_group()
            self._refuse_when_stopped()
        recovered = self._shards[shard].recover(sink)
        self._queue.open_shard(shard, recovered.log_end_offset, recovered.leader_epoch)
        return recovered

    def append(self, shard: int, base_offset: int, leader_epoch: int, records: Sequence[bytes]) -> None:
        self._refuse_when_stopped()
        try:
            self._queue.add(shard, base_offset, leader_epoch, records)
        except QueueFullError as error:
            self._fail(str(error))
            raise DiskError(str(error)) from error

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
        if end_offset > self._queue.end_offset(shard):
            raise ValueError("snapshot past the end of the log")
        self._snapshots.add(shard, SnapshotPiece(end_offset, leader_epoch, tuple(records), index, is_last))

    @property
    def pending_bytes(self) -> int:
        return self._queue.pending_bytes

    def flush(self) -> None:
        """Write everything that waits."""
        while (self._queue or self._snapshots) and self._failure is None:
            self.flush_group()

    def flush_group(self) -> None:
        """Write one group, or the snapshots when nothing else waits."""
        if self.write_without_sync():
            self.sync_group()
        else:
            self.write_snapshots()

    def sync_group(self) -> None:
        """Make durable what `write_without_sync` has written, and report it."""
        group, self._unsynced = self._unsynced, ()
        try:
            for shard in group if self._failure is None else ():
                self._on_durable(shard, self._shards[shard].sync())
        except DiskError as error:
            self._fail(str(error))
        self._queue.finish()

    def write_snapshots(self) -> dict[int, SnapshotPiece]:
        """Write the next piece of each shard that has one waiting; returns these by shard."""
        pieces = self._snapshots.take(lambda shard: self._shards[shard].durable_end_offset)
        try:
            for shard, piece in pieces.items():
                self._shards[shard].write_snapshot(piece)
        except DiskError as error:
            self._fail(str(error))
            return {}
        return pieces

    def write_without_sync(self) -> bool:
        """Hand one group to the file system and stop there: what a crash may tear. False when nothing waits."""
        group = self._queue.take_group()
        self._unsynced = tuple(group)
        try:
            for shard, batch in group.items():
                self._shards[shard].write(batch)
        except DiskError as error:
            self._fail(str(error))
        return bool(group)

    def crash(self, dice: Random) -> None:
        """Lose power: what waits is gone, what was not synced survives by `dice`."""
        self.files.lose_power(dice)
        self._start()

    def exchange(self, copy: Mapping[Path, bytes] | None) -> None:
        """Put in another disk: an empty one, or one with the files of a copy."""
        self.files.replace(copy or {})
        self._start()
        if copy is None:
            for shard in self._shards:
                shard.create()

    def restart(self) -> None:
        """Open again what was closed."""
        self._closed = False
        self._start()

    def close(self) -> None:
        if not self._closed:
            self.flush()
            self._closed = True

    def _fail(self, message: str) -> None:
        if self._failure is None:
            self._failure = message
            self._on_failure(message)

    def _refuse_when_stopped(self) -> None:
        if self._closed or self._failure is not None:
            raise DiskError(f"the log takes nothing more: {self._failure or 'it is closed'}")
