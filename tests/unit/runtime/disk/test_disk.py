"""What only the real disk can show: the lock, the directory, failing calls, and damage to files."""

import errno
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from coordinator.core.log.entry import MAX_BATCH_BYTES, CorruptLogError
from coordinator.runtime.disk.disk import Disk
from coordinator.runtime.disk.files import DiskError, Files, OsFiles
from tests.helpers.loading import read_shard

WAIT_S = 60.0
ROOT = Path(__file__).parents[4]


class Reports:
    """What a disk reported, and a way to wait for it."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.durable: list[tuple[int, int]] = []
        self.snapshots: list[tuple[int, int]] = []
        self.failures: list[str] = []

    def add(self, seen: list[tuple[int, int]], shard: int, end_offset: int) -> None:
        with self.changed:
            seen.append((shard, end_offset))
            self.changed.notify_all()

    def fail(self, message: str) -> None:
        with self.changed:
            self.failures.append(message)
            self.changed.notify_all()

    def wait(self, until: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(until, WAIT_S), (self.durable, self.failures)


def open_disk(
    data_dir: Path,
    reports: Reports | None = None,
    *,
    shards: int = 2,
    files: Files | None = None,
    segment_bytes: int = 4096,
    max_pending_bytes: int = MAX_BATCH_BYTES,
) -> Disk:
    reports = reports or Reports()
    return Disk.open(
        data_dir,
        shards,
        new_directory_id="d1",
        segment_bytes=segment_bytes,
        max_pending_bytes=max_pending_bytes,
        on_durable=lambda shard, end, _number: reports.add(reports.durable, shard, end),
        on_snapshot=lambda shard, end, _is_whole, _number: reports.add(reports.snapshots, shard, end),
        on_failure=reports.fail,
        files=files,
        wait_s=WAIT_S,
    )


def append_one(disk: Disk, reports: Reports, shard: int, offset: int, record: bytes) -> None:
    disk.append(shard, offset, 0, [record])
    reports.wait(lambda: (shard, offset + 1) in reports.durable)


def make_log(data_dir: Path, records: int = 3) -> Path:
    """Make a closed data directory whose shard 0 holds some records, one a frame; return its directory."""
    reports = Reports()
    disk = open_disk(data_dir, reports)
    disk.recover(0)
    for offset in range(records):
        append_one(disk, reports, 0, offset, b"record %d " % offset * 20)
    disk.close()
    return data_dir / "shard-00000"


def recovered_records(data_dir: Path) -> list[bytes]:
    disk = open_disk(data_dir)
    try:
        return read_shard(disk, 0).records
    finally:
        disk.close()


def test_directory_keeps_the_id_it_was_made_with(tmp_path: Path) -> None:
    make_log(tmp_path)
    disk = Disk.open(tmp_path, 2, new_directory_id="d2", on_durable=lambda *_: None, on_failure=lambda _message: None)
    assert disk.directory_id == "d1"
    assert disk.notices == ()
    disk.close()


def test_second_process_is_refused_and_told_who_holds_the_directory(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DiskError, match=f"in use by process {holder.pid}\\. Stop that node first"):
            open_disk(tmp_path)
    finally:
        holder.kill()
        holder.communicate(timeout=WAIT_S)
    open_disk(tmp_path).close()


_HOLD = """
import sys, pathlib, signal
from coordinator.runtime.disk.disk import Disk
disk = Disk.open(pathlib.Path(sys.argv[1]), 2, new_directory_id="d1",
                 on_durable=lambda *_: None, on_failure=lambda _: None)
