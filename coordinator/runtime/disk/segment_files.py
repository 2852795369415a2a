"""The files of one shard: segments and snapshots in one directory, and the order in which they are written.

    00000000000000000000.log        segment, named by its first offset; zero-filled ahead of the frames
    00000000000000004711.snapshot   snapshot, named by its end offset; see `snapshot_files`
    changing, incoming.snapshot     while the log is cut or replaced; see `log_changes`

Keeps these orders, each step synced before the next: a frame after the one before it; in a roll the new
segment, then the seal of the old one; a whole snapshot before anything it replaces is deleted. A snapshot ends the
segment that is being written, so that the next one can delete it: the log on disk is what has come since the last
snapshot but one. Not thread-safe; raises DiskError for anything the operating system fails, after which the object
must not be used again. The segment that is written stays open until `release`, and is opened again by the next write.
"""

import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

from coordinator.core.log.cutting import BLANK, INCOMING, Cut, FileChange, Install, PutFile
from coordinator.core.log.entry import MAX_FRAME_BYTES, MIN_FRAME_BYTES, Batch, encode_batch
from coordinator.core.log.leader_epochs import LeaderEpochs, Marks
from coordinator.core.log.recovery import SegmentBytes, Tail, recover_log
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.log.storage import LogSink, RecoveredShard
from coordinator.runtime.disk.files import TEMPORARY_SUFFIX, Files, explained
from coordinator.runtime.disk.log_changes import finish_change, make_change
from coordinator.runtime.disk.log_view import LogView, OpenFile, open_for_reading
from coordinator.runtime.disk.snapshot_files import SnapshotWriter, read_snapshot, snapshot_path

MIN_SEGMENT_BYTES = 4096
MAX_SEGMENT_BYTES = 1024 * 1024 * 1024
FILL_BYTES = 1024 * 1024
"""The length that a segment is filled with zeros ahead: overwriting them is twice as fast as growing the file."""
FIRST_FILL_BYTES = 64 * 1024
"""The length of a segment that may stay small: a node of a cluster may have a thousand shards in which little happens.
As it grows it is filled by as much again, up to `FILL_BYTES`."""

_NAME = re.compile(r"(\d{20})\.(log|snapshot)")


