"""A log as it is at one moment, to be read while it is written: open files, of which only what is durable is looked at.

Frames are only ever added behind what a view has seen, and a file that is deleted or replaced stays readable through
its descriptor. So a view is read on any thread, whatever becomes of the log meanwhile. It is to be closed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coordinator.core.log.entry import Batch
from coordinator.core.log.reading import ReadableSegment, read_batches
from coordinator.core.log.recovery import SegmentBytes, recover_log
from coordinator.core.log.snapshot import read_pieces
from coordinator.core.log.storage import LogSink
from coordinator.runtime.disk.files import Files, explained

_SPACE = bytes(8)
"""Space that follows the frames of a segment, which is never empty."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that is open for reading, and how many of its bytes are looked at."""

    path: Path
    descriptor: int
    size: int


@dataclass(frozen=True, slots=True)
class LogView:
    """The snapshot of a log, if it was asked for and there is one, and its segments by their first offsets."""

    files: Files
    directory: Path
    snapshot_end: int
    durable_end: int
    snapshot: OpenFile | None
    segments: tuple[tuple[int, OpenFile], ...]

    def load(self, end: int, sink: LogSink) -> None:
        """Hand on the snapshot and the records up to `end`, which is durable."""
        if self.snapshot is not None:
            read = partial(_read, self.files, self.snapshot)
            for piece in read_pieces(read, self.snapshot.size, path_hint=str(self.snapshot.path)):
                sink.take_snapshot(piece.end_offset, piece.records)

        def take(batch: Batch) -> None:
            if batch.base_offset < end:
                sink.take_batch(batch.base_offset, batch.records[: end - batch.base_offset])

        snapshot_end = None if self.snapshot is None else self.snapshot_end
        recover_log(str(self.directory), snapshot_end, self._whole_segments(), take)

    def batches(self, from_offset: int, most_bytes: int) -> tuple[Batch, ...] | None:
        """Return durable records from an offset on; None below what there is."""
        if from_offset < self.segments[0][0]:
            return None
        segments = [
            ReadableSegment(str(file.path), base, file.size, partial(_read, self.files, file))
            for base, file in self.segments
        ]
        return read_batches(segments, from_offset, self.durable_end, most_bytes)

    def close(self) -> None:
        """Close all files."""
        snapshots = [] if self.snapshot is None else [self.snapshot]
        for file in [*snapshots, *(file for _, file in self.segments)]:
            with explained("close", file.path):
                self.files.close(file.descriptor)

    def _whole_segments(self) -> Iterator[SegmentBytes]:
        for base, file in self.segments:
            yield SegmentBytes(str(file.path), base, _read(self.files, file, 0, file.size) + _SPACE)


def open_for_reading(files: Files, path: Path, size: int | None = None) -> OpenFile:
    """Open a file, of which so many bytes are looked at, or all."""
    with explained("open", path):
        descriptor = files.open(path)
        return OpenFile(path, descriptor, files.size(descriptor) if size is None else size)


def _read(files: Files, file: OpenFile, position: int, length: int) -> bytes:
    with explained("read", file.path):
        return files.read_at(file.descriptor, max(0, min(length, file.size - position)), position)
