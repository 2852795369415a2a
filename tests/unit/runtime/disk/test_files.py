"""Writes that are durable when they return: in one call where the file system has that, in two where it has not."""

import errno
import os
from pathlib import Path

import pytest

from coordinator.core.log.entry import Batch
from coordinator.runtime.disk.files import OsFiles
from coordinator.runtime.disk.segment_files import FIRST_FILL_BYTES, SegmentFiles

SEGMENT_BYTES = 16 * 1024 * 1024


class Calls:
    """The calls of the operating system that write and sync, in their order; all of them are made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.least_error = 0
        """The error that a write which syncs ends with, 0 for none."""
        self.most_bytes = 1 << 30
        true_pwrite, true_pwritev, true_sync = os.pwrite, os.pwritev, os.fdatasync

        def pwrite(descriptor: int, data: bytes, position: int) -> int:
            self.names.append("write")
            return true_pwrite(descriptor, data, position)

        def pwritev(descriptor: int, buffers: list[memoryview], position: int, flags: int) -> int:
            assert flags == os.RWF_DSYNC
            self.names.append("write and sync")
            if self.least_error:
                raise OSError(self.least_error, os.strerror(self.least_error))
            return true_pwritev(descriptor, [buffers[0][: self.most_bytes]], position, flags)

        def sync(descriptor: int) -> None:
            self.names.append("sync")
            true_sync(descriptor)

        monkeypatch.setattr(os, "pwrite", pwrite)
        monkeypatch.setattr(os, "pwritev", pwritev)
        monkeypatch.setattr("coordinator.runtime.disk.files._sync_data", sync)

    def taken(self) -> list[str]:
        """Return what was called since the last look."""
        names, self.names = self.names, []
        return names


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def test_a_write_that_the_system_takes_in_parts_is_synced_in_each(tmp_path: Path, calls: Calls) -> None:
    files, path = OsFiles(), tmp_path / "file"
    descriptor = files.create(path)
    calls.most_bytes = 3
    files.write_synced(descriptor, b"ten bytes.", 2)
    files.close(descriptor)
    assert calls.taken() == ["write and sync"] * 4
    assert path.read_bytes() == b"\0\0ten bytes."


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_that_cannot_do_both_at_once_is_asked_once(tmp_path: Path, calls: Calls, code: int) -> None:
    files, path = OsFiles(), tmp_path / "file"
    descriptor = files.create(path)
    calls.least_error = code
    for position in range(2):
        files.write_synced(descriptor, b"a", position)
    files.close(descriptor)
    assert calls.taken() == ["write and sync", "write", "sync", "write", "sync"]
    assert not files.has_synced_writes
    assert path.read_bytes() == b"aa"


def test_a_write_that_fails_is_not_tried_in_another_way(tmp_path: Path, calls: Calls) -> None:
    files = OsFiles()
    descriptor = files.create(tmp_path / "file")
    calls.least_error = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        files.write_synced(descriptor, b"a", 0)
    files.close(descriptor)
    assert calls.taken() == ["write and sync"]
    assert files.has_synced_writes


def test_a_frame_in_space_that_is_durable_takes_one_call_and_another_one_a_sync_of_all(
    tmp_path: Path, calls: Calls
) -> None:
    log = SegmentFiles(OsFiles(), tmp_path / "log", SEGMENT_BYTES)
    log.create()
    log.recover()
    taken = []
    for offset in range(3):
        calls.taken()
        log.write(Batch(offset, 1, (bytes(FIRST_FILL_BYTES * 3 // 4),)))
        assert log.sync() == offset + 1
        taken.append(calls.taken())
    log.close()
    once, with_more_space = ["write and sync"], ["write", "write", "sync"]
    assert taken == [once, with_more_space, once]


def test_frames_that_are_written_before_one_sync_are_durable_by_it(tmp_path: Path, calls: Calls) -> None:
    log = SegmentFiles(OsFiles(), tmp_path / "log", SEGMENT_BYTES)
    log.create()
    log.recover()
    calls.taken()
    for offset in range(3):
        log.write(Batch(offset, 1, (b"a",)))
    assert log.sync() == 3
    assert calls.taken() == ["write", "write", "write", "sync"]
    log.write(Batch(3, 1, (b"a",)))
    assert log.sync() == 4
    assert calls.taken() == ["write and sync"]
    log.close()
    assert SegmentFiles(OsFiles(), tmp_path / "log", SEGMENT_BYTES).recover().log_end_offset == 4
