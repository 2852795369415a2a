"""The progress of a start, said now and then while shards are read: a long one is not a node that hangs.

Between two pieces of what is read a start can be ended.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from structlog.typing import FilteringBoundLogger

from coordinator.core.log.storage import LogSink

_SAY_S: Final = 1.0


class LoadEnded(Exception):  # noqa: N818 - nothing is wrong
    """The node was told to stop while it was loading."""


class Progress:
    """Counts what is read of all shards of a node and says how far it is; raises LoadEnded once it is to end."""

    def __init__(self, shards: int, log: FilteringBoundLogger, is_to_end: Callable[[], bool]) -> None:
        self.records = 0
        self._is_to_end = is_to_end
        self._shards = shards
        self._log = log
        self._said_s = time.monotonic()

    def of(self, shard: int, sink: LogSink) -> LogSink:
        """Return a sink that passes a shard on to another one."""
        self.count(shard, 0)
        return _Counted(self, shard, sink)

    def count(self, shard: int, records: int) -> None:
        """Count what was read of a shard."""
        if self._is_to_end():
            raise LoadEnded
        self.records += records
        now_s = time.monotonic()
        if now_s - self._said_s > _SAY_S:
            self._said_s = now_s
            self._log.info("loading", shards=f"{shard} of {self._shards}", records=self.records)


class _Counted:
    def __init__(self, progress: Progress, shard: int, sink: LogSink) -> None:
        self._progress = progress
        self._shard = shard
        self._sink = sink

    def take_snapshot(self, end_offset: int, records: Sequence[bytes]) -> None:
        self._sink.take_snapshot(end_offset, records)
        self._progress.count(self._shard, len(records))

    def take_batch(self, base_offset: int, records: Sequence[bytes]) -> None:
        self._sink.take_batch(base_offset, records)
        self._progress.count(self._shard, len(records))
