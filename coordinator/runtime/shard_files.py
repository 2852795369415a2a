"""The files of one shard: segments and snapshots in one directory, and the order in which they are written.

    00000000000000000000.log        segment, named by its first offset; zero-filled ahead of the frames
    00000000000000004711.snapshot   snapshot, named by its end offset

Keeps these orders, each step synced before the next: a frame after the one before it; in a roll the new
segment, then the seal of the old one; a snapshot before anything it replaces is deleted. Not thread-safe;
raises DiskError for anything the operating system fails, after which the object must not be used again.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from coordinator.core.log.entry import MAX_FRAME_BYTES, MIN_FRAME_BYTES, Batch, CorruptLogError, encode_batch
from coordinator.core.log.snapshot import MAX_SNAPSHOT_BYTES, Snapshot, decode_snapshot, encode_snapshot
from coordinator.core.log.storage import RecoveredShard, SegmentBytes, Tail, recover_log
from coordinator.runtime.files import TEMPORARY_SUFFIX, Files, explained, write_atomically

MIN_SEGMENT_BYTES = 4096
MAX_SEGMENT_BYTES = 1024 * 1024 * 1024
FILL_BYTES = 1024 * 1024
"""How far ahead a segment is filled with zeros: overwriting them is twice as fast as growing the file."""

_NAME = re.compile(r"(\d{20})\.(log|snapshot)")


class ShardFiles:
    """Reads and writes one shard's directory."""

    def __init__(self, files: Files, directory: Path, segment_bytes: int) -> None:
        if not MIN_SEGMENT_BYTES <= segment_bytes <= MAX_SEGMENT_BYTES:
            raise ValueError(f"segment_bytes {segment_bytes} is outside {MIN_SEGMENT_BYTES}..{MAX_SEGMENT_BYTES}")
        self._files = files
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._bases: list[int] = []
        self._snapshot_end = 0
        self._descriptor: int | None = None
        self._position = 0
        self._size = 0
        self._end_offset = 0
        self._leader_epoch = 0
        self._durable_end_offset = 0

    @property
    def durable_end_offset(self) -> int:
        """Return the end of what has been synced."""
        return self._durable_end_offset

    def create(self) -> None:
        """Make the directory with its first, empty segment; durable, except the directory's name."""
        with explained("make the directory", self._directory):
            self._files.make_directory(self._directory)
        self._start_segment(0)
        self.close()

    def recover(self) -> RecoveredShard:
        """Load the shard, cut a torn tail off, tidy up after a crash, and get ready to append."""
        self.close()
        notices: list[str] = []
        with explained("read the directory", self._directory):
            names = self._files.names(self._directory)
        bases: list[int] = []
        ends: list[int] = []
        for name in names:
            if match := _NAME.fullmatch(name):
                (bases if match[2] == "log" else ends).append(int(match[1]))
        snapshot = self._read_snapshot(ends[-1]) if ends else None
        self._snapshot_end = 0 if snapshot is None else snapshot.end_offset
        needless = [base for base, following in pairwise(bases) if following <= self._snapshot_end]
        self._bases = bases[len(needless) :]
        log = recover_log(str(self._directory), snapshot, self._segments())
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
        leftovers += [self._snapshot_path(end) for end in ends[:-1]]
        leftovers += [self._directory / name for name in names if name.endswith(TEMPORARY_SUFFIX)]
        for path in leftovers:
            self._delete(path)
            notices.append(f"{path}: deleted, a snapshot had not finished tidying up")
        if leftovers:
            self._sync_directory()
        self._end_offset = self._durable_end_offset = log.log_end_offset
        self._leader_epoch = log.leader_epoch
        return RecoveredShard(snapshot, log.batches, log.log_end_offset, log.leader_epoch, tuple(notices))

    def write(self, batch: Batch) -> None:
        """Write one frame, in a new segment when the current one is full; not durable yet."""
        frame = encode_batch(batch)
        if self._position and self._position + len(frame) + MIN_FRAME_BYTES > self._segment_bytes:
            self._roll()
        self._write_frame(frame)
        self._end_offset, self._leader_epoch = batch.end, batch.leader_epoch

    def sync(self) -> int:
        """Make durable what was written; returns its end offset."""
        with explained("sync", self._active_path):
            self._files.sync(self._active_descriptor)
        self._durable_end_offset = self._end_offset
        return self._end_offset

    def write_snapshot(self, snapshot: Snapshot) -> bool:
        """Write a snapshot of durable records, then delete what it replaces; False when it is not newer."""
        if snapshot.end_offset > self._durable_end_offset:
            raise ValueError(f"snapshot at {snapshot.end_offset}, but only {self._durable_end_offset} is durable")
        if snapshot.end_offset <= self._snapshot_end:
            return False
        write_atomically(self._files, self._snapshot_path(snapshot.end_offset), encode_snapshot(snapshot))
        replaced, self._snapshot_end = self._snapshot_end, snapshot.end_offset
        needless = [base for base, following in pairwise(self._bases) if following <= snapshot.end_offset]
        for base in needless:
            self._delete(self._segment_path(base))
        del self._bases[: len(needless)]
        if replaced:
            self._delete(self._snapshot_path(replaced))
        self._sync_directory()
        return True

    def close(self) -> None:
        """Close the open segment, if any."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with explained("close", self._active_path):
                self._files.close(descriptor)

    def _roll(self) -> None:
        """Start a new segment and seal the old one, which says that a later segment exists."""
        old_descriptor, old_path = self._active_descriptor, self._active_path
        old_position = self._position
        seal = encode_batch(Batch(self._end_offset, self._leader_epoch, ()))
        self._descriptor = None
        try:
            self._start_segment(self._end_offset)
            with explained("write", old_path):
                self._files.write(old_descriptor, seal, old_position)
            with explained("sync", old_path):
                self._files.sync(old_descriptor)
        finally:
            with explained("close", old_path):
                self._files.close(old_descriptor)

    def _start_segment(self, base: int) -> None:
        path = self._segment_path(base)
        with explained("create", path):
            self._descriptor = self._files.create(path)
        self._bases.append(base)
        self._position = self._size = 0
        self._fill(FILL_BYTES)
        with explained("sync", path):
            self._files.sync(self._active_descriptor)
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
            self._fill(end + FILL_BYTES)
        with explained("write", self._active_path):
            self._files.write(self._active_descriptor, frame, self._position)
        self._position = end

    def _fill(self, wanted: int) -> None:
        """Extend the segment with zeros to about `wanted` bytes; the next sync makes that durable too."""
        size = min(wanted, max(self._segment_bytes, wanted - FILL_BYTES))
        with explained("fill with zeros", self._active_path):
            self._files.write(self._active_descriptor, bytes(size - self._size), self._size)
        self._size = size

    def _read_snapshot(self, end: int) -> Snapshot:
        path = self._snapshot_path(end)
        with explained("read", path):
            data = self._files.read(path, MAX_SNAPSHOT_BYTES + MIN_SEGMENT_BYTES)
        snapshot = decode_snapshot(data, path_hint=str(path))
        if snapshot.end_offset != end:
            why = f"it is a snapshot of the log up to {snapshot.end_offset}, under the name of another"
            raise CorruptLogError(str(path), 0, None, why)
        return snapshot

    def _segments(self) -> Iterator[SegmentBytes]:
        for base in tuple(self._bases):
            path = self._segment_path(base)
            with explained("read", path):
                data = self._files.read(path, MAX_SEGMENT_BYTES + MAX_FRAME_BYTES)
            yield SegmentBytes(str(path), base, data)

    def _delete(self, path: Path) -> None:
        with explained("delete", path):
            self._files.delete(path)

    def _sync_directory(self) -> None:
        with explained("sync", self._directory):
            self._files.sync_directory(self._directory)

    def _segment_path(self, base: int) -> Path:
        return self._directory / f"{base:020d}.log"

    def _snapshot_path(self, end: int) -> Path:
        return self._directory / f"{end:020d}.snapshot"

    @property
    def _active_path(self) -> Path:
        return self._segment_path(self._bases[-1])

    @property
    def _active_descriptor(self) -> int:
        if self._descriptor is None:
            raise ValueError(f"{self._directory} is not open: recover it first")
        return self._descriptor
