"""The disk of a simulated node ends in the middle of what it was at, and keeps what it has reported."""

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from coordinator.core.cluster_node.events import LogSynced
from coordinator.core.events import DiskFailed
from coordinator.core.log.entry import Batch, StorageError
from coordinator.core.log.snapshot import SnapshotPiece
from tests.sim.cluster.disk import FAILING, Disk, Log
from tests.sim.log.state import ViolationError

EACH_WAY = pytest.mark.parametrize("loses_power", [True, False])
RECORD = b"%d" + b"-" * 900


def written(ends: int) -> Disk:
    """Return a disk with a log of so many records, each batch of two."""
    disk = Disk(1, "d")
    disk.start()
    disk.open_log(0, 0)
    for offset in range(0, ends, 2):
        disk.append(0, Batch(offset, 1, (RECORD % offset, RECORD % (offset + 1))))
        disk.work(1)
    return disk


def found_after(do: Callable[[Disk], None], *, loses_power: bool, ends: int = 8) -> set[tuple[int, int]]:
    """Return begin and end of the logs that are found when the process ends after something was asked for."""
    found = set()
    for seed in range(60):
        disk = written(ends)
        do(disk)
        disk.end(Random(seed), loses_power=loses_power)
        (log,) = disk.start().values()
        assert disk.stable[0].end == log.end
        found.add((log.start, log.end))
    return found


@EACH_WAY
def test_of_appends_a_part_from_the_begin_is_there(loses_power: bool) -> None:
    def append(disk: Disk) -> None:
        disk.append(0, Batch(8, 1, (b"a", b"b")))
        disk.work(1)
        disk.append(0, Batch(10, 1, (b"c", b"d")))

    assert found_after(append, loses_power=loses_power) == {(0, 10), (0, 12)}


@EACH_WAY
def test_a_log_is_found_cut_or_not(loses_power: bool) -> None:
    assert found_after(lambda disk: disk.truncate(0, 3, 1), loses_power=loses_power) == {(0, 8), (0, 3)}


@EACH_WAY
def test_a_log_is_found_replaced_or_not(loses_power: bool) -> None:
    def install(disk: Disk) -> None:
        for index in range(2):
            disk.install(0, 1, SnapshotPiece(20, 5, (b"state",), index, index == 1))

    assert found_after(install, loses_power=loses_power) == {(0, 8), (20, 20)}


def test_what_is_on_disk_is_what_was_reported() -> None:
    disk, reports = written(4), []
    disk.report = reports.append
    disk.append(0, Batch(4, 3, (b"a",)))
    assert (disk.log(0).end, disk.stable[0].end) == (5, 4)
    disk.work(1)
    assert reports == [LogSynced(0, 5, 0)]
    assert disk.stable[0] == disk.log(0)
    assert disk.stable[0].at(4) == (3, b"a")


def test_what_was_cut_is_not_taken_for_what_came_in_its_place() -> None:
    disk = written(4)
    disk.truncate(0, 2, 1)
    disk.append(0, Batch(2, 3, (b"a",)))
    assert disk.load(0, 1, 3) is None, "what is on disk there is of the log before"
    disk.work(1)
    found = disk.load(0, 1, 3)
    assert found is not None
    assert found.records[2:] == [b"a"]


def test_a_disk_that_has_lost_what_it_reported_is_found_out() -> None:
    disk = written(4)
    disk.stable[0] = disk.open[0].log = disk.stable[0].appended((Batch(4, 1, (b"never written",)),))
    disk.end(Random(1), loses_power=True)
    with pytest.raises(ViolationError, match="DiskKeeps"):
        disk.start()


def test_a_damaged_log_is_moved_aside_and_told_of() -> None:
    disk = written(8)
    disk.end(Random(1), loses_power=True)
    assert disk.damage(Random(1)).keys() == {0}
    assert disk.start() == {}
    assert (disk.disk.damaged, disk.stable) == ({0}, {})


@pytest.mark.parametrize("call", sorted(set(FAILING)))
@EACH_WAY
def test_a_disk_that_fails_a_call_says_so_and_keeps_what_it_has_reported(call: str, loses_power: bool) -> None:
    disk, reports = written(4), []
    disk.report = reports.append
    disk.fail(call, 0, at_start=False)
    with suppress(StorageError):
        for offset in range(4, 40, 2):
            disk.append(0, Batch(offset, 1, (RECORD % offset, RECORD % (offset + 1))))
            disk.work(1)
    end = disk.stable[0].end
    assert [type(report) for report in reports] == [LogSynced] * ((end - 4) // 2) + [DiskFailed] * bool(disk.failed)
    disk.end(Random(1), loses_power=loses_power)
    assert disk.start()[0].end >= end


def test_a_start_whose_disk_fails_a_call_changes_nothing_for_the_next_one() -> None:
    disk = written(8)
    before = disk.stable[0]
    disk.end(Random(1), loses_power=False)
    disk.fail("sync", 0, at_start=True)
    with pytest.raises(StorageError):
        disk.start()
    assert disk.failed == "sync"
    disk.end(Random(1), loses_power=True)
    disk.start()
    assert (disk.failed, disk.stable[0]) == ("", before)


def test_a_copy_that_is_put_back_has_what_was_there_and_an_older_count_of_starts() -> None:
    disk = written(4)
    copy = disk.copied()
    disk.append(0, Batch(4, 1, (b"a",)))
    disk.work(1)
    for _ in range(2):
        disk.end(Random(1), loses_power=False)
        disk.start()
    disk.end(Random(1), loses_power=False)
    assert disk.put_back(copy)[0].end == 5
    assert disk.start()[0].end == 4
    assert disk.stable[0] == Log(0, disk.stable[0].records)
    place = disk.disk.meta.membership
    assert place is not None
    assert place.starts == 2
