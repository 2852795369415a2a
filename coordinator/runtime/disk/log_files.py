"""The logs in a data directory: which there are, made and moved aside in one step each, and what is done to them.

    shard-00007                  the log of a shard; see `segment_files`
    kept-00007                   an empty file, in a cluster: there is such a log, or it was lost
    making-00007                 one that is being made: it has its name when it is whole
    aside-00007-1764000000000    one that was moved aside, with the wall time of that
    damaged-00007-1764000000000  the same of one that must not be served, until nobody relies on it

Of the logs that were written last so many are kept open; the others are opened for a write and closed after it. One
thread writes and changes logs; another may open, list or read one meanwhile to which nothing is done. Raises
StorageError, after which a log must not be used again.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, assert_never

from coordinator.core.log.entry import Batch
from coordinator.core.log.requests import Change, CloseLog, CutLog, ForgetIncoming, MoveAside
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.log.storage import LogSink, OpenedLog, RecoveredShard, SnapshotPart
from coordinator.runtime.disk.files import DiskError, Files, explained
from coordinator.runtime.disk.log_view import LogView
from coordinator.runtime.disk.segment_files import SegmentFiles
from coordinator.runtime.disk.snapshot_files import read_part

MOST_OPEN: Final = 256
"""Logs that are kept open between two writes."""
ASIDE, DAMAGED = "aside", "damaged"

_SHARD = re.compile(r"shard-(\d{5})")
_KEPT = re.compile(r"kept-(\d{5})")
_MOVED = re.compile(rf"({ASIDE}|{DAMAGED})-(\d{{5}})-(\d+)")


def most_open_files(shards: int) -> int:
    """Return how many files the logs of so many shards have open at most, besides those that are being read."""
    return min(shards, MOST_OPEN)


class LogFiles:
    """The logs of the shards of one data directory."""

    def __init__(self, files: Files, data_dir: Path, segment_bytes: int, most_open: int = MOST_OPEN) -> None:
        self._files = files
        self._data_dir = data_dir
        self._segment_bytes = segment_bytes
        self._most_open = most_open
        self._logs: dict[int, SegmentFiles] = {}
        self._written: dict[int, None] = {}  # shards with an open file; of many the one written last at the end
        self._files_in(data_dir)  # which refuses a size out of range

    # ---- which there are ---------------------------------------------------------------------------------------------

    def shards(self) -> tuple[int, ...]:
        """Return the shards of which there is a log, ascending."""
        return tuple(sorted(_numbers(_SHARD, self._names())))

    def missing(self) -> frozenset[int]:
        """Return the shards of which there was a log that nobody has moved aside, and is none."""
        names = self._names()
        return frozenset(_numbers(_KEPT, names) - _numbers(_SHARD, names))

    def make(self, shard: int) -> None:
        """Make an empty log; durable, except the directory's name."""
        self._at(shard).create()

    def make_whole(self, shard: int) -> None:
        """Make an empty log that is there or not, wherever a crash stops it; durable.

        It is kept from when it is whole. Names become durable in the order in which they change.
        """
        making = self._data_dir / f"making-{shard:05d}"
        self._files_in(making).create()
        self._give_name(making, self._directory(shard))
        self._keep(shard)
        self.sync_names()

    def moved(self, kind: str) -> tuple[tuple[str, int, int], ...]:
        """Return what was moved aside, or as damaged: name, shard and wall time."""
        found = [match for name in self._names() if (match := _MOVED.fullmatch(name))]
        return tuple((match[0], int(match[2]), int(match[3])) for match in found if match[1] == kind)

    def move(self, shard: int, kind: str, moved_ms: int) -> None:
        """Move the log of a shard aside, if there is one; nothing waits to be synced. Durable."""
        log = self._logs.pop(shard, None)
        self._written.pop(shard, None)
        if log is not None:
            log.close()
        names = self._names()
        self._keep_no_longer(shard, names)
        if self._directory(shard).name in names:
            self._give_name(self._directory(shard), self._free(names, kind, shard, moved_ms))
        self.sync_names()

    def tell_damage(self) -> None:
        """Have what was moved as damaged be moved aside like anything else, and nothing be missing. Durable."""
        for name, shard, moved_ms in self.moved(DAMAGED):
            self._rename(self._data_dir / name, self._free(self._names(), ASIDE, shard, moved_ms))
        if missing := self.missing():
            for shard in missing:
                self._keep_no_longer(shard, self._names())
            self.sync_names()

    def delete_aside(self, before_ms: int) -> tuple[str, ...]:
        """Delete what was moved aside before a wall time; returns the names. Raises when all has been tried."""
        names = tuple(name for name, _, moved_ms in self.moved(ASIDE) if moved_ms < before_ms)
        failed: DiskError | None = None
        for name in names:
            directory = self._data_dir / name
            try:
                for inner in self._files.names(directory):
                    self._files.delete(directory / inner)
                self._files.delete_directory(directory)
            except OSError as error:
                failed = failed or DiskError(f"{directory} cannot be deleted: {error}")
        if failed is not None:
            raise failed
        return names

    # ---- opened ------------------------------------------------------------------------------------------------------

    def recover(self, shard: int, sink: LogSink | None) -> RecoveredShard:
        """Read a log and get ready to append; see `SegmentFiles.recover`."""
        log = self._at(shard)
        recovered = log.recover(sink)
        log.release()  # its next write opens it again, on the thread that counts what is open
        return recovered

    def open(self, shard: int, log_number: int) -> OpenedLog:
        """Get ready to append to a log, made if there is none."""
        names = self._names()
        if self._directory(shard).name not in names:
            self.make_whole(shard)
        elif self._kept(shard).name not in names:
            self._keep(shard)  # of a release that has marked none; durable with what is written next to it
        found = self.recover(shard, None)
        return OpenedLog(found.snapshot_end, found.log_end_offset, self.marks(shard), log_number, found.notices)

    def marks(self, shard: int) -> tuple[tuple[int, int], ...]:
        """Return the leader epochs of a log as it was opened."""
        return self._logs[shard].marks

    # ---- written -----------------------------------------------------------------------------------------------------

    def write(self, shard: int, batch: Batch) -> None:
        """Write one frame; not durable yet."""
        self._logs[shard].write(batch)
        if len(self._logs) > self._most_open:
            self._written.pop(shard, None)
        self._written[shard] = None

    def sync(self, shard: int) -> int:
        """Make durable what was written; returns its end offset. Any thread, while nothing else is done to the log."""
        return self._logs[shard].sync()

    def durable_end(self, shard: int) -> int:
        """Return the end of what has been synced."""
        return self._logs[shard].durable_end_offset

    def write_snapshot(self, shard: int, piece: SnapshotPiece) -> None:
        """Write a piece of a snapshot of durable records."""
        self._logs[shard].write_snapshot(piece)
        self._written.setdefault(shard)

    def take_incoming(self, shard: int, piece: SnapshotPiece) -> bool:
        """Write a piece of another replica's snapshot; True when that is whole with it and has replaced the log."""
        return self._logs[shard].take_incoming(piece)

    def change(self, change: Change) -> int | None:
        """Make a change, with nothing waiting to be synced; returns of a cut the end of what is durable then."""
        match change:
            case CutLog(shard, end, last_epoch, _):
                return self._logs[shard].cut(end, last_epoch)
            case MoveAside(shard, aside_ms):
                self.move(shard, ASIDE, aside_ms)
            case CloseLog(shard) if shard in self._logs:
                self._logs[shard].forget_snapshots()
                self._logs[shard].release()
                self._written.pop(shard, None)
            case ForgetIncoming(shard) if shard in self._logs:
                self._logs[shard].forget_incoming()
            case CloseLog() | ForgetIncoming():
                pass
            case _:
                assert_never(change)
        return None

    def close_needless(self) -> None:
        """Close logs that were not written for long, while more than so many are open; all of them are synced."""
        while len(self._written) > self._most_open:
            oldest = next(iter(self._written))
            del self._written[oldest]
            self._logs[oldest].release()

    # ---- read --------------------------------------------------------------------------------------------------------

    def view(self, shard: int, from_offset: int | None) -> LogView:
        """Open what is durable, to be read; see `SegmentFiles.view`. Not while the log is written."""
        return self._logs[shard].view(from_offset)

    def read_snapshot(self, shard: int, end_offset: int | None, position: int) -> SnapshotPart | None:
        """Return the piece at a position of a snapshot, None if there is none such. Any thread."""
        log = self._logs.get(shard)
        end = end_offset if log is None or end_offset is not None else log.snapshot_end
        return read_part(self._files, self._directory(shard), end, position) if end else None

    def close(self) -> None:
        """Close everything that is open."""
        for log in self._logs.values():
            log.close()

    def _at(self, shard: int) -> SegmentFiles:
        log = self._logs.get(shard)
        if log is None:
            log = self._logs[shard] = self._files_in(self._directory(shard))
        return log

    def _files_in(self, directory: Path) -> SegmentFiles:
        return SegmentFiles(self._files, directory, self._segment_bytes)

    def _directory(self, shard: int) -> Path:
        return self._data_dir / f"shard-{shard:05d}"

    def _kept(self, shard: int) -> Path:
        return self._data_dir / f"kept-{shard:05d}"

    def _keep(self, shard: int) -> None:
        path = self._kept(shard)
        with explained("create", path):
            self._files.close(self._files.create(path))

    def _keep_no_longer(self, shard: int, names: Sequence[str]) -> None:
        path = self._kept(shard)
        if path.name in names:
            with explained("delete", path):
                self._files.delete(path)

    def _free(self, names: Sequence[str], kind: str, shard: int, moved_ms: int) -> Path:
        while (name := f"{kind}-{shard:05d}-{moved_ms}") in names:
            moved_ms += 1
        return self._data_dir / name

    def _rename(self, source: Path, target: Path) -> None:
        self._give_name(source, target)
        self.sync_names()

    def _give_name(self, source: Path, target: Path) -> None:
        with explained("rename to its final name", source):
            self._files.rename(source, target)

    def sync_names(self) -> None:
        """Make durable which logs there are."""
        with explained("sync", self._data_dir):
            self._files.sync_directory(self._data_dir)

    def _names(self) -> list[str]:
        with explained("read", self._data_dir):
            return self._files.names(self._data_dir)


def _numbers(pattern: re.Pattern[str], names: Sequence[str]) -> set[int]:
    return {int(match[1]) for name in names if (match := pattern.fullmatch(name))}
