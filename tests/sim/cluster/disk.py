"""The disk of one node of a simulated cluster: the one in memory that the contract suite holds, and a view of it.

The writer is a while behind, as long as the world says. A process that ends does so in the middle of what its writer
was at: of appends, cuts, snapshots and replacements a part was done. What a killed process has written is there all the
same; without power it is there by the sector, or not. Beside the disk goes a second account of what was asked of it,
which the checker compares with others: each log as whoever reads it in memory sees it, and as far as it is on disk.
"""

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import TypeAlias

from coordinator.core.cluster_node import events as i
from coordinator.core.events import DiskFailed
from coordinator.core.log.entry import Batch, CorruptLogError, StorageError
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.log.storage import LogReplacedError, OpenedLog
from tests.helpers.loading import Found
from tests.helpers.memory_disk import MemoryClusterDisk
from tests.sim.log.state import ViolationError

Record: TypeAlias = tuple[int, bytes]
"""The leader epoch of a record, and the record."""
MOST_CALLS = 40
"""An ending process makes at most so many calls of its files while it ends."""
SEGMENT_BYTES = 4_096
ANY_CALL = ""
FAILING = ("sync", "sync", "sync", "write", "write", "rename", "create", "delete", "sync_directory", "read", ANY_CALL)
"""The calls of which one fails, as often as they are drawn."""
DAMAGED_AT = 24
"""A byte of a segment's first frame."""


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one shard: the records from `base` on, where a snapshot ends that stands for those before."""

    base: int = 0
    records: tuple[Record, ...] = ()

    @property
    def end(self) -> int:
        """Return the end of the log."""
        return self.base + len(self.records)

    def at(self, offset: int) -> Record | None:
        """Return a record; None for one that is not here."""
        return self.records[offset - self.base] if self.base <= offset < self.end else None

    def appended(self, batches: Sequence[Batch]) -> "Log":
        """Return it with more records."""
        more = tuple((batch.leader_epoch, record) for batch in batches for record in batch.records)
        return replace(self, records=self.records + more)

    def cut(self, end: int) -> "Log":
        """Return it without what is at or above `end`."""
        return replace(self, records=self.records[: max(0, end - self.base)])

    def started_at(self, start: int) -> "Log":
        """Return it with a snapshot for what is below `start`."""
        return Log(start, self.records[start - self.base :]) if start > self.base else self


@dataclass(slots=True)
class Opened:
    """A log that is open: as it is once all is written, and its number; and whether a snapshot is taking its place.

    As much of it as ends at `synced` is on disk: of a cut that waits, what is cut is on disk as well.
    """

    log: Log
    number: int
    synced: int
    is_replaced: bool = False


class Disk:
    """All that one node has on disk, and what is under way there; `report` takes what the disk has done."""

    def __init__(self, node: int, directory_id: str) -> None:
        self.stable: dict[int, Log] = {}
        """Of each shard as much as was reported to be on disk."""
        self.open: dict[int, Opened] = {}
        self.report: Callable[[i.DiskEvent | DiskFailed], None] = lambda _: None
        self.installs = 0
        """How many snapshots have taken the place of a log."""
        self.damages = 0
        """How many logs were found to be damaged."""
        self.failed = ""
        """The call that has failed since the last start, if one has."""
        self._fails_at_start: tuple[str, int] | None = None
        self._damaged: set[int] = set()
        self._gone: set[int] = set()
        self._node = node
        self._new_directory_id = directory_id
        self._memory: MemoryClusterDisk | None = None

    # ---- life and death ---------------------------------------------------------------------------------------------

    def start(self) -> dict[int, OpenedLog]:
        """Open what there is, as a start of a node does; returns its logs. One that is damaged is moved aside."""
        if self._memory is None:
            self._memory = MemoryClusterDisk(
                self._node,
                on_durable=self._was_synced,
                on_failure=self._has_failed,
                on_snapshot=self._snapshot_was_written,
                on_cut=lambda shard, number: self.report(i.LogCut(shard, number)),
                on_installed=self._was_installed,
                segment_bytes=SEGMENT_BYTES,
                directory_id=self._new_directory_id,
            )
        else:
            self.failed = ""
            if self._fails_at_start is not None:
                self._fail_call(*self._fails_at_start)
            self._memory.restart()
        reported = self.stable, self.open
        self.stable, self.open = {}, {}
        try:
            return self._open_all(*reported)
        except StorageError:
            self.stable, self.open = reported  # what was reported before this start has to be there at the next one
            raise

    def _open_all(self, before: Mapping[int, Log], under_way: Mapping[int, Opened]) -> dict[int, OpenedLog]:
        logs: dict[int, OpenedLog] = {}
        if not self.disk.missing <= self._gone:
            raise ViolationError("DiskKeeps", f"node {self._node} misses logs {self.disk.missing}, not {self._gone}")
        for shard in self.disk.shards():
            try:
                logs[shard] = self.disk.open_log(shard, 0)
            except CorruptLogError:
                if shard not in self._damaged:
                    raise
                self.disk.move_damaged_aside(shard, 0)
                self.damages += 1
                continue
            self.stable[shard] = self._read_all(shard, logs[shard])
            if shard in before:
                self._hold_to_reports(shard, before[shard], under_way.get(shard))
        self._damaged.clear()
        return logs

    def _read_all(self, shard: int, opened: OpenedLog) -> Log:
        found = Found()
        self.disk.load(shard, opened.end, found)
        epochs, records = list(opened.epochs), []
        for at, record in enumerate(found.records, opened.start):
            while len(epochs) > 1 and epochs[1][1] <= at:
                epochs.pop(0)
            records.append((epochs[0][0], record))
        return Log(opened.start, tuple(records))

    def _hold_to_reports(self, shard: int, before: Log, under_way: Opened | None) -> None:
        """Hold a log to what was reported of it before the process ended, but for a cut or a replacement under way."""
        now = self.stable[shard]
        end = before.end if under_way is None else min(before.end, under_way.log.end)
        if under_way is not None and under_way.is_replaced and not now.records:
            return
        begin = max(before.base, now.base)
        kept = now.records[begin - now.base : max(begin, end) - now.base]
        if before.base > now.base or kept != before.records[begin - before.base : max(begin, end) - before.base]:
            why = f"shard {shard} of node {self._node} was on disk from {before.base} to {end}, and now {now}"
            raise ViolationError("DiskKeeps", why)

    def end(self, dice: Random, *, loses_power: bool) -> None:
        """Have the process end in the middle of what its writer was at; nothing more is reported."""
        self.report = lambda _: None
        self.disk.stop_within(dice.choice((0, 1, 2, 5, dice.randint(0, MOST_CALLS))))
        if loses_power:
            self.disk.files.lose_power(dice)

    @property
    def disk(self) -> MemoryClusterDisk:
        """The disk itself, of a node that has lived."""
        assert self._memory is not None, "the node has lived"
        return self._memory

    # ---- mishaps ----------------------------------------------------------------------------------------------------

    def fail(self, call: str, after: int, *, at_start: bool) -> None:
        """Have a call of its files fail after so many of the kind, now or at the next start; all later ones go well."""
        if at_start:
            self._fails_at_start = call, after
        else:
            self._fail_call(call, after)

    def _fail_call(self, call: str, after: int) -> None:
        left, self._fails_at_start = count(after, -1), None

        def fail(made: str, path: Path) -> None:
            if call in (made, ANY_CALL) and next(left) <= 0:
                self.heal()
                self.failed = made
                raise OSError(errno.EIO, "Input/output error", str(path))

        self.disk.files.fail = fail

    def heal(self) -> None:
        """Have no call fail from now on."""
        self._fails_at_start = None
        if self._memory is not None:
            self._memory.files.fail = lambda _call, _path: None

    # ---- mishaps, while the node does not run -----------------------------------------------------------------------

    def copied(self) -> Mapping[Path, bytes]:
        """Return a copy of what is on disk."""
        return self.disk.files.durable_copy()

    def put_back(self, copy: Mapping[Path, bytes]) -> Mapping[int, Log]:
        """Put a copy in the place of everything; returns what there was."""
        lost, self.stable, self.open = self.stable, {}, {}
        self.disk.files.replace(copy)
        return lost

    def damage(self, dice: Random) -> Mapping[int, Log]:
        """Damage one log so that its opening shows it; returns what was in it, nothing where that cannot be done."""
        for shard in dice.sample(sorted(self.stable), len(self.stable)):
            directory = Path(f"/shard-{shard:05d}")
            names = [name for name in self.disk.files.names(directory) if name.endswith(".log")]
            if names and self._shows(shard, directory / names[0]):
                self.disk.files.content(directory / names[0])[DAMAGED_AT] ^= 1
                self._damaged.add(shard)
                return {shard: self.stable.pop(shard)}
        return {}

    def lose_log(self, dice: Random) -> Mapping[int, Log]:
        """Have one log be gone with its directory; returns what was in it, nothing where there is none."""
        if not self.stable:
            return {}
        shard = dice.choice(sorted(self.stable))
        gone = Path(f"/shard-{shard:05d}")
        self.disk.files.replace({path: data for path, data in self.copied().items() if path.parent != gone})
        self._gone.add(shard)
        return {shard: self.stable.pop(shard)}

    def _shows(self, shard: int, path: Path) -> bool:
        """Return whether damage is told from a write that was torn, which a start rightly cuts off."""
        files = self.disk.files.copied()
        files.content(path)[DAMAGED_AT] ^= 1
        tried = MemoryClusterDisk(
            self._node, on_durable=lambda *_: None, on_failure=lambda _: None, segment_bytes=SEGMENT_BYTES, files=files
        )
        try:
            tried.open_log(shard, 0)
        except StorageError:
            return True
        return False

    # ---- what is asked ----------------------------------------------------------------------------------------------

    def log(self, shard: int) -> Log:
        """Return a log as whoever reads it in memory sees it; an empty one where there is none."""
        return self.open[shard].log if shard in self.open else self.stable.get(shard, Log())

    def open_log(self, shard: int, number: int) -> OpenedLog:
        """Open a log under a number, or make an empty one."""
        opened = self.disk.open_log(shard, number)
        log = self.stable.setdefault(shard, Log(opened.start))
        assert (log.base, log.end) == (opened.start, opened.end), f"{log} is opened as {opened}"
        self.open[shard] = Opened(log, number, log.end)
        return opened

    def append(self, shard: int, batch: Batch) -> None:
        """Take records of this node's own."""
        self.disk.append(shard, batch.base_offset, batch.leader_epoch, batch.records)
        self.open[shard].log = self.open[shard].log.appended((batch,))

    def append_batches(self, shard: int, number: int, batches: Sequence[Batch]) -> None:
        """Take a leader's records."""
        self.disk.append_batches(shard, number, batches)
        self.open[shard].log = self.open[shard].log.appended(batches)

    def truncate(self, shard: int, end: int, number: int) -> None:
        """Cut a log, which has another number from now on."""
        self.disk.truncate(shard, end, number)
        opened = self.open[shard]
        opened.log, opened.number, opened.synced = opened.log.cut(end), number, min(opened.synced, end)

    def install(self, shard: int, number: int, piece: SnapshotPiece) -> None:
        """Take a piece of a leader's snapshot; after the last one it takes the place of the log."""
        self.disk.install(shard, number, piece)
        opened = self.open[shard]
        opened.is_replaced = opened.is_replaced or piece.is_last

    def drop(self, shard: int, *, deletes: bool) -> None:
        """Close a log, and with `deletes` have it no longer."""
        self.disk.drop(shard, aside_ms=0 if deletes else None)
        self.open.pop(shard, None)
        if deletes:
            self.stable.pop(shard, None)

    def load(self, shard: int, number: int, end: int) -> Found | None:
        """Read a log up to an end; None while that is not on disk yet. LogReplacedError where it is not that log."""
        opened = self.open.get(shard)
        if opened is None or opened.number != number or opened.log.end < end:
            raise LogReplacedError(f"shard {shard} is another log by now")
        if opened.synced < end:
            return None
        found = Found()
        self.disk.load(shard, end, found)
        return found

    # ---- the writer -------------------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Return whether anything is under way."""
        return self.disk.has_work

    def work(self, groups: int) -> None:
        """Have the writer do some of what is under way, and report it."""
        for _ in range(groups):
            if self.disk.has_work:
                self.disk.flush_group()

    def _was_synced(self, shard: int, end: int, number: int) -> None:
        opened = self.open.get(shard)
        if opened is not None and opened.number == number:
            opened.synced = end
            self.stable[shard] = opened.log if end == opened.log.end else opened.log.cut(end)
        self.report(i.LogSynced(shard, end, number))

    def _snapshot_was_written(self, shard: int, end: int, is_whole: bool, number: int) -> None:
        if is_whole:
            opened = self.open.get(shard)
            if opened is not None:
                opened.log = opened.log.started_at(end)
            self.stable[shard] = self.stable[shard].started_at(end)
        self.report(i.PieceWritten(shard, end, is_whole, number))

    def _was_installed(self, shard: int, end: int, last_epoch: int, number: int) -> None:
        self.stable[shard] = Log(end)
        self.open[shard] = Opened(Log(end), number, end)
        self.installs += 1
        self.report(i.LogInstalled(shard, end, last_epoch, number))

    def _has_failed(self, why: str) -> None:
        if not self.failed:
            raise AssertionError(f"the disk of node {self._node} fails: {why}")
        self.report(DiskFailed(why))