print("held", flush=True)
signal.pause()
"""


def test_lock_is_free_again_after_close_and_after_a_refusal(tmp_path: Path) -> None:
    make_log(tmp_path)
    with pytest.raises(DiskError, match="made for 2 shards and the node is set to 8"):
        open_disk(tmp_path, shards=8)
    open_disk(tmp_path).close()


@pytest.mark.parametrize("content", [b"", b"{", b'{"format":1}', b"\xff\xfe"])
def test_damaged_meta_file_is_refused(tmp_path: Path, content: bytes) -> None:
    make_log(tmp_path)
    (tmp_path / "meta.json").write_bytes(content)
    with pytest.raises(CorruptLogError, match=r"meta\.json at byte 0 is damaged"):
        open_disk(tmp_path)


def test_missing_meta_file_is_refused_rather_than_made_anew(tmp_path: Path) -> None:
    make_log(tmp_path)
    (tmp_path / "meta.json").unlink()
    with pytest.raises(DiskError, match=r"meta\.json is missing"):
        open_disk(tmp_path)


def test_making_the_directory_is_finished_after_a_crash_at_any_call(tmp_path: Path) -> None:
    for crash_at in range(1000):
        data_dir = tmp_path / str(crash_at)
        calls = count()
        files = FailingFiles(lambda _call, _path, calls=calls, at=crash_at: next(calls) >= at)
        try:
            open_disk(data_dir, files=files).close()
        except DiskError:
            disk = open_disk(data_dir)
            assert [disk.recover(shard).log_end_offset for shard in range(2)] == [0, 0]
            disk.close()
            assert sorted(path.name for path in data_dir.iterdir()) == [
                "lock", "meta.json", "shard-00000", "shard-00001",
            ]  # fmt: skip
        else:
            assert crash_at == 20
            return
    pytest.fail("never finished")


class FailingFiles(OsFiles):
    """The real files, where chosen calls fail before they happen."""

    def __init__(self, fails: Callable[[str, Path], bool], code: int = errno.EIO) -> None:
        self.fails = fails
        self._code = code
        self._paths: dict[int, Path] = {}

    def _check(self, call: str, path: Path) -> None:
        if self.fails(call, path):
            raise OSError(self._code, os.strerror(self._code))

    def open(self, path: Path) -> int:
        self._check("open", path)
        descriptor = super().open(path)
        self._paths[descriptor] = path
        return descriptor

    def create(self, path: Path) -> int:
        self._check("create", path)
        descriptor = super().create(path)
        self._paths[descriptor] = path
        return descriptor

    def write(self, descriptor: int, data: bytes, position: int) -> None:
        self._check("write", self._paths[descriptor])
        super().write(descriptor, data, position)

    def sync(self, descriptor: int) -> None:
        self._check("sync", self._paths[descriptor])
        super().sync(descriptor)

    def write_synced(self, descriptor: int, data: bytes, position: int) -> None:
        self.write(descriptor, data, position)
        self.sync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self._check("rename", source)
        super().rename(source, target)

    def delete(self, path: Path) -> None:
        self._check("delete", path)
        super().delete(path)

    def sync_directory(self, directory: Path) -> None:
        self._check("sync_directory", directory)
        super().sync_directory(directory)


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("sync", errno.EIO, r"cannot write and sync .*00\.log: Input/output error \(EIO\)\. Check the disk"),
        ("write", errno.ENOSPC, r"cannot write and sync .*00\.log: No space left on device \(ENOSPC\)\. Make room"),
    ],
)
def test_first_failure_stops_the_log_for_good(tmp_path: Path, call: str, code: int, message: str) -> None:
    reports = Reports()
    failing: list[str] = []
    files = FailingFiles(lambda called, _path: called in failing, code)
    disk = open_disk(tmp_path, reports, files=files)
    disk.recover(0)
    disk.recover(1)
    append_one(disk, reports, 0, 0, b"kept")
    failing.append(call)
    disk.append(0, 1, 0, [b"lost"])
    reports.wait(lambda: bool(reports.failures))
    failing.clear()
    with pytest.raises(DiskError, match="takes nothing more since it failed"):
        disk.append(1, 0, 0, [b"x"])
    with pytest.raises(DiskError, match="takes nothing more since it failed"):
        disk.recover(0)
    disk.close()
    assert reports.durable == [(0, 1)]
    assert len(reports.failures) == 1
    assert re.match(message, reports.failures[0]), reports.failures
    assert recovered_records(tmp_path)[0] == b"kept"


@pytest.mark.parametrize("call", ["create", "write", "sync", "rename", "sync_directory", "delete"])
def test_snapshot_that_fails_stops_the_log_and_loses_nothing(tmp_path: Path, call: str) -> None:
    reports = Reports()
    failing: list[str] = []
    disk = open_disk(tmp_path, reports, files=FailingFiles(lambda called, _path: called in failing, errno.ENOSPC))
    disk.recover(0)
    for offset in range(6):
        append_one(disk, reports, 0, offset, bytes([offset]) * 2000)
    failing.append(call)
    disk.write_snapshot(0, 5, 0, [b"state at 5"])
    reports.wait(lambda: bool(reports.failures))
    assert "ENOSPC" in reports.failures[0]
    assert reports.snapshots == []
    disk.close()
    again = open_disk(tmp_path)
    found = read_shard(again, 0)
    again.close()
    assert found.shard.log_end_offset == 6
    if found.snapshot is None:
        assert len(found.batches) == 6
    else:
        assert (found.snapshot, found.batches[0][0]) == ((5, (b"state at 5",)), 5)


def test_real_file_size_limit_stops_the_node_with_what_was_acknowledged_intact(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", _FILL, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20)),
        check=True,
    )
    acknowledged, message = child.stdout.splitlines()
    assert "EFBIG" in message
    assert "Make room" in message
    kept = recovered_records(tmp_path)
    assert len(kept) >= int(acknowledged) > 1000
    assert all(record == b"%d " % number * 100 for number, record in enumerate(kept))


_FILL = """
import sys, pathlib, threading
from coordinator.runtime.disk.disk import Disk
from coordinator.runtime.disk.files import DiskError
failed, ends, changed = [], [0], threading.Condition()
def report(seen, value):
    with changed:
        seen.append(value)
        changed.notify_all()
