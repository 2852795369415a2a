"""Shards read into lists, and lists read as if they were shards."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from coordinator.core.groups.hard.journal import Journal
from coordinator.core.log.storage import DiskPort, LogSink, RecoveredShard


@dataclass(slots=True)
class Found:
    """The part of a shard that was handed on, and how it was found."""

    snapshot: tuple[int, tuple[bytes, ...]] | None = None
    """The end of its snapshot, and the records of all pieces."""
    pieces: int = 0
    batches: list[tuple[int, tuple[bytes, ...]]] = field(default_factory=list)
    shard: RecoveredShard = field(default_factory=lambda: RecoveredShard(0, 0, 0, ()))

    def take_snapshot(self, end_offset: int, records: Sequence[bytes]) -> None:
        before = self.snapshot[1] if self.snapshot is not None else ()
        self.snapshot = (end_offset, (*before, *records))
        self.pieces += 1

    def take_batch(self, base_offset: int, records: Sequence[bytes]) -> None:
        self.batches.append((base_offset, tuple(records)))

    @property
    def records(self) -> list[bytes]:
        """The records after the snapshot."""
        return [record for _, records in self.batches for record in records]


def read_shard(disk: DiskPort, shard: int) -> Found:
    """Recover a shard and keep what is handed on."""
    found = Found()
    found.shard = disk.recover(shard, found)
    return found


def given(
    snapshot: Sequence[bytes] | None,
    snapshot_end: int,
    batches: Iterable[tuple[int, Sequence[bytes]]],
    leader_epoch: int = 0,
) -> Callable[[LogSink], RecoveredShard]:
    """Return a reader of a shard that consists of these records."""

    def recover(sink: LogSink) -> RecoveredShard:
        end = snapshot_end
        if snapshot is not None:
            sink.take_snapshot(snapshot_end, snapshot)
        for base_offset, records in batches:
            sink.take_batch(base_offset, records)
            end = base_offset + len(records)
        return RecoveredShard(snapshot_end, end, leader_epoch, ())

    return recover


def load(
    journal: Journal,
    snapshot: Sequence[bytes] | None,
    snapshot_end: int,
    batches: Iterable[tuple[int, Sequence[bytes]]],
) -> None:
    """Load a journal with these records."""
    given(snapshot, snapshot_end, batches)(journal)
