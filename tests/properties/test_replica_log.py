"""Logs that are appended to, cut, replaced and dropped in any order, with the power going at every call of the files.

`CrashingDisk` looks at each call whether a log that loses power there opens as it was or as it was to be. The mistakes
that are planted here show that it sees them.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from coordinator.core.log import cutting
from coordinator.core.log.cutting import Change, DeleteFile, FileChange, PutFile, begun
from coordinator.core.log.entry import Batch
from coordinator.core.log.snapshot import SnapshotPiece, encode_piece
from coordinator.runtime.disk import log_changes, segment_files
from coordinator.runtime.disk.files import Files
from coordinator.runtime.disk.log_files import LogFiles
from coordinator.runtime.disk.snapshot_files import SnapshotWriter
from tests.helpers.crashing_disk import CrashingDisk
from tests.helpers.loading import Found

SHARDS = 2


class Walk:
    """Whatever a replica may ask of its disk, by the dice."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.disk = CrashingDisk(1, on_durable=self.durable, on_failure=self.failed, on_installed=self.done, seed=seed)
        self.numbers = dict.fromkeys(range(SHARDS), 0)
        self.ends: dict[int, int | None] = dict.fromkeys(range(SHARDS))
        self.starts = dict.fromkeys(range(SHARDS), 0)
        self.epoch = 1

    def durable(self, shard: int, end: int, number: int) -> None:
        known = self.ends[shard]
        assert number != self.numbers[shard] or known is None or end <= known

    def failed(self, why: str) -> None:
        raise AssertionError(why)

    def done(self, *_: int) -> None:
        """Take note of nothing: a flush is over when everything is done."""

    def take_steps(self, steps: int) -> None:
        for _ in range(steps):
            shard = self.dice.randrange(SHARDS)
            end = self.ends[shard]
            if end is None:
                log = self.disk.open_log(shard, self.numbers[shard])
                self.starts[shard], self.ends[shard] = log.start, log.end
            else:
                self.dice.choices(
                    [self.append, self.cut, self.snapshot, self.install, self.drop, self.flush, self.restart],
                    [8, 4, 2, 2, 1, 4, 1],
                )[0](shard, end)
        self.restart(0, 0)

    def append(self, shard: int, end: int) -> None:
        batches = []
        for _ in range(self.dice.randint(1, 3)):
            self.epoch += self.dice.random() < 0.2
            size = self.dice.choice([1, 40, 700, 3000])
            records = tuple(b"%d" % self.dice.randrange(10**6) + bytes(size) for _ in range(self.dice.randint(1, 3)))
            batches.append(Batch(end, self.epoch, records))
            end += len(records)
        self.disk.append_batches(shard, self.numbers[shard], batches)
        self.ends[shard] = end

    def cut(self, shard: int, end: int) -> None:
        self.disk.flush() if self.dice.random() < 0.5 else None
        if end > self.starts[shard]:
            self.numbers[shard] += 1
            self.ends[shard] = self.dice.randrange(self.starts[shard], end)
            self.disk.truncate(shard, self.ends[shard] or 0, self.numbers[shard])
            self.epoch += 1

    def snapshot(self, shard: int, end: int) -> None:
        if end > self.starts[shard]:
            at = self.dice.randint(self.starts[shard] + 1, end)
            pieces = self.dice.randint(1, 3)
            for index in range(pieces):
                state = [b"own %d" % index + bytes(900)]
                self.disk.write_snapshot(shard, at, self.epoch, state, index=index, is_last=index + 1 == pieces)
            self.disk.flush()
            self.starts[shard] = at

    def install(self, shard: int, end: int) -> None:
        self.epoch += 1
        at = max(1, end + self.dice.randint(-5, 5))
        pieces, is_whole = self.dice.randint(1, 3), self.dice.random() < 0.8
        if at <= self.starts[shard]:
            return
        self.numbers[shard] += is_whole
        for index in range(pieces):
            piece = SnapshotPiece(
                at, self.epoch, (b"piece %d" % index, bytes(900)), index, is_whole and index + 1 == pieces
            )
            self.disk.install(shard, self.numbers[shard], piece)
        if is_whole:
            self.disk.flush()
            self.starts[shard], self.ends[shard] = at, at
        elif self.dice.random() < 0.5:
            self.disk.give_up_install(shard)

    def drop(self, shard: int, _end: int) -> None:
        self.disk.drop(shard, aside_ms=self.dice.choice([None, 1]))
        self.numbers[shard] += 1
        self.ends[shard] = None

    def flush(self, _shard: int, _end: int) -> None:
        self.disk.flush()

    def restart(self, _shard: int, _end: int) -> None:
        self.disk.close()
        self.disk.restart()
        for shard, end in self.ends.items():
            if end is not None:
                log, found = self.disk.open_log(shard, self.numbers[shard]), Found()
                assert (log.start, log.end) == (self.starts[shard], end)
                self.disk.load(shard, end, found)


