"""The work on shards' logs that waits for the disk, on threads: opening, and reading for followers and for loads.

Logs are opened one after another, in the order in which that was asked for, and a log that is to go while it waits for
its opening goes after it. Reports come as events. A log that must not be served, and a disk that refuses, is a failure
of the disk, which ends the node. A disk that is slow is none, and is asked again; so is a log that nobody needs any
more and that cannot be deleted.
"""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias

from structlog.typing import FilteringBoundLogger

from coordinator.core.cluster_node.effects import LoadLog, ReadLog, ReadSnapshot
from coordinator.core.cluster_node.events import LogOpened, LogRead, SnapshotRead
from coordinator.core.events import ShardRecovered, ShardUnreadable
from coordinator.core.log.entry import StorageError
from coordinator.core.log.storage import DiskPort, LogReplacedError, LogSink, OpenedLog
from coordinator.core.replica.effects import DropReplica, OpenReplica
from coordinator.core.replica.epochs import log_opened
from coordinator.runtime.disk.files import SlowDiskError
from coordinator.runtime.disk.shard_reading import ShardReader

Report: TypeAlias = Callable[[LogOpened | LogRead | SnapshotRead | ShardRecovered | ShardUnreadable], None]
"""Takes an event from any thread."""


class LogWork:
    """Works on the logs of one disk. Its methods belong to the event loop's thread and return at once."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disk: DiskPort,
        report: Report,
        on_failure: Callable[[str], None],
        wall_ms: Callable[[], int],
        log: FilteringBoundLogger,
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._report = report
        self._wall_ms = wall_ms
        self._log = log
        self._not_deleted = ""
        """Why something could not be deleted, as it was said last."""
        self._opening: Counter[int] = Counter()
        """By shard, the openings that have not come to their end."""
        self._openings = _Worker("kcoord-open-logs", on_failure, log)
        self._readings = _Worker("kcoord-read-logs", on_failure, log)
        self._loads = ShardReader(loop, report)
        self._on_failure = on_failure
        self._is_over = False

    def open(self, effect: OpenReplica) -> None:
        """Open a log, or make an empty one; LogOpened reports it, unless the log is dropped meanwhile."""
        self._opening[effect.shard] += 1
        self._openings.do(partial(self._open, effect))

    def drop(self, effect: DropReplica) -> None:
        """Close a log, or move it aside; nothing reports it."""
        aside_ms = self._wall_ms() if effect.deletes else None
        drop = partial(self._disk.drop, effect.shard, aside_ms=aside_ms)
        if self._opening[effect.shard]:
            self._openings.do(drop)
        else:
            drop()

    def read(self, effect: ReadLog) -> None:
        """Read records for a follower; LogRead reports it."""
        self._readings.do(partial(self._read, effect))

    def read_snapshot(self, effect: ReadSnapshot) -> None:
        """Read a piece of a snapshot for a follower; SnapshotRead reports it."""
        self._readings.do(partial(self._read_snapshot, effect))

    def load(self, effect: LoadLog) -> None:
        """Read a log that is led here; ShardRecovered or ShardUnreadable reports it, unless the log is gone."""

        def read(sink: LogSink) -> int:
            try:
                self._disk.load(effect.shard, effect.end, sink)
            except SlowDiskError:
                raise  # which is tried again
            except StorageError as error:
                if not self._is_over:
                    self._on_failure(str(error))
                raise
            return effect.leader_epoch  # whose record is in what is loaded, and nothing of a later one

        self._loads.read(effect.shard, effect.leader_epoch, effect.after_ms, read)

    def delete_aside(self, before_ms: int) -> None:
        """Delete what was moved aside before a wall time, as far as that can be done."""
        self._openings.do(partial(self._delete_aside, before_ms))

    def stop(self) -> None:
        """Begin nothing more; that the disk is closed meanwhile is no failure of what is under way."""
        self._is_over = True
        self._openings.stop()
        self._readings.stop()

    # ---- on threads -------------------------------------------------------------------------------------------------

    def _open(self, effect: OpenReplica) -> None:
        try:
            opened = self._opened(effect)
        except LogReplacedError:
            return
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits for the log
                self._loop.call_soon_threadsafe(self._has_opened, effect.shard)
        self._report(LogOpened(effect.shard, log_opened(opened)))

    def _opened(self, effect: OpenReplica) -> OpenedLog:
        while True:
            try:
                return self._disk.open_log(effect.shard, effect.log_number)
            except SlowDiskError as error:
                if self._is_over:
                    raise
                self._log.warning("log-opens-slowly", why=f"{error}; it is opened when that is done")

    def _has_opened(self, shard: int) -> None:
        self._opening[shard] -= 1

    def _delete_aside(self, before_ms: int) -> None:
        why = ""
        try:
            self._disk.delete_aside(before_ms)
        except StorageError as error:
            why = str(error)
        if why and why != self._not_deleted:
            self._log.warning("aside-not-deleted", why=f"{why}. No shard needs it any more; it is tried again")
        self._not_deleted = why

    def _read(self, effect: ReadLog) -> None:
        shard, begin = effect.shard, effect.begin
        try:
            batches = self._disk.read(shard, begin, effect.most_bytes)
        except LogReplacedError:
            batches = ()  # it is led here no longer, and nobody waits for what was in it
        except SlowDiskError:
            batches = ()  # whoever waits for them has them read again
        self._report(LogRead(shard, effect.follower, effect.leader_epoch, effect.fetch, begin, batches))

    def _read_snapshot(self, effect: ReadSnapshot) -> None:
        part = self._disk.read_snapshot(effect.shard, effect.end, effect.position)
        self._report(
            SnapshotRead(
                effect.shard,
                effect.follower,
                effect.leader_epoch,
                effect.log_number,
                effect.position,
                None if part is None else part.piece,
                0 if part is None else part.next_position,
            )
        )


class _Worker:
    """One thread that does what it is told, in order, until the process ends."""

    def __init__(self, name: str, on_failure: Callable[[str], None], log: FilteringBoundLogger) -> None:
        self._work: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._on_failure = on_failure
        self._log = log
        self._is_over = False
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def do(self, work: Callable[[], object]) -> None:
        """Do something after all that was asked for before."""
        self._work.put(work)

    def stop(self) -> None:
        """Leave what has not begun undone, and tell of no failure any more."""
        self._is_over = True

    def _run(self) -> None:
        while True:
            work = self._work.get()
            if self._is_over:
                continue
            try:
                work()
            except StorageError as error:
                if not self._is_over:
                    self._on_failure(str(error))
            except Exception as error:  # noqa: BLE001 - what waits for this would wait for ever
                self._log.critical("bug", why="work on a log failed", exc_info=True)
                self._on_failure(f"a bug in work on a log: {error!r}")
