"""The promises of `DiskPort` and `ClusterDirectory` to a node of a cluster: by the real disk, by the fake, and by one
that loses power at every call."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.core.log.entry import Batch, StorageError
from coordinator.core.log.meta import ClusterMemory, DirectoryMeta, Membership
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.log.storage import LogReplacedError, OpenedLog, SnapshotPart
from coordinator.runtime.disk.disk import ClusterDisk
from coordinator.runtime.disk.log_disk import Reports
from tests.helpers.crashing_disk import CrashingDisk
from tests.helpers.loading import Found
from tests.helpers.memory_disk import MemoryClusterDisk

WAIT_S = 60.0


class Harness:
    """A disk, everything that it reported in its order, and a way to wait for it."""

    def __init__(self, kind: str, data_dir: Path) -> None:
        self.changed = threading.Condition()
        self.reports: list[tuple[Any, ...]] = []
        self._kind = kind
        self._data_dir = data_dir
        self._memory: MemoryClusterDisk | None = None
        self.disk = self._open()

    def _open(self) -> ClusterDisk | MemoryClusterDisk:
        reports = {name: self._taken(name) for name in ("durable", "failure", "snapshot", "cut", "installed")}
        given: dict[str, Callable[..., None]] = {f"on_{name}": report for name, report in reports.items()}
        if self._kind == "real":
            return ClusterDisk.open(
                self._data_dir, 2, Reports(**given), new_directory_id="d1", segment_bytes=4096, wait_s=WAIT_S
            )
        if self._memory is None:
            self._memory = MemoryClusterDisk(2, **given) if self._kind == "memory" else CrashingDisk(2, **given)
        else:
            self._memory.restart()
        return self._memory

    def _taken(self, name: str) -> Callable[..., None]:
        def take(*said: Any) -> None:
            with self.changed:
                self.reports.append((name, *said))
                self.changed.notify_all()

        return take

    def wait(self, *report: Any) -> None:
        """Wait for a report, such as ("durable", shard, end_offset, log_number)."""
        if isinstance(self.disk, MemoryClusterDisk):
            self.disk.flush()
        with self.changed:
            assert self.changed.wait_for(lambda: report in self.reports, WAIT_S), self.reports

    def reopen(self) -> None:
        self.disk.close()
        self.disk = self._open()

    def append(self, shard: int, *batches: Batch, number: int = 0) -> None:
        self.disk.append_batches(shard, number, batches)

    def found(self, shard: int, number: int = 0) -> tuple[OpenedLog, tuple[int, tuple[bytes, ...]] | None, list[bytes]]:
        """Open and load a log; returns it with its snapshot and the records after it."""
        log, found = self.disk.open_log(shard, number), Found()
        self.disk.load(shard, log.end, found)
        return replace(log, notices=()), found.snapshot, found.records


@pytest.fixture(params=["real", "memory", "crashing"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(request.param, tmp_path / "data")
    yield harness
    harness.disk.close()
    if isinstance(harness.disk, CrashingDisk):
        assert harness.disk.crashes > 0


def records(number: int, first: int = 0, size: int = 300) -> tuple[bytes, ...]:
    return tuple(b"%d " % (first + at) + bytes(size) for at in range(number))


LONG = [Batch(0, 1, records(10)), Batch(10, 2, records(10, 10)), Batch(20, 4, records(10, 20))]
"""Segments of 4 KiB hold about twelve of these."""
EPOCHS = ((1, 0), (2, 10), (4, 20))


def write_long(harness: Harness, shard: int = 0) -> None:
    harness.disk.open_log(shard, 0)
    for batch in LONG:
        harness.append(shard, batch)
        harness.wait("durable", shard, batch.end, 0)


def piece(end: int, index: int = 0, *, is_last: bool = True) -> SnapshotPiece:
    return SnapshotPiece(end, 7, (b"state %d" % index, bytes(2000)), index, is_last)


def install(harness: Harness, shard: int, end: int, number: int) -> None:
    for index in range(3):
        harness.disk.install(shard, number, piece(end, index, is_last=index == 2))
    harness.wait("installed", shard, end, 7, number)


INSTALLED = tuple(record for index in range(3) for record in piece(0, index).records)


# ---- opened --------------------------------------------------------------------------------------------------------


def test_a_log_that_is_opened_first_is_empty_and_there_from_then_on(harness: Harness) -> None:
    assert harness.disk.shards() == ()
    assert harness.disk.open_log(7, 3) == OpenedLog(0, 0, (), 3)
    assert harness.disk.shards() == (7,)
    harness.reopen()
    assert harness.disk.shards() == (7,)


def test_a_log_is_found_with_its_end_and_epochs(harness: Harness) -> None:
    write_long(harness)
    harness.reopen()
    log, snapshot, found = harness.found(0, number=5)
    assert (log, snapshot, found) == (OpenedLog(0, 30, EPOCHS, 5), None, [*records(30)])


def test_a_log_that_is_open_gets_another_number_and_keeps_what_it_has(harness: Harness) -> None:
    harness.disk.open_log(0, 0)
    harness.append(0, Batch(0, 1, (b"a",)))
    assert harness.disk.open_log(0, 4) == OpenedLog(0, 1, ((1, 0),), 4)
    harness.append(0, Batch(1, 1, (b"b",)), number=4)
    harness.wait("durable", 0, 2, 4)


def test_batches_of_another_log_or_that_do_not_continue_it_are_refused(harness: Harness) -> None:
    harness.disk.open_log(0, 0)
    harness.append(0, Batch(0, 2, (b"a",)))
    for number, batch in ((1, Batch(1, 2, (b"b",))), (0, Batch(2, 2, (b"b",))), (0, Batch(1, 1, (b"b",)))):
        with pytest.raises(ValueError, match="shard 0"):
            harness.append(0, batch, number=number)
    with pytest.raises(ValueError, match="shard 1 has not been recovered"):
        harness.append(1, Batch(0, 1, (b"a",)))
    harness.append(0, Batch(1, 2, (b"b",)), Batch(2, 5, (b"c",)))
    harness.wait("durable", 0, 3, 0)


# ---- cut -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [0, 5, 10, 15, 29])
def test_what_is_cut_is_gone_and_the_log_goes_on_there(harness: Harness, end: int) -> None:
    write_long(harness)
    harness.disk.truncate(0, end, 1)
    harness.append(0, Batch(end, 9, (b"x", b"y")), number=1)
    harness.wait("cut", 0, 1)
    harness.wait("durable", 0, end + 2, 1)
    assert harness.reports.index(("durable", 0, end, 1)) < harness.reports.index(("cut", 0, 1))
    harness.reopen()
    epochs = tuple(mark for mark in EPOCHS if mark[1] < end)
    assert harness.found(0) == (OpenedLog(0, end + 2, (*epochs, (9, end)), 0), None, [*records(end), b"x", b"y"])


def test_a_log_that_is_cut_takes_records_of_the_epoch_before(harness: Harness) -> None:
    write_long(harness)
    harness.disk.truncate(0, 15, 1)
    with pytest.raises(ValueError, match="leader epoch 1 is smaller than 2"):
        harness.append(0, Batch(15, 1, (b"x",)), number=1)
    harness.append(0, Batch(15, 2, (b"x",)), Batch(16, 3, (b"y",)), number=1)
    harness.wait("durable", 0, 17, 1)
    harness.reopen()
    assert harness.disk.open_log(0, 0) == OpenedLog(0, 17, ((1, 0), (2, 10), (3, 16)), 0)


def test_what_waits_above_a_cut_is_not_written(harness: Harness) -> None:
    harness.disk.open_log(0, 0)
    harness.append(0, Batch(0, 1, (b"a", b"b")), Batch(2, 2, (b"c",)))
    harness.disk.truncate(0, 1, 1)
    harness.append(0, Batch(1, 3, (b"x",)), number=1)
    harness.disk.truncate(0, 1, 2)
    harness.append(0, Batch(1, 4, (b"y",)), number=2)
    harness.wait("durable", 0, 2, 2)
    assert [report for report in harness.reports if report[0] == "cut"] == [("cut", 0, 1), ("cut", 0, 2)]
    harness.reopen()
    assert harness.found(0) == (OpenedLog(0, 2, ((1, 0), (4, 1)), 0), None, [b"a", b"y"])


def test_a_cut_of_what_was_committed_or_is_not_there_is_refused(harness: Harness) -> None:
    write_long(harness)
    harness.disk.write_snapshot(0, 15, 4, [b"s"])
    with pytest.raises(ValueError, match="snapshot"):
        harness.disk.truncate(0, 14, 1)
    harness.wait("snapshot", 0, 15, True, 0)
    with pytest.raises(ValueError, match="a snapshot stands for all below 15"):
        harness.disk.truncate(0, 14, 1)
    with pytest.raises(ValueError, match="the log ends at 30"):
        harness.disk.truncate(0, 30, 1)
    harness.disk.truncate(0, 15, 1)
    harness.wait("cut", 0, 1)
    harness.reopen()
    assert harness.found(0) == (OpenedLog(15, 15, ((2, 14),), 0), (15, (b"s",)), [])


# ---- replaced ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [12, 30, 500])
def test_a_snapshot_takes_the_place_of_the_log(harness: Harness, end: int) -> None:
    write_long(harness)
    install(harness, 0, end, 1)
    harness.append(0, Batch(end, 7, (b"x",)), Batch(end + 1, 8, (b"y",)), number=1)
    harness.wait("durable", 0, end + 2, 1)
    harness.reopen()
    log = OpenedLog(end, end + 2, ((7, end - 1), (8, end + 1)), 0)
    assert harness.found(0) == (log, (end, INSTALLED), [b"x", b"y"])


def test_a_log_that_has_a_snapshot_is_replaced_and_replaced_again(harness: Harness) -> None:
    write_long(harness)
    harness.disk.write_snapshot(0, 25, 4, [b"s"])
    harness.wait("snapshot", 0, 25, True, 0)
    install(harness, 0, 40, 1)
    install(harness, 0, 41, 2)
    harness.reopen()
    assert harness.found(0) == (OpenedLog(41, 41, ((7, 40),), 0), (41, INSTALLED), [])


def test_a_replacement_that_is_given_up_or_not_whole_leaves_the_log_as_it_was(harness: Harness) -> None:
    write_long(harness)
    for how in ("given up", "not whole"):
        harness.disk.install(0, 1, piece(40, is_last=False))
        harness.append(0, Batch(30, 4, (how.encode(),))) if how == "given up" else None
        harness.wait("durable", 0, 31, 0)
        if how == "given up":
            harness.disk.give_up_install(0)
            harness.disk.install(0, 1, piece(40, 1))
    harness.reopen()
    assert harness.found(0) == (OpenedLog(0, 31, EPOCHS, 0), None, [*records(30), b"given up"])
    assert not [report for report in harness.reports if report[0] == "installed"]


def test_nothing_is_appended_while_a_log_is_replaced(harness: Harness) -> None:
    write_long(harness)
    harness.append(0, Batch(30, 4, (b"waits",)))
    harness.disk.install(0, 1, piece(40))
    harness.disk.give_up_install(0)
    if not isinstance(harness.disk, ClusterDisk):
        with pytest.raises(ValueError, match="has not been recovered"):
            harness.append(0, Batch(31, 4, (b"x",)))
    harness.wait("installed", 0, 40, 7, 1)
    with pytest.raises(ValueError, match="with number 0, but it has 1"):
        harness.append(0, Batch(31, 4, (b"x",)))


# ---- dropped -------------------------------------------------------------------------------------------------------


def test_a_log_that_is_moved_aside_is_gone_until_it_is_made_anew(harness: Harness) -> None:
    write_long(harness)
    write_long(harness, 3)
    harness.append(0, Batch(30, 4, (b"waits",)))
    harness.disk.drop(0, aside_ms=1000)
    assert harness.disk.open_log(0, 1) == OpenedLog(0, 0, (), 1)
    harness.append(0, Batch(0, 9, (b"new",)), number=1)
    harness.wait("durable", 0, 1, 1)
    harness.disk.drop(0, aside_ms=1000)
    assert harness.disk.delete_aside(1000) == ()
    harness.reopen()
    assert harness.disk.shards() == (3,)
    assert harness.disk.delete_aside(1001) == ("aside-00000-1000",)
    assert harness.disk.delete_aside(1002) == ("aside-00000-1001",)
    assert harness.disk.delete_aside(10**15) == ()
    assert harness.found(3)[2] == [*records(30)]


def test_a_log_that_is_closed_keeps_what_waited_and_takes_nothing(harness: Harness) -> None:
    write_long(harness)
    harness.append(0, Batch(30, 4, (b"waits",)))
    harness.disk.write_snapshot(0, 10, 4, [b"never whole"], is_last=False)
    harness.disk.drop(0, aside_ms=None)
    with pytest.raises(ValueError, match="has not been recovered"):
        harness.append(0, Batch(31, 4, (b"x",)))
    with pytest.raises(LogReplacedError):
        harness.disk.load(0, 30, Found())
    assert harness.found(0, number=2) == (OpenedLog(0, 31, EPOCHS, 2), None, [*records(30), b"waits"])


def test_a_log_that_is_dropped_while_it_is_replaced_is_moved_aside(harness: Harness) -> None:
    write_long(harness)
    harness.disk.install(0, 1, piece(40))
    harness.disk.drop(0, aside_ms=5)
    assert harness.disk.open_log(0, 2) == OpenedLog(0, 0, (), 2)
    assert harness.disk.shards() == (0,)


def test_a_log_that_was_never_opened_is_moved_aside_as_well(harness: Harness) -> None:
    write_long(harness)
    harness.reopen()
    harness.disk.drop(0, aside_ms=5)
    harness.disk.drop(1, aside_ms=5)
    harness.reopen()
    assert harness.disk.shards() == ()
    assert harness.disk.delete_aside(6) == ("aside-00000-5",)


# ---- read ----------------------------------------------------------------------------------------------------------


def test_records_are_read_from_any_offset_in_parts(harness: Harness) -> None:
    write_long(harness)
    for from_offset in (0, 7, 12, 29):
        found: list[bytes] = []
        while batches := harness.disk.read(0, from_offset + len(found), 1000):
            assert batches[0].base_offset == from_offset + len(found)
            found += [record for batch in batches for record in batch.records]
        assert found == [*records(30)][from_offset:]
    assert harness.disk.read(0, 19, 10**6) == (Batch(19, 2, records(1, 19)), LONG[2])


def test_what_a_snapshot_stands_for_is_not_read(harness: Harness) -> None:
    write_long(harness)
    install(harness, 0, 40, 1)
    assert harness.disk.read(0, 39, 1000) is None
    assert harness.disk.read(0, 40, 1000) == ()
    with pytest.raises(LogReplacedError):
        harness.disk.read(1, 0, 1000)


def test_a_log_is_read_as_it_is_after_a_cut_that_was_just_asked_for(harness: Harness) -> None:
    write_long(harness)
    harness.disk.truncate(0, 18, 1)
    assert harness.disk.read(0, 17, 10**6) == (Batch(17, 2, records(1, 17)),)


def test_a_log_is_loaded_up_to_an_end_while_it_grows(harness: Harness) -> None:
    write_long(harness)
    harness.disk.write_snapshot(0, 15, 4, [b"s"])
    harness.wait("snapshot", 0, 15, True, 0)
    found = Found()
    harness.disk.load(0, 22, found)
    assert (found.snapshot, found.records) == ((15, (b"s",)), [*records(7, 15)])
    harness.append(0, Batch(30, 4, (b"x",)))
    harness.wait("durable", 0, 31, 0)
    with pytest.raises(ValueError, match="snapshot"):
        harness.disk.load(0, 14, Found())


def test_a_snapshot_is_read_piece_by_piece_and_installed_elsewhere(harness: Harness) -> None:
    write_long(harness)
    assert harness.disk.read_snapshot(0, None, 0) is None
    for index in range(3):
        made = piece(25, index, is_last=index == 2)
        harness.disk.write_snapshot(0, 25, 6, made.records, index=index, is_last=made.is_last)
    harness.wait("snapshot", 0, 25, True, 0)
    end, position, parts = None, 0, list[SnapshotPart]()
    harness.disk.open_log(1, 0)
    while not parts or not parts[-1].piece.is_last:
        part = harness.disk.read_snapshot(0, end, position)
        assert part is not None
        parts.append(part)
        end, position = part.piece.end_offset, part.next_position
        harness.disk.install(1, 1, part.piece)
    assert [part.piece.leader_epoch for part in parts] == [4, 4, 4], "that of the last record, not of the making"
    harness.wait("installed", 1, 25, 4, 1)
    assert harness.found(1, number=1) == (OpenedLog(25, 25, ((4, 24),), 1), (25, INSTALLED), [])
    assert harness.disk.read_snapshot(0, 25, position + 1) is None
    assert harness.disk.read_snapshot(0, 24, 0) is None
    assert harness.disk.read_snapshot(5, None, 0) is None


# ---- the directory -------------------------------------------------------------------------------------------------


def test_a_directory_knows_its_cluster_its_starts_and_what_it_has_obeyed(harness: Harness) -> None:
    disk = harness.disk
    assert disk.meta == DirectoryMeta(0, "d1", Membership(2, "", 1))
    assert (disk.is_new, disk.memory.controller_epoch, disk.was_stopped_cleanly) == (True, 0, True)
    disk.join_cluster("c7", 50)
    disk.remember(3)
    disk.remember(3)
    disk.remember(5)
    disk.remember_seen(4, {0: 7, 11: 3})
    with pytest.raises(ValueError, match="controller epoch 4, but 5 was obeyed"):
        disk.remember(4)
    with pytest.raises(ValueError, match="belongs to cluster c7, not to c8"):
        disk.join_cluster("c8", 50)
    write_long(harness)
    harness.reopen()
    disk = harness.disk
    assert disk.meta == DirectoryMeta(50, "d1", Membership(2, "c7", 2))
    assert (disk.is_new, disk.was_stopped_cleanly) == (False, True)
    assert disk.memory == ClusterMemory(5, 4, {0: 7, 11: 3})
    disk.remember(6)
    assert disk.memory == ClusterMemory(6, 4, {0: 7, 11: 3})
    disk.remember_seen(4, {0: 8}, {11})
    assert disk.memory == ClusterMemory(6, 4, {0: 8}, frozenset({11}))
    disk.remember_seen(4, {0: 8}, {11}, 5)
    assert disk.memory == ClusterMemory(6, 4, {0: 8}, frozenset({11}), 5)
    disk.remember(7)
    assert disk.memory == ClusterMemory(7, 4, {0: 8}, frozenset({11}), 5)


def test_a_log_that_is_damaged_counts_as_damaged_until_that_was_told(harness: Harness) -> None:
    write_long(harness)
    harness.disk.move_damaged_aside(0, 77)
    harness.reopen()
    assert (harness.disk.damaged, harness.disk.shards()) == (frozenset({0}), ())
    assert harness.disk.delete_aside(10**15) == ()
    harness.disk.open_log(0, 0)
    assert harness.disk.damaged == frozenset({0})
    harness.disk.damage_was_told()
    harness.reopen()
    assert harness.disk.damaged == frozenset()
    assert harness.disk.delete_aside(10**15) == ("aside-00000-77",)


def test_a_log_that_was_dropped_or_moved_aside_is_not_missing(harness: Harness) -> None:
    write_long(harness)
    write_long(harness, 1)
    harness.disk.open_log(2, 0)
    harness.disk.drop(0, aside_ms=70)
    harness.disk.move_damaged_aside(1, 77)
    assert harness.disk.open_log(0, 1) == OpenedLog(0, 0, (), 1)
    harness.disk.drop(0, aside_ms=80)
    harness.reopen()
    assert (harness.disk.shards(), harness.disk.missing, harness.disk.damaged) == ((2,), frozenset(), frozenset({1}))
    harness.disk.damage_was_told()
    assert harness.disk.damaged == frozenset()


def test_a_disk_that_is_closed_takes_nothing(harness: Harness) -> None:
    write_long(harness)
    harness.disk.close()
    for asked in (
        lambda: harness.disk.open_log(0, 0),
        lambda: harness.disk.truncate(0, 3, 1),
        lambda: harness.disk.install(0, 1, piece(40)),
        lambda: harness.disk.drop(0, aside_ms=1),
        lambda: harness.disk.read(0, 0, 1),
    ):
        with pytest.raises(StorageError, match="closed"):
            asked()
