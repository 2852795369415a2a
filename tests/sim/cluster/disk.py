"""The disk of one node of a simulated cluster: logs as lists of records, and a writer that is a while behind.

What is asked for shows at once to whoever reads the log in memory, as the product's writer has it, and is on disk once
the writer has done it. A process that ends leaves on disk what was done, and as much of the rest as chance has it: an
append in part, the others whole or not at all. Reports come a moment later, also when they are out of date by then.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from coordinator.core.log.entry import Batch
from coordinator.core.log.leader_epochs import LeaderEpochs
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.log.storage import OpenedLog

Record = tuple[int, bytes]
"""The leader epoch of a record, and the record."""


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one shard: the records from `base` on, and the snapshot that stands for those before."""

    base: int = 0
    records: tuple[Record, ...] = ()
    snapshot: tuple[SnapshotPiece, ...] = ()

    @property
    def end(self) -> int:
        """Return the end of the log."""
        return self.base + len(self.records)

    @property
    def start(self) -> int:
        """Return the end of the snapshot, 0 without one."""
        return self.snapshot[0].end_offset if self.snapshot else 0

    def at(self, offset: int) -> Record | None:
        """Return a record; None for one that is not here."""
        return self.records[offset - self.base] if self.base <= offset < self.end else None

    def batches(self, begin: int, end: int) -> tuple[Batch, ...]:
        """Return the records of a range that is here as batches, each of one epoch."""
        batches: list[Batch] = []
        for offset in range(begin, min(end, self.end)):
            epoch, record = self.records[offset - self.base]
            if batches and batches[-1].leader_epoch == epoch:
                batches[-1] = replace(batches[-1], records=(*batches[-1].records, record))
            else:
                batches.append(Batch(offset, epoch, (record,)))
        return tuple(batches)

    def appended(self, batches: tuple[Batch, ...]) -> "Log":
        """Return it with more records."""
        assert not batches or batches[0].base_offset == self.end, f"an append at {batches[0]} to a log up to {self.end}"
        more = tuple((batch.leader_epoch, record) for batch in batches for record in batch.records)
        return replace(self, records=self.records + more)

    def cut(self, end: int) -> "Log":
        """Return it without what is at or above `end`."""
        assert self.start <= end <= self.end, f"a cut at {end} of a log from {self.start} to {self.end}"
        return replace(self, records=self.records[: end - self.base])

    def opened(self, number: int) -> OpenedLog:
        """Return it as a node's disk shows it that has opened it under a number."""
        epochs = LeaderEpochs(((self.snapshot[0].leader_epoch, self.start - 1),) if self.snapshot else ())
        for batch in self.batches(max(self.base, self.start), self.end):
            epochs.note(batch.leader_epoch, batch.base_offset)
        return OpenedLog(self.start, self.end, epochs.marks, number)

    def with_snapshot(self, pieces: tuple[SnapshotPiece, ...]) -> "Log":
        """Return it with a snapshot, and without the records that this stands for."""
        end = pieces[0].end_offset
        if end <= self.start:
            return self
        return Log(end, self.records[end - self.base :], pieces)


@dataclass(frozen=True, slots=True)
class Write:
    """Something the writer has to do: a change of a log, and what is reported when it is done."""

    shard: int
    kind: str
    change: Callable[[Log], Log]
    report: Callable[[Log], None]
    batches: tuple[Batch, ...] = ()


@dataclass(slots=True)
class Opened:
    """A log that is open: as it is once all is written, and its number."""

    log: Log
    number: int
    pieces: list[SnapshotPiece] = field(default_factory=list)
    pieces_number: int = 0
    incoming: list[SnapshotPiece] = field(default_factory=list)


class Disk:
    """All that one node has on disk, and what is under way there."""

    def __init__(self, directory_id: str) -> None:
        self.directory_id = directory_id
        self.starts = 0
        self.cluster_id = ""
        self.controller_epoch = 0
        self.stable: dict[int, Log] = {}
        self.open: dict[int, Opened] = {}
        self.queue: list[Write] = []

    def log(self, shard: int) -> Log:
        """Return a log as whoever reads it in memory sees it; an empty one where there is none."""
        return self.open[shard].log if shard in self.open else self.stable.get(shard, Log())

    def append(self, shard: int, batches: tuple[Batch, ...], report: Callable[[Log], None]) -> None:
        """Take records."""
        opened = self.open[shard]
        opened.log = opened.log.appended(batches)
        self.queue.append(Write(shard, "append", lambda log: log.appended(batches), report, batches))

    def truncate(self, shard: int, end: int, number: int, report: Callable[[Log], None]) -> None:
        """Cut a log, which has another number from now on."""
        opened = self.open[shard]
        opened.log, opened.number = opened.log.cut(end), number
        self.queue.append(Write(shard, "cut", lambda log: log.cut(min(end, log.end)), report))

    def write_snapshot(self, shard: int, piece: SnapshotPiece, report: Callable[[Log], None]) -> None:
        """Take a piece of this node's own snapshot."""
        opened = self.open[shard]
        if piece.index == 0:
            opened.pieces, opened.pieces_number = [], opened.number
        opened.pieces.append(piece)
        whole = tuple(opened.pieces) if piece.is_last else ()

        def change(log: Log) -> Log:
            return log.with_snapshot(whole) if whole else log

        def done(log: Log) -> None:
            if whole and shard in self.open and self.open[shard].log.base < whole[0].end_offset:
                self.open[shard].log = self.open[shard].log.with_snapshot(whole)
            report(log)

        self.queue.append(Write(shard, "snapshot", change, done))

    def install(self, shard: int, number: int, piece: SnapshotPiece, report: Callable[[Log], None]) -> None:
        """Take a piece of a leader's snapshot; after the last one it is the log."""
        opened = self.open[shard]
        if piece.index == 0:
            opened.incoming = []
        assert piece.index == len(opened.incoming), "pieces come in their order"
        opened.incoming.append(piece)
        if not piece.is_last:
            return
        new = Log(piece.end_offset, (), tuple(opened.incoming))
        opened.log, opened.number, opened.incoming = new, number, []
        self.queue.append(Write(shard, "install", lambda _: new, report))

    def drop(self, shard: int, *, deletes: bool) -> None:
        """Close a log, and with `deletes` have it no longer."""
        self.open.pop(shard, None)
        if deletes:
            self.queue = [write for write in self.queue if write.shard != shard]
            self.stable.pop(shard, None)

    def do_next(self, count: int) -> None:
        """Have the writer do what was asked first, and report it."""
        for _ in range(min(count, len(self.queue))):
            write = self.queue.pop(0)
            log = self.stable[write.shard] = write.change(self.stable.get(write.shard, Log()))
            write.report(log)

    def end(self, dice: Random) -> None:
        """Have the process end: of what was under way a part is done, of the last append perhaps some records."""
        for write in self.queue[: dice.randint(0, len(self.queue))]:
            log = self.stable.get(write.shard, Log())
            self.stable[write.shard] = write.change(log)
        rest = self.queue[-1] if self.queue else None
        self.queue = []
        if rest is not None and rest.kind == "append":
            batch, log = rest.batches[0], self.stable.get(rest.shard, Log())
            if log.end == batch.base_offset:
                some = batch.records[: dice.randint(0, len(batch.records))]
                self.stable[rest.shard] = log.appended((replace(batch, records=some),) if some else ())
        self.open.clear()
