"""A disk in memory that loses power at every call of its files, as it were: a copy of it does, and has to open.

Of each log is known what was asked for. A log that opens is as it was or as it was to be: a part of it that was cut is
there or is not, a snapshot has replaced it or has not. What was reported durable is there in any case. Sometimes the
start after the power came back is stopped as well.
"""

import contextlib
import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random

from coordinator.core.log.entry import Batch, StorageError
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.log.storage import OpenedLog
from tests.helpers.loading import Found
from tests.helpers.memory_disk import MemoryClusterDisk
from tests.helpers.memory_files import MemoryFiles

Records = dict[int, tuple[int, bytes]]
"""Of each offset the epoch and the record."""


@dataclass(frozen=True, slots=True)
class Side:
    """A state in which a log may be found: with one of these snapshots, by their ends, and a part of these records."""

    number: int
    records: Records = field(default_factory=dict)
    snapshots: Mapping[int, tuple[bytes, ...]] = field(default_factory=lambda: {0: ()})
    durable: int = 0

    def __str__(self) -> str:
        ends = f"{min(self.records, default=0)}..{max(self.records, default=-1) + 1}"
        return f"number {self.number}, records {ends}, snapshots {[*self.snapshots]}, durable to {self.durable}"

    def holds(self, log: OpenedLog, found: Found) -> bool:
        """Tell whether a log that was opened and read is this one, all that was durable in it."""
        if log.start not in self.snapshots or log.end < self.durable:
            return False
        snapshot = () if found.snapshot is None else found.snapshot[1]
        records = [(base + at, each) for base, batch in found.batches for at, each in enumerate(batch)]
        wanted = [(offset, self.records.get(offset, (0, b"missing"))[1]) for offset in range(log.start, log.end)]
        epochs = {offset: self.records[offset][0] for offset, _ in wanted if offset in self.records}
        marked = {offset: epoch for epoch, first in log.epochs for offset in range(first, log.end)}
        return (
            snapshot == self.snapshots[log.start]
            and records == wanted
            and all(marked[offset] == epoch for offset, epoch in epochs.items())
        )