disk = Disk.open(pathlib.Path(sys.argv[1]), 2, new_directory_id="d1",
                 on_durable=lambda _, end, __: report(ends, end),
                 on_failure=lambda message: report(failed, message))
disk.recover(0)
for number in range(100_000):
    try:
        disk.append(0, number, 0, [b"%d " % number * 100])
    except DiskError:
        break
    with changed:
        changed.wait_for(lambda: failed or ends[-1] > number - 50, 30)
disk.close()
print(ends[-1])
print(failed[0])
"""


def test_going_past_the_memory_bound_stops_the_log(tmp_path: Path) -> None:
    blocked, reports = threading.Event(), Reports()
    started: list[bool] = []
    files = FailingFiles(lambda call, _path: call == "sync" and bool(started) and not blocked.wait(WAIT_S))
    disk = open_disk(tmp_path, reports, files=files)
    disk.recover(0)
    started.append(True)
    disk.append(0, 0, 0, [bytes(MAX_BATCH_BYTES // 2)])
    disk.append(0, 1, 0, [bytes(MAX_BATCH_BYTES // 2)])
    assert disk.pending_bytes > MAX_BATCH_BYTES
    with pytest.raises(DiskError, match="the disk does not keep up"):
        disk.append(0, 2, 0, [b"a"])
    blocked.set()
    disk.close()
    assert len(reports.failures) == 1
    assert "Use a faster disk" in reports.failures[0]
    assert reports.durable == []


def test_shards_are_synced_beside_each_other_where_a_sync_takes_long(tmp_path: Path) -> None:
    together, reports = threading.Barrier(3), Reports()
    slow, is_first_there, is_first_done = threading.Event(), threading.Event(), threading.Event()
    first: list[Path] = []

    def sync(call: str, path: Path) -> bool:
        if call == "sync" and slow.is_set():
            if not first:
                first.append(path)
                is_first_there.set()
                is_first_done.wait(WAIT_S)
            elif path == first[0]:
                threading.Event().wait(0.01)
            else:
                together.wait(WAIT_S)
        return False

    disk = open_disk(tmp_path, reports, shards=4, files=FailingFiles(sync))
    for shard in range(4):
        disk.recover(shard)
    slow.set()
    disk.append(0, 0, 0, [b"alone, and long enough for the others to wait behind it"])
    assert is_first_there.wait(WAIT_S)
    disk.append(0, 1, 0, [b"b"])
    for shard in range(1, 4):
        disk.append(shard, 0, 0, [b"a"])
    is_first_done.set()
    reports.wait(lambda: {(0, 2), (1, 1), (2, 1), (3, 1)} <= set(reports.durable))
    disk.close()


def test_waiting_for_a_disk_that_stands_still_is_bounded(tmp_path: Path) -> None:
    blocked, reports = threading.Event(), Reports()
    started: list[bool] = []
    files = FailingFiles(lambda call, _path: call == "sync" and bool(started) and not blocked.wait(WAIT_S))
    disk = Disk.open(
        tmp_path,
        1,
        new_directory_id="d1",
        on_durable=lambda shard, end, _number: reports.add(reports.durable, shard, end),
        on_failure=reports.fail,
        files=files,
        wait_s=0.05,
    )
    disk.recover(0)
    started.append(True)
    disk.append(0, 0, 0, [b"a"])
    with pytest.raises(DiskError, match=r"have not finished in 0\.05 s"):
        disk.recover(0)
    with pytest.raises(DiskError, match=r"have not finished in 0\.05 s"):
        disk.close()
    blocked.set()
    reports.wait(lambda: reports.durable == [(0, 1)])


def test_process_killed_at_any_moment_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _ACKNOWLEDGE, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) > 500:
            break
    child.send_signal(signal.SIGKILL)
    rest, _ = child.communicate(timeout=WAIT_S)
    acknowledged = int((rest.splitlines() or [line])[-1] or 0)
    kept = recovered_records(tmp_path)
    assert len(kept) >= acknowledged
    assert kept == [b"%d" % number for number in range(len(kept))]


_ACKNOWLEDGE = """
import sys, os, pathlib
from coordinator.runtime.disk.disk import Disk
disk = Disk.open(pathlib.Path(sys.argv[1]), 2, new_directory_id="d1", segment_bytes=8192,
                 on_durable=lambda _, end, __: os.write(1, b"%d\\n" % end), on_failure=print)
