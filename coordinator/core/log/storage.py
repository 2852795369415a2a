"""The port that keeps shard logs: all that the rest of the node may ask of a disk.

The real one and the fake pass one contract suite. A standalone node has all its shards from the making of its directory
and reads them with `recover`. A node of a cluster opens, cuts, replaces and drops them one by one; each of its logs has
a number, which changes with every cut and replacement, so that a late report is told from one about what came after.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.core.log.entry import Batch
from coordinator.core.log.leader_epochs import Marks
from coordinator.core.log.snapshot import SnapshotPiece


class LogReplacedError(Exception):
    """The log that was to be read is not there any more: it was cut, replaced or dropped, and the reading is void."""


@dataclass(frozen=True, slots=True)
class RecoveredShard:
    """A shard as found once all of it was handed on; its snapshot ends at 0 when it has none."""

    snapshot_end: int
    log_end_offset: int
    leader_epoch: int
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A log that takes appends at `end`, all of it durable; its snapshot stands for what is below `start`.

    `epochs` has each leader epoch with the offset of its first record, ascending. The first one may begin below
    `start`, for the record that a snapshot ends with has an epoch too.
    """

    start: int
    end: int
    epochs: Marks
    number: int
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """A piece of a snapshot as read, and the byte position at which the next one begins."""

    piece: SnapshotPiece
    next_position: int


class LogSink(Protocol):
    """Takes a shard in while it is read: the pieces of its snapshot in their order, then the batches after it.

    An error that it raises ends the reading.
    """

    def take_snapshot(self, end_offset: int, records: Sequence[bytes]) -> None:
        """Take a piece of the snapshot of the log up to `end_offset`."""
        ...

    def take_batch(self, base_offset: int, records: Sequence[bytes]) -> None:
        """Take records of the log, the first of them at `base_offset`, where what was taken before ends."""
        ...