class SegmentFiles:
    """Reads and writes one shard's directory."""

    def __init__(self, files: Files, directory: Path, segment_bytes: int) -> None:
        if not MIN_SEGMENT_BYTES <= segment_bytes <= MAX_SEGMENT_BYTES:
            raise ValueError(f"segment_bytes {segment_bytes} is outside {MIN_SEGMENT_BYTES}..{MAX_SEGMENT_BYTES}")
        self._files = files
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._snapshots = SnapshotWriter(files, directory)
        self._incoming = SnapshotWriter(files, directory, INCOMING)
        self._bases: list[int] = []
        self._snapshot_end = 0
        self._descriptor: int | None = None
        self._position = 0
        self._size = 0
        self._end_offset = 0
        self._leader_epoch = 0
        self._durable_end_offset = 0
        self._durable_position = 0
        self._marks: Marks = ()
        self._waiting = b""
        """The frame that ends at the position, if the next sync is to write it."""
        self._is_unsynced = False
        """Something was written to the segment since the last sync, which has to be one of all of it."""

    @property
    def marks(self) -> Marks:
        """Return the leader epochs of the log as it was recovered, each with the offset of its first record."""
        return self._marks

    @property
    def snapshot_end(self) -> int:
        """Return the end of the newest snapshot, 0 without one."""
        return self._snapshot_end

    @property
    def is_released(self) -> bool:
        """True while the segment that is written is not open."""
        return self._descriptor is None

    @property
    def durable_end_offset(self) -> int:
        """Return the end of what has been synced."""
        return self._durable_end_offset

    def create(self) -> None:
        """Make the directory with its first, empty segment; durable, except the directory's name."""
        with explained("make the directory", self._directory):
            self._files.make_directory(self._directory)
        self._start_segment(0, FIRST_FILL_BYTES)
        self.close()

    def recover(self, sink: LogSink | None = None) -> RecoveredShard:
        """Read the shard into `sink`, cut a torn tail off, tidy up after a crash, and get ready to append."""
        self.close()
        notices: list[str] = []
        with explained("read the directory", self._directory):
            names = self._files.names(self._directory)
        finished = finish_change(self._files, self._directory, names)
        if finished is not None:
            notices.append(finished)
            with explained("read the directory", self._directory):
                names = self._files.names(self._directory)
        bases: list[int] = []
        ends: list[int] = []
        for name in names:
            if match := _NAME.fullmatch(name):
                (bases if match[2] == "log" else ends).append(int(match[1]))
        snapshot_epoch = self._read_snapshot(ends[-1], sink) if ends else 0
        self._snapshot_end = ends[-1] if ends else 0
        needless = [base for base, following in pairwise(bases) if following <= self._snapshot_end]
        if needless and len(needless) + 1 == len(bases) and self._is_empty(bases[-1]):
            needless.pop()  # without a seal it shows that the roll to an empty segment had not finished
        self._bases = bases[len(needless) :]
        snapshot_end = self._snapshot_end if ends else None
        epochs = LeaderEpochs([(snapshot_epoch, ends[-1] - 1)] if ends else [])
        log = recover_log(str(self._directory), snapshot_end, self._segments(), partial(_hand_on, epochs, sink))
        if log.surplus_base is not None:
            self._delete(self._segment_path(log.surplus_base))
            self._bases.remove(log.surplus_base)
            notices.append(f"{self._segment_path(log.surplus_base)}: deleted, a roll had not finished")
        for tail in log.tails:
            self._write_again(tail)
        self._open_segment(log.active_base, log.active_bytes)
        if log.cut_bytes:
            self._erase(log.cut_bytes)
            notices.append(
                f"{self._active_path}: cut {log.cut_bytes} bytes of a write that had not finished, at byte "
                f"{log.active_bytes} (log offset {log.log_end_offset}); they were never acknowledged"
            )
        self._sync_directory()
        leftovers = [self._segment_path(base) for base in needless]
        leftovers += [snapshot_path(self._directory, end) for end in ends[:-1]]
        leftovers += [self._directory / name for name in names if name.endswith(TEMPORARY_SUFFIX) or name == INCOMING]
        for path in leftovers:
            self._delete(path)
            notices.append(f"{path}: deleted, a snapshot had not finished tidying up")
        if leftovers:
            self._sync_directory()
        self._end_offset = self._durable_end_offset = log.log_end_offset
        self._durable_position = log.active_bytes
        self._leader_epoch = max(log.leader_epoch, snapshot_epoch)
        self._marks = epochs.marks
        return RecoveredShard(self._snapshot_end, log.log_end_offset, self._leader_epoch, tuple(notices))

    def write(self, batch: Batch) -> None:
        """Take one frame, for a new segment when the current one is full; the next sync makes it durable."""
        self._write_waiting()
        frame = encode_batch(batch)
        if self._position and self._position + len(frame) + MIN_FRAME_BYTES > self._segment_bytes:
            self._roll()
        self._write_frame(frame)
        self._end_offset, self._leader_epoch = batch.end, batch.leader_epoch

    def sync(self) -> int:
        """Make durable what was written; returns its end offset."""
        if self._waiting:
            frame, self._waiting = self._waiting, b""
            with explained("write and sync", self._active_path):
                self._files.write_synced(self._active_descriptor, frame, self._position - len(frame))
        else:
            with explained("sync", self._active_path):
                self._files.sync(self._active_descriptor)
            self._is_unsynced = False
        self._durable_end_offset, self._durable_position = self._end_offset, self._position
        return self._end_offset

    def write_snapshot(self, piece: SnapshotPiece) -> None:
        """Write a piece of a snapshot of durable records; after the last one, delete what the snapshot replaces.

        One that is not newer than the one there is counts as written.
        """
        if piece.end_offset > self._durable_end_offset:
            raise ValueError(f"snapshot at {piece.end_offset}, but only {self._durable_end_offset} is durable")
        if piece.end_offset <= self._snapshot_end or not self._snapshots.write(piece):
            return
        replaced, self._snapshot_end = self._snapshot_end, piece.end_offset
        if self._position > min(FILL_BYTES, self._segment_bytes // 2) and self._end_offset > self._bases[-1]:
            self._roll()
        needless = [base for base, following in pairwise(self._bases) if following <= piece.end_offset]
        for base in needless:
            self._delete(self._segment_path(base))
        del self._bases[: len(needless)]
        if replaced:
            self._delete(snapshot_path(self._directory, replaced))
        self._sync_directory()

    def cut(self, end: int, last_epoch: int) -> int:
        """Take what is at or above `end` away, after which the last record has this epoch; returns what is durable.

        Nothing is waiting to be synced. A log that ends below is left as it is.
        """
        if end < self._end_offset:
            self.release()
            changes = make_change(self._files, self._directory, Cut(end))
            self._bases = [base for base in self._bases if base <= end]
            self._go_on_in(changes, end, last_epoch)
        return self._durable_end_offset

    def take_incoming(self, piece: SnapshotPiece) -> bool:
        """Write a piece of another replica's snapshot; True when that is whole with it and has replaced the log."""
        if not self._incoming.write(piece):
            return False
        self.release()
        self._snapshots.give_up()
        changes = make_change(self._files, self._directory, Install(piece.end_offset))
        self._bases, self._snapshot_end = [piece.end_offset], piece.end_offset
        self._go_on_in(changes, piece.end_offset, piece.leader_epoch)
        return True

    def forget_incoming(self) -> None:
        """Delete what there is of another replica's snapshot that is not whole."""
        self._incoming.give_up()

    def forget_snapshots(self) -> None:
        """Delete what there is of snapshots that are not whole."""
        self._snapshots.give_up()
        self._incoming.give_up()

    def view(self, from_offset: int | None) -> LogView:
        """Open what is durable, to be read: all of it with the snapshot, or the records from an offset on."""
        first = self._snapshot_end if from_offset is None else from_offset
        needless = sum(following <= first for _, following in pairwise(self._bases))
        opened: list[OpenFile] = []
        try:
            if from_offset is None and self._snapshot_end:
                opened.append(open_for_reading(self._files, snapshot_path(self._directory, self._snapshot_end)))
            with_snapshot = len(opened)
            for base in self._bases[needless:]:
                size = self._durable_position if base == self._bases[-1] else None
                opened.append(open_for_reading(self._files, self._segment_path(base), size))
        except BaseException:
            for file in opened:
                self._files.close(file.descriptor)
            raise
        return LogView(
            self._files,
            self._directory,
            self._snapshot_end,
            self._durable_end_offset,
            opened[0] if with_snapshot else None,
            tuple(zip(self._bases[needless:], opened[with_snapshot:], strict=True)),
        )

    def release(self) -> None:
        """Close the segment that is written, all of it synced."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with explained("close", self._active_path):
                self._files.close(descriptor)

    def close(self) -> None:
        """Close what is open."""
        self._snapshots.close()
        self._incoming.close()
        self.release()

    def _go_on_in(self, changes: list[FileChange], end: int, last_epoch: int) -> None:
        """Go on in the last segment as a change has left it: with its frames and a little space."""
        last = self._active_path.name
        size = next(len(change.data) for change in changes if isinstance(change, PutFile) and change.name == last)
        self._size, self._position = size, size - len(BLANK)
        self._durable_position = self._position
        self._end_offset = self._durable_end_offset = end
        self._leader_epoch = last_epoch

    def _roll(self) -> None:
        """Start a new segment and seal the old one, which says that a later segment exists."""
        old_descriptor, old_path = self._active_descriptor, self._active_path
        old_position = self._position
        seal = encode_batch(Batch(self._end_offset, self._leader_epoch, ()))
        self._descriptor = None
        try:
            self._start_segment(self._end_offset, FILL_BYTES if old_position > FILL_BYTES else FIRST_FILL_BYTES)
            with explained("write", old_path):
                self._files.write(old_descriptor, seal, old_position)
            with explained("sync", old_path):
                self._files.sync(old_descriptor)
        finally:
            with explained("close", old_path):
                self._files.close(old_descriptor)

    def _start_segment(self, base: int, fill: int) -> None:
        path = self._segment_path(base)
        with explained("create", path):
            self._descriptor = self._files.create(path)
        self._bases.append(base)
        self._position = self._size = self._durable_position = 0
        self._fill(fill)
        with explained("sync", path):
            self._files.sync(self._active_descriptor)
        self._is_unsynced = False
        self._sync_directory()

    def _write_again(self, tail: Tail) -> None:
        """Make durable what was read, even after a sync of it failed in the process before this one."""
        path = self._segment_path(tail.base_offset)
        with explained("write again and sync the end of", path):
            descriptor = self._files.open(path)
            try:
                self._files.write(descriptor, tail.frame, tail.position)
                self._files.sync(descriptor)
            finally:
                self._files.close(descriptor)

    def _open_segment(self, base: int, position: int) -> None:
        path = self._segment_path(base)
        with explained("open", path):
            self._descriptor = self._files.open(path)
            self._size = self._files.size(self._descriptor)
        self._position = position

    def _erase(self, length: int) -> None:
        """Make a torn end zero-filled space again; a crash in the middle of this leaves a torn end."""
        with explained("cut the torn end off", self._active_path):
            self._files.write(self._active_descriptor, bytes(length), self._position)
            self._files.sync(self._active_descriptor)
        self._size = max(self._size, self._position + length)

    def _write_frame(self, frame: bytes) -> None:
        end = self._position + len(frame)
        if end > self._size:
            self._fill(end + min(FILL_BYTES, max(FIRST_FILL_BYTES, end)), least=end)
        self._waiting, self._position = frame, end
        if self._is_unsynced or not self._files.has_synced_writes:
            self._write_waiting()

    def _write_waiting(self) -> None:
        """Write the frame that waits, if one does, for a sync to make it durable."""
        if self._waiting:
            frame, self._waiting = self._waiting, b""
            with explained("write", self._active_path):
                self._files.write(self._active_descriptor, frame, self._position - len(frame))
            self._is_unsynced = True

    def _fill(self, wanted: int, least: int = 0) -> None:
        """Extend the segment with zeros to `wanted` bytes, past its usual size only to `least`.

        The next sync makes that durable too.
        """
        size = min(wanted, max(self._segment_bytes, least))
        with explained("fill with zeros", self._active_path):
            self._files.write(self._active_descriptor, bytes(size - self._size), self._size)
        self._size = size
        self._is_unsynced = True

    def _read_snapshot(self, end: int, sink: LogSink | None) -> int:
        """Hand a snapshot on and return its leader epoch."""
        leader_epoch = 0
        for piece in read_snapshot(self._files, self._directory, end):
            leader_epoch = piece.leader_epoch
            if sink is not None:
                sink.take_snapshot(end, piece.records)
        return leader_epoch

    def _segments(self) -> Iterator[SegmentBytes]:
        for base in tuple(self._bases):
            path = self._segment_path(base)
            with explained("read", path):
                data = self._files.read(path, MAX_SEGMENT_BYTES + MAX_FRAME_BYTES)
            yield SegmentBytes(str(path), base, data)

    def _is_empty(self, base: int) -> bool:
        file = open_for_reading(self._files, self._segment_path(base))
        with explained("close", file.path):
            self._files.close(file.descriptor)
        return not file.size

    def _delete(self, path: Path) -> None:
        with explained("delete", path):
            self._files.delete(path)

    def _sync_directory(self) -> None:
        with explained("sync", self._directory):
            self._files.sync_directory(self._directory)

    def _segment_path(self, base: int) -> Path:
        return self._directory / f"{base:020d}.log"

    @property
    def _active_path(self) -> Path:
        return self._segment_path(self._bases[-1])

    @property
    def _active_descriptor(self) -> int:
        if self._descriptor is None:
            if not self._bases:
                raise ValueError(f"{self._directory} is not open: recover it first")
            with explained("open", self._active_path):
                self._descriptor = self._files.open(self._active_path)
        return self._descriptor


def _hand_on(epochs: LeaderEpochs, sink: LogSink | None, batch: Batch) -> None:
    epochs.note(batch.leader_epoch, batch.base_offset)
    if sink is not None:
        sink.take_batch(batch.base_offset, batch.records)