@pytest.mark.parametrize("seed", range(20))
def test_a_log_that_loses_power_anywhere_is_as_it_was_or_as_it_was_to_be(seed: int) -> None:
    walk = Walk(seed)
    walk.take_steps(40)
    assert walk.disk.crashes > 100


# ---- mistakes that are seen ----------------------------------------------------------------------------------------

Planting = Callable[[pytest.MonkeyPatch], None]


def without_marker(patch: pytest.MonkeyPatch) -> None:
    def make(files: Files, directory: Path, change: Change) -> list[FileChange]:
        rest = log_changes._rest_of(files, directory, change)
        log_changes._apply(files, directory, rest[:-1])
        return rest

    patch.setattr(segment_files, "make_change", make)


def marker_gone_early(patch: pytest.MonkeyPatch) -> None:
    def make(files: Files, directory: Path, change: Change) -> list[FileChange]:
        rest = log_changes._rest_of(files, directory, change)
        log_changes._apply(files, directory, [begun(change), rest[-1], *rest[:-1]])
        return rest

    patch.setattr(segment_files, "make_change", make)


def marker_found_and_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segment_files, "finish_change", lambda *_: None)


def changes_not_synced(patch: pytest.MonkeyPatch) -> None:
    def apply(files: Files, directory: Path, changes: list[FileChange]) -> None:
        for change in changes:
            if isinstance(change, PutFile):
                descriptor = files.create(directory / change.name)
                files.write(descriptor, change.data, 0)
                files.close(descriptor)
            elif isinstance(change, DeleteFile):
                files.delete(directory / change.name)
            else:
                files.rename(directory / change.name, directory / change.to)
        files.sync_directory(directory)

    patch.setattr(log_changes, "_apply", apply)


def cut_one_too_low(patch: pytest.MonkeyPatch) -> None:
    real = cutting._rest_of_cut
    patch.setattr(cutting, "_rest_of_cut", lambda end, names, read: real(max(0, end - 1), names, read))


def cut_keeps_later_segments(patch: pytest.MonkeyPatch) -> None:
    real = cutting._rest_of_cut
    patch.setattr(cutting, "_rest_of_cut", lambda end, names, read: real(end, names, read)[-1:])


def install_keeps_the_log(patch: pytest.MonkeyPatch) -> None:
    real = cutting._rest_of_install
    patch.setattr(
        cutting, "_rest_of_install", lambda *at: [each for each in real(*at) if not isinstance(each, DeleteFile)]
    )


def incoming_not_synced(patch: pytest.MonkeyPatch) -> None:
    def write(self: Any, piece: SnapshotPiece) -> bool:
        if piece.index == 0:
            self._begin(piece.end_offset)
        data = encode_piece(piece)
        self._files.write(self._descriptor, data, self._position)
        self._position += len(data)
        if piece.is_last:
            self._close()
            self._files.rename(self._temporary, self._path)
            self._files.sync_directory(self._directory)
        return piece.is_last

    patch.setattr(SnapshotWriter, "write", write)


def move_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogFiles, "sync_names", lambda _: None)


def made_in_place(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogFiles, "make_whole", LogFiles.make)


PLANTED: list[Planting] = [
    without_marker,
    marker_gone_early,
    marker_found_and_ignored,
    changes_not_synced,
    cut_one_too_low,
    cut_keeps_later_segments,
    install_keeps_the_log,
    incoming_not_synced,
    move_not_synced,
    made_in_place,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_mistake_is_seen(plant: Planting, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(20):
        try:
            Walk(seed).take_steps(40)
        except AssertionError:
            return
    pytest.fail("nobody has seen it")