class CrashingFiles(MemoryFiles):
    """Tells of each call before it changes anything."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], None] = lambda: None

    def create(self, path: Path) -> int:
        self.before()
        return super().create(path)

    def write(self, descriptor: int, data: bytes, position: int) -> None:
        self.before()
        super().write(descriptor, data, position)

    def sync(self, descriptor: int) -> None:
        self.before()
        super().sync(descriptor)

    def sync_last(self, descriptor: int) -> None:
        self.before()
        super().sync_last(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self.before()
        super().rename(source, target)

    def delete(self, path: Path) -> None:
        self.before()
        super().delete(path)

    def sync_directory(self, directory: Path) -> None:
        self.before()
        super().sync_directory(directory)


class CrashingDisk(MemoryClusterDisk):
    """The disk of a node of a cluster of which a copy loses power at every call; `crashes` counts them."""

    def __init__(
        self,
        node_id: int,
        *,
        on_durable: Callable[[int, int, int], None],
        seed: int = 7,
        **reports: Callable[..., None],
    ) -> None:
        self._sides: dict[int, list[Side | None]] = {}
        self._pieces: dict[tuple[str, int], tuple[bytes, ...]] = {}
        self._told = on_durable
        self.crashes = 0
        self._dice = Random(seed)
        files = CrashingFiles()
        files.has_synced_writes = self._dice.random() < 0.5
        super().__init__(node_id, on_durable=self._durable, files=files, **reports)
        files.before = self._crash

    # ---- what was asked for ------------------------------------------------------------------------------------------

    def open_log(self, shard: int, log_number: int) -> OpenedLog:
        sides = self._sides.setdefault(shard, [None])
        if sides[-1] is None:
            sides.append(Side(log_number))
        log = super().open_log(shard, log_number)
        newest = self._newest(shard)
        kept = {offset: each for offset, each in newest.records.items() if offset < log.end}
        self._sides[shard] = [replace(newest, number=log_number, records=kept, durable=log.end)]
        return log

    def append(self, shard: int, base_offset: int, leader_epoch: int, records: Sequence[bytes]) -> None:
        super().append(shard, base_offset, leader_epoch, records)
        self._appended(shard, Batch(base_offset, leader_epoch, tuple(records)))

    def append_batches(self, shard: int, log_number: int, batches: Sequence[Batch]) -> None:
        super().append_batches(shard, log_number, batches)
        for batch in batches:
            self._appended(shard, batch)

    def truncate(self, shard: int, end: int, log_number: int) -> None:
        super().truncate(shard, end, log_number)
        newest = self._newest(shard)
        kept = {offset: each for offset, each in newest.records.items() if offset < end}
        cut = replace(newest, number=log_number, records=kept, durable=min(newest.durable, end))
        self._sides[shard].append(cut)

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
        super().write_snapshot(shard, end_offset, leader_epoch, records, index=index, is_last=is_last)
        snapshot = self._pieced("own", shard, SnapshotPiece(end_offset, leader_epoch, tuple(records), index, is_last))
        newest = self._newest(shard)
        if is_last and end_offset > max(newest.snapshots):
            self._sides[shard].append(replace(newest, snapshots={**newest.snapshots, end_offset: snapshot}))

    def install(self, shard: int, log_number: int, piece: SnapshotPiece) -> None:
        super().install(shard, log_number, piece)
        snapshot = self._pieced("incoming", shard, piece)
        if piece.is_last and not self._requests.queue.is_open(shard):
            before = {piece.end_offset - 1: (piece.leader_epoch, b"")}
            side = Side(log_number, before, {piece.end_offset: snapshot}, piece.end_offset)
            self._sides[shard].append(side)

    def drop(self, shard: int, *, aside_ms: int | None) -> None:
        super().drop(shard, aside_ms=aside_ms)
        if aside_ms is not None:
            self._sides.setdefault(shard, []).append(None)

    def move_damaged_aside(self, shard: int, aside_ms: int) -> None:
        self._sides[shard].append(None)
        super().move_damaged_aside(shard, aside_ms)

    def flush(self) -> None:
        super().flush()
        self._sides = {shard: sides[-1:] for shard, sides in self._sides.items()}

    def _newest(self, shard: int) -> Side:
        newest = self._sides[shard][-1]
        assert newest is not None, "there is a log"
        return newest

    def _appended(self, shard: int, batch: Batch) -> None:
        newest = self._newest(shard)
        for at, record in enumerate(batch.records):
            newest.records[batch.base_offset + at] = (batch.leader_epoch, record)

    def _pieced(self, kind: str, shard: int, piece: SnapshotPiece) -> tuple[bytes, ...]:
        before = self._pieces.get((kind, shard), ()) if piece.index else ()
        snapshot = self._pieces[kind, shard] = (*before, *piece.records)
        return snapshot

    def _durable(self, shard: int, end_offset: int, log_number: int) -> None:
        sides = self._sides[shard]
        newest = sides[-1]
        if newest is not None and newest.number == log_number:
            sides[-1] = replace(newest, durable=max(newest.durable, end_offset))
        self._told(shard, end_offset, log_number)

    # ---- power goes --------------------------------------------------------------------------------------------------

    def _crash(self) -> None:
        self.crashes += 1
        files = self.files.copied()
        files.lose_power(self._dice)
        if self._dice.random() < 0.3:
            left = count()
            stop = self._dice.randint(0, 20)

            def fail(_call: str, _path: Path) -> None:
                if next(left) >= stop:
                    raise OSError(errno.EIO, "Input/output error")

            files.fail = fail
            with contextlib.suppress(StorageError):
                self._start_again(files)
            files.fail = lambda _call, _path: None
            files.lose_power(self._dice)
        try:
            self._start_again(files)
        except StorageError as error:
            raise AssertionError(f"a start after the power came back fails: {error}") from error

    def _start_again(self, files: MemoryFiles) -> None:
        disk = MemoryClusterDisk(
            self._node_id, on_durable=lambda *_: None, on_failure=lambda *_: None, files=files, directory_id="lost"
        )
        found_shards = disk.shards()
        for shard, sides in self._sides.items():
            if shard not in found_shards:
                assert None in sides, f"shard {shard} has gone"
                continue
            log, found = disk.open_log(shard, 0), Found()
            disk.load(shard, log.end, found)
            holding = [side for side in sides if side is not None and side.holds(log, found)]
            assert holding, f"shard {shard} is found as {log}, and not as one of {[*map(str, sides)]}"
