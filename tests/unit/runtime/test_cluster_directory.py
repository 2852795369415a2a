"""Whose a data directory is, what its node remembers, and what its real disk does when a change of a log fails."""

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.core.log.entry import Batch, CorruptLogError, StorageError
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.log.storage import LogReplacedError, OpenedLog
from coordinator.runtime.disk.disk import ClusterDisk, Disk
from coordinator.runtime.disk.files import DiskError, Files, OsFiles
from coordinator.runtime.disk.log_disk import Reports
from tests.helpers.loading import Found

ROOT = Path(__file__).parents[3]
WAIT_S = 30.0


class Seen:
    """Everything that a disk has reported."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.reports: list[tuple[object, ...]] = []

    def taking(self, name: str) -> Callable[..., None]:
        def take(*said: object) -> None:
            with self.changed:
                self.reports.append((name, *said))
                self.changed.notify_all()

        return take

    def wait(self, name: str) -> tuple[object, ...]:
        """Return the first report of this name."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.of(name), WAIT_S), self.reports
            return self.of(name)[0]

    def of(self, name: str) -> list[tuple[object, ...]]:
        return [report for report in self.reports if report[0] == name]


def open_disk(data_dir: Path, node_id: int = 2, seen: Seen | None = None, files: Files | None = None) -> ClusterDisk:
    take = (seen or Seen()).taking
    reports = Reports(take("durable"), take("failure"), take("snapshot"), take("cut"), take("installed"))
    return ClusterDisk.open(data_dir, node_id, reports, new_directory_id="d1", segment_bytes=4096, files=files)


