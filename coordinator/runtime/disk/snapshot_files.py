"""The snapshots of one shard as files: written a piece at a time under a name of their own, read a piece at a time.

    00000000000000004711.snapshot       a whole snapshot, named by its end offset
    00000000000000004711.snapshot.tmp   one that is being written, or was when the process ended: nothing relies on it
    incoming.snapshot.tmp               the same of another replica's, which is to replace the log

Each piece is synced as it is written, so that no sync takes long and an append beside it waits for one piece at most.
Not thread-safe; raises DiskError for anything the operating system fails.
"""

from collections.abc import Iterator
from pathlib import Path

from coordinator.core.log.entry import CorruptLogError
from coordinator.core.log.snapshot import SnapshotPiece, begins_piece, encode_piece, read_piece, read_pieces
from coordinator.core.log.storage import SnapshotPart
from coordinator.runtime.disk.files import TEMPORARY_SUFFIX, Files, explained


def snapshot_path(directory: Path, end_offset: int) -> Path:
    """Return where the snapshot at an offset is kept."""
    return directory / f"{end_offset:020d}.snapshot"


class SnapshotWriter:
    """Writes one snapshot of a shard after the other, each named by its end or all by one name."""

    def __init__(self, files: Files, directory: Path, name: str | None = None) -> None:
        self._files = files
        self._directory = directory
        self._name = name
        self._path = directory
        self._descriptor: int | None = None
        self._position = 0

    def write(self, piece: SnapshotPiece) -> bool:
        """Write a piece; True when the snapshot is whole with it, under its name and durable."""
        if piece.index == 0:
            self._begin(piece.end_offset)
        assert self._descriptor is not None, "a snapshot begins with piece 0"
        data = encode_piece(piece)
        with explained("write", self._temporary):
            self._files.write(self._descriptor, data, self._position)
            self._files.sync(self._descriptor)
        self._position += len(data)
        if not piece.is_last:
            return False
        self._close()
        with explained("rename to its final name", self._temporary):
            self._files.rename(self._temporary, self._path)
        with explained("sync", self._directory):
            self._files.sync_directory(self._directory)
        return True

    def give_up(self) -> None:
        """Forget a snapshot that is not whole, and delete what there is of it."""
        if self._descriptor is not None:
            self._close()
            with explained("delete", self._temporary):
                self._files.delete(self._temporary)

    def close(self) -> None:
        """Close what is open; a snapshot that is not whole is deleted at the next start."""
        if self._descriptor is not None:
            self._close()

    def _begin(self, end_offset: int) -> None:
        self.give_up()
        by_end = snapshot_path(self._directory, end_offset)
        self._path = by_end if self._name is None else self._directory / self._name
        self._position = 0
        with explained("create", self._temporary):
            self._descriptor = self._files.create(self._temporary)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        assert descriptor is not None, "nothing is open"
        with explained("close", self._temporary):
            self._files.close(descriptor)

    @property
    def _temporary(self) -> Path:
        return self._path.with_name(self._path.name + TEMPORARY_SUFFIX)


def read_snapshot(files: Files, directory: Path, end_offset: int) -> Iterator[SnapshotPiece]:
    """Yield the pieces of a snapshot; raises as `read_pieces` does, and when it is one of another offset."""
    path = snapshot_path(directory, end_offset)
    with explained("open", path):
        descriptor = files.open(path)
    try:

        def read(position: int, length: int) -> bytes:
            with explained("read", path):
                return files.read_at(descriptor, length, position)

        with explained("read", path):
            size = files.size(descriptor)
        for piece in read_pieces(read, size, path_hint=str(path)):
            if piece.end_offset != end_offset:
                why = f"it is a snapshot of the log up to {piece.end_offset}, under the name of another"
                raise CorruptLogError(str(path), 0, None, why)
            yield piece
    finally:
        with explained("close", path):
            files.close(descriptor)


def read_part(files: Files, directory: Path, end_offset: int, position: int) -> SnapshotPart | None:
    """Return the piece that begins at a position of a snapshot; None if there is none such, or no such snapshot."""
    path = snapshot_path(directory, end_offset)
    with explained("open", path):
        try:
            descriptor = files.open(path)
        except FileNotFoundError:
            return None
    try:

        def read(at: int, length: int) -> bytes:
            with explained("read", path):
                return files.read_at(descriptor, length, at)

        with explained("read", path):
            size = files.size(descriptor)
        if position and not begins_piece(read, position):
            return None
        return SnapshotPart(*read_piece(read, position, size, str(path)))
    finally:
        with explained("close", path):
            files.close(descriptor)