disk.recover(0)
for number in range(1_000_000):
    disk.append(0, number, 0, [b"%d" % number])
"""


def test_torn_tail_is_cut_on_disk_with_a_notice(tmp_path: Path) -> None:
    segment = make_log(tmp_path) / f"{0:020d}.log"
    whole = segment.read_bytes().rstrip(b"\0")
    segment.write_bytes(whole[:-7] + bytes(100))
    disk = open_disk(tmp_path)
    recovered = disk.recover(0)
    assert recovered.log_end_offset == 2
    assert "cut 2" in recovered.notices[0]
    assert "log offset 2" in recovered.notices[0]
    assert disk.recover(0).notices == ()
    disk.append(0, 2, 0, [b"again"])
    disk.close()
    assert recovered_records(tmp_path)[2:] == [b"again"]


@pytest.mark.parametrize("damage", ["flip", "empty", "missing", "unreadable"])
def test_damaged_or_missing_segment_is_refused_and_other_shards_go_on(tmp_path: Path, damage: str) -> None:
    segment = make_log(tmp_path) / f"{0:020d}.log"
    if damage == "flip":
        content = bytearray(segment.read_bytes())
        content[100] ^= 1
        segment.write_bytes(content)
    elif damage == "empty":
        segment.write_bytes(b"")
    else:
        segment.unlink()
        if damage == "unreadable":
            segment.mkdir()
    disk = open_disk(tmp_path)
    with pytest.raises((CorruptLogError, DiskError), match="shard-00000"):
        disk.recover(0)
    assert disk.recover(1).log_end_offset == 0
    disk.close()


def test_missing_shard_directory_is_refused(tmp_path: Path) -> None:
    shutil.rmtree(make_log(tmp_path))
    disk = open_disk(tmp_path)
    with pytest.raises(DiskError, match=r"cannot read the directory .*shard-00000: No such file.*restore"):
        disk.recover(0)
    disk.close()


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (errno.EACCES, r"\(EACCES\)\. Give the node's user read and write permission"),
        (
            errno.EROFS,
            r"\(EROFS\)\. The file system is read-only\. .* kernel's log, mend the disk, mount it",
        ),
    ],
)
def test_a_data_directory_that_cannot_be_written_is_told_with_what_to_do(
    tmp_path: Path, error: int, advice: str
) -> None:
    files = FailingFiles(lambda call, _path: call == "create", error)
    with pytest.raises(DiskError, match=advice) as caught:
        open_disk(tmp_path, files=files)
    assert ("permission" in str(caught.value)) == (error == errno.EACCES)


def test_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    with pytest.raises(DiskError, match=r"cannot make the directory .*file"):
        open_disk(path)


def test_snapshot_lets_old_segments_and_snapshots_go(tmp_path: Path) -> None:
    reports = Reports()
    disk = open_disk(tmp_path, reports)
    disk.recover(0)
    for offset in range(10):
        append_one(disk, reports, 0, offset, bytes(1500))
    for end in (5, 9):
        disk.write_snapshot(0, end, 0, [b"s"])
        reports.wait(partial(reports.snapshots.__contains__, (0, end)))
    disk.close()
    names = sorted(path.name for path in (tmp_path / "shard-00000").iterdir())
    assert names == [f"{8:020d}.log", f"{9:020d}.snapshot", f"{10:020d}.log"]


def test_crash_between_snapshot_and_tidying_up_is_finished_at_the_next_load(tmp_path: Path) -> None:
    reports = Reports()
    files = FailingFiles(lambda call, _path: call == "delete" and bool(reports.durable))
    disk = open_disk(tmp_path, reports, files=files)
    disk.recover(0)
    for offset in range(10):
        append_one(disk, reports, 0, offset, bytes(1500))
    disk.write_snapshot(0, 9, 0, [b"s"])
    reports.wait(lambda: bool(reports.failures))
    disk.close()
    shard = tmp_path / "shard-00000"
    (shard / f"{3:020d}.snapshot.tmp").write_bytes(b"half")
    assert len(list(shard.iterdir())) == 8
    assert recovered_records(tmp_path) == [bytes(1500)]
    names = sorted(path.name for path in shard.iterdir())
    assert names == [f"{8:020d}.log", f"{9:020d}.snapshot", f"{10:020d}.log"]


@pytest.mark.parametrize("damage", ["flip", "empty", "renamed"])
def test_damaged_snapshot_is_refused_even_when_the_log_is_there(tmp_path: Path, damage: str) -> None:
    reports = Reports()
    disk = open_disk(tmp_path, reports)
    disk.recover(0)
    append_one(disk, reports, 0, 0, b"a")
    disk.write_snapshot(0, 1, 0, [b"s"])
    disk.close()
    snapshot = tmp_path / "shard-00000" / f"{1:020d}.snapshot"
    if damage == "renamed":
        snapshot.rename(snapshot.with_name(f"{0:020d}.snapshot"))
    else:
        content = snapshot.read_bytes()
        snapshot.write_bytes(b"" if damage == "empty" else content[:-1] + b"t")
    with pytest.raises(CorruptLogError, match="snapshot at byte"):
        recovered_records(tmp_path)


def test_settings_out_of_range_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="0 shards"):
        open_disk(tmp_path, shards=0)
    with pytest.raises(ValueError, match="segment_bytes 1 "):
        open_disk(tmp_path, segment_bytes=1)
    with pytest.raises(ValueError, match="max_pending_bytes"):
        open_disk(tmp_path, max_pending_bytes=1)