def write(disk: ClusterDisk, shard: int = 0, records: int = 30) -> None:
    """Write a log of records, a frame each; reading it waits for all of them."""
    disk.open_log(shard, 0)
    for offset in range(records):
        disk.append_batches(shard, 0, [Batch(offset, 1 + offset // 10, (bytes(300),))])
    disk.load(shard, records, Found())


def refusal(data_dir: Path, opening: Callable[[], object]) -> str:
    before = sorted((path, path.stat().st_mtime_ns) for path in data_dir.rglob("*") if path.name != "lock")
    with pytest.raises(StorageError) as refused:
        opening()
    assert sorted((path, path.stat().st_mtime_ns) for path in data_dir.rglob("*") if path.name != "lock") == before
    return str(refused.value)


def open_standalone(data_dir: Path, shards: int = 2) -> Disk:
    return Disk.open(data_dir, shards, new_directory_id="d", on_durable=lambda *_: None, on_failure=lambda _: None)


def test_a_standalone_node_and_one_of_a_cluster_do_not_take_each_others_directory(tmp_path: Path) -> None:
    alone, clustered = tmp_path / "alone", tmp_path / "clustered"
    open_standalone(alone).close()
    open_disk(clustered).close()
    assert "belongs to a standalone node, and this one is of a cluster: give it an empty" in refusal(
        alone, lambda: open_disk(alone)
    )
    assert "belongs to node 2 of a cluster, and this node is standalone" in refusal(
        clustered, lambda: open_standalone(clustered)
    )
    assert "belongs to node 2 and this is node 3: look at node.id and at --data" in refusal(
        clustered, lambda: open_disk(clustered, 3)
    )


def test_a_directory_whose_logs_are_there_and_its_identity_is_not_is_refused(tmp_path: Path) -> None:
    disk = open_disk(tmp_path)
    disk.open_log(5, 0)
    disk.close()
    (tmp_path / "meta.json").unlink()
    assert "meta.json is missing, but" in refusal(tmp_path, lambda: open_disk(tmp_path))


@pytest.mark.parametrize("lost", ["cluster.json", "cluster.json and shard-00005"])
def test_logs_of_a_cluster_beside_which_nothing_is_remembered_are_refused(tmp_path: Path, lost: str) -> None:
    disk = open_disk(tmp_path)
    disk.join_cluster("c7", 50)
    disk.close()
    disk = open_disk(tmp_path)
    assert not disk.is_new, "a node may have ended before it was about to be registered"
    disk.remember_seen(None, {}, intended_epoch=0)
    disk.open_log(5, 0)
    disk.close()
    memory = (tmp_path / "cluster.json").read_bytes()
    (tmp_path / "cluster.json").unlink()
    if "shard" in lost:
        (tmp_path / "shard-00005").rename(tmp_path / "gone")
    why = refusal(tmp_path, lambda: open_disk(tmp_path))
    assert "cluster.json is missing, and" in why
    assert "has had the log of shard 5" in why
    assert "give the node an empty directory, while the others are in sync" in why
    (tmp_path / "cluster.json").write_bytes(memory)
    open_disk(tmp_path).close()


@pytest.mark.parametrize("name", ["meta.json", "cluster.json"])
def test_what_a_node_may_not_forget_is_not_guessed(tmp_path: Path, name: str) -> None:
    disk = open_disk(tmp_path)
    disk.remember(7)
    disk.close()
    path = tmp_path / name
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1).replace(b"7", b"6", 1))
    assert f"{path} at byte 0 is damaged" in refusal(tmp_path, lambda: open_disk(tmp_path))


def test_a_process_that_was_killed_did_not_stop_as_it_should(tmp_path: Path) -> None:
    open_disk(tmp_path).close()
    holder = subprocess.Popen([sys.executable, "-c", _OPEN, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
    finally:
        holder.kill()
        holder.communicate(timeout=WAIT_S)
    for was_clean in (False, True):
        disk = open_disk(tmp_path)
        assert disk.was_stopped_cleanly == was_clean
        disk.close()
    assert disk.meta.membership is not None
    assert disk.meta.membership.starts == 4


_OPEN = """
import sys, pathlib, signal
from tests.unit.runtime.test_cluster_directory import open_disk
disk = open_disk(pathlib.Path(sys.argv[1]))
disk.open_log(0, 0)
print(disk.was_stopped_cleanly, flush=True)
signal.pause()
"""


def test_a_directory_that_has_joined_a_cluster_is_still_held_and_written(tmp_path: Path) -> None:
    seen = Seen()
    disk = open_disk(tmp_path, seen=seen)
    disk.join_cluster("c7", 50)
    write(disk)
    (tmp_path / "lock").unlink()
    with pytest.raises(DiskError, match="in use by another process, whose lock file was deleted"):
        open_disk(tmp_path)
    disk.append(0, 30, 4, [b"x"])
    disk.load(0, 31, Found())
    disk.close()
    assert seen.of("failure") == []


def test_a_log_that_is_damaged_is_moved_aside_and_its_node_goes_on(tmp_path: Path) -> None:
    disk = open_disk(tmp_path)
    write(disk, 0)
    write(disk, 1)
    disk.close()
    segment = tmp_path / "shard-00000" / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    disk = open_disk(tmp_path)
    with pytest.raises(CorruptLogError, match="shard-00000"):
        disk.open_log(0, 0)
    disk.move_damaged_aside(0, 77)
    assert (disk.shards(), disk.damaged) == ((1,), frozenset({0}))
    assert disk.open_log(0, 1) == OpenedLog(0, 0, (), 1)
    assert disk.open_log(1, 0).end == 30
    disk.close()
    assert (tmp_path / "damaged-00000-77" / segment.name).read_bytes() == bytes(data)


def test_a_log_that_is_missing_counts_as_damaged_until_that_was_told(tmp_path: Path) -> None:
    disk = open_disk(tmp_path)
    write(disk, 0)
    write(disk, 1)
    disk.close()
    (tmp_path / "shard-00001").rename(tmp_path / "lost+found")
    for _ in range(2):
        disk = open_disk(tmp_path)
        assert (disk.shards(), disk.missing, disk.damaged) == ((0,), frozenset({1}), frozenset({1}))
        disk.close()
    disk = open_disk(tmp_path)
    disk.damage_was_told()
    assert (disk.missing, disk.damaged) == (frozenset(), frozenset())
    assert disk.open_log(1, 0).end == 0
    disk.close()
    (tmp_path / "shard-00001" / f"{0:020d}.log").unlink()
    (tmp_path / "shard-00001").rmdir()
    disk = open_disk(tmp_path)
    assert disk.missing == frozenset({1}), "it was kept again"
    disk.close()


def test_a_log_of_a_release_that_marks_none_is_kept_from_when_it_is_opened(tmp_path: Path) -> None:
    disk = open_disk(tmp_path)
    write(disk)
    disk.close()
    (tmp_path / "kept-00000").unlink()
    disk = open_disk(tmp_path)
    assert disk.open_log(0, 0).end == 30
    disk.close()
    (tmp_path / "shard-00000").rename(tmp_path / "gone")
    disk = open_disk(tmp_path)
    assert disk.missing == frozenset({0})
    disk.close()


class CountingFiles(OsFiles):
    """The operating system's files, of which directories' syncs are counted."""

    def __init__(self) -> None:
        self.synced: list[Path] = []

    def sync_directory(self, directory: Path) -> None:
        self.synced.append(directory)
        super().sync_directory(directory)


def test_to_keep_a_log_costs_no_sync_more_than_its_name(tmp_path: Path) -> None:
    files = CountingFiles()
    disk = open_disk(tmp_path, files=files)
    files.synced.clear()
    for shard in range(5):
        write(disk, shard)
    assert files.synced.count(tmp_path) == 5
    assert len(list(tmp_path.glob("kept-*"))) == 5
    disk.close()


class GatedFiles(OsFiles):
    """The operating system's files, of which a segment of shard 0 is read once the gate is open."""

    def __init__(self) -> None:
        self.gate, self.is_reading = threading.Event(), threading.Event()

    def read(self, path: Path, limit: int) -> bytes:
        if path.suffix == ".log" and path.parent.name == "shard-00000":
            self.is_reading.set()
            assert self.gate.wait(WAIT_S)
        return super().read(path, limit)


@pytest.mark.parametrize("aside_ms", [None, 77])
def test_a_log_that_is_dropped_while_it_is_opened_is_not_open_after_that(tmp_path: Path, aside_ms: int | None) -> None:
    disk = open_disk(tmp_path)
    write(disk)
    disk.close()
    files, ends = GatedFiles(), list[object]()
    disk = open_disk(tmp_path, files=files)

    def open_it() -> None:
        try:
            ends.append(disk.open_log(0, 0))
        except LogReplacedError as error:
            ends.append(error)

    opener = threading.Thread(target=open_it)
    opener.start()
    assert files.is_reading.wait(WAIT_S)
    disk.drop(0, aside_ms=aside_ms)
    assert disk.open_log(1, 0).end == 0, "others go on"
    files.gate.set()
    opener.join(WAIT_S)
    assert isinstance(ends[0], LogReplacedError)
    with pytest.raises(ValueError, match="has not been recovered"):
        disk.append(0, 30, 9, [b"x"])
    assert disk.open_log(0, 1).end == (30 if aside_ms is None else 0)
    disk.close()


class FailingFiles(OsFiles):
    """The operating system's files, of which a call for a name fails once it is armed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_armed = False

    def create(self, path: Path) -> int:
        if self.is_armed and path.name.startswith(self.name):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().create(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("changing", lambda disk: disk.truncate(0, 17, 1)),
        ("0000", lambda disk: disk.truncate(0, 17, 1)),
        ("incoming.snapshot", lambda disk: disk.install(0, 1, SnapshotPiece(40, 7, (b"s",)))),
        ("0000", lambda disk: disk.install(0, 1, SnapshotPiece(40, 7, (b"s",)))),
    ],
)
def test_a_full_disk_ends_the_log_and_names_the_file_and_the_change_is_finished_later(
    tmp_path: Path, name: str, change: Callable[[ClusterDisk], None]
) -> None:
    seen, files = Seen(), FailingFiles(name)
    disk = open_disk(tmp_path, seen=seen, files=files)
    write(disk)
    files.is_armed = True
    change(disk)
    _, why = seen.wait("failure")
    assert f"cannot write {tmp_path / 'shard-00000' / name}" in str(why) or "cannot create" in str(why)
    assert "No space left on device (ENOSPC). Make room on this file system" in str(why)
    for asked in (
        lambda: disk.append(0, 17, 9, [b"x"]),
        lambda: disk.truncate(0, 3, 2),
        lambda: disk.open_log(0, 3),
        lambda: disk.read(0, 0, 1),
        lambda: disk.drop(0, aside_ms=1),
    ):
        with pytest.raises(DiskError, match="takes nothing more since it failed"):
            asked()
    disk.close()
    assert (seen.of("cut"), seen.of("installed"), len(seen.of("failure"))) == ([], [], 1)
    disk = open_disk(tmp_path)
    is_begun = name == "0000"
    assert disk.open_log(0, 0).end == (30 if not is_begun else 40 if "install" in _named(change) else 17)
    assert not disk.was_stopped_cleanly
    disk.close()


def _named(change: Callable[[ClusterDisk], None]) -> tuple[str, ...]:
    return change.__code__.co_names


@pytest.mark.parametrize("after_reports", [1, 7, 25, 60])
def test_a_process_that_is_killed_while_it_cuts_and_replaces_keeps_a_log_that_opens(
    tmp_path: Path, after_reports: int
) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", _CHANGE, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    assert worker.stdout is not None
    said = [worker.stdout.readline().split() for _ in range(after_reports)]
    worker.send_signal(signal.SIGKILL)
    rest, _ = worker.communicate(timeout=WAIT_S)
    said += [line.split() for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    disk, found = open_disk(tmp_path, 1), Found()
    log = disk.open_log(0, 0)
    disk.load(0, log.end, found)
    disk.close()
    assert all(record == b"%d" % (log.start + at) for at, record in enumerate(found.records))
    assert log.end == log.start + len(found.records)
    kind, end = next((kind, int(end)) for kind, end in reversed(said) if kind in ("durable", "installed"))
    assert (log.start >= end) if kind == "installed" else (log.end >= end - _CUT)


_CUT = 5
_CHANGE = f"""
import os, sys, pathlib, threading
from coordinator.core.log.entry import Batch
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.runtime.disk.disk import ClusterDisk
from coordinator.runtime.disk.log_disk import Reports
from tests.helpers.loading import Found
done = threading.Event()
def say(kind):
    def take(_shard, end, *_):
        os.write(1, f"{{kind}} {{end}}\\n".encode())  # whole, whichever thread says it
        if kind == "installed":
            done.set()
    return take
disk = ClusterDisk.open(pathlib.Path(sys.argv[1]), 1,
    Reports(say("durable"), print, say("snapshot"), say("cut"), say("installed")), new_directory_id="d",
    segment_bytes=4096)
end, number, epoch = disk.open_log(0, 0).end, 0, 1
while True:
    for _ in range(4):
        epoch += 1
        batch = Batch(end, epoch, tuple(b"%d" % (end + at) for at in range(20)))
        disk.append_batches(0, number, [batch])
        end, number = batch.end - {_CUT}, number + 1
        disk.truncate(0, end, number)
    disk.load(0, end, Found())
    end, number = end + 3, number + 1
    for index in range(3):
        disk.install(0, number, SnapshotPiece(end, epoch, (b"state",), index, index == 2))
    done.wait()
    done.clear()
"""
