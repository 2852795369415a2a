"""The pace of a query: how far a micro-batch reads in each partition, and until when a small backlog waits for more.

It keeps what the limits need of the micro-batches before: when the last one was made, and how large records are, and
says when one took nearly too long. Which positions and ends there are is known to the planner.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping

from coordinator.protocol.ids import TopicPartition
from spark_kcoord.errors import KafkaAwayError
from spark_kcoord.microbatch.claim_reports import report_long_batch
from spark_kcoord.microbatch.commands import Planning, ReadSizes, ask_sizes
from spark_kcoord.planning.rate_limit import BatchLimits, fraction_within, limit_ends, must_wait

_log = logging.getLogger(__name__)


class Pace:
    """The pace of one query's micro-batches; `clock` returns monotonic seconds."""

    __slots__ = ("_bytes_per_offset", "_clock", "_group_id", "_last_batch_at", "_running_since", "waits_until")

    def __init__(self, group_id: str, clock: Callable[[], float]) -> None:
        self._group_id = group_id
        self._clock = clock
        self._last_batch_at: float | None = None
        self._running_since: float | None = None
        self._bytes_per_offset: Mapping[TopicPartition, float] = {}
        self.waits_until = math.inf
        """Until when nothing but news is worth a new plan."""

    def note_batch(self) -> None:
        """Take note that a micro-batch is made."""
        self._last_batch_at = self._clock()

    def note_running(self) -> None:
        """Take note that a micro-batch is about to be read."""
        self._running_since = self._clock()

    def watch_batch_time(self, timeout_s: float) -> None:
        """Say once of the last micro-batch when it took more than half of what it may take."""
        if self._running_since is None:
            return
        seconds = self._clock() - self._running_since
        self._running_since = None
        if seconds > timeout_s / 2:
            report_long_batch(self._group_id, seconds, timeout_s)

    def look_again_at(self, time_s: float) -> None:
        """Wait no longer than until this time."""
        self.waits_until = min(self.waits_until, time_s)

    def untils(
        self,
        positions: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        limit: int | None,
        others: BatchLimits,
    ) -> Planning[Mapping[TopicPartition, int]]:
        """Plan how far to read each partition; nowhere while a small backlog waits for more."""
        backlog = {key: ends[key] - start for key, start in positions.items() if ends.get(key, start) > start}
        waited_s = None if self._last_batch_at is None else self._clock() - self._last_batch_at
        self.waits_until = math.inf
        if backlog and must_wait(others, sum(backlog.values()), waited_s):
            assert self._last_batch_at is not None, "the first micro-batch never waits"
            self.waits_until = self._last_batch_at + others.max_delay_s
            return positions
        fraction = None
        if backlog and others.max_bytes is not None:
            try:
                sizes = yield from ask_sizes(ReadSizes({key: positions[key] for key in backlog}))
            except KafkaAwayError as error:
                _log.warning("group %s: %s The last known sizes of records count.", self._group_id, error)
            else:
                self._bytes_per_offset = {**self._bytes_per_offset, **sizes}
            fraction = fraction_within(backlog, self._bytes_per_offset, others.max_bytes)
        return limit_ends(positions, ends, limit, fraction)