class DiskPort(Protocol):
    """Keeps the logs of shards.

    Completion is reported through callables given when the port is made. Each but the last names the number that the
    log had when it was done, which of a standalone node is 0:

    - `on_durable(shard, end_offset, log_number)`, after everything below `end_offset` is on stable storage;
    - `on_snapshot(shard, end_offset, is_whole, log_number)`, after each piece of a snapshot; the number is the one that
      the log had when the snapshot was begun;
    - `on_cut(shard, log_number)`, after a cut is on stable storage;
    - `on_installed(shard, end_offset, last_epoch, log_number)`, after a snapshot has replaced the log;
    - `on_failure(message)`, once, after which nothing more is written or reported.

    They may be called from another thread and must not block. What blocks says so; everything else returns at once.
    After a failure everything raises StorageError. ValueError is a bug of the caller.

    Not promised: that every `append` gets a call of its own (ends are cumulative), that calls of different
    shards keep an order, or that a snapshot is written before a later append.
    """

    def recover(self, shard: int, sink: LogSink | None = None) -> RecoveredShard:
        """Read a shard into `sink`, under number 0; required before its first append unless `open_log` was called.

        Blocks; waits for its appends under way. Cuts a torn tail off and says so in the notices. Raises StorageError
        when the log must not be served, which may show after most of it was handed on. What there is of a snapshot that
        is not whole is given up.
        """
        ...

    def append(self, shard: int, base_offset: int, leader_epoch: int, records: Sequence[bytes]) -> None:
        """Take records for the log without blocking; a crash may part what is longer than a frame.

        Raises ValueError for offsets that do not continue the log, a leader epoch that goes back or a record that
        fits no frame (a bug of the caller), StorageError after a failure, and StorageError, failing, when more is
        waiting than the limit allows.
        """
        ...

    def write_snapshot(
        self,
        shard: int,
        end_offset: int,
        leader_epoch: int,
        records: Sequence[bytes],
        *,
        index: int = 0,
        is_last: bool = True,
    ) -> None:
        """Take a piece of a snapshot of the shard at `end_offset` without blocking.

        It is written once the log is durable up to `end_offset`. After the last piece the snapshot counts, and what it
        replaces is let go; until then nothing of it does. Piece 0 begins a snapshot and gives up one that is not
        whole; a piece of one that was given up is let go. The snapshot keeps the epoch of the last record it stands
        for, as the log has it, and not the one in which it is made. Raises ValueError for a piece that does not
        continue what there is.
        """
        ...

    @property
    def pending_bytes(self) -> int:
        """Return the bytes of appended records that are not yet durable."""
        ...

    def close(self) -> None:
        """Make durable what was appended, report it, and release everything. Again: does nothing."""
        ...

    # ---- shards one by one, for a node of a cluster ------------------------------------------------------------------

    def shards(self) -> tuple[int, ...]:
        """Return the shards of which there is a log, ascending. Blocks."""
        ...

    def open_log(self, shard: int, log_number: int) -> OpenedLog:
        """Open a log for appends, or make an empty one, under a number. Blocks; waits for what is under way.

        Finishes a cut or an installation that a crash has stopped. A log that is open already is not read again. Raises
        StorageError when the log must not be served, and LogReplacedError when it was dropped meanwhile.
        """
        ...

    def load(self, shard: int, end: int, sink: LogSink) -> None:
        """Hand on the snapshot and what follows up to `end`, while appends go on above it.

        Blocks; waits until that is durable. Raises LogReplacedError when the log is gone or cut below `end` before it
        was, and ValueError for a snapshot that ends above `end`.
        """
        ...

    def append_batches(self, shard: int, log_number: int, batches: Sequence[Batch]) -> None:
        """Take a leader's batches for a follower's log, all of them or, raising as `append` does, none.

        ValueError also for another number than the log has.
        """
        ...

    def truncate(self, shard: int, end: int, log_number: int) -> None:
        """Take what is at or above `end` away, what waits included; the log has this number from now on.

        Appends at `end` may follow at once. `on_durable` says under the new number how much of the log is on disk, and
        then `on_cut`. Raises ValueError unless `end` lies between the snapshot's end and the log's, or where a snapshot
        that ends above it is being written: what that stands for was committed.
        """
        ...

    def install(self, shard: int, log_number: int, piece: SnapshotPiece) -> None:
        """Take a piece of another replica's snapshot, which replaces the log under a number once it is whole.

        Piece 0 begins anew, and a piece of what was given up is let go. Until the last one is on disk the log is as it
        was. From when that comes here until `on_installed` no append is taken, and what waits is forgotten. Raises
        ValueError for a piece that does not continue what there is, and for a log that is not open.
        """
        ...

    def give_up_install(self, shard: int) -> None:
        """Forget the pieces that have come; does nothing when there are none or the last has come."""
        ...

    def read(self, shard: int, from_offset: int, most_bytes: int) -> tuple[Batch, ...] | None:
        """Return durable records from an offset on: about so many bytes and at least one; none at the end. Blocks.

        A batch may be a part of one that was appended. None for an offset below what is on disk: a snapshot stands for
        it. Raises LogReplacedError for a log that is not open.
        """
        ...

    def read_snapshot(self, shard: int, end_offset: int | None, position: int) -> SnapshotPart | None:
        """Return the piece that begins at a byte position of the snapshot that ends at `end_offset`, None the newest.

        Blocks. None when there is no such snapshot, or not any more.
        """
        ...

    def drop(self, shard: int, *, aside_ms: int | None) -> None:
        """Close a log; nothing reports it, and what is to be read of it is void.

        With a wall time it is moved aside in one step, what waits is forgotten, and the shard has no log. Otherwise
        what waits is written. A shard that is not open is moved aside as well.
        """
        ...

    def delete_aside(self, before_ms: int) -> tuple[str, ...]:
        """Delete the logs that were moved aside before a wall time, and return their names. Blocks.

        Raises StorageError, after all have been tried, for one that cannot be deleted: nobody relies on it.
        """
        ...
