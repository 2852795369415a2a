"""The promises of `DiskPort`, kept by the real disk and by the fake."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinator.core.log.entry import MAX_BATCH_BYTES, StorageError
from coordinator.core.log.storage import DiskPort, RecoveredShard
from coordinator.runtime.disk.disk import Disk
from tests.helpers.loading import read_shard
from tests.helpers.memory_disk import MemoryDisk

WAIT_S = 60.0


class Harness:
    """A disk, what it reported, and a way to wait for it."""

    def __init__(self, open_disk: Callable[["Harness"], DiskPort], settle: Callable[[DiskPort], None]) -> None:
        self.changed = threading.Condition()
        self.durable: dict[int, list[int]] = {}
        self.failures: list[str] = []
        self._open_disk = open_disk
        self._settle = settle
        self.disk = open_disk(self)

    def on_durable(self, shard: int, end_offset: int, _log_number: int) -> None:
        with self.changed:
            self.durable.setdefault(shard, []).append(end_offset)
            self.changed.notify_all()

    def on_failure(self, message: str) -> None:
        with self.changed:
            self.failures.append(message)
            self.changed.notify_all()

    def wait_durable(self, shard: int, end_offset: int) -> None:
        self._settle(self.disk)
        with self.changed:
            assert self.changed.wait_for(lambda: end_offset in self.durable.get(shard, []), WAIT_S), self.durable

    def reopen(self) -> None:
        self.disk.close()
        self.disk = self._open_disk(self)


@pytest.fixture(params=["real", "memory"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    memory: list[MemoryDisk] = []

    def open_real(harness: Harness) -> DiskPort:
        return Disk.open(
            tmp_path / "data",
            3,
            new_directory_id="d1",
            segment_bytes=4096,
            on_durable=harness.on_durable,
            on_failure=harness.on_failure,
        )

    def open_memory(harness: Harness) -> DiskPort:
        if not memory:
            memory.append(MemoryDisk(3, on_durable=harness.on_durable, on_failure=harness.on_failure))
        else:
            memory[0].restart()
        return memory[0]

    def flush(disk: DiskPort) -> None:
        if isinstance(disk, MemoryDisk):
            disk.flush()

    harness = Harness(open_real if request.param == "real" else open_memory, flush)
    yield harness
    harness.disk.close()


def records(disk: DiskPort, shard: int) -> list[bytes]:
    return read_shard(disk, shard).records


def test_new_shard_is_empty(harness: Harness) -> None:
    assert harness.disk.recover(2) == RecoveredShard(0, 0, 0, ())


def test_append_is_reported_durable_and_found_after_reopening(harness: Harness) -> None:
    harness.disk.recover(0)
    harness.disk.append(0, 0, 7, [b"a", b"b"])
    harness.disk.append(0, 2, 8, [b"c"])
    harness.wait_durable(0, 3)
    harness.reopen()
    found = read_shard(harness.disk, 0)
    assert (found.records, found.shard.log_end_offset, found.shard.leader_epoch) == (
        [b"a", b"b", b"c"],
        3,
        8,
    )
    assert [base_offset for base_offset, _ in found.batches] == [0, 2]
    assert found.shard.notices == ()


def test_durable_ends_only_grow(harness: Harness) -> None:
    harness.disk.recover(0)
    for offset in range(200):
        harness.disk.append(0, offset, 0, [b"%d" % offset])
    harness.wait_durable(0, 200)
    assert harness.durable[0] == sorted(set(harness.durable[0]))


def test_shards_do_not_mix(harness: Harness) -> None:
    for shard in range(3):
        harness.disk.recover(shard)
        harness.disk.append(shard, 0, 0, [b"shard %d" % shard])
    for shard in range(3):
        harness.wait_durable(shard, 1)
    harness.reopen()
    assert [records(harness.disk, shard) for shard in range(3)] == [
        [b"shard 0"],
        [b"shard 1"],
        [b"shard 2"],
    ]


def test_close_makes_durable_what_was_appended(harness: Harness) -> None:
    harness.disk.recover(1)
    harness.disk.append(1, 0, 0, [b"last"])
    harness.reopen()
    assert harness.durable[1] == [1]
    assert records(harness.disk, 1) == [b"last"]


def test_recovering_a_live_shard_includes_what_was_on_its_way(harness: Harness) -> None:
    harness.disk.recover(0)
    harness.disk.append(0, 0, 0, [b"a"])
    assert records(harness.disk, 0) == [b"a"]
    harness.disk.append(0, 1, 0, [b"b"])
    assert records(harness.disk, 0) == [b"a", b"b"]


def test_log_longer_than_many_segments(harness: Harness) -> None:
    harness.disk.recover(0)
    expected = [b"%d:" % number + bytes(300) for number in range(100)]
    for number, record in enumerate(expected):
        harness.disk.append(0, number, 0, [record])
        harness.wait_durable(0, number + 1)
    harness.reopen()
    assert records(harness.disk, 0) == expected


def test_batch_larger_than_a_segment(harness: Harness) -> None:
    harness.disk.recover(0)
    large = bytes(range(256)) * 64
    for number in range(3):
        harness.disk.append(0, number, 0, [large])
        harness.wait_durable(0, number + 1)
    harness.reopen()
    assert records(harness.disk, 0) == [large] * 3


def test_snapshot_replaces_the_log_below_it(harness: Harness) -> None:
    harness.disk.recover(0)
    harness.disk.append(0, 0, 3, [b"a", b"b", b"c"])
    harness.disk.write_snapshot(0, 2, 3, [b"ab"])
    harness.wait_durable(0, 3)
    harness.reopen()
    found = read_shard(harness.disk, 0)
    assert found.snapshot == (2, (b"ab",))
    assert found.batches == [(2, (b"c",))]
    assert found.shard == RecoveredShard(2, 3, 3, ())


def test_snapshot_in_pieces_counts_once_the_last_one_is_written(harness: Harness) -> None:
    harness.disk.recover(0)
    harness.disk.append(0, 0, 0, [b"a", b"b", b"c"])
    pieces = [[b"a"], [], [bytes(70_000)], [b"c"]]
    for index, piece in enumerate(pieces[:-1]):
        harness.disk.write_snapshot(0, 3, 0, piece, index=index, is_last=False)
    harness.reopen()
    assert (read_shard(harness.disk, 0).snapshot, records(harness.disk, 0)) == (None, [b"a", b"b", b"c"])
    for index, piece in enumerate(pieces):
        harness.disk.write_snapshot(0, 3, 0, piece, index=index, is_last=index == 3)
    harness.reopen()
    found = read_shard(harness.disk, 0)
    assert (found.snapshot, found.pieces, found.records) == ((3, (b"a", bytes(70_000), b"c")), 4, [])


def test_snapshot_that_is_begun_again_takes_the_place_of_the_pieces_there_are(harness: Harness) -> None:
    harness.disk.recover(0)
    harness.disk.append(0, 0, 0, [b"a", b"b"])
    harness.disk.write_snapshot(0, 1, 0, [b"a"], is_last=False)
    harness.wait_durable(0, 2)
    harness.disk.write_snapshot(0, 2, 0, [b"a"], is_last=False)
    harness.disk.write_snapshot(0, 2, 0, [b"b"], index=1)
    harness.reopen()
    assert read_shard(harness.disk, 0).snapshot == (2, (b"a", b"b"))


@pytest.mark.parametrize(("end_offset", "index"), [(2, 2), (1, 1), (2, 0x7FFFFFFF)])
def test_piece_that_does_not_continue_the_one_before_it_is_refused(
    harness: Harness, end_offset: int, index: int
) -> None:
    harness.disk.recover(0)
    harness.disk.append(0, 0, 0, [b"a", b"b"])
    harness.disk.write_snapshot(0, 2, 0, [b"a"], is_last=False)
    with pytest.raises(ValueError, match="but piece 1 of the one at 2 was next"):
        harness.disk.write_snapshot(0, end_offset, 0, [b"b"], index=index)


def test_pieces_of_a_snapshot_that_a_recovery_gave_up_are_let_go(harness: Harness) -> None:
    harness.disk.recover(0)
    harness.disk.append(0, 0, 0, [b"a", b"b"])
    harness.disk.write_snapshot(0, 2, 0, [b"a"], is_last=False)
    harness.disk.recover(0)
    harness.disk.write_snapshot(0, 2, 0, [b"b"], index=1)
    harness.reopen()
    assert (read_shard(harness.disk, 0).snapshot, records(harness.disk, 0)) == (None, [b"a", b"b"])


def test_older_snapshot_does_not_replace_a_newer_one(harness: Harness) -> None:
    harness.disk.recover(0)
    harness.disk.append(0, 0, 0, [b"a", b"b"])
    harness.disk.write_snapshot(0, 2, 0, [b"new"])
    harness.reopen()
    harness.disk.recover(0)
    harness.disk.write_snapshot(0, 1, 0, [b"old"])
    harness.reopen()
    assert read_shard(harness.disk, 0).snapshot == (2, (b"new",))


@pytest.mark.parametrize(
    ("base_offset", "leader_epoch", "appended", "message"),
    [
        (1, 5, [b"x"], "append at offset 1, but the log ends at 2"),
        (3, 5, [b"x"], "append at offset 3, but the log ends at 2"),
        (2, 4, [b"x"], "leader epoch 4 is smaller than 5"),
        (2, 5, [], "at least one record"),
        (2, 5, [bytes(MAX_BATCH_BYTES)], "passes the limit of a frame"),
    ],
)
def test_append_that_does_not_continue_the_log_is_refused(
    harness: Harness, base_offset: int, leader_epoch: int, appended: list[bytes], message: str
) -> None:
    harness.disk.recover(0)
    harness.disk.append(0, 0, 5, [b"a", b"b"])
    with pytest.raises(ValueError, match=message):
        harness.disk.append(0, base_offset, leader_epoch, appended)
    harness.disk.append(0, 2, 5, [b"c"])
    harness.wait_durable(0, 3)


def test_append_that_is_longer_than_a_frame_is_all_there_after_a_restart(harness: Harness) -> None:
    harness.disk.recover(0)
    appended = [bytes([number]) * (MAX_BATCH_BYTES // 2) for number in range(3)]
    harness.disk.append(0, 0, 5, appended)
    harness.wait_durable(0, 3)
    harness.reopen()
    assert records(harness.disk, 0) == appended


def test_append_before_recovery_is_refused(harness: Harness) -> None:
    with pytest.raises(ValueError, match="shard 0 has not been recovered"):
        harness.disk.append(0, 0, 0, [b"a"])


def test_snapshot_past_the_end_is_refused(harness: Harness) -> None:
    harness.disk.recover(0)
    with pytest.raises(ValueError, match="past the end of the log"):
        harness.disk.write_snapshot(0, 1, 0, [b"a"])


def test_closed_disk_takes_nothing_and_closes_again(harness: Harness) -> None:
    harness.disk.recover(0)
    harness.disk.close()
    harness.disk.close()
    with pytest.raises(StorageError, match="closed"):
        harness.disk.append(0, 0, 0, [b"a"])


def test_nothing_is_pending_once_durable(harness: Harness) -> None:
    harness.disk.recover(0)
    harness.disk.append(0, 0, 0, [b"a"])
    harness.disk.recover(0)
    assert harness.disk.pending_bytes == 0
