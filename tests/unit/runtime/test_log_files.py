"""A node with many shards: few open files, little space for each, and the failures of one that say which file it is."""

import errno
import re
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from random import Random

import pytest

from coordinator.core.log.entry import Batch, StorageError
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.runtime.disk.files import Files, OsFiles
from coordinator.runtime.disk.log_files import LogFiles, most_open_files
from coordinator.runtime.disk.segment_files import FILL_BYTES, FIRST_FILL_BYTES
from tests.helpers.loading import Found
from tests.helpers.memory_disk import MemoryClusterDisk
from tests.helpers.memory_files import MemoryFiles

SEGMENT_BYTES = 16 * 1024 * 1024


class CountingFiles(OsFiles):
    """Knows which descriptors are open."""

    def __init__(self) -> None:
        self.open_now: set[int] = set()

    def open(self, path: Path) -> int:
        return self._opened(super().open(path))

    def create(self, path: Path) -> int:
        return self._opened(super().create(path))

    def close(self, descriptor: int) -> None:
        super().close(descriptor)
        self.open_now.remove(descriptor)

    def _opened(self, descriptor: int) -> int:
        self.open_now.add(descriptor)
        return descriptor


def opened(files: Files, data_dir: Path, shards: int, most_open: int) -> LogFiles:
    logs = LogFiles(files, data_dir, SEGMENT_BYTES, most_open)
    for shard in range(shards):
        logs.open(shard, 0)
    return logs


def test_logs_that_are_not_written_are_closed_and_opened_again_by_a_write(tmp_path: Path) -> None:
    files = CountingFiles()
    logs = opened(files, tmp_path, 8, 3)
    assert files.open_now == set(), "opening a log leaves no file open"
    for offset in range(3):
        for shard in range(8):
            logs.write(shard, Batch(offset, 1, (b"a",)))
            assert logs.sync(shard) == offset + 1
            logs.close_needless()
            assert len(files.open_now) <= 3
    logs.close()
    assert files.open_now == set()
    again = opened(OsFiles(), tmp_path, 8, 3)
    assert [again.durable_end(shard) for shard in range(8)] == [3] * 8


def test_logs_of_one_group_are_open_together_until_they_are_synced(tmp_path: Path) -> None:
    files = CountingFiles()
    logs = opened(files, tmp_path, 5, 2)
    for shard in range(5):
        logs.write(shard, Batch(0, 1, (b"a",)))
    assert [logs.sync(shard) for shard in range(5)] == [1] * 5
    logs.close_needless()
    assert len(files.open_now) == 2
    logs.close()


def test_no_more_files_are_counted_than_are_kept_open() -> None:
    assert [most_open_files(shards) for shards in (1, 50, 1_000)] == [1, 50, 256]


def test_a_log_in_which_little_happens_takes_little_space_and_grows_by_as_much_again(tmp_path: Path) -> None:
    logs = opened(OsFiles(), tmp_path, 1, 1)
    segment = tmp_path / "shard-00000" / f"{0:020d}.log"
    sizes, offset = [segment.stat().st_size], 0
    while sizes[-1] < 5 * FILL_BYTES:
        logs.write(0, Batch(offset, 1, (bytes(10_000),)))
        offset += 1
        size = segment.stat().st_size
        sizes += [size] if size != sizes[-1] else []
    logs.close()
    assert sizes[0] == FIRST_FILL_BYTES
    for before, after in pairwise(sizes):
        assert before < after <= before + min(FILL_BYTES, before) + 2 * 10_100
    assert len(sizes) <= 10, "filling is a sync that takes longer, so it is seldom"


def cut(disk: MemoryClusterDisk) -> None:
    disk.truncate(0, 7, 1)


def install(disk: MemoryClusterDisk) -> None:
    disk.install(0, 1, SnapshotPiece(40, 7, (b"state",), 0, is_last=True))


def move(disk: MemoryClusterDisk) -> None:
    disk.drop(0, aside_ms=1)


def make(disk: MemoryClusterDisk) -> None:
    disk.open_log(1, 0)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=["full", "failing"])
@pytest.mark.parametrize("change", [cut, install, move, make])
def test_a_change_that_fails_at_any_call_says_where_and_what_to_do_and_is_made_or_not(
    change: Callable[[MemoryClusterDisk], None], code: int
) -> None:
    for stop in count():
        failures: list[str] = []
        disk = MemoryClusterDisk(1, on_durable=lambda *_: None, on_failure=failures.append)
        disk.open_log(0, 0)
        for offset in range(10):
            disk.append_batches(0, 0, [Batch(offset, 1 + offset // 5, (bytes(900),))])
            disk.flush()
        calls = failing(disk.files, stop, code)
        try:
            change(disk)
            disk.flush()
        except StorageError as error:
            failures.append(str(error))
        disk.files.fail = lambda _call, _path: None
        if next(calls) <= stop:
            assert failures == []
            break
        assert len(failures) == 1
        assert re.match(r"cannot [a-z ]+ /\S*: ", failures[0])
        advice = "Make room on this file system" if code == errno.ENOSPC else "Check the disk and the kernel's log"
        assert advice in failures[0]
        if change is not make:
            with pytest.raises(StorageError, match="takes nothing more"):
                disk.append_batches(0, 0, [])
        disk.crash(Random(stop))
        found = [disk.open_log(shard, 0) for shard in disk.shards()]
        assert {log.end for log in found} <= {cut: {7, 10}, install: {10, 40}, move: {10}, make: {0, 10}}[change]
        for shard, log in zip(disk.shards(), found, strict=True):
            disk.load(shard, log.end, Found())
    assert stop >= 3


def failing(files: MemoryFiles, stop: int, code: int) -> "count[int]":
    """Make every call after the first `stop` fail; returns the counter of calls."""
    calls = count()

    def fail(_call: str, _path: Path) -> None:
        if next(calls) >= stop:
            raise OSError(code, "Input/output error")

    files.fail = fail
    return calls


def test_what_cannot_be_deleted_of_logs_that_were_moved_aside_keeps_no_other_one(tmp_path: Path) -> None:
    logs = opened(OsFiles(), tmp_path, 2, 3)
    for shard in range(2):
        logs.move(shard, "aside", 1000 + shard)
    (tmp_path / "aside-00000-1000" / "looked-at").mkdir()
    with pytest.raises(StorageError, match="aside-00000-1000"):
        logs.delete_aside(10**15)
    assert [name for name, *_ in logs.moved("aside")] == ["aside-00000-1000"]
    (tmp_path / "aside-00000-1000" / "looked-at").rmdir()
    assert logs.delete_aside(10**15) == ("aside-00000-1000",)
